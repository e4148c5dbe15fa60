"""Edges of losses and maps that mutants live on: refusals, several queries at once, profiles that end at 0."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import DataError
from marginrank.losses import CostLoss, PairwiseHinge, PartialOrder, Positional
from marginrank.losses.assignment_loss import takes_groups
from marginrank.measures import parse_measure
from marginrank.scorers.additive.form import AdditiveForm


def inversions(grades):
    return np.outer(grades, np.arange(len(grades)))


def test_a_cost_is_taken_query_by_query():
    """Documents of grade 1 and 0 with equal scores: the worst order of n documents has the better one last."""
    xi, gradient = CostLoss(inversions, "dorm(shape=linear)")([1, 0, 1, 0, 0], np.zeros(5), [0, 2, 5])
    assert xi.tolist() == [1.0, 2.0]
    assert gradient[[0, 1, 2]] == pytest.approx([-1 / 2, 1 / 2, -2 / 3])
    assert gradient[2:].sum() == pytest.approx(0.0)


def test_a_cost_that_all_rankings_share_has_no_order():
    prepared = CostLoss(lambda grades: np.full((len(grades), len(grades)), 7.0)).prepare([1, 0, 2])
    assert prepared.active.tolist() == [False]
    assert prepared([0.3, 0.1, 0.2])[0].tolist() == [0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "loglog", "c": 2.7}, "log log"),
        ({"shape": "power", "d": 0.0}, "falls only for d above 0"),
        ({"shape": ()}, "at least one number"),
        ({"shape": (1.0, 2.0)}, "does not rise"),
    ],
)
def test_profiles_that_are_not_defined_or_rise_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Positional(**options)


def test_profiles_at_the_edge_of_what_is_allowed():
    assert Positional("loglog", c=2.75).profile(1, None).tolist() == [pytest.approx(1 / np.log(np.log(2.75)))]
    assert Positional("power", d=0.25).profile(2, None) == pytest.approx([1.0, 2**-0.25])
    assert Positional((2.0,)).profile(2, None).tolist() == [2.0, 2.0]


def test_groups_go_with_profiles_that_end_at_zero_and_not_below():
    assert takes_groups(parse_measure("p@2"), Positional((1.0, 0.0)))
    assert not takes_groups(parse_measure("p@2"), Positional((1.0, -0.5)))
    assert takes_groups(parse_measure("ndcg"), Positional("sqrt"))
    assert not takes_groups(parse_measure("ndcg"), Positional("linear"))
    assert not takes_groups(parse_measure("ndcg"), PartialOrder())


def test_a_missing_value_without_a_bin_scores_as_below_all_thresholds():
    (shape,) = AdditiveForm((np.array([1.0, 2.0]),), np.array([False])).shapes(np.array([0.5, 0.25]))
    assert shape.at(np.array([np.nan, 0.0, 1.5, 9.0])).tolist() == [0.0, 0.0, 0.5, 0.75]


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 3)), np.zeros(3), np.diag([0.0, np.nan, 1.0]), np.full((3, 3), np.inf)]
)
def test_costs_are_square_and_finite(matrix):
    with pytest.raises(DataError, match=r"the cost of query 0 has shape .*; give 3 × 3 finite numbers"):
        CostLoss(lambda _: matrix).prepare([1, 0, 2])


def test_offsets_that_cannot_be_written_need_no_kernels_of_their_own():
    offsets = np.array([0, 2, 5])
    offsets.flags.writeable = False
    assert PairwiseHinge().prepare([1, 0, 1, 0, 0], offsets).offsets.flags.writeable
