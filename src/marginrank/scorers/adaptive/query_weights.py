"""The weights of an adaptive model in given queries, and the context that changes them most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.runtime.text import ResultTable, printable
from marginrank.scorers.adaptive.form import AdaptiveForm
from marginrank.scorers.terms import unit_context
from marginrank.typing import AnyArray, BoolArray, FloatArray

#: Changes of weights that are a smaller share of the largest typical weight are not worth a reason.
_NOTHING: Final = 0.05
#: Weights that are a smaller share of the largest typical weight are 0 in words.
_ZERO: Final = 0.005


@dataclass(frozen=True, eq=False)
class QueryWeights:
    """Weights of features by query, beside those of a typical query.

    Args:
        queries: Ids of the queries.
        features: Names of the weighted features.
        weights: One row per query, one column per feature.
        typical: The weights in a typical query.
        reasons: For each query, the feature whose weight differs most, and the context that changes it most.
    """

    queries: tuple[str, ...]
    features: tuple[str, ...]
    weights: FloatArray
    typical: FloatArray
    reasons: tuple[str, ...]

    @classmethod
    def of(
        cls,
        form: AdaptiveForm,
        theta: FloatArray,
        X: AnyArray,
        queries: Sequence[object],
        names: Sequence[str],
        flags: BoolArray,
    ) -> QueryWeights:
        """Compute the weights of queries, given one row of scaled features for each, and which context is yes or no."""
        base, changes = form.weights(theta)
        typical_context = form.typical_context
        t = unit_context(X[:, form.context], form.low, form.width)
        features = tuple(names[column] for column in form.weighted)
        context = tuple(names[column] for column in form.context)
        weights, typical = base + t @ changes.T, base + changes @ typical_context
        largest = np.abs(typical).max()
        reasons = []
        for row, above in zip(weights, t - typical_context, strict=True):
            feature = int(np.argmax(np.abs(row - typical)))
            change = row[feature] - typical[feature]
            if abs(change) <= _NOTHING * largest:
                reasons.append("about the same weights")
                continue
            cause = int(np.argmax(changes[feature] * above * np.sign(change)))
            low, high = ("no", "yes") if flags[cause] else ("low", "high")
            level = high if above[cause] > 0 else low
            how = _compared(*(0.0 if abs(w) <= _ZERO * largest else w for w in (row[feature], typical[feature])))
            reasons.append(f"{features[feature]} {how}: {context[cause]} is {level}")
        return cls(tuple(map(str, queries)), features, weights, typical, tuple(reasons))

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> ResultTable:
        rows = [["query", *self.features, "compared with a typical query"]]
        rows.append(["(typical)", *(f"{weight:.3g}" for weight in self.typical), ""])
        for query, weights, reason in zip(self.queries, self.weights, self.reasons, strict=True):
            rows.append([printable(query), *(f"{weight:.3g}" for weight in weights), reason])
        return ResultTable(rows, right=range(1, 1 + len(self.features)))


def _compared(here: float, typical: float) -> str:
    """Return words for how a weight differs from that in a typical query.

    >>> [_compared(*pair) for pair in [(3.0, 2.0), (0.0, 2.0), (2.0, 0.0), (-1.0, 2.0), (1.0, -2.0), (-4.0, -2.0)]]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['counts 1.5 times as much', 'does not count', 'counts only here', 'counts against documents, not for them',
     'counts for documents, not against them', 'counts 2 times as much against documents']
    """
    if not here:
        return "does not count"
    if not typical:
        return "counts only here" if here > 0 else "counts against documents, only here"
    if here * typical < 0:
        return f"counts {'for documents, not against' if here > 0 else 'against documents, not for'} them"
    return f"counts {here / typical:.2g} times as much{' against documents' if here < 0 else ''}"
