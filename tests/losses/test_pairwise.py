"""Pairwise and listwise hinges against sums over all pairs and all rankings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank.errors import DataError
from marginrank.losses.feature_maps import parse_map
from marginrank.losses.pairwise import ListHinge, PairwiseHinge, PositionHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import parse_measure
from tests.losses.exhaustive import coefficients, delta, worth

GRADES = [0, 0.5, 1, 2, 3]
WEIGHTS = {(a, b): (a - b) ** 2 for a in GRADES for b in GRADES if a > b}
PAIRWISE = [
    PairwiseHinge(),
    PairwiseHinge(power=2),
    PairwiseHinge(normalize="none", margin=0.25),
    PairwiseHinge(power=2, normalize="none", margin=2.0),
    PairwiseHinge(normalize="none", rank_weights=WEIGHTS),
    PairwiseHinge(power=2, rank_weights=WEIGHTS),
]
POSITION = [PositionHinge(), PositionHinge("documents", "pairs"), PositionHinge("bound")]
LIST = [ListHinge("ap(rel=0.5)"), ListHinge("ndcg@2"), ListHinge("auc(rel=0.5)", "pairs")]
EVERY = [*PAIRWISE, *POSITION, *LIST]
every_loss = pytest.mark.parametrize("loss", EVERY, ids=str)

# Quarters make pairs that are tied, and pairs that stand exactly at a margin.
score_choices = st.one_of(st.integers(-8, 8).map(lambda k: k / 4), st.floats(-3, 3, allow_subnormal=False, width=32))


@st.composite
def queries(draw, most=7, least=1, grades=tuple(GRADES)):
    n = draw(st.integers(least, most))
    return (
        np.array(draw(st.lists(st.sampled_from(grades), min_size=n, max_size=n)), dtype=float),
        np.array(draw(st.lists(score_choices, min_size=n, max_size=n)), dtype=float),
    )


@st.composite
def queries_and_moves(draw, most=6):
    grades, scores = draw(queries(most))
    return grades, scores, np.array(draw(st.lists(score_choices, min_size=len(grades), max_size=len(grades))))


def ordered_pairs(grades):
    return [(i, j) for i in range(len(grades)) for j in range(len(grades)) if grades[i] > grades[j]]


def over_pairs(loss, grades, scores):
    """Slack and derivative, pair by pair."""
    pairs = ordered_pairs(grades)
    xi, gradient = 0.0, np.zeros(len(grades))
    for i, j in pairs:
        weight = 1 if loss.rank_weights is None else loss.rank_weights[grades[i], grades[j]]
        gap = max(0.0, loss.margin - (scores[i] - scores[j]))
        xi += weight * gap**loss.power
        slope = weight * (2 * gap if loss.power == 2 else float(gap > 0))
        gradient[i] -= slope
        gradient[j] += slope
    scale = 1 / max(len(pairs), 1) if loss.normalize == "pairs" else 1.0
    return scale * xi, scale * gradient


def position_over_pairs(loss, grades, scores):
    labels = [1 + len({other for other in grades if other > grade}) for grade in grades]
    r = max(labels)
    m = {"levels": r, "documents": len(grades), "bound": r * (r - 1)}[loss.m]
    pairs = ordered_pairs(grades)
    total = sum(max(0.0, abs(m / labels[i] - m / labels[j]) - (scores[i] - scores[j])) for i, j in pairs)
    return total / max(len(pairs), 1) if loss.normalize == "pairs" else total


def over_rankings(loss, grades, scores):
    measure, feature_map = parse_measure(loss.measure), parse_map(f"po(scale={loss.scale})")
    levels = worth(measure, grades)
    if len(set(levels.tolist())) < 2:
        return 0.0
    ideal = sorted(range(len(grades)), key=lambda d: -levels[d])
    best = coefficients(feature_map, measure, levels, ideal)
    return sum(
        max(0.0, delta(measure, grades, y) - (best - coefficients(feature_map, measure, levels, y)) @ scores)
        for y in permutations(range(len(grades)))
    )


def many_queries(rng, n_queries=200, longest=40, grid=False):
    offsets = np.append(0, np.cumsum(rng.integers(0, longest, n_queries)))
    grades = rng.choice(GRADES, offsets[-1])
    scores = rng.normal(size=offsets[-1])
    return grades, np.round(4 * scores) / 4 if grid else scores, offsets


# Parameters of a property test would all draw the same examples, so these go through the losses themselves.


@given(query=queries(most=12))
def test_pairwise_hinge_is_the_sum_over_pairs(query):
    for loss in PAIRWISE:
        xi, gradient = loss(*query)
        expected, slopes = over_pairs(loss, *query)
        assert xi[0] == pytest.approx(expected, rel=1e-12, abs=0), loss
        np.testing.assert_allclose(gradient, slopes, rtol=1e-12, atol=1e-13, err_msg=str(loss))


@given(query=queries(most=30, grades=tuple(range(30))))
def test_pairwise_hinge_with_many_grades(query):
    for power in (1, 2):
        loss = PairwiseHinge(power=power, normalize="none")
        xi, gradient = loss(*query)
        expected, slopes = over_pairs(loss, *query)
        assert xi[0] == pytest.approx(expected, rel=1e-12, abs=0), loss
        np.testing.assert_allclose(gradient, slopes, rtol=1e-12, atol=1e-12, err_msg=str(loss))


@given(query=queries(most=10))
def test_position_hinge_is_its_definition(query):
    for loss in POSITION:
        assert loss(*query)[0][0] == pytest.approx(position_over_pairs(loss, *query), rel=1e-12, abs=1e-13), loss


@given(query=queries(most=4))
def test_list_hinge_is_the_sum_over_rankings(query):
    for loss in LIST:
        assert loss(*query)[0][0] == pytest.approx(over_rankings(loss, *query), rel=1e-10, abs=1e-12), loss


@given(case=queries_and_moves())
def test_subgradient_inequality(case):
    grades, here, there = case
    for loss in EVERY:
        (xi,), gradient = loss(grades, here)
        (other,), _ = loss(grades, there)
        assert other >= xi + gradient @ (there - here) - 1e-9 * max(1.0, xi), loss


@given(query=queries(), shift=st.sampled_from([-2.5, 0.125, 4.0]))
def test_shifts_change_nothing_and_derivatives_sum_to_zero(query, shift):
    grades, scores = query
    for loss in EVERY:
        xi, gradient = loss(grades, scores)
        assert loss(grades, scores + shift)[0] == pytest.approx(xi, rel=1e-9, abs=1e-6), loss
        assert gradient.sum() == pytest.approx(0.0, abs=1e-12 * max(1.0, np.abs(gradient).sum())), loss


@every_loss
def test_derivative_is_the_difference_quotient(loss):
    rng = np.random.default_rng(5)
    step = 1e-6
    for _ in range(20):
        grades, scores = rng.choice(GRADES, 6), rng.normal(size=6)
        _, gradient = loss(grades, scores)
        around = np.vstack([scores + step * np.eye(6), scores - step * np.eye(6)])
        xi, _ = loss(np.tile(grades, 12), around.ravel(), np.arange(0, 73, 6))
        quotients = (xi[:6] - xi[6:]) / (2 * step)
        np.testing.assert_allclose(gradient, quotients, rtol=1e-5, atol=1e-7 * max(1.0, np.abs(gradient).max()))


def test_a_pair_at_its_margin_has_no_loss_and_no_slope():
    xi, gradient = PairwiseHinge()([1, 0], [1.25, 0.25])
    assert (xi[0], gradient.tolist()) == (0.0, [0.0, 0.0])
    xi, gradient = PairwiseHinge()([1, 0], [np.nextafter(1.25, 0), 0.25])
    assert xi[0] == 2.0**-52
    assert gradient.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("power", [1, 2])
def test_large_scores_do_not_cancel(power):
    rng = np.random.default_rng(3)
    grades, scores = rng.integers(0, 4, 300).astype(float), rng.integers(-40, 40, 300) / 4
    near, far = PairwiseHinge(power=power)(grades, scores), PairwiseHinge(power=power)(grades, scores + 2.0**40)
    assert near[0] == far[0]
    np.testing.assert_array_equal(near[1], far[1])


def test_tiny_violations_keep_both_ends_of_a_pair():
    _, gradient = PairwiseHinge(power=2, margin=1e-200)([1, 0], [0.0, 0.0])
    assert gradient.tolist() == [-2e-200, 2e-200]


@every_loss
@pytest.mark.parametrize("grades", [[], [2], [1, 1, 1]], ids=str)
def test_queries_without_an_order_are_zero_and_not_active(loss, grades):
    offsets = np.array([0, len(grades)])
    bound = loss.prepare(np.array(grades, dtype=float), offsets)
    xi, gradient = bound(np.arange(len(grades), dtype=float))
    assert (bound.active.tolist(), xi.tolist(), gradient.tolist()) == ([False], [0.0], [0.0] * len(grades))


@given(query=queries(most=6), seed=st.integers(0, 100))
def test_order_of_documents_does_not_matter(query, seed):
    grades, scores = query
    shuffled = np.random.default_rng(seed).permutation(len(grades))
    for loss in EVERY:
        xi, gradient = loss(grades, scores)
        other, other_gradient = loss(grades[shuffled], scores[shuffled])
        assert other == pytest.approx(xi, rel=1e-9, abs=1e-12), loss
        if not isinstance(loss, ListHinge):
            np.testing.assert_allclose(other_gradient, gradient[shuffled], rtol=1e-12, atol=1e-12, err_msg=str(loss))


@every_loss
@pytest.mark.parametrize("grid", [False, True])
def test_batches_and_threads_change_no_bit(loss, grid):
    rng = np.random.default_rng(11)
    grades, scores, offsets = many_queries(rng, 80, longest=6 if isinstance(loss, ListHinge) else 40, grid=grid)
    bound = loss.prepare(grades, offsets)
    xi, gradient = bound(scores, n_jobs=1)
    for repeated in (bound(scores, n_jobs=4), loss.prepare(grades, offsets)(scores, n_jobs=3)):
        np.testing.assert_array_equal(repeated[0], xi)
        np.testing.assert_array_equal(repeated[1], gradient)
    for query in range(len(offsets) - 1):
        own = slice(offsets[query], offsets[query + 1])
        alone, alone_gradient = loss(grades[own], scores[own])
        assert alone[0] == xi[query]
        np.testing.assert_array_equal(alone_gradient, gradient[own])
        assert bound.active[query] or xi[query] == 0.0
    assert xi[bound.active].mean() > 0


@every_loss
def test_earlier_evaluations_leave_no_trace(loss):
    rng = np.random.default_rng(12)
    grades, scores, offsets = many_queries(rng, longest=6 if isinstance(loss, ListHinge) else 300)
    bound = loss.prepare(grades, offsets)
    for wander in (scores, -scores, scores + 0.01 * rng.normal(size=len(scores))):
        bound(wander)
    xi, gradient = bound(scores)
    fresh, fresh_gradient = loss.prepare(grades, offsets)(scores)
    np.testing.assert_array_equal(xi, fresh)
    np.testing.assert_array_equal(gradient, fresh_gradient)


def test_long_lists_agree_with_a_search_per_grade_pair():
    rng = np.random.default_rng(13)
    grades, scores = rng.integers(0, 3, 5_000).astype(float), rng.normal(size=5_000)
    total = 0.0
    for better, worse in [(2, 1), (2, 0), (1, 0)]:
        low = np.sort(scores[grades == worse])
        above = np.append(np.cumsum(low[::-1])[::-1], 0.0)
        first = np.searchsorted(low, scores[grades == better] - 1.0, side="right")
        counts = len(low) - first
        total += (counts * (1.0 - scores[grades == better]) + above[first]).sum()
    xi, gradient = PairwiseHinge(normalize="none")(grades, scores)
    assert xi[0] == pytest.approx(total, rel=1e-10)
    assert -gradient[grades == 2].sum() == sum(
        (scores[grades == 2][:, None] - scores[grades == worse] < 1.0).sum() for worse in (0, 1)
    )


@given(query=queries(most=8, grades=(0, 1)))
def test_two_grades_are_the_structured_hinge_of_auc_at_twice_the_scores(query):
    grades, scores = query
    pairs = max(len(ordered_pairs(grades)), 1)
    xi, gradient = PairwiseHinge(normalize="none")(grades, 2 * scores)
    structured, slopes = StructuredLoss("auc", "po")(grades, scores)
    assert structured == pytest.approx(xi / pairs, abs=1e-12)
    np.testing.assert_allclose(slopes, 2 * gradient / pairs, atol=1e-12)


def wrong_pairs(grades, scores):
    return sum(scores[i] < scores[j] for i, j in ordered_pairs(grades))


def test_the_papers_bound_on_wrong_pairs_fails_for_three_levels():
    grades, scores = [3, 2, 1], [10, 0, 0.1]  # y = 1, 2, 3
    assert wrong_pairs(grades, scores) == 1
    assert PositionHinge()(grades, scores)[0][0] == pytest.approx(0.6)
    assert PositionHinge("bound")(grades, scores)[0][0] == pytest.approx(1.1)


@given(query=queries(most=8, grades=(0, 1)))
def test_the_papers_bound_on_wrong_pairs_holds_for_two_levels(query):
    assert wrong_pairs(*query) <= PositionHinge()(*query)[0][0] + 1e-12


@given(query=queries(most=8))
def test_the_repaired_bound_on_wrong_pairs_holds(query):
    assert wrong_pairs(*query) <= PositionHinge("bound")(*query)[0][0] + 1e-9


@pytest.mark.parametrize("power", [1, 2])
def test_query_weights_of_cao(power):
    grades = np.array([1, 0, 0, 0, 2, 1, 0, 1, 1], dtype=float)
    offsets = np.array([0, 4, 7, 9])
    scores = np.random.default_rng(2).normal(size=9)
    sums, slopes = PairwiseHinge(power=power, normalize="none")(grades, scores, offsets)
    xi, gradient = PairwiseHinge(power=power, normalize="largest")(grades, scores, offsets)
    np.testing.assert_array_equal(xi, sums * [1, 1, 0])  # three pairs each, and none

    grades[5] = 0
    sums, slopes = PairwiseHinge(power=power, normalize="none")(grades, scores, offsets)
    xi, gradient = PairwiseHinge(power=power, normalize="largest")(grades, scores, offsets)
    np.testing.assert_allclose(xi, sums * [1, 3 / 2, 1], rtol=1e-15)
    np.testing.assert_allclose(gradient, slopes * np.repeat([1, 3 / 2, 1], [4, 3, 2]), rtol=1e-15)


@given(query=queries(most=10))
def test_equal_rank_weights_are_a_factor(query):
    doubled = PairwiseHinge(power=2, rank_weights=dict.fromkeys(WEIGHTS, 2.0))(*query)
    plain = PairwiseHinge(power=2)(*query)
    np.testing.assert_allclose(doubled[0], 2 * plain[0], rtol=1e-12)
    np.testing.assert_allclose(doubled[1], 2 * plain[1], rtol=1e-12, atol=1e-12)


def test_weights_are_asked_for_only_where_grades_meet():
    loss = PairwiseHinge(rank_weights={(2, 1): 1, (1, 0): 1})
    xi, _ = loss([2, 1, 1, 0, 7], [0, 0, 0, 0, 0], [0, 2, 4, 5])
    assert xi.tolist() == [1, 1, 0]
    with pytest.raises(DataError, match=r"no weight for \(2, 0\), grades that meet in a query; add it"):
        loss([2, 0], [0, 0])
    with pytest.raises(DataError, match="no weight for grade 7; give one for each pair"):
        loss([7, 0], [0, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PairwiseHinge(power=3), "choose 1"),
        (lambda: PairwiseHinge(normalize="mean"), "choose 'pairs', 'none' or 'largest'"),
        (lambda: PairwiseHinge(margin=0.0), "margin is 0.0; give a number above 0"),
        (lambda: PairwiseHinge(margin=float("nan")), "margin is nan"),
        (lambda: PairwiseHinge(rank_weights={(0, 1): 1}), "higher grade first"),
        (lambda: PairwiseHinge(rank_weights={(1, 0): -1}), "of at least 0"),
        (lambda: PositionHinge(m="r"), "choose 'levels', 'documents' or 'bound'"),
        (lambda: PositionHinge(normalize="mean"), "choose 'pairs', 'none' or 'largest'"),
        (lambda: ListHinge("unknown"), "unknown measure"),
        (lambda: ListHinge(scale="none"), "choose 'pairs' or 'all'"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_long_lists_are_refused_by_the_list_hinge():
    with pytest.raises(DataError, match="query 1 has 8 documents; a sum over all rankings is for lists of at most 7"):
        ListHinge()(np.zeros(9), np.zeros(9), [0, 1, 9])
    assert ListHinge()([1, 0, 0, 0, 0, 0, 0], np.zeros(7))[0][0] > 0


@pytest.mark.parametrize("loss", [PairwiseHinge(), PairwiseHinge(power=2), PositionHinge()], ids=str)
@pytest.mark.parametrize("n_levels", [2, 5])
def test_short_and_long_lists_agree(loss, n_levels, monkeypatch):
    rng = np.random.default_rng(3)
    grades, scores = rng.integers(0, n_levels, 90).astype(float), np.round(16.0 * rng.standard_normal(90)) / 8.0
    direction, offsets, found = rng.standard_normal(90), np.array([0, 1, 30, 90]), []
    for pairs in (0, 1000):
        monkeypatch.setattr("marginrank.losses.pair_hinges.PAIRS_PER_DOCUMENT", pairs)
        bound, product = loss.prepare(grades, offsets), np.zeros(90)
        if loss.smooth:
            bound.curve(scores, direction, product, 0, 3)
        found.append([*bound(scores), product])
    for swept, one_by_one in zip(*found, strict=True):
        np.testing.assert_allclose(one_by_one, swept, rtol=1e-12, atol=1e-12)


def test_large_numbers_that_all_scores_share_change_nothing():
    grades, scores = np.array([1.0, 0.0, 0.0]), np.array([0.25, 0.5, -1.0])
    for loss in (PairwiseHinge(), PairwiseHinge(power=2), StructuredLoss("auc")):
        (xi,), gradient = loss(grades, scores)
        (shifted,), shifted_gradient = loss(grades, scores + 2.0**40)
        assert shifted == xi
        assert shifted_gradient.tolist() == gradient.tolist()
