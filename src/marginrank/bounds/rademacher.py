"""Theorems 3 and 4 and Corollaries 1 to 3 of Riezler and De Bona (2009), as printed and repaired.

All have one shape. With probability 1 − δ over n queries drawn alike and on their own, for all weights w of norm at
most B at once,

    risk ≤ empirical risk of a dominating loss + count · 4·B·norm/√n + count · largest hinge · √(8 ln(2/δ)/n).

Repaired in all of them:

- B has to be fixed before the queries are seen; `norm_bound` gives one for weights that minimize ½‖w‖² + C·risk. The
  norm of the w at hand, which is taken by default, is an optimistic stand-in.
- Lemma 1 is for functions bounded by B·M, but f-bar is the difference of two of them. With M the largest norm of a
  document, a pair needs 2M, and a pair of rankings, each an average of differences, 4M. Here the largest norm D ≤ 2M
  of a difference of documents is measured, so that a pair needs D and two rankings 2D.
- Theorem 1 prints the empirical risk of the dominated loss; it has to be that of the dominating one. Lemma 1 is "≤"
  and not "=", and goes with Rademacher averages of 2/n times absolute sums, not with the printed 1/n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, factorial, inf, log, log10, sqrt

import numpy as np
from scipy.special import logsumexp

from marginrank.bounds.dominating_loss import Per, Statement, binary_grades, dominating_loss, losses_of, mean_loss
from marginrank.bounds.population import (
    BoundTerms,
    Population,
    by_relevance,
    check_delta,
    check_norm,
    log_factorial,
    log_rankings,
)
from marginrank.data.queries import Queries
from marginrank.losses.feature_maps import PartialOrder
from marginrank.losses.pairwise import LONGEST_LIST, ListHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import Measure
from marginrank.measures.ap import AP
from marginrank.typing import BoolArray, FloatArray


@dataclass(frozen=True)
class RiskBound(BoundTerms):
    """A bound of the paper, term by term, with logarithms for numbers that no float holds.

    If the dominating loss is a sum over too many rankings to go through, ``empirical`` is their number times the
    largest of its terms.

    Args:
        log10_excess: Logarithm of complexity + confidence.
        log10_total: Logarithm of the sum of all three terms.
    """

    log10_excess: float
    log10_total: float


@dataclass(frozen=True)
class BoundVariants:
    """A bound with the constants of the paper, and with those that can be proved."""

    printed: RiskBound
    repaired: RiskBound


def theorem_3(
    queries: Queries,
    w: FloatArray,
    *,
    B: float | None = None,
    delta: float = 0.05,
    per: Per = "query",
    population: Population | None = None,
) -> BoundVariants:
    """Bound the pairs in the wrong order, for full rankings: every two documents are a pair.

    Printed: R_01 ≤ R̂_P + C(m,2)·4BM/√n + C(m,2)·(m − 1 + 2BM)·√(8 ln(2/δ)/n), m the length of the lists.

    Repaired: D for M in the second term and B·D for 2BM in the third; the hinge has margins that are large enough to
    dominate the 0-1 loss, which makes the largest (r − 1)² for r different grades, instead of m − 1; and m is the
    longest list. Documents of the same grade are no pair; if there are such documents, Corollary 1 is smaller.

    Args:
        queries: The queries that w was learned from.
        w: Weights.
        B: A norm fixed beforehand; ‖w‖ by default.
        delta: Probability that the bound may fail.
        per: ``query`` for the number of pairs of a query, as in the paper; ``pair`` for their share, in which the
            number of pairs cancels query by query, so that nothing grows with the length of the lists.
        population: Sizes and norms of all queries that can be drawn; those of ``queries`` by default.
    """
    facts = _facts(queries, population)
    return _pairwise(queries, w, "theorem_3", facts, comb(facts.documents, 2), facts.documents - 1, B, delta, per)


def corollary_1(
    queries: Queries,
    w: FloatArray,
    *,
    B: float | None = None,
    delta: float = 0.05,
    per: Per = "query",
    population: Population | None = None,
) -> BoundVariants:
    """Bound the pairs in the wrong order, for r grades: pairs of documents of different grade.

    Printed: as Theorem 3 with the number of pairs of different grade for C(m,2), and r − 1 for m − 1. Repaired: as
    there, with a largest margin of (r − 1)², and the most pairs of a query.

    Args:
        queries: The queries that w was learned from.
        w: Weights.
        B: A norm fixed beforehand; ‖w‖ by default.
        delta: Probability that the bound may fail.
        per: As for `theorem_3`.
        population: Sizes and norms of all queries that can be drawn; those of ``queries`` by default.

    >>> queries = Queries.from_arrays([[1.0], [0.5], [0.0]], [2, 1, 0], group=[3])
    >>> forms = corollary_1(queries, np.array([1.0]), delta=2 / np.e**2)         # √(8 ln(2/δ)/n) = 4, M = D = 1
    >>> forms.printed                                        # 1 + 1 + 0; 3·4; 3·(2 + 2)·4
    RiskBound(empirical=2.0, complexity=12.0, confidence=48.0, log10_excess=1.77..., log10_total=1.79...)
    >>> forms.repaired                                       # 2.5 + 3 + 0.5; 3·4; 3·(4 + 1)·4
    RiskBound(empirical=6.0, complexity=12.0, confidence=60.0, log10_excess=1.85..., log10_total=1.89...)
    """
    facts = _facts(queries, population)
    return _pairwise(queries, w, "corollary_1", facts, facts.pairs, facts.levels - 1, B, delta, per)


def corollary_2(
    queries: Queries,
    w: FloatArray,
    *,
    B: float | None = None,
    delta: float = 0.05,
    per: Per = "query",
    population: Population | None = None,
) -> BoundVariants:
    """Bound the pairs in the wrong order, for relevant and irrelevant documents.

    Printed: as Corollary 1 with rel·nrel pairs and margin 1. The hinge does dominate here. Repaired: the norms, and
    the most pairs of a query. Documents are relevant from the grade ``population.rel`` on.

    Args:
        queries: The queries that w was learned from.
        w: Weights.
        B: A norm fixed beforehand; ‖w‖ by default.
        delta: Probability that the bound may fail.
        per: As for `theorem_3`.
        population: Sizes and norms of all queries that can be drawn; those of ``queries`` by default.
    """
    facts = _facts(queries, population)
    binary = binary_grades(queries, facts.rel)
    return _pairwise(binary, w, "corollary_2", facts, facts.relevant_pairs, 1, B, delta, per)


def theorem_4(
    queries: Queries,
    w: FloatArray,
    *,
    measure: str | Measure = "ap",
    B: float | None = None,
    delta: float = 0.05,
    population: Population | None = None,
) -> BoundVariants:
    """Bound the loss of a measure by the hinges of all m! rankings.

    Printed: R_L ≤ R̂_L + m!·4BM/√n + m!·(1 + 2BM)·√(8 ln(2/δ)/n). Repaired: 2D for M in the second term, and 2BD for
    2BM in the third; m is the longest list. Both are far above 1, the largest loss, for all but the shortest lists.

    The paper notes that the sum is more than its largest term, so that the bound is one for learners that take the
    largest as well. The empirical risk stays that of the sum, though: with the mean of the largest terms in its place
    the inequality is another one, see `argmax_bound`.

    Args:
        queries: The queries that w was learned from.
        w: Weights.
        measure: A measure whose loss is at most 1.
        B: A norm fixed beforehand; ‖w‖ by default.
        delta: Probability that the bound may fail.
        population: Sizes and norms of all queries that can be drawn; those of ``queries`` by default.
    """
    facts = _facts(queries, population)
    xi, active = _largest_hinges(queries, measure, w)
    log_terms = log_factorial(queries.lengths)
    if queries.lengths.max() <= LONGEST_LIST:
        (xi, _), log_terms = losses_of(queries, ListHinge(measure), w), np.zeros(len(queries))
    empirical = _log_mean(log_terms, xi, active)
    return _listwise(w, facts, factorial(facts.documents), empirical, int(active.sum()), B, delta)


def corollary_3(
    queries: Queries,
    w: FloatArray,
    *,
    B: float | None = None,
    delta: float = 0.05,
    population: Population | None = None,
) -> BoundVariants:
    """Bound the loss of average precision by the hinges of the C(m, rel) rankings that it can tell apart.

    Printed: as Theorem 4 with C(m, rel) for m!. Repaired: the norms, as there, and the largest C(m, rel) of a query.
    Rankings that differ inside a level only are one ranking to average precision, but not to φ: the one in order of
    score has to stand for them, as any other may miss the loss altogether.

    Args:
        queries: The queries that w was learned from.
        w: Weights.
        B: A norm fixed beforehand; ‖w‖ by default.
        delta: Probability that the bound may fail.
        population: Sizes and norms of all queries that can be drawn; those of ``queries`` by default.
    """
    facts = _facts(queries, population)
    xi, active = _largest_hinges(queries, AP(rel=facts.rel), w)
    empirical = _log_mean(log_rankings(by_relevance(queries, facts.rel)), xi, active)
    return _listwise(w, facts, facts.rankings, empirical, int(active.sum()), B, delta)


def _facts(queries: Queries, population: Population | None) -> Population:
    return Population.of(queries) if population is None else population


def _pairwise(
    queries: Queries,
    w: FloatArray,
    statement: Statement,
    facts: Population,
    pairs: int,
    margin: int,
    B: float | None,
    delta: float,
    per: Per,
) -> BoundVariants:
    radius, count = check_norm(w, B), 1 if per == "pair" else pairs
    levels = 2 if statement == "corollary_2" else facts.levels
    n = int(np.sum(dominating_loss(statement).prepare(queries).active))
    printed = mean_loss(queries, dominating_loss(statement, "printed", per), w)
    repaired = mean_loss(queries, dominating_loss(statement, "repaired", per), w)
    M, D = facts.document_norm, facts.difference_norm
    return BoundVariants(
        _sum_up(printed, _log10(printed), count, 4 * radius * M, margin + 2 * radius * M, n, delta),
        _sum_up(repaired, _log10(repaired), count, 4 * radius * D, (levels - 1) ** 2 + radius * D, n, delta),
    )


def _listwise(
    w: FloatArray, facts: Population, count: int, log10_empirical: float, n: int, B: float | None, delta: float
) -> BoundVariants:
    radius, empirical = check_norm(w, B), _power(log10_empirical)
    M, D = facts.document_norm, facts.difference_norm
    return BoundVariants(
        _sum_up(empirical, log10_empirical, count, 4 * radius * M, 1 + 2 * radius * M, n, delta),
        _sum_up(empirical, log10_empirical, count, 8 * radius * D, 1 + 2 * radius * D, n, delta),
    )


def _sum_up(
    empirical: float, log10_empirical: float, count: int, slope: float, largest: float, n: int, delta: float
) -> RiskBound:
    """Combine the terms slope/√n and largest·√(8 ln(2/δ)/n), times a count that may be beyond the range of floats."""
    complexity, confidence = slope / sqrt(n), largest * sqrt(8.0 * log(2.0 / check_delta(delta)) / n)
    log10_excess = log10(count) + log10(complexity + confidence)
    return RiskBound(
        empirical,
        _times(count, complexity),
        _times(count, confidence),
        log10_excess,
        float(np.logaddexp(log10_empirical * log(10.0), log10_excess * log(10.0)) / log(10.0)),
    )


def _largest_hinges(queries: Queries, measure: str | Measure, w: FloatArray) -> tuple[FloatArray, BoolArray]:
    loss = StructuredLoss(measure, PartialOrder("all"))
    worst = float(losses_of(queries, loss, np.zeros(queries.n_features))[0].max())
    if worst > 1.0 + 1e-9:
        raise ValueError(f"the loss of {measure} goes up to {worst:.4g}; the bound is for at most 1, as of ndcg or ap")
    return losses_of(queries, loss, w)


def _log_mean(log_counts: FloatArray, xi: FloatArray, active: BoolArray) -> float:
    """Return log10 of the mean of count·ξ over the queries with more than one grade."""
    with np.errstate(divide="ignore"):
        return float((logsumexp(log_counts[active] + np.log(xi[active])) - log(active.sum())) / log(10.0))


def _times(count: int, factor: float) -> float:
    try:
        return float(count) * factor
    except OverflowError:
        return inf if factor > 0 else 0.0


def _power(exponent: float) -> float:
    try:
        return float(10.0**exponent)
    except OverflowError:
        return inf


def _log10(value: float) -> float:
    return log10(value) if value > 0 else -inf
