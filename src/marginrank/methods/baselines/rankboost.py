"""RankBoost: one threshold of a feature per round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.methods.baselines.base import Baseline, check_rounds, grade_classes
from marginrank.methods.presets import Preset
from marginrank.scorers.additive.bin_placement import learn_bins
from marginrank.scorers.additive.form import MOST_BINS
from marginrank.scorers.additive.scorer import PreparedAdditive
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.plan import Plan
from marginrank.typing import FloatArray

#: Minimum advantage |r| of a weak ranker, below which training ends; it also ends above 1 minus this, where α would be
#: infinite.
_MIN_ADVANTAGE: Final = 1e-9


@dataclass(frozen=True)
class RankBoost(Baseline):
    """RankBoost of Freund, Iyer, Schapire and Singer (JMLR 2003), over the pairs of different grade of each query.

    Every pair of a worse document x and a better x' has a weight D(x, x') ∝ exp(H(x) − H(x')), where H is the score so
    far; equal at the beginning. A round takes the weak ranker h(x) = 1[x_f > k] with the largest |r|,

    r = Σ D(x, x') (h(x') − h(x)) = Σ_x π(x) h(x), and adds α·h to H with α = ½ ln((1 + r)/(1 − r)),

    the third way of the paper to choose α. As D is a product of a factor of x and one of x', the potentials π need sums
    over the grades of a query, and no pairs. The result is one step function per feature. The objective is the mean of
    exp(H(x) − H(x')), an upper bound on the fraction of pairs in the wrong order.

    Args:
        rounds: Number of weak rankers; with validation queries, the maximum.
        bins: Maximum number of bins per feature, one more than thresholds. The paper tries all values that occur; these
            are quantiles of them.
    """

    name = "rankboost"
    #: Whether a value is missing is a weak ranker too.
    takes_nan: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    scale_matters: ClassVar[bool] = False
    default_criterion: ClassVar[str] = "ap"
    rounds: int = 300
    bins: int = MOST_BINS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self.rounds)

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:  # noqa: ARG002
        """Train and yield a stage after each weak ranker."""
        bins = learn_bins(queries.X, self.bins, "quantile", plan.n_jobs)
        scorer, pairs = PreparedAdditive(queries, bins, plan.n_jobs), PairWeights(queries)
        theta, scores = np.zeros(bins.n_parameters), np.zeros(queries.n_documents)
        potentials, _ = pairs.at(scores)
        for _ in range(self.rounds):
            sums = np.zeros(int(bins.n_codes.sum()))
            scorer.pull_back(potentials, sums, 0, len(scores))
            gains = bins.gradient(sums)
            best = int(np.argmax(np.abs(gains))) if len(gains) else -1
            if best < 0 or abs(gains[best]) < _MIN_ADVANTAGE:
                return
            r = float(np.clip(gains[best], _MIN_ADVANTAGE - 1, 1 - _MIN_ADVANTAGE))
            theta = theta.copy()
            theta[best] += 0.5 * np.log((1 + r) / (1 - r))
            scorer.score(bins.bin_values(theta), scores, 0, len(scores))
            potentials, mean = pairs.at(scores)
            yield Stage(bins, theta, mean)
            if abs(gains[best]) > 1 - _MIN_ADVANTAGE:
                return


class PairWeights:
    """The weights D of pairs of different grade, without the pairs.

    >>> pairs = PairWeights(Queries.from_arrays([[0.0]] * 3, [1, 0, 0], group=[3]))
    >>> pairs.at(np.zeros(3))[0].tolist(), pairs.at(np.array([0.0, 0.0, np.log(3.0)]))   # D is ½, ½ and ¼, ¾
    ([1.0, -0.5, -0.5], (array([ 1.  , -0.25, -0.75]), 2.0))
    """

    def __init__(self, queries: Queries) -> None:
        grades, classes = grade_classes(queries)
        weights = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
        self._shape = len(queries), len(grades)
        self._query = np.repeat(np.arange(len(queries)), queries.lengths)
        self._level = self._query * len(grades) + classes
        self._weight = weights[self._query]
        self._starts, self._lengths = queries.offsets[:-1][queries.lengths > 0], queries.lengths[queries.lengths > 0]
        counts = self._by_level(np.ones(queries.n_documents))
        self._n_pairs = float(weights @ (counts * _before(counts)).sum(axis=1))

    def at(self, scores: FloatArray) -> tuple[FloatArray, float]:
        """Return the potentials at scores H, and the mean of exp(H(x) − H(x')) over all pairs."""
        # Only differences within a query matter; around 0 no exponential overflows before their ratio does.
        low, high = np.minimum.reduceat(scores, self._starts), np.maximum.reduceat(scores, self._starts)
        centered = scores - np.repeat((low + high) / 2, self._lengths)
        up, down = np.exp(centered), np.exp(-centered)
        worse, better = self._by_level(up), self._by_level(down)
        below, above = _before(worse), _before(better[:, ::-1])[:, ::-1]
        as_better = self._weight * down * below.ravel()[self._level]
        as_worse = self._weight * up * above.ravel()[self._level]
        total = float(as_better.sum())
        return (as_better - as_worse) / total, total / self._n_pairs

    def _by_level(self, values: FloatArray) -> FloatArray:
        """Return sums by query and grade."""
        sums = np.bincount(self._level, values, minlength=self._shape[0] * self._shape[1])
        return np.asarray(sums.reshape(self._shape), dtype=np.float64)


def _before(sums: FloatArray) -> FloatArray:
    """Return the sums of the entries before each in its row; differences of cumulative sums would cancel digits.

    >>> _before(np.array([[1.0, 2.0, 4.0]])).tolist()
    [[0.0, 1.0, 3.0]]
    """
    before = np.zeros_like(sums)
    np.cumsum(sums[:, :-1], axis=1, out=before[:, 1:])
    return before


PRESETS: Final = (
    Preset(
        "rankboost",
        "one threshold of a feature a round",
        "Freund, Iyer, Schapire, Singer (JMLR 2003)",
        RankBoost,
        300,
    ),
)
