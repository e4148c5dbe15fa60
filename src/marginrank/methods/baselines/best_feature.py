"""The best single feature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.methods.baselines.base import Baseline
from marginrank.methods.presets import Preset
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.scorers.linear.form import LinearForm
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.plan import Plan
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class BestFeature(Baseline):
    """The single feature, increasing or decreasing, with the highest mean of a measure on the training queries.

    This is BM25 or the like if one of the features is such a score, and the best base function of Yue et al. (SIGIR
    2007) §5.1. All weights are 0 except one, which is 1 or −1. Ties go to the first feature, and to increasing. The
    objective is 1 − the mean.

    Args:
        measure: The measure.
    """

    name = "best-feature"
    takes_weights: ClassVar[bool] = True
    scale_matters: ClassVar[bool] = False
    measure: str = DEFAULT_MEASURE

    @property
    def criterion(self) -> str:
        """The measure that selects the feature."""
        return self.measure

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:
        """Evaluate all features in both directions, until the deadline."""
        means: list[float] = []
        for column in np.asarray(queries.dense()).T:
            if means and limits.late:
                break
            means += [self._mean(queries, sign * column, plan.n_jobs) for sign in (1.0, -1.0)]
        best = int(np.argmax(means))
        theta = np.zeros(queries.n_features)
        theta[best // 2] = 1.0 if best % 2 == 0 else -1.0
        yield Stage(LinearForm(queries.n_features), theta, 1.0 - float(means[best]))

    def _mean(self, queries: Queries, scores: FloatArray, n_jobs: int | None) -> float:
        values = evaluate(queries, scores, self.measure, n_jobs=n_jobs)[self.measure]
        weights = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
        counted = ~np.isnan(values) & (weights > 0)
        if not counted.any():
            raise DataError(f"no query has a value of {self.measure}; give queries with relevant documents")
        return float(np.average(values[counted], weights=weights[counted]))


PRESETS: Final = (
    Preset(
        "best-feature",
        "one feature, up or down",
        "Yue, Finley, Radlinski, Joachims (SIGIR 2007) §5.1",
        lambda _: BestFeature(),
    ),
)
