"""Losses whose argmax is an assignment: arbitrary costs of documents at ranks, and one document per group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError, Message, Parameter, ParameterError
from marginrank.losses.base import Bound, Judgements, PreparedLoss
from marginrank.losses.feature_maps import FeatureMap, Positional
from marginrank.losses.ideal_ranking import Ideal, TwoBoundLoss
from marginrank.losses.oracles.assignment import best_matching
from marginrank.measures import Measure, RankedGrades
from marginrank.measures.gains import check_grades
from marginrank.runtime.limited_assignment import assign_within_limits, most_within_limits
from marginrank.typing import AnyArray, FloatArray, IntArray, KeyArray


class _PreparedAssigned(PreparedLoss):
    """A loss whose argmax is an assignment of candidates to ranks, query by query."""

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        for query in range(first, end):
            documents = slice(self.offsets[query], self.offsets[query + 1])
            xi[query], gradient[documents] = 0.0, 0.0
            if self.active[query]:
                xi[query], gradient[documents] = self._loss(query, scores[documents])

    @abstractmethod
    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the slack of one query and its gradient."""


@dataclass(frozen=True, repr=False)
class CostLoss(TwoBoundLoss):
    """A bound on any position-dependent loss Σ_i C(i, rank of i), Le and Smola (2008) eq. (19).

    ``cost`` returns the matrix of documents × ranks for the grades of a query; Δ is the cost of a ranking minus that of
    the cheapest, y*. The feature map is positional; ``measure`` is the measure to evaluate rankers by.

    >>> inversions = CostLoss(lambda grades: np.outer(grades, np.arange(len(grades))), "dorm(shape=linear)")
    >>> inversions([1, 0], [0.0, 0.0])[0].tolist()                            # rank 1 instead of 0
    [1.0]
    """

    cost: Callable[[FloatArray], npt.ArrayLike]
    feature_map: str | FeatureMap = "dorm"
    bound: Bound = "hinge"
    measure: str | Measure = "ndcg"

    def __post_init__(self) -> None:
        super().__post_init__()
        feature_map = self.parsed_map
        if not isinstance(feature_map, Positional) or feature_map.shape in ("truncated", "discount"):
            raise ValueError(f"a cost of documents at ranks has its own positional map, not {feature_map}")
        if self.ideal == "scores":
            raise ValueError("y* of a CostLoss is its cheapest ranking; choose ideal='random' or 'rows'")

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Find the cheapest ranking of each query."""
        return _PreparedCost(self.cost, self.parsed_map, self.bound, judged, self._ties(judged))


class _PreparedCost(_PreparedAssigned):
    def __init__(
        self,
        cost: Callable[[FloatArray], npt.ArrayLike],
        feature_map: FeatureMap,
        bound: Bound,
        judged: Judgements,
        ties: KeyArray | None,
    ) -> None:
        grades, offsets = judged.grades, judged.offsets
        self.offsets = offsets
        lengths = np.diff(offsets)
        self._profile = feature_map.profile(int(lengths.max(initial=1)), None)
        self._scales = feature_map.scales(lengths, lengths)
        self._tight = bound == "tight"
        self._costs, self._ideals, active = [], [], []
        for query, n in enumerate(lengths.tolist()):
            matrix = np.asarray(cost(grades[offsets[query] : offsets[query + 1]]), dtype=np.float64)
            if matrix.shape != (n, n) or not np.isfinite(matrix).all():
                raise DataError(f"the cost of query {query} has shape {matrix.shape}; give {n} × {n} finite numbers")
            # Of equally cheap rankings, the result depends on the order of the documents.
            keys = np.arange(n) if ties is None else ties[offsets[query] : offsets[query + 1]]
            order = np.argsort(keys, kind="stable")
            ideal, worst = np.empty(n, dtype=np.int64), best_matching(matrix)[1]
            ideal[order] = best_matching(-matrix[order])[1]
            lowest, highest = (float(matrix[np.arange(n), ranks].sum()) for ranks in (ideal, worst))
            self._costs.append(matrix - lowest / max(n, 1))
            self._ideals.append(ideal)
            active.append(highest - lowest > 1e-12 * max(abs(highest), abs(lowest)))
        self.active = np.array(active, dtype=np.bool_)

    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        n, cost, ideal = len(scores), self._costs[query], self._ideals[query]
        profile = self._scales[query] * self._profile[:n]
        ranks = best_matching(cost + np.outer(scores, profile))[1]
        reference = np.argsort(np.argsort(-scores, kind="stable")) if self._tight else ideal
        gradient = profile[ranks] - profile[reference]
        return max(float(cost[np.arange(n), ranks].sum() + gradient @ scores), 0.0), gradient


@dataclass(frozen=True, repr=False)
class GroupedLoss(TwoBoundLoss):
    """A bound on a sum over ranks or reciprocal rank, with at most one document of each group in the ranking.

    The diversity constraint of Le and Smola (2008) §5.1: rankings of the first k ranks with at most one document of a
    group; without a cutoff, k is the number of groups. Each group is worth its best document at each rank, so the
    argmax is an assignment of groups to ranks. For reciprocal rank it is the best of one assignment for each rank r of
    the first relevant document: documents before it are irrelevant. y* takes the best document of each group, best
    first. The profile counts only the first k ranks, too. Groups are those of the queries, ``Queries.document_groups``;
    a `StructuredLoss` under φdorm uses them if queries have them.

    With ``topics``, groups say which topics a document has, and by which weights; any number of documents of a group
    may be ranked, as long as the weights of the ranked documents add up to at most ``limit`` in every topic (the end of
    §5.1 there). Rankings fill as many of the first k ranks as can be filled within the limits. The argmax is then an
    integer program, solved exactly by HiGHS; queries with more than ``most_variables`` pairs of document and rank are
    refused.

    Args:
        measure: A sum over ranks or reciprocal rank; with topics, a sum over the first k ranks.
        shape: Shape of the profile of φdorm.
        bound: ``hinge`` or ``tight``.
        topics: Weights by topic of each group; groups without topics are not limited.
        limit: Sum of weights that a topic may have in a ranking.
        most_variables: Largest number of documents × ranks of a query with topics.

    >>> loss = GroupedLoss("p@1")
    >>> loss([1, 1, 0], [0.0, 0.0, 0.5], groups=["a", "a", "b"])[0].tolist()  # Δ = 1, and s_b − s_a = 0.5
    [1.5]
    >>> loss = GroupedLoss("p@2", topics={"a": {"sport": 1.0}, "b": {"sport": 0.6}})      # a and b do not fit together
    >>> loss([1, 1, 0, 0], [0.0, 0.0, 0.0, 0.0], groups=["a", "b", "c", "c"])[0].tolist()   # c and c instead of a and c
    [0.5]
    """

    measure: str | Measure
    shape: str | tuple[float, ...] = "sqrt"
    bound: Bound = "hinge"
    topics: Mapping[Any, Mapping[str, float]] | None = field(default=None, hash=False)
    limit: float = 1.0
    most_variables: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        reason = why_no_groups(self.parsed_measure, self.parsed_map)
        if reason is not None:
            raise ParameterError(reason)
        if self.topics is not None and (not self.parsed_measure.sums_over_ranks or self.parsed_measure.depth is None):
            raise ValueError(f"topics need a sum over the first k ranks, such as ndcg@10, not {self.parsed_measure}")
        if not 0 < self.limit < np.inf:
            raise ValueError(f"limit is {self.limit!r}; give a positive number")
        if self.topics is not None and self.ideal == "scores":
            raise ValueError("y* with topics is computed once; choose ideal='random' or 'rows'")
        for group, given in (self.topics or {}).items():
            for topic, weight in given.items():
                if not 0 <= weight < np.inf:
                    raise ValueError(f"topics[{group!r}][{topic!r}] is {weight!r}; give a number of at least 0")

    @cached_property
    def parsed_map(self) -> FeatureMap:
        """φdorm with the shape."""
        return Positional(self.shape)

    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Find the groups and the ideal ranking of each query."""
        ties = self._ties(judged)
        if self.topics is not None:
            return _PreparedTopics(self, judged, ties)
        return PreparedGroups(self.parsed_measure, self.parsed_map, self.bound, judged, ties, self.ideal)


_IGNORE: Final = Parameter("groups", "ignore")


def takes_groups(measure: Measure, feature_map: FeatureMap) -> bool:
    """Return whether rankings can be restricted to one document of each group under a measure and a feature map.

    >>> from marginrank.measures import parse_measure
    >>> [takes_groups(parse_measure(measure), Positional()) for measure in ("ndcg@10", "eru", "rr", "ap")]
    [True, True, True, False]
    """
    return why_no_groups(measure, feature_map) is None


def why_no_groups(measure: Measure, feature_map: FeatureMap) -> Message | None:
    """Return why rankings cannot be restricted to one document of each group; None if they can.

    >>> from marginrank.errors import write
    >>> from marginrank.measures import parse_measure
    >>> print(write(why_no_groups(parse_measure("auc"), Positional())))
    groups need a sum over ranks, such as ndcg@10, or rr, not auc: which document stands for a group changes ...
    """
    if not isinstance(feature_map, Positional):
        return (
            f"groups need the feature map dorm, not {feature_map}: its coefficients are means over pairs, or sums over "
            "documents, which change with the documents that stand for the groups; use dorm, or ",
            _IGNORE,
        )
    if not measure.sums_over_ranks and not (measure.first_only and measure.discounts(1) is not None):
        return (
            f"groups need a sum over ranks, such as ndcg@10, or rr, not {measure}: which document stands for a group "
            "changes what all others count, so the argmax is not an assignment; use ndcg@10, or ",
            _IGNORE,
        )
    shape = feature_map.shape
    depth = measure.depth or (2 if isinstance(shape, str) else len(shape))
    if feature_map.profile(depth, measure)[-1] < 0:
        return f"the profile {shape} falls below 0, that of documents not ranked; use sqrt or log, or ", _IGNORE
    return None


class PreparedGroups(_PreparedAssigned):
    """A sum over the first k ranks, or reciprocal rank, with at most one document of each group."""

    def __init__(
        self,
        measure: Measure,
        feature_map: FeatureMap,
        bound: Bound,
        judged: Judgements,
        ties: KeyArray | None,
        ideal: Ideal,
    ) -> None:
        grades, offsets, groups = judged.grades, judged.offsets, judged.groups
        if groups is None:
            raise DataError("these queries have no document_groups; give Queries with them, or groups with the grades")
        check_grades([measure], grades)
        self.offsets = offsets
        self._tight, self._by_score = bound == "tight", ideal == "scores"
        self._members = [np.unique(groups[a:b], return_inverse=True)[1] for a, b in pairwise(offsets.tolist())]
        depth = measure.depth or max((int(members.max(initial=0)) + 1 for members in self._members), default=1)
        self._first_only = measure.first_only
        rankings = RankedGrades(grades, offsets, grades, offsets)
        self._gains = measure.worth(rankings)
        self._profile, self._discounts = feature_map.profile(depth, measure), np.asarray(measure.discounts(depth))
        self._ideals: list[IntArray] = []
        self.active = np.zeros(len(offsets) - 1, dtype=np.bool_)
        self._scale = np.ones(len(offsets) - 1)
        for query, members in enumerate(self._members):
            gains = self._gains[offsets[query] : offsets[query + 1]]
            keys = np.arange(len(gains)) if ties is None else ties[offsets[query] : offsets[query + 1]]
            first = _first_of_groups(gains, members, depth, keys)
            self._ideals.append(first)
            best = float(gains[first] @ self._discounts[: len(first)])
            self._scale[query] = measure.divisor(ideal=best, total=float(gains.sum())) or 1.0
            self.active[query] = bool(np.ptp(gains) > 0) if len(gains) else False

    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        gains = self._gains[self.offsets[query] : self.offsets[query + 1]] / self._scale[query]
        ideal, members = self._ideals[query], self._members[query]
        k = len(ideal)
        worst = self._first_relevant if self._first_only else self._sum_of_ranks
        delta, documents = worst(gains, members, scores, ideal)
        gradient = np.zeros(len(scores))
        gradient[documents] += self._profile[:k]
        if self._tight:
            ideal = _first_of_groups(scores, members, k, np.arange(len(scores)))
        elif self._by_score:
            ideal = _first_of_groups(gains, members, k, -scores)
        gradient[ideal] -= self._profile[:k]
        return max(delta + float(gradient @ scores), 0.0), gradient

    def _sum_of_ranks(
        self, gains: FloatArray, members: IntArray, scores: FloatArray, ideal: IntArray
    ) -> tuple[float, IntArray]:
        """Return Δ and the documents of the most violated ranking of a sum over ranks."""
        k = len(ideal)
        value = np.outer(scores, self._profile[:k]) - np.outer(gains, self._discounts[:k])
        documents = _assign_groups(value, members)
        return float((gains[ideal] - gains[documents]) @ self._discounts[:k]), documents

    def _first_relevant(
        self, relevant: FloatArray, members: IntArray, scores: FloatArray, ideal: IntArray
    ) -> tuple[float, IntArray]:
        """Return Δ and the documents of the most violated ranking, the best of those for each first relevant rank."""
        k, best, worst = len(ideal), -np.inf, (0.0, ideal)
        value = np.outer(scores, self._profile[:k])
        has_irrelevant, has_relevant = (np.unique(members[relevant == worth]) for worth in (0.0, 1.0))
        n_mixed = len(np.intersect1d(has_irrelevant, has_relevant))
        for rank in range(k + 1):
            # A group that is needed for the relevant document cannot stand before it.
            spare = len(has_irrelevant) - (rank < k and n_mixed == len(has_relevant) and n_mixed > 0)
            if rank > spare:
                break
            allowed = value.copy()
            allowed[relevant > 0, :rank] = -np.inf
            if rank < k:
                allowed[relevant == 0, rank] = -np.inf
            documents = _assign_groups(allowed, members)
            delta = float(self._discounts[0] - (self._discounts[rank] if rank < k else 0.0))
            total = delta + float(value[documents, np.arange(k)].sum())
            if total > best:
                best, worst = total, (delta, documents)
        return worst


def _assign_groups(value: FloatArray, members: IntArray) -> IntArray:
    """Return the document at each rank for the largest sum of values, at most one of each group.

    >>> _assign_groups(np.array([[3.0, 1.0], [2.0, 1.5], [0.0, 0.0]]), np.array([0, 0, 1])).tolist()
    [0, 2]
    """
    of_group = np.full((members.max() + 1, value.shape[1]), -np.inf)
    np.maximum.at(of_group, members, value)
    groups, ranks = best_matching(of_group)
    documents = np.empty(value.shape[1], dtype=np.int64)
    for group, rank in zip(groups.tolist(), ranks.tolist(), strict=True):
        inside = np.flatnonzero(members == group)
        documents[rank] = inside[np.argmax(value[inside, rank])]
    return documents


class _PreparedTopics(_PreparedAssigned):
    """A sum over the first k ranks, with limits on the topics of the documents there."""

    def __init__(self, loss: GroupedLoss, judged: Judgements, ties: KeyArray | None) -> None:
        grades, offsets, groups = judged.grades, judged.offsets, judged.groups
        measure = loss.parsed_measure
        if groups is None:
            raise DataError("these queries have no document_groups, by which topics are given; give Queries with them")
        check_grades([measure], grades)
        self.offsets, self._limit, self._tight = offsets, loss.limit, loss.bound == "tight"
        self._gains = measure.worth(RankedGrades(grades, offsets, grades, offsets)).copy()
        depth = measure.depth or 0
        self._profile, self._discounts = loss.parsed_map.profile(depth, measure), np.asarray(measure.discounts(depth))
        weights = _weights_of_groups(loss.topics or {}, groups)
        self._weights, self._ideals = weights, [np.empty(0, dtype=np.int64) for _ in offsets[1:]]
        self.active = np.zeros(len(offsets) - 1, dtype=np.bool_)
        for query, (start, stop) in enumerate(pairwise(offsets.tolist())):
            gains = self._gains[start:stop]
            if stop == start or np.ptp(gains) == 0:
                continue
            ranks = most_within_limits(weights[start:stop], self._limit, min(depth, stop - start))
            if (stop - start) * ranks > loss.most_variables:
                raise DataError(
                    f"query {query} has {stop - start} documents for {ranks} ranks, and rankings of limited topics are "
                    f"exact up to {loss.most_variables:,} pairs; use a smaller cutoff, fewer documents, groups without "
                    "topics, or a larger most_variables"
                )
            # Of equally good rankings, the result depends on the order of the documents.
            keys = np.arange(stop - start) if ties is None else ties[start:stop]
            order = np.argsort(keys, kind="stable")
            values = np.outer(gains, self._discounts[:ranks])
            self._ideals[query] = order[self._best(values[order], weights[start:stop][order])]
            best = float(gains[self._ideals[query]] @ self._discounts[:ranks])
            self._gains[start:stop] = gains / (measure.divisor(ideal=best, total=float(gains.sum())) or 1.0)
            self.active[query] = ranks > 0

    def _best(self, values: FloatArray, weights: FloatArray) -> IntArray:
        """Return the document at each rank of the ranking of largest value within the limits."""
        rows, columns = best_matching(values)
        if (weights[rows].sum(axis=0) <= self._limit).all():
            return rows[np.argsort(columns)]
        placed, _ = assign_within_limits(values, weights, self._limit, fill=True)
        return np.asarray(np.argmax(placed, axis=0))

    def _loss(self, query: int, scores: FloatArray) -> tuple[float, FloatArray]:
        documents = slice(self.offsets[query], self.offsets[query + 1])
        gains, weights, ideal = self._gains[documents], self._weights[documents], self._ideals[query]
        profile, discounts = self._profile[: len(ideal)], self._discounts[: len(ideal)]
        worst = self._best(np.outer(scores, profile) - np.outer(gains, discounts), weights)
        reference = self._best(np.outer(scores, profile), weights) if self._tight else ideal
        gradient = np.zeros(len(scores))
        gradient[worst] += profile
        gradient[reference] -= profile
        delta = float((gains[ideal] - gains[worst]) @ discounts)
        return max(delta + float(gradient @ scores), 0.0), gradient


def _weights_of_groups(topics: Mapping[Any, Mapping[str, float]], groups: AnyArray) -> FloatArray:
    """Return the weights of documents × topics, by the group of each document.

    >>> _weights_of_groups({"a": {"x": 1.0}, "b": {"y": 0.5}}, np.array(["b", "a", "c"])).tolist()
    [[0.0, 0.5], [1.0, 0.0], [0.0, 0.0]]
    """
    by_label = {str(group): given for group, given in topics.items()}
    names = {topic: at for at, topic in enumerate(sorted({topic for given in topics.values() for topic in given}))}
    labels, label = np.unique(groups, return_inverse=True)
    texts = [str(group) for group in labels.tolist()]
    if texts and not by_label.keys() & set(texts):
        raise DataError(
            f"no group has topics: groups are called {texts[0]!r}, and topics are of {next(iter(topics), None)!r}"
        )
    weights = np.zeros((len(labels), len(names)))
    for at, text in enumerate(texts):
        for topic, weight in by_label.get(text, {}).items():
            weights[at, names[topic]] = weight
    return weights[label]


def _first_of_groups(values: FloatArray, members: IntArray, depth: int, ties: AnyArray) -> IntArray:
    """Take the documents in descending order of value, then in order of ties, one of each group, down to a depth.

    >>> _first_of_groups(np.array([3.0, 2.0, 1.0]), np.array([0, 0, 1]), 2, np.arange(3)).tolist()
    [0, 2]
    """
    order = np.lexsort((ties, -values))
    first = np.sort(np.unique(members[order], return_index=True)[1])[:depth]
    return np.asarray(order[first])
