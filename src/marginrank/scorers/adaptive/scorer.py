"""The adaptive scorer: weights of features that depend on the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.data.queries import Queries, feature_number
from marginrank.errors import DataError, Parameter
from marginrank.scorers.adaptive.form import AdaptiveForm
from marginrank.scorers.base import PreparedScorer, Scorer, check_form
from marginrank.scorers.form import Form
from marginrank.scorers.linear.scorer import PreparedLinear
from marginrank.scorers.terms import unit_context
from marginrank.typing import FloatArray, IntArray

#: Quantiles of a context column that become 0 and 1, so that a few odd queries do not set the scale.
QUANTILES: Final = (0.05, 0.95)


class ConstantContextError(DataError):
    """The context is the same for all training queries, for example in a fold without a rare flag."""


@dataclass(frozen=True)
class Adaptive(Scorer):
    """Weights that depend on the query: s(q, d) = Σ_r (w_r + Σ_c v_rc z_c(q)) x_r(q, d).

    Some columns of X are the context z. They describe the query, so they are usually the same for all its documents.
    The score is linear in w and v, so that every convex solver and its certificate apply. The regularizer is
    ½‖w‖² + ½ · shrinkage · ‖v‖²; with a large shrinkage the weights are the same for all queries, as with `Linear`.

    The context is scaled to [0, 1]: 0 at its 5th percentile in training and below, 1 at its 95th and above.

    Args:
        context: The columns that describe the query, by name or number; several as a list.
        shrinkage: How much harder v is regularized than w.
        nonnegative: Whether no weight is negative for any query.

    >>> X = [[3.0, 0.0], [1.0, 0.0], [3.0, 1.0], [1.0, 1.0]]
    >>> queries = Queries.from_arrays(X, [1, 0, 0, 1], group=[2, 2], feature_names=["bm25", "is_code"])
    >>> prepared = Adaptive(context=["is_code"], shrinkage=1.0).prepare(queries)
    >>> prepared.scores(np.array([0.0, -2.0])).tolist()                     # the sign of the weight depends on is_code
    [3.0, 1.0, -3.0, -1.0]
    """

    name = "adaptive"
    gil_bound = True
    context: int | str | Sequence[int | str] = ()
    shrinkage: float = 10.0
    nonnegative: bool = False

    def __post_init__(self) -> None:
        if not self.shrinkage > 0 or not np.isfinite(self.shrinkage):
            raise ValueError(f"shrinkage is {self.shrinkage:g}; give a positive number")

    def learn(self, queries: Queries) -> AdaptiveForm:
        """Return the form, with the scale of the context."""
        columns = self._context(queries)
        z = np.asarray(queries.dense()[:, columns], dtype=np.float64)
        low, high = np.quantile(z, QUANTILES, axis=0)
        # A column that is the same nearly everywhere, such as a rare flag, keeps its range.
        narrow = low == high
        low, high = np.where(narrow, z.min(axis=0), low), np.where(narrow, z.max(axis=0), high)
        width = high - low
        if not width.any():
            raise ConstantContextError(
                "no context column varies between these training queries, so weights cannot depend on them; name "
                "columns that vary, in every fold too; scaling by query makes them constant, unlike ",
                Parameter("scaling", "standard"),
            )
        center = np.zeros(len(columns)) if self.nonnegative else unit_context(z, low, width).mean(axis=0)
        return AdaptiveForm(
            queries.n_features, columns, low, width, center, 1.0 / float(np.sqrt(self.shrinkage)), self.nonnegative
        )

    def _context(self, queries: Queries) -> IntArray:
        features = [self.context] if isinstance(self.context, str | int) else list(self.context)
        if not features:
            raise DataError(
                "context is empty; name the columns that describe the query, as in Adaptive(context=['query_length']), "
                "or use the linear scorer"
            )
        columns = np.unique([feature_number(feature, queries.feature_labels) for feature in features])
        if len(columns) == queries.n_features:
            raise DataError("context names all columns; leave at least one to be weighted")
        return columns.astype(np.int64)

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedScorer:
        """Prepare for scoring the documents of given queries."""
        return self.resume(queries, self.learn(queries), n_jobs)

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedScorer:  # noqa: ARG002
        """Prepare for scoring queries with a form that was learned before."""
        form = check_form(self, form, AdaptiveForm)
        expanded: FloatArray = form.columns(queries.dense())
        signs = np.ones(form.n_parameters, dtype=np.int64) if self.nonnegative else None
        prepared = PreparedLinear(queries.with_features(expanded), signs)
        prepared.form = form
        return prepared
