"""Bounds on the risk: constants by hand, what dominates what, Lipschitz constants, and simulations."""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb, e, factorial, inf, log, log10, sqrt

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from marginrank import DataError, Queries, evaluate
from marginrank.bounds import (
    Population,
    ap_loss,
    argmax_bound,
    corollary_1,
    corollary_2,
    corollary_3,
    dominating_loss,
    lipschitz_constants,
    mean_loss,
    norm_bound,
    softmax_gap,
    stability_bound,
    theorem_3,
    theorem_4,
    zero_one_loss,
)
from marginrank.bounds.population import distances
from marginrank.losses import (
    MaxLoss,
    PairwiseHinge,
    PositionHinge,
    SlackLoss,
    SmoothedHinge,
    StructuredLoss,
    SumLoss,
)
from marginrank.losses.feature_maps import parse_map
from marginrank.measures import parse_measure
from marginrank.solvers import Bundle
from marginrank.training.partitioned_risk import empirical_risk
from tests.losses.exhaustive import EveryRanking

#: √(8 ln(2/δ)/n) is 4/√n for this δ.
DELTA = 2 / e**2
CONSTANTS = {
    "theorem 3": theorem_3,
    "corollary 1": corollary_1,
    "corollary 2": corollary_2,
    "theorem 4": theorem_4,
    "corollary 3": corollary_3,
}


def random_queries(n, seed, n_documents=5, n_features=3, highest=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n * n_documents, n_features))
    hidden = X @ [1.0, -0.5, 0.2][:n_features] + 0.4 * rng.standard_normal(len(X))
    grades = np.digitize(hidden, np.quantile(hidden, np.arange(1, highest + 1) / (highest + 1)))
    return Queries.from_arrays(X, grades, qid=np.repeat(np.arange(n), n_documents))


def repeated(queries, times):
    """The same queries with every document so many times."""
    rows = np.repeat(np.arange(queries.n_documents), times)
    return Queries.from_arrays(queries.X[rows], queries.grades[rows], group=queries.lengths * times)


def terms(bound):
    return bound.empirical, bound.complexity, bound.confidence


# Documents of norm 5 and 1 on either side of one of norm 0: M = 5, D = 6 for grades 2 and 0.
THREE = Queries.from_arrays([[5.0], [0.0], [-1.0]] * 4, [2, 1, 0] * 4, group=[3] * 4)
W = np.array([0.25])


def test_population_by_hand():
    several = Queries.from_arrays(
        [[5.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [9.0, 0.0], [8.0, 0.0], [0.0, 2.0], [0.0, 0.0]],
        [2, 1, 0, 3, 3, 1, 0],
        group=[3, 2, 2],
    )
    # The second query is of one grade and counts for nothing.
    assert Population.of(several) == Population(3, 3, 3, 2, 3, 5.0, 6.0)
    assert Population.of(several, rel=2) == Population(3, 3, 3, 2, 3, 5.0, 6.0, 2)
    sparse = several.with_features(sp.csr_array(several.X))
    assert Population.of(sparse) == Population.of(several)


def test_pairwise_constants_by_hand():
    full = theorem_3(THREE, W, delta=DELTA)
    # Scores 1.25, 0, -0.25. Printed m = 3: margins 1.5, 2, 0.5; repaired m = 6: margins 3, 4, 1.
    assert terms(full.printed) == pytest.approx((0.25 + 0.5 + 0.25, 3 * 4 * 1.25 / 2, 3 * (2 + 2.5) * 4 / 2))
    assert terms(full.repaired) == pytest.approx((1.75 + 2.5 + 0.75, 3 * 4 * 1.5 / 2, 3 * (4 + 1.5) * 4 / 2))
    assert corollary_1(THREE, W, delta=DELTA) == full
    assert full.printed.total == pytest.approx(1.0 + 7.5 + 27.0)
    assert 10**full.printed.log10_total == pytest.approx(full.printed.total)
    assert 10**full.repaired.log10_excess == pytest.approx(full.repaired.excess)
    two = corollary_2(THREE, W, delta=DELTA)
    # Relevant are the first two: margins 1, scores 1.25 and 0 against -0.25.
    assert terms(two.printed) == pytest.approx((0.75, 2 * 4 * 1.25 / 2, 2 * (1 + 2.5) * 4 / 2))
    assert terms(two.repaired) == pytest.approx((0.75, 2 * 4 * 1.5 / 2, 2 * (1 + 1.5) * 4 / 2))


def test_shares_of_pairs_have_no_count():
    of_query, of_pair = (corollary_1(THREE, W, delta=DELTA, per=per) for per in ("query", "pair"))
    assert terms(of_pair.printed) == pytest.approx([term / 3 for term in terms(of_query.printed)])
    assert terms(of_pair.repaired) == pytest.approx([term / 3 for term in terms(of_query.repaired)])


def test_ties_of_grades_leave_fewer_pairs_than_a_full_ranking():
    queries = random_queries(6, 0, n_documents=8)
    w = np.array([1.0, 0.0, 0.0])
    largest = max(comb(8, 2) - sum(comb(int(n), 2) for n in np.bincount(q.grades.astype(int))) for q in queries)
    full, several = theorem_3(queries, w, delta=DELTA), corollary_1(queries, w, delta=DELTA)
    assert several.repaired.complexity / full.repaired.complexity == pytest.approx(largest / comb(8, 2))
    D = max(
        np.linalg.norm(q.X[i] - q.X[j]) for q in queries for i, j in combinations(range(8), 2)
        if q.grades[i] != q.grades[j]
    )  # fmt: skip
    assert several.repaired.complexity == pytest.approx(largest * 4 * D / sqrt(6))


def test_listwise_constants_by_hand():
    queries = Queries.from_arrays([[2.0], [0.0]] * 4, [1, 0] * 4, group=[2] * 4)
    for bound in (theorem_4, corollary_3):
        found = bound(queries, np.array([0.1]), delta=DELTA)
        # Two rankings; the wrong one has Δ = ½ and f-bar = 2·0.2.
        hinge = 0.1 if bound is theorem_4 else 2 * 0.1
        assert terms(found.printed) == pytest.approx((hinge, 2 * 4 * 0.2 / 2, 2 * (1 + 0.4) * 4 / 2))
        assert terms(found.repaired) == pytest.approx((hinge, 2 * 8 * 0.2 / 2, 2 * (1 + 0.4) * 4 / 2))


def test_listwise_bounds_say_nothing():
    queries = Queries.from_arrays(np.eye(20), [1] * 5 + [0] * 15, group=[20])
    w = np.full(20, 0.1 / sqrt(20))
    assert Population.of(queries).rankings == comb(20, 5) == 15504
    found = corollary_3(queries, w, delta=DELTA).printed
    assert found.complexity == pytest.approx(15504 * 4 * 0.1)
    assert found.confidence == pytest.approx(15504 * 1.2 * 4)
    assert theorem_4(queries, w, delta=DELTA).printed.complexity == pytest.approx(factorial(20) * 0.4)
    # A million queries, and still a thousand times the largest loss.
    assert found.excess / sqrt(1_000_000) > 70


def test_counts_beyond_floats_have_logarithms():
    queries = Queries.from_arrays(np.eye(400), [1] * 200 + [0] * 200, group=[400])
    w = np.full(400, 0.1 / 20)
    found = theorem_4(queries, w, delta=DELTA)
    assert (
        found.printed.complexity == found.printed.confidence == found.repaired.total == found.printed.empirical == inf
    )
    assert found.printed.log10_excess == pytest.approx(log10(factorial(400)) + log10(0.4 + 1.2 * 4))
    average = corollary_3(queries, w, delta=DELTA).repaired
    assert average.log10_excess == pytest.approx(log10(comb(400, 200)) + log10(0.8 * sqrt(2) + (1 + 0.2 * sqrt(2)) * 4))
    assert average.total == pytest.approx(10**average.log10_total)


def test_a_perfect_ranking_leaves_no_empirical_risk():
    queries = Queries.from_arrays([[1.0], [0.0]] * 4, [1, 0] * 4, group=[8])
    for bound in (corollary_1, corollary_2, corollary_3, theorem_4):
        found = bound(queries, np.array([100.0])).repaired
        assert found.empirical == 0
        assert found.log10_total == pytest.approx(found.log10_excess)


@st.composite
def judged_scores(draw):
    n = draw(st.integers(2, 7))
    grades = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(-20, 20), min_size=n, max_size=n))
    return Queries.from_arrays(np.array(scores)[:, None] / 8, grades, group=[n])


@given(judged_scores())
def test_the_repaired_hinge_dominates(queries):
    w = np.array([1.0])
    wrong = sum(
        bool((queries.X[i] < queries.X[j])[0])
        for i, j in permutations(range(queries.n_documents), 2)
        if queries.grades[i] > queries.grades[j]
    )
    assert zero_one_loss(queries, w).tolist() == [wrong]
    for statement in ("theorem_3", "corollary_1"):
        for per in ("query", "pair"):
            xi = dominating_loss(statement, "repaired", per).prepare(queries)(queries.X[:, 0])[0]
            assert zero_one_loss(queries, w, per) <= xi + 1e-12


def test_the_printed_hinge_does_not_dominate():
    """Riezler and De Bona (2009) §3 say that it clearly does; from three levels on it does not, with two it does."""
    w = np.array([1.0])
    queries = Queries.from_arrays([[10.0], [0.0], [0.1]], [2, 1, 0], group=[3])
    for statement in ("theorem_3", "corollary_1"):
        assert mean_loss(queries, dominating_loss(statement, "printed"), w) == pytest.approx(0.6)
        assert mean_loss(queries, dominating_loss(statement, "repaired"), w) == pytest.approx(1.1)
    assert zero_one_loss(queries, w).tolist() == [1]
    assert dominating_loss("corollary_2", "printed")([1, 0], [0.0, 0.25])[0] == dominating_loss("corollary_2")(
        [1, 0], [0.0, 0.25]
    )[0]  # fmt: skip


def test_corollary_3_needs_rankings_in_order_of_score():
    """One ranking for each pattern of relevance dominates the loss only if its documents are in order of score."""
    grades, scores = np.array([1, 1, 0]), np.array([10.0, -1.0, 0.0])
    every = EveryRanking(parse_measure("ap"), parse_map("po(scale=all)"), grades)
    hinges = np.maximum(every.losses - (every.coefficients[every.ideal] - every.coefficients) @ scores, 0.0)
    patterns = [tuple(grades[list(order)]) for order in permutations(range(3))]
    orders = list(permutations(range(3)))
    loss = ap_loss(Queries.from_arrays(scores[:, None], grades, group=[3]), np.array([1.0]))[0]
    by_score = [max(h for h, p in zip(hinges, patterns, strict=True) if p == one) for one in sorted(set(patterns))]
    fixed = [hinges[orders.index(order)] for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1))]
    assert len(fixed) == len(by_score) == comb(3, 2)
    assert sum(fixed) < loss < sum(by_score)


def test_the_sum_of_all_rankings_dominates_average_precision():
    rng = np.random.default_rng(0)
    for _ in range(30):
        queries = Queries.from_arrays(rng.standard_normal((5, 1)), [1, 0, 1, 0, 0], group=[5])
        w = rng.uniform(-3, 3, 1)
        assert ap_loss(queries, w)[0] <= mean_loss(queries, dominating_loss("theorem_4"), w) + 1e-12
        # As many terms as there are patterns, each at most the largest.
        assert ap_loss(queries, w)[0] <= corollary_3(queries, w).repaired.empirical + 1e-12


def test_ap_loss_and_zero_one_loss_are_what_evaluation_measures():
    queries = random_queries(20, 3, highest=1)
    w = np.array([1.0, 0.3, -0.2])
    found = evaluate(queries, queries.X @ w, ["ap", "auc"])
    assert ap_loss(queries, w) == pytest.approx(1 - found["ap"], nan_ok=True)
    counted = ~np.isnan(found["auc"])
    assert zero_one_loss(queries, w, "pair")[counted] == pytest.approx(1 - found["auc"][counted])


@pytest.mark.parametrize("name", CONSTANTS)
def test_more_queries_and_less_confidence_make_bounds_smaller(name):
    w = np.array([1.0, 0.3, -0.2])
    large = random_queries(40, 1)
    small, shared = large[:10], Population.of(large)
    bounds = [CONSTANTS[name](queries, w, population=shared) for queries in (small, large)]
    for form in ("printed", "repaired"):
        few, many = (getattr(one, form) for one in bounds)
        n = [int(np.sum([np.ptp(q.grades) > 0 for q in queries])) for queries in (small, large)]
        if name in ("theorem 3", "corollary 1"):
            assert few.excess / many.excess == pytest.approx(sqrt(n[1] / n[0]))
        assert many.excess < few.excess
        sure, unsure = (getattr(CONSTANTS[name](small, w, delta=delta), form) for delta in (0.01, 0.1))
        assert sure.confidence / unsure.confidence == pytest.approx(sqrt(log(200) / log(20)))
        assert sure.complexity == unsure.complexity
        assert getattr(CONSTANTS[name](small, w, B=5.0), form).complexity == pytest.approx(
            unsure.complexity * 5 / np.linalg.norm(w)
        )


MAPS = ["po", "po(scale=all)", "dorm", "dorm(shape=log)", "dorm(shape=linear)", "mrr"]


@pytest.mark.parametrize("feature_map", MAPS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_no_ranking_is_farther_than_the_lipschitz_constant(feature_map, seed):
    rng = np.random.default_rng(seed)
    measure = parse_measure("rr" if feature_map == "mrr" else rng.choice(["ap", "ndcg@2", "auc", "ndcg"]))
    n = int(rng.integers(2, 6))
    X, grades = rng.standard_normal((n, 2)), rng.integers(0, 3, n)
    G = lipschitz_constants(StructuredLoss(measure, feature_map), Queries.from_arrays(X, grades, group=[n]))[0]
    every = EveryRanking(measure, parse_map(feature_map), grades)
    if every.one_level:
        assert G == 0
        return
    farthest = np.linalg.norm((every.coefficients - every.coefficients[every.ideal]) @ X, axis=1).max()
    assert farthest <= G + 1e-7
    if feature_map == "po":
        assert max(np.linalg.norm(a - b) for a in X for b in X) >= G / 2 - 1e-7


@pytest.mark.parametrize("feature_map", MAPS)
def test_lipschitz_constants_are_reached(feature_map):
    """On a line with the better documents first, the reversed ranking is as far as the constant says."""
    measure = "rr" if feature_map == "mrr" else "ap"
    # φdorm's constant takes every document to be as far from the others as the two farthest.
    X, grades = (np.array([[1.0], [1.0], [0.0], [0.0]]), [1, 1, 0, 0])
    G = lipschitz_constants(StructuredLoss(measure, feature_map), Queries.from_arrays(X, grades, group=[4]))[0]
    every = EveryRanking(parse_measure(measure), parse_map(feature_map), grades)
    assert np.abs((every.coefficients - every.coefficients[every.ideal]) @ X).max() == pytest.approx(G)


LOSSES = [
    StructuredLoss("ap"),
    StructuredLoss("ndcg@3"),
    StructuredLoss("ndcg@3", "dorm"),
    StructuredLoss("rr@2", "mrr"),
    *(SmoothedHinge(m, f, t) for m, f in (("ap", "po"), ("ndcg@3", "dorm")) for t in (0.01, 1.0)),
    PairwiseHinge(),
    PairwiseHinge(normalize="none", rank_weights={(2, 1): 0.5, (2, 0): 2, (1, 0): 1}),
    PairwiseHinge(normalize="largest"),
    PositionHinge(),
    PositionHinge(m="bound", normalize="pairs"),
    SumLoss([StructuredLoss("ap"), PairwiseHinge()], [0.5, 2.0]),
    MaxLoss([StructuredLoss("ap"), StructuredLoss("auc")]),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_slope_is_steeper_than_the_lipschitz_constant(loss):
    queries = random_queries(12, 5, n_documents=7, highest=1 if isinstance(loss, SmoothedHinge) else 2)
    bound, G = loss.prepare(queries), lipschitz_constants(loss, queries)
    assert G.max() > 0
    rng = np.random.default_rng(0)
    steepest = np.zeros(len(queries))
    for _ in range(20):
        slopes = bound(queries.X @ rng.uniform(-3, 3, 3))[1][:, None] * queries.X
        steepest = np.maximum(steepest, np.linalg.norm(np.add.reduceat(slopes, queries.offsets[:-1]), axis=1))
    assert np.all(steepest <= G + 1e-9)
    assert steepest.max() > 0.2 * G.max()


def minimize(queries, loss, C, tol=1e-10):
    return Bundle(tol=tol).minimize(empirical_risk(queries, loss, n_jobs=1), C)


def test_two_opposite_queries_are_as_unstable_as_can_be():
    one, other = (Queries.from_arrays([[x], [0.0]], [1, 0], group=[2]) for x in (0.5, -0.5))
    loss, C = StructuredLoss("auc"), 0.25
    w, v = (minimize(queries, loss, C).theta for queries in (one, other))
    found = stability_bound(one, loss, w, C)
    assert np.linalg.norm(w - v) == pytest.approx(2 * C * found.lipschitz)
    assert mean_loss(other, loss, w) - mean_loss(other, loss, v) == pytest.approx(2 * found.beta)
    assert np.linalg.norm(w) == pytest.approx(norm_bound(C, 1.0, found.lipschitz))


@pytest.mark.parametrize(
    "loss", [StructuredLoss("ap"), SmoothedHinge("ap", temperature=0.2), PositionHinge(normalize="pairs")], ids=str
)
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_another_query_moves_the_minimizer_no_farther_than_stability_says(loss, C):
    queries, others = random_queries(9, 0), random_queries(5, 99)
    w = minimize(queries[:8], loss, C).theta
    everything = [*queries, *others]
    G = max(float(lipschitz_constants(loss, one)[0]) for one in everything)
    for other in others:
        replaced = Queries.concatenate([queries[:7], Queries.from_arrays(other.X, other.grades, qid=[77] * 5)])
        v = minimize(replaced, loss, C).theta
        assert np.linalg.norm(w - v) <= 2 * C * G / 8 + 1e-6
        assert np.linalg.norm(v) <= norm_bound(C, 2.0, G) + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "highest"), [(StructuredLoss("ap"), 2), (SmoothedHinge("ap", temperature=0.1), 1)], ids=["max", "soft"]
)
def test_stability_and_argmax_bounds_hold_for_a_known_distribution(loss, highest):
    """Queries are drawn with replacement from sixty, so the risk is known: it is the mean over the sixty."""
    population = random_queries(60, 7, highest=highest)
    population = population[np.array([np.ptp(query.grades) > 0 for query in population])]
    rng = np.random.default_rng(0)
    n, trials, delta = 12, 60, 0.2
    at_zero = 1.0 + (0.1 * log(10) if isinstance(loss, SmoothedHinge) else 0.0)  # at most C(5, 2) rankings
    G = float(lipschitz_constants(loss, population).max())
    for C in (0.5, 5.0):
        B = norm_bound(C, at_zero, G)
        gaps, stable, uniform = [], [], []
        for _ in range(trials):
            drawn = [population[int(at)] for at in rng.integers(0, len(population), n)]
            sample = Queries.from_arrays(
                np.concatenate([q.X for q in drawn]), np.concatenate([q.grades for q in drawn]), group=[5] * n
            )
            solution = minimize(sample, loss, C, tol=1e-3)
            stable.append(
                stability_bound(
                    sample, loss, solution.theta, C, gap=solution.gap, delta=delta, lipschitz=G, at_zero=at_zero
                )
            )
            uniform.append(argmax_bound(sample, loss, solution.theta, B=B, delta=delta, at_zero=at_zero))
            gaps.append(mean_loss(population, loss, solution.theta) - stable[-1].empirical)
        standard_error = np.std(gaps) / sqrt(trials)
        assert np.mean(gaps) > 2 * standard_error, "training on a sample makes its risk too small"
        assert np.mean(gaps) <= stable[0].complexity + 2 * standard_error
        assert np.mean(np.array(gaps) > [one.excess for one in stable]) <= delta
        assert np.mean(np.array(gaps) > [one.excess for one in uniform]) <= delta


def test_bounds_of_the_soft_maximum_by_hand():
    """Pairs half a unit apart at w = ¼: the better document is ahead by ⅛, and a(y)·s is ±⅛."""
    queries = Queries.from_arrays([[0.5], [0.0]] * 2, [1, 0] * 2, group=[2, 2])
    loss, w, delta = SmoothedHinge("auc", temperature=0.5), np.array([0.25]), e**-4
    empirical = 0.5 * log(1 + e ** ((1 - 2 / 8) / 0.5))  # the ranking y* has 0, the other 1 − 2/8
    at_zero = 0.5 * log(1 + e**2)
    uniform = argmax_bound(queries, loss, w, delta=delta)
    # K = 2·½; 2√2·¼·1/√2; (at_zero + ¼·1)·√(4/(2·2))
    assert terms(uniform) == pytest.approx((empirical, 0.5, at_zero + 0.25))
    stable = stability_bound(queries, loss, w, 0.25, delta=delta)
    assert (stable.lipschitz, stable.beta) == pytest.approx((1.0, 0.125))
    assert stable.largest == pytest.approx(at_zero + min(sqrt(2 * 0.25 * at_zero), 0.25))
    assert terms(stable) == pytest.approx((empirical, 0.25, 1.0 + stable.largest))
    assert softmax_gap(loss, queries) == pytest.approx([0.5 * log(2)] * 2)
    # Documents half a unit of score apart: both rankings are at ½, and the gap is reached.
    soft, hard = (one.prepare(queries)(np.array([0.5, 0.0] * 2))[0][0] for one in (loss, StructuredLoss("auc")))
    assert soft - hard == pytest.approx(0.5 * log(2))


@pytest.mark.parametrize("temperature", [0.01, 0.3, 5.0])
@pytest.mark.parametrize("feature_map", ["po", "dorm"])
@pytest.mark.parametrize("measure", ["ap", "ndcg@2", "auc"])
def test_the_soft_maximum_is_between_the_hinge_and_its_gap(measure, feature_map, temperature):
    queries = random_queries(20, 3, n_documents=7, highest=1)
    soft, hard = SmoothedHinge(measure, feature_map, temperature), StructuredLoss(measure, feature_map)
    gaps = softmax_gap(soft, queries)
    counts = [comb(7, int(query.grades.sum())) for query in queries]
    assert gaps == pytest.approx([temperature * log(count) for count in counts])
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 3.0):
        scores = scale * rng.standard_normal(queries.n_documents)
        more = soft.prepare(queries)(scores)[0] - hard.prepare(queries)(scores)[0]
        assert (more >= -1e-9).all()
        assert (more <= gaps + 1e-9).all()


def test_the_argmax_bound_is_within_the_constant_of_a_class_that_is_known():
    """Queries of one pair, each along a feature of its own: the largest mean of ±ξ is B·2‖d‖/√n, whatever the signs."""
    n, B, length = 9, 0.1, 0.5
    X = np.zeros((2 * n, n))
    X[::2] = length * np.eye(n)
    queries = Queries.from_arrays(X, [1, 0] * n, group=[2] * n)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], n)
    worst = -B * signs / sqrt(n)
    # While all hinges are open ξ is linear, so w along the signs is the best there is.
    xi = StructuredLoss("auc").prepare(queries)(X @ worst)[0]
    rademacher = float(np.mean(signs * (xi - 1.0)))
    assert rademacher == pytest.approx(B * 2 * length / sqrt(n))
    assert argmax_bound(queries, StructuredLoss("auc"), worst).complexity == pytest.approx(2 * sqrt(2) * rademacher)
    assert argmax_bound(queries, PairwiseHinge(), worst).complexity == pytest.approx(sqrt(2) * rademacher)


def test_a_rough_solution_costs_what_its_gap_says():
    queries, loss, C = random_queries(10, 2), StructuredLoss("ap"), 5.0
    exact, rough = (minimize(queries, loss, C, tol=tol) for tol in (1e-10, 0.3))
    near, far = (stability_bound(queries, loss, one.theta, C, gap=one.gap) for one in (exact, rough))
    assert rough.gap > 0.01
    assert np.linalg.norm(exact.theta - rough.theta) <= sqrt(2 * rough.gap) + 1e-5
    assert far.approximation == pytest.approx(2 * far.lipschitz * sqrt(2 * rough.gap))
    assert far.excess - near.excess == pytest.approx(far.approximation - near.approximation)


def test_longer_lists_change_stability_and_shares_by_nothing():
    queries, w = random_queries(8, 4), np.array([1.0, 0.3, -0.2])
    longer, loss = repeated(queries, 3), StructuredLoss("auc")
    assert stability_bound(longer, loss, w, 1.0).excess == pytest.approx(stability_bound(queries, loss, w, 1.0).excess)
    assert argmax_bound(longer, loss, w).excess == pytest.approx(argmax_bound(queries, loss, w).excess)
    for bound in (corollary_1, corollary_2):
        assert bound(longer, w, per="pair").repaired.total == pytest.approx(
            bound(queries, w, per="pair").repaired.total
        )
        assert bound(longer, w).repaired.total == pytest.approx(9 * bound(queries, w).repaired.total)
    assert corollary_3(longer, w).repaired.log10_excess > corollary_3(queries, w).repaired.log10_excess + 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda q, w: corollary_1(q, w, delta=1.5), ValueError, "delta is 1.5"),
        (lambda q, w: corollary_1(q, w, B=0.1), ValueError, "give a larger"),
        (lambda q, w: corollary_1(q, w, per="document"), ValueError, "'query', or for pairwise losses 'pair'"),
        (lambda q, w: corollary_1(q, w[:2]), DataError, "one weight per feature"),
        (lambda q, w: theorem_4(q, w, measure="dcg"), ValueError, "the bound is for at most 1"),
        (lambda q, w: stability_bound(q, StructuredLoss("ap", "po", "tight"), w, 1.0), ValueError, "bound='hinge'"),
        (lambda q, w: stability_bound(q, StructuredLoss("ap"), w, 1.0, gap=-1), ValueError, "gap is -1"),
        (lambda q, w: stability_bound(q, PairwiseHinge(power=2), w, 1.0), ValueError, "power=1"),
        (lambda q, w: stability_bound(q, StructuredLoss("ap"), w, 0.0), ValueError, "C is above 0"),
        (lambda q, _: lipschitz_constants(StructuredLoss("ap", "po", "tight"), q), ValueError, "not convex"),
        (lambda q, _: lipschitz_constants(SlackLoss("rr"), q), TypeError, "use a StructuredLoss"),
        (lambda q, w: argmax_bound(q, StructuredLoss("ap", "dorm"), w), ValueError, "feature map po"),
        (lambda q, w: argmax_bound(q, PairwiseHinge(normalize="none"), w), ValueError, "normalize='pairs'"),
        (lambda q, w: argmax_bound(q, SlackLoss("rr"), w), TypeError, "not a function of pairs"),
        (lambda q, w: argmax_bound(q, SmoothedHinge("ap", "dorm"), w), ValueError, "feature map po"),
        (lambda *_: dominating_loss("theorem_5"), ValueError, "corollary_1, corollary_2"),
        (lambda q, _: Population.of(q[np.zeros(len(q), dtype=bool)]), DataError, "nothing to bound"),
        (lambda q, w: corollary_2(q, w, population=Population.of(q, rel=9)), DataError, "every query has a single"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random_queries(6, 0), np.array([1.0, 0.3, -0.2]))


def test_query_weights_are_refused():
    queries = Queries.from_arrays([[1.0], [0.0]], [1, 0], group=[2], query_weights=[2.0])
    with pytest.raises(DataError, match="leave out query_weights"):
        corollary_1(queries, np.array([1.0]))
    with pytest.raises(DataError, match="leave out query_weights"):
        stability_bound(queries, StructuredLoss("ap"), np.array([1.0]), 1.0)


def test_distances_survive_an_offset():
    X = np.array([[1e9], [1e9 + 1.0], [1e9 + 10.0]])
    assert distances(X)[0].tolist() == [0.0, 1.0, 10.0]
