"""Laws that hold for every registered measure, and each against its definition."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict
from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank import Queries, evaluate, parse_measure
from marginrank.measures import RankedGrades, all_measures
from marginrank.measures.ap import AP
from tests.measures.reference import REFERENCE, SPELLINGS

MEASURES = [parse_measure(spelling) for spelling in SPELLINGS]
every_measure = pytest.mark.parametrize("measure", MEASURES, ids=str)
grade_lists = st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=1, max_size=30)


@given(
    lists=st.lists(st.lists(st.integers(0, 3), max_size=9).map(lambda one: sorted(one, reverse=True)), min_size=1),
    depth=st.sampled_from([None, 1, 3]),
)
def test_the_ideal_of_pools_that_descend_is_their_beginning(lists, depth):
    pool, offsets = np.array([grade for one in lists for grade in one], dtype=float), np.cumsum([0, *map(len, lists)])
    grades, ends = RankedGrades(pool, offsets, pool, offsets, pool_descends=True).ideal(depth)
    assert [grades[a:b].tolist() for a, b in pairwise(ends)] == [one[:depth] for one in lists]
    sought, sought_ends = RankedGrades(pool, offsets, pool, offsets).ideal(depth)
    assert (sought.tolist(), sought_ends.tolist()) == (grades.tolist(), ends.tolist())


def reference(measure, grades):
    return REFERENCE[measure.name](grades, **asdict(measure))


def batch(lists):
    flat, offsets = np.concatenate(lists).astype(float), np.cumsum([0, *map(len, lists)])
    return RankedGrades(flat, offsets, flat, offsets)


@cache
def small_grade_patterns():
    return [grades for n in range(1, 6) for grades in product([0, 1, 2], repeat=n) if list(grades) == sorted(grades)]


def test_spellings_cover_the_registry():
    assert {measure.name for measure in MEASURES} == set(all_measures())


# Parameters of a property test would all draw the same examples, so these go through the measures themselves.


@given(grades=grade_lists)
def test_value_is_the_definition(grades):
    for measure in MEASURES:
        assert measure.value(grades) == pytest.approx(reference(measure, grades), abs=1e-13), measure


@cache
def small_rankings():
    """All rankings of each pattern in one batch, and how many they are."""
    orders = [list(set(permutations(grades))) for grades in small_grade_patterns()]
    return batch([order for own in orders for order in own]), list(map(len, orders))


@every_measure
def test_ideal_is_the_best_of_all_rankings(measure):
    rankings, counts = small_rankings()
    values = np.split(measure.values(rankings), np.cumsum(counts)[:-1])
    for grades, own in zip(small_grade_patterns(), values, strict=True):
        assert measure.ideal(grades) == pytest.approx(own.max(), abs=1e-14)
        assert measure.delta(sorted(grades, reverse=True)) == 0


@every_measure
def test_a_query_is_defined_when_some_ranking_earns_something(measure):
    for grades in small_grade_patterns():
        earns = any(reference(measure, order) > 0 for order in set(permutations(grades)))
        assert measure.defined(RankedGrades.of_list(grades))[0] == earns


@given(lists=st.lists(grade_lists, min_size=1, max_size=6))
def test_a_batch_is_its_queries_one_by_one(lists):
    for measure in MEASURES:
        together = measure.values(batch(lists))
        alone = [measure.value(grades) for grades in lists]
        assert together.tolist() == pytest.approx(alone, abs=1e-14), measure


@given(grades=st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=5), data=st.data())
def test_ties_count_their_average_over_all_orders(grades, data):
    scores = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(grades), max_size=len(grades)))
    orders = [
        [grades[d] for d in order]
        for order in permutations(range(len(grades)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    queries = Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=[len(grades)])
    found = evaluate(queries, scores, MEASURES)
    for measure in MEASURES:
        mean_value = found[str(measure)][0]
        expected = np.mean([reference(measure, order) for order in orders])
        if measure.defined(RankedGrades.of_list(grades))[0]:
            assert mean_value == pytest.approx(expected, abs=1e-12), measure
        else:
            assert np.isnan(mean_value), measure


@given(grades=grade_lists, data=st.data())
def test_moving_a_better_document_up_never_hurts(grades, data):
    if len(grades) < 2:
        return
    r = data.draw(st.integers(0, len(grades) - 2))
    if grades[r] < grades[r + 1]:
        swapped = [*grades[:r], grades[r + 1], grades[r], *grades[r + 2 :]]
        for measure in MEASURES:
            assert measure.value(swapped) >= measure.value(grades) - 1e-14, measure


@given(grades=grade_lists)
def test_a_cutoff_beyond_the_list_changes_nothing(grades):
    for measure in MEASURES:
        if "k" in asdict(measure) and measure.name not in ("p", "success"):
            no_cutoff = type(measure)(**{**asdict(measure), "k": None})
            far_cutoff = type(measure)(**{**asdict(measure), "k": len(grades) + 5})
            assert far_cutoff.value(grades) == no_cutoff.value(grades), measure


@given(grades=st.lists(st.sampled_from([0, 1]), min_size=1, max_size=12), data=st.data())
def test_claims_that_make_ties_cheap_are_true(grades, data):
    """The general sum over places, which claims nothing, gives the same."""
    scores = data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=len(grades), max_size=len(grades)))
    queries = Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=[len(grades)])
    for measure in map(parse_measure, ("ap", "ap@3", "auc", "rr", "rr@2")):
        cautious = type("Cautious", (type(measure),), {"linear_at_rank": False, "first_only": False})(**asdict(measure))
        general = evaluate(queries, scores, cautious)
        cheap = evaluate(queries, scores, measure)
        np.testing.assert_allclose(cheap[str(measure)], general[str(cautious)], atol=1e-12)


@cache
def random_rankings():
    rng = np.random.default_rng(0)
    return batch([rng.permutation(np.arange(1500) % 4) for _ in range(400)])


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_large_blocks_of_ties_do_not_overflow(measure):
    queries = Queries.from_arrays(np.zeros((1500, 1)), np.arange(1500) % 4, group=[1500])
    mean_value = evaluate(queries, np.zeros(1500), measure).mean[str(measure)]
    samples = measure.values(random_rankings())
    assert len(samples) == 400
    assert mean_value == pytest.approx(np.mean(samples), abs=5 * np.std(samples) / 20 + 1e-9)


@every_measure
def test_measures_are_values(measure):
    """They cannot be changed, and equal ones are one key."""
    with pytest.raises(FrozenInstanceError):
        measure.name = "other"
    assert len({measure, parse_measure(str(measure))}) == 1


@pytest.mark.parametrize("grades", [[1, 0, 0, 1, 0, 1, 0], [0, 0, 1, 1, 1, 1, 0, 0, 1]])
def test_ties_may_be_averaged_in_any_number_of_batches(grades, monkeypatch):
    """Without its claim, average precision goes through all places of relevant documents in ties."""
    cautious = type("Cautious", (AP,), {"linear_at_rank": False})()
    queries = Queries.from_arrays(np.zeros((2 * len(grades), 1)), grades * 2, group=[len(grades)] * 2)
    scores = np.tile([2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0][: len(grades)], 2)
    together = evaluate(queries, scores, cautious)["ap"]
    for size in (1, 3, 5):
        monkeypatch.setattr("marginrank.measures.ranked_grades._PAIRS_AT_ONCE", size)
        np.testing.assert_allclose(evaluate(queries, scores, cautious)["ap"], together, atol=1e-15)


def test_grades_are_refused_where_gains_overflow():
    assert np.isfinite(parse_measure("dcg").value([1000, 0]))
    with pytest.raises(ValueError, match="grade 1001 is too large to sum; use linear gains"):
        parse_measure("dcg").value([1001, 0])
    assert parse_measure("err(max_grade=1000)").value([1000]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="max_grade is above 0 and at most 1000"):
        parse_measure("err(max_grade=1001)")
    with pytest.raises(ValueError, match="grade 5 is above max_grade=4; raise it"):
        parse_measure("err").value([5])


@every_measure
def test_the_depth_is_the_last_rank_with_a_discount(measure):
    if measure.depth is not None and measure.discounts(1) is not None:
        discounts = measure.discounts(measure.depth + 2)
        assert discounts[measure.depth - 1] > 0
        assert not discounts[measure.depth :].any()


def test_toy_tables_of_yue():
    """YUE-02 and YUE-03: Tables 1 to 4 of Yue et al. (SIGIR 2007)."""
    relevant = np.array([1, 0, 0, 0, 0, 1, 1, 0])
    h1, h2 = np.arange(8, 0, -1), np.arange(1, 9)
    queries = Queries.from_arrays(np.zeros((8, 1)), relevant, group=[8])
    first, second = (evaluate(queries, scores, ["ap", "auc"]).mean for scores in (h1, h2))
    assert (first["ap"], second["ap"]) == pytest.approx((0.5873, 0.5139), abs=5e-5)
    assert (first["auc"], second["auc"]) == pytest.approx((7 / 15, 8 / 15))

    relevant = np.array([1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0])
    h1, h2 = np.arange(11, 0, -1), np.arange(1, 12)
    queries = Queries.from_arrays(np.zeros((11, 1)), relevant, group=[11])
    assert evaluate(queries, h1, "ap").mean["ap"] == pytest.approx(0.5635, abs=5e-5)
    assert evaluate(queries, h2, "ap").mean["ap"] == pytest.approx(0.5109, abs=5e-5)
    assert [best_accuracy(relevant, h) for h in (h1, h2)] == pytest.approx([7 / 11, 8 / 11])


def best_accuracy(relevant, scores):
    ranked = relevant[np.argsort(-scores)]
    return max((ranked[:cut].sum() + (1 - ranked[cut:]).sum()) / len(ranked) for cut in range(len(ranked) + 1))
