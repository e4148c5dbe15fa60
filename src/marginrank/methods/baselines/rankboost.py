"""RankBoost: weak rankers that ask whether a feature exceeds a threshold, one a round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.methods.baselines.base import Baseline, check_rounds, grade_classes
from marginrank.methods.presets import Preset
from marginrank.scorers.additive.form import MOST_BINS, AdditiveForm
from marginrank.scorers.additive.scorer import PreparedAdditive
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.plan import Plan
from marginrank.typing import FloatArray

#: A weak ranker that orders hardly more pairs well than badly ends the rounds; one that errs in none does so too, and
#: would weigh infinitely much.
_LEAST: Final = 1e-9


@dataclass(frozen=True)
class RankBoost(Baseline):
    """RankBoost of Freund, Iyer, Schapire and Singer (JMLR 2003), over the pairs of different grade of each query.

    Every pair of a worse document x and a better x' has a weight D(x, x') ∝ exp(H(x) − H(x')), where H is the score so
    far; all pairs begin with the same. A round takes the weak ranker h(x) = 1[x_f > k] with the largest |r|,

    r = Σ D(x, x') (h(x') − h(x)) = Σ_x π(x) h(x), and adds α·h to H with α = ½ ln((1 + r)/(1 − r)),

    the third of the ways that the paper has to choose α. As D is a product of what x and x' give, the potentials π of
    a query take sums over its grades and no pairs. The result is one step function per feature. The objective is the
    mean of exp(H(x) − H(x')), which bounds the share of pairs in the wrong order.

    Args:
        rounds: Weak rankers; with validation queries, the most.
        bins: One more than the most thresholds per feature. The paper tries all values that occur; these are quantiles
            of them.
    """

    name = "rankboost"
    #: A missing value is a weak ranker of its own.
    takes_nan: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    scale_matters: ClassVar[bool] = False
    judged_by: ClassVar[str] = "ap"
    rounds: int = 300
    bins: int = MOST_BINS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self.rounds)

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:  # noqa: ARG002
        """Train, a weak ranker at a time."""
        bins = AdditiveForm.learn(queries.X, self.bins, "quantile", plan.n_jobs)
        scorer, pairs = PreparedAdditive(queries, bins, plan.n_jobs), PairWeights(queries)
        theta, scores = np.zeros(bins.n_parameters), np.zeros(queries.n_documents)
        potentials, _ = pairs.at(scores)
        for _ in range(self.rounds):
            cells = np.zeros(int(bins.n_codes.sum()))
            scorer.pull_back(potentials, cells, 0, len(scores))
            gains = bins.gradient(cells)
            best = int(np.argmax(np.abs(gains))) if len(gains) else -1
            if best < 0 or abs(gains[best]) < _LEAST:
                return
            r = float(np.clip(gains[best], _LEAST - 1, 1 - _LEAST))
            theta = theta.copy()
            theta[best] += 0.5 * np.log((1 + r) / (1 - r))
            scorer.score(bins.table(theta), scores, 0, len(scores))
            potentials, mean = pairs.at(scores)
            yield Stage(bins, theta, mean)
            if abs(gains[best]) > 1 - _LEAST:
                return


class PairWeights:
    """The weights D of pairs of different grade, without the pairs.

    >>> pairs = PairWeights(Queries.from_arrays([[0.0]] * 3, [1, 0, 0], group=[3]))
    >>> pairs.at(np.zeros(3))[0].tolist(), pairs.at(np.array([0.0, 0.0, np.log(3.0)]))   # D is ½, ½ and ¼, ¾
    ([1.0, -0.5, -0.5], (array([ 1.  , -0.25, -0.75]), 2.0))
    """

    def __init__(self, queries: Queries) -> None:
        grades, classes = grade_classes(queries)
        own = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
        self._shape = len(queries), len(grades)
        self._query = np.repeat(np.arange(len(queries)), queries.lengths)
        self._level = self._query * len(grades) + classes
        self._weight = own[self._query]
        self._starts, self._lengths = queries.offsets[:-1][queries.lengths > 0], queries.lengths[queries.lengths > 0]
        counts = self._by_level(np.ones(queries.n_documents))
        self._n_pairs = float(own @ (counts * _before(counts)).sum(axis=1))

    def at(self, scores: FloatArray) -> tuple[FloatArray, float]:
        """Potentials at scores H, and the mean of exp(H(x) − H(x')) over all pairs."""
        # Only differences inside a query matter, and around 0 no power overflows before their ratio does.
        low, high = np.minimum.reduceat(scores, self._starts), np.maximum.reduceat(scores, self._starts)
        centred = scores - np.repeat((low + high) / 2, self._lengths)
        up, down = np.exp(centred), np.exp(-centred)
        worse, better = self._by_level(up), self._by_level(down)
        below, above = _before(worse), _before(better[:, ::-1])[:, ::-1]
        as_better = self._weight * down * below.ravel()[self._level]
        as_worse = self._weight * up * above.ravel()[self._level]
        total = float(as_better.sum())
        return (as_better - as_worse) / total, total / self._n_pairs

    def _by_level(self, values: FloatArray) -> FloatArray:
        """Sums by query and grade."""
        sums = np.bincount(self._level, values, minlength=self._shape[0] * self._shape[1])
        return np.asarray(sums.reshape(self._shape), dtype=np.float64)


def _before(sums: FloatArray) -> FloatArray:
    """Add up what comes before in a row; subtracting from running sums would lose small ones beside large ones.

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
