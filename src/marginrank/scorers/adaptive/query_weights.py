"""The weights of an adaptive model in given queries, and the context that changes them most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marginrank.runtime.text import ResultTable, printable
from marginrank.scorers.adaptive.form import AdaptiveForm
from marginrank.scorers.terms import unit_context
from marginrank.typing import AnyArray, FloatArray


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
        cls, form: AdaptiveForm, theta: FloatArray, X: AnyArray, queries: Sequence[object], names: Sequence[str]
    ) -> QueryWeights:
        """Compute the weights of queries, given one row of scaled features for each."""
        base, changes = form.weights(theta)
        typical_context = form.typical_context
        t = unit_context(X[:, form.context], form.low, form.width)
        features = tuple(names[column] for column in form.weighted)
        context = tuple(names[column] for column in form.context)
        weights, typical = base + t @ changes.T, base + changes @ typical_context
        reasons = []
        for row, above in zip(weights, t - typical_context, strict=True):
            feature = int(np.argmax(np.abs(row - typical)))
            shares = changes[feature] * above * np.sign(row[feature] - typical[feature])
            cause = int(np.argmax(shares))
            level = "high" if above[cause] > 0 else "low"
            ratio = row[feature] / typical[feature] if typical[feature] else np.inf
            reasons.append(f"{features[feature]} counts {ratio:.2g} times as much: {context[cause]} is {level}")
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
