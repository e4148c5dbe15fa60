"""Hinges over pairs of documents, and over all rankings of short lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import Final, Literal, TypeAlias

import numpy as np

from marginrank.errors import DataError
from marginrank.losses.base import Judgements, Loss, PreparedLoss
from marginrank.losses.feature_maps import PartialOrder, Scale
from marginrank.losses.ideal_ranking import MeasureLoss
from marginrank.losses.oracles.grade_levels import Levels, by_level
from marginrank.losses.pair_hinges import NO_WEIGHTS, Hinges, PreparedPairs
from marginrank.measures import Measure, RankedGrades
from marginrank.measures.base import parse_trainable
from marginrank.measures.dcg import DCG
from marginrank.measures.gains import exp2, log2
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import FloatArray, IntArray

Normalize: TypeAlias = Literal["pairs", "none", "largest"]
Numerator: TypeAlias = Literal["levels", "documents", "bound"]
#: Maximum length of a list whose rankings are all enumerated: 7! = 5040.
LONGEST_LIST: Final = 7


def _by_grade(grades: FloatArray, offsets: IntArray) -> Levels:
    return by_level(DCG(gain="linear"), grades, offsets)


def _scales(normalize: Normalize, pairs: IntArray) -> FloatArray:
    if normalize == "none":
        return np.ones(len(pairs))
    return np.asarray((1.0 if normalize == "pairs" else pairs.max(initial=0)) / np.maximum(pairs, 1))


@dataclass(frozen=True, repr=False)
class PairwiseHinge(Loss):
    """RankSVM: a hinge for every pair of documents of different grade of a query.

    ξ = scale · Σ_{g_i > g_j} τ(g_i, g_j) · max(0, margin − (s_i − s_j))^power, without a ½ in front of the square.
    Herbrich, Graepel and Obermayer (2000) and Joachims (KDD 2002) for power 1, Lee and Lin (2014) for power 2. For a
    pair exactly at its margin, the derivative is 0.

    Pairs are never formed. A query of n documents with L different grades takes O(n log n) for sorting, which is fast
    if the order has changed little since the last evaluation, and O(n log L) for the sums; O(n L) with
    ``rank_weights``. So does a product with the generalized Hessian of the squared hinge, in which every pair inside
    its margin counts 2 and every other pair 0.

    Args:
        power: 1 for the hinge, 2 for the squared hinge.
        normalize: ``pairs`` divides by the number of pairs of different grade, so ξ is a mean; ``none`` leaves the sum;
            ``largest`` multiplies the sum by μ_q = max_q' #pairs(q') / #pairs(q), the query weight of Cao et al. (SIGIR
            2006), over the queries that the loss is prepared for: all weigh as much as the query with most pairs.
        margin: By how much the better document of a pair should score higher.
        rank_weights: τ, the weight of each pair of a better and a worse grade, of Cao et al. (SIGIR 2006), the
            SVM-IR-QP of Le and Smola (2008) §6.3: a mapping from (better, worse) to a number of at least 0. All pairs
            of grades that meet in a query need a weight; `NDCGPairwiseHinge` computes them. By default all weigh 1.

    >>> xi, gradient = PairwiseHinge()([2, 1, 0], [0.5, 0.0, 0.25])   # (0.5 + 0.75 + 1.25) / 3
    >>> xi.round(4).tolist(), (3 * gradient).tolist()
    ([0.8333], [-2.0, 0.0, 2.0])
    >>> PairwiseHinge(power=2, normalize="none")([1, 0], [0.25, 0.0])   # 0.75², and ∓2 · 0.75
    (array([0.5625]), array([-1.5,  1.5]))
    >>> weights = {(2, 1): 3, (2, 0): 2, (1, 0): 1}
    >>> PairwiseHinge(normalize="none", rank_weights=weights)([2, 1, 0], [0.5, 0.0, 0.25])[0]   # 3·0.5 + 2·0.75 + 1.25
    array([4.25])
    """

    power: Literal[1, 2] = 1
    normalize: Normalize = "pairs"
    margin: float = 1.0
    rank_weights: Mapping[tuple[float, float], float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.margin > 0 and np.isfinite(self.margin)):
            raise ValueError(f"margin is {self.margin!r}; give a number above 0")
        for (better, worse), weight in (self.rank_weights or {}).items():
            if not better > worse:
                raise ValueError(f"rank_weights has ({better}, {worse}); give the better, higher grade first")
            if not (weight >= 0 and np.isfinite(weight)):
                raise ValueError(f"rank_weights[{better}, {worse}] is {weight}; give a number of at least 0")

    @property
    def smooth(self) -> bool:
        """True for the squared hinge."""
        return self.power == 2

    @property
    def sums_relevant(self) -> bool:
        """Whether all pairs weigh the same: the rank of a relevant document is a sum over pairs."""
        return self.rank_weights is None

    @property
    def takes_pairs(self) -> bool:
        """Whether all pairs weigh the same, whatever their grades."""
        return self.rank_weights is None

    @property
    def criterion(self) -> str:
        """AUC: the share of pairs in the right order."""
        return "auc"

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Arrange the documents by grade and look up the weights."""
        levels = _by_grade(judged.grades, judged.offsets)
        kinds, weights = np.zeros(len(levels.gains), dtype=np.int64), NO_WEIGHTS
        if self.rank_weights is not None:
            kinds, weights = _weights_by_grade(self.rank_weights, levels)
        heights, scales = np.zeros(len(levels.gains)), _scales(self.normalize, levels.pairs)
        margins = np.full(len(scales), float(self.margin))
        return PreparedPairs(levels, Hinges(heights, kinds, weights, scales, margins, self.power == 2))


def _weights_by_grade(rank_weights: Mapping[tuple[float, float], float], levels: Levels) -> tuple[IntArray, FloatArray]:
    """Return the row of the weights for each level, and the weights by better and worse grade."""
    named = np.unique(np.array([grade for pair in rank_weights for grade in pair], dtype=np.float64))
    weights = np.full((len(named), len(named)), np.nan)
    for pair, weight in rank_weights.items():
        weights[tuple(np.searchsorted(named, pair))] = weight
    query = np.repeat(np.arange(len(levels.counts)), levels.counts)
    judged = levels.ordered[query]
    unknown = np.setdiff1d(levels.gains[judged], named)
    if len(unknown):
        raise DataError(f"rank_weights has no weight for grade {unknown[0]:g}; give one for each pair of grades")
    kinds = np.minimum(np.searchsorted(named, levels.gains), max(len(named) - 1, 0))
    ones = np.ones(int(judged.sum()), dtype=np.int64)
    seen = sp.csr_array((ones, (query[judged], kinds[judged])), shape=(len(levels.counts), len(named)))
    worse, better = np.nonzero(np.triu((seen.T @ seen).toarray(), 1))
    missing = np.flatnonzero(np.isnan(weights[better, worse]))
    if len(missing):
        lacking = f"({named[better[missing[0]]]:g}, {named[worse[missing[0]]]:g})"
        raise DataError(f"rank_weights has no weight for {lacking}, grades that meet in a query; add it")
    return kinds, weights


@dataclass(frozen=True, repr=False)
class NDCGPairwiseHinge(Loss):
    """SVM-IR-QP of Cao et al. (SIGIR 2006): a pairwise hinge that weights pairs by the NDCG they cost.

    `PairwiseHinge` with the τ of `ndcg_weights` for the queries that it is prepared for. Cao et al. multiply the sum
    over the pairs of a query by μ_q, the most pairs of any query over its own; the mean over the pairs is the same with
    another C.

    >>> xi, gradient = NDCGPairwiseHinge()([1, 0, 0], [0.0, 0.0, 0.0])     # τ · 1
    >>> xi.round(4).tolist()
    [0.4345]
    """

    @property
    def criterion(self) -> str:
        """NDCG, which the pairs are weighted by."""
        return "ndcg"

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Compute the weights."""
        return PairwiseHinge(rank_weights=ndcg_weights(judged.grades, judged.offsets))._prepare(judged)


def ndcg_weights(grades: FloatArray, offsets: IntArray) -> dict[tuple[float, float], float]:
    """Weigh pairs of grades by what NDCG loses when two such documents change places in the ideal ranking.

    That is how Cao et al. (SIGIR 2006) set τ: for each pair of grades, the mean over the queries where both occur. They
    draw the two documents at random; here it is the expectation,

    (G(a) − G(b)) · (mean discount of the ranks of grade a − that of grade b) / ideal DCG,

    with G = 2^g − 1 and the discount 1/log2(2 + rank).

    >>> ndcg_weights(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))        # 1 - (0.6309 + 0.5) / 2
    {(1.0, 0.0): 0.434535...}
    """
    losses: dict[tuple[float, float], list[float]] = {}
    for start, stop in pairwise(offsets.tolist()):
        ideal = -np.sort(-grades[start:stop])
        gain, discount = exp2(ideal), log2(len(ideal))
        kinds, level = np.unique(ideal, return_inverse=True)
        means = np.bincount(level, discount) / np.maximum(np.bincount(level), 1)
        for worse, better in combinations(range(len(kinds)), 2):
            lost = (exp2(kinds[[better]]) - exp2(kinds[[worse]]))[0] * (means[better] - means[worse])
            losses.setdefault((float(kinds[better]), float(kinds[worse])), []).append(lost / float(gain @ discount))
    return {pair: float(np.mean(lost)) for pair, lost in losses.items()}


@dataclass(frozen=True, repr=False)
class PositionHinge(Loss):
    """The position-sensitive pairwise hinge: pairs high in the ranking need a larger margin.

    ξ = scale · Σ_{y_i < y_j} max(0, m/y_i − m/y_j − (s_i − s_j)), Riezler and De Bona (2009) Definition 1, with rank
    labels y = 1 + the number of different higher grades in the query. As m/y_i − m/y_j − (s_i − s_j) = (s_j − m/y_j) −
    (s_i − m/y_i), it is a hinge of margin 0 at the scores s − m/y, and costs the same O(n log n).

    The paper says that ξ bounds the number of pairs with s_i < s_j (Definition 2). That holds if every margin is at
    least 1. The smallest, of the two worst of r levels, is m/(r(r − 1)), so it holds for m ≥ r(r − 1): for two levels
    with m = r, for more it does not.

    Args:
        m: What is divided by the labels: ``levels``, the number of levels r of the query; ``documents``, its number of
            documents n(q), which the paper takes for fully ranked lists, where both are the same; or ``bound``,
            r(r − 1), for which ξ with ``normalize="none"`` bounds the number of pairs in the wrong order.
        normalize: As for `PairwiseHinge`; the paper leaves the sum.

    >>> xi, gradient = PositionHinge()([2, 1, 0], [10.0, 0.0, 0.1])   # 3/2 - 3/3 - (0 - 0.1)
    >>> xi.round(10).tolist(), gradient.tolist()
    ([0.6], [0.0, -1.0, 1.0])
    """

    m: Numerator = "levels"
    normalize: Normalize = "none"

    @property
    def criterion(self) -> str:
        """AUC: the share of pairs in the right order."""
        return "auc"

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Arrange the documents by grade and work out the margins."""
        levels = _by_grade(judged.grades, judged.offsets)
        counts = levels.counts
        m = {"levels": counts, "documents": levels.lengths, "bound": counts * (counts - 1)}[self.m]
        label = 1.0 + np.arange(len(levels.gains)) - np.repeat(levels.of_query[:-1], counts)
        kinds = np.zeros(len(label), dtype=np.int64)
        heights, scales = np.repeat(m, counts) / label, _scales(self.normalize, levels.pairs)
        return PreparedPairs(levels, Hinges(heights, kinds, NO_WEIGHTS, scales, np.zeros(len(scales)), False))


@dataclass(frozen=True, repr=False)
class ListHinge(MeasureLoss):
    """The listwise hinge that sums over all rankings instead of taking the largest; for lists of at most 7 documents.

    ξ = Σ_{y ≠ y*} max(0, Δ(y) − (a(y*) − a(y))·s) over all n! rankings, Riezler and De Bona (2009) Definition 3, where
    a is φpo over pairs of documents that the measure can tell apart. All ideal rankings have the same a and Δ = 0, so
    it does not matter which of them is y*. (The paper's φ also has the pairs inside a level, and then it would.)

    Args:
        measure: The measure of the prediction loss Δ.
        scale: ``all`` divides φpo by n(n − 1)/2 as the paper does, ``pairs`` by the number of pairs of different level.

    >>> xi, gradient = ListHinge()([1, 0], [0.125, 0.0])      # (1 - 1/2) - 2 · 0.125
    >>> xi.tolist(), gradient.tolist()
    ([0.25], [-2.0, 2.0])
    """

    measure: str | Measure = "ap"
    scale: Scale = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_trainable(self.parsed_measure)

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Enumerate all rankings of each pattern of grades that occurs."""
        measure, grades, offsets = self.parsed_measure, judged.grades, judged.offsets
        lengths = np.diff(offsets)
        if lengths.max(initial=0) > LONGEST_LIST:
            query = int(np.argmax(lengths > LONGEST_LIST))
            raise DataError(
                f"query {query} has {lengths[query]} documents; a sum over all rankings is for lists of at most "
                f"{LONGEST_LIST}; use StructuredLoss, which takes the largest term, or shorter lists"
            )
        return _PreparedList(measure, by_level(measure, grades, offsets), grades, PartialOrder(self.scale))


class _PreparedList(PreparedLoss):
    def __init__(self, measure: Measure, levels: Levels, grades: FloatArray, feature_map: PartialOrder) -> None:
        self.offsets = levels.queries
        self.active = levels.ordered
        self._documents = levels.documents
        self._scales = feature_map.scales(levels.lengths, levels.pairs)
        level = np.repeat(np.arange(len(levels.gains)), np.diff(levels.offsets))
        known: dict[tuple[tuple[float, ...], tuple[int, ...]], tuple[FloatArray, FloatArray]] = {}
        self._terms = {}
        for query in np.flatnonzero(self.active).tolist():
            places = slice(self.offsets[query], self.offsets[query + 1])
            query_grades, query_levels = grades[levels.documents[places]], level[places]
            pattern = (tuple(query_grades.tolist()), tuple((query_levels - query_levels[0]).tolist()))
            if pattern not in known:
                known[pattern] = _deltas(measure, query_grades), _coefficients(query_levels)
            self._terms[query] = known[pattern]

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        for query in range(first, end):
            documents = self._documents[self.offsets[query] : self.offsets[query + 1]]
            xi[query], gradient[documents] = 0.0, 0.0
            if self.active[query]:
                deltas, coefficients = self._terms[query]
                gradients = self._scales[query] * (coefficients - coefficients[0])
                terms = deltas + gradients @ scores[documents]
                violated = terms > 0
                xi[query], gradient[documents] = terms[violated].sum(), gradients[violated].sum(axis=0)


@cache
def _rankings(n: int) -> IntArray:
    """Return all rankings of n documents, the documents in their order first, as the document at each rank.

    >>> _rankings(2).tolist()
    [[0, 1], [1, 0]]
    """
    return np.array(list(permutations(range(n))), dtype=np.int64)


def _deltas(measure: Measure, grades: FloatArray) -> FloatArray:
    """Return Δ of all rankings of documents that are in an ideal order."""
    rankings = _rankings(len(grades))
    offsets = np.arange(len(rankings) + 1, dtype=np.int64) * len(grades)
    ranked = grades[rankings].ravel()
    values = measure.values(RankedGrades(ranked, offsets, ranked, offsets))
    return np.asarray(values[0] - values)


def _coefficients(level: IntArray) -> FloatArray:
    """Return unscaled φpo of all rankings: documents of other levels after a document, less those before it."""
    ranks = np.argsort(_rankings(len(level)), axis=1)
    sides = np.sign(ranks[:, None, :] - ranks[:, :, None])
    return np.asarray((sides * (level[:, None] != level)).sum(axis=2), dtype=np.float64)
