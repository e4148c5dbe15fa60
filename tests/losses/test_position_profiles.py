"""Profiles of φdorm and the losses made of them, pinned to numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.losses import GroupedLoss, Positional, SlackLoss, StructuredLoss
from marginrank.measures import parse_measure


@pytest.mark.parametrize(
    ("profile", "measure", "expected"),
    [
        # 1, 1/√2, 1/√3, 1/2
        (Positional("sqrt"), "ndcg", [1.0, 0.7071067811865476, 0.5773502691896258, 0.5]),
        # 1/ln 2, 1/ln 3, 1/ln 4, 1/ln 5
        (Positional("log"), "ndcg", [1.4426950408889634, 0.9102392266268373, 0.7213475204444817, 0.6213349345596119]),
        # 1/ln ln 3, 1/ln ln 4, 1/ln ln 5, 1/ln ln 6
        (Positional("loglog"), "ndcg", [10.632888, 3.061528, 2.101348, 1.714683]),
        # 1/ln ln 4 first, with c = 4
        (Positional("loglog", c=4.0), "ndcg", [3.061528, 2.101348, 1.714683]),
        # 1, 1/√2, ...; 1, 1/2, 1/3, 1/4; 1, 1/4, 1/9
        (Positional("power"), "ndcg", [1.0, 0.7071067811865476, 0.5773502691896258]),
        (Positional("power", d=1.0), "ndcg", [1.0, 0.5, 1 / 3, 0.25]),
        (Positional("power", d=2.0), "ndcg", [1.0, 0.25, 1 / 9]),
        (Positional("linear"), "ndcg", [0.0, -1.0, -2.0, -3.0]),
        (Positional("truncated"), "ndcg@3", [3.0, 2.0, 1.0, 0.0, 0.0]),
        # 1/log2 2, 1/log2 3, and 0 after the cutoff
        (Positional("discount"), "ndcg@2", [1.0, 0.6309297535714575, 0.0]),
        (Positional((3.0, 1.0)), "ndcg", [3.0, 1.0, 1.0]),
    ],
)
def test_profiles(profile, measure, expected):
    assert profile.profile(len(expected), parse_measure(measure)) == pytest.approx(expected, abs=1e-6)


def test_only_the_linear_profile_is_scaled():
    lengths = np.array([4, 1, 0])
    assert Positional("linear").scales(lengths, lengths).tolist() == [0.25, 1.0, 1.0]
    assert Positional("sqrt").scales(lengths, lengths).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("shape", "step"),
    [
        ("sqrt", 1 - 0.7071067811865476),
        ("log", 1.4426950408889634 - 0.9102392266268373),
        ("power,d=1", 0.5),
        ("power,d=2", 0.75),
        ("linear", 0.5),
        ("truncated", 1.0),
    ],
)
def test_the_hinge_of_a_turned_pair_is_its_step_of_the_profile(shape, step):
    """Grades (1, 0), scores (0, 1), P@1: Δ = 1 and (A(0) − A(1))·(s_bad − s_good) = A(0) − A(1)."""
    xi, slope = StructuredLoss("p@1", f"dorm(shape={shape})")([1, 0], [0.0, 1.0])
    assert xi[0] == pytest.approx(1 + step)
    assert slope == pytest.approx([-step, step])


def test_slack_rescaling_by_hand():
    """Grades (1, 0, 0), scores (0, .5, −.5), average precision, φdorm(linear): A(r) = −r/3, y* by rows.

    The relevant document at rank 0, 1, 2 loses 0, ½, ⅔. With it behind the better of the others a·s grows by
    0.5·⅓, so 1 + ⅙; behind both the worse one comes to rank 1, and 1 + ⅙ − ⅙.
    """
    xi, slope = SlackLoss("ap", "dorm(shape=linear)", ideal="rows")([1, 0, 0], [0.0, 0.5, -0.5])
    assert xi[0] == pytest.approx(max(0.5 * (1 + 1 / 6), 2 / 3 * 1.0))
    assert slope == pytest.approx([-4 / 9, 2 / 9, 2 / 9])


def test_grouped_ndcg_is_normalized_by_the_best_ranking_of_groups():
    """Grades 2, 2, 1, 0 in groups a, a, b, c: the best two ranks hold 2 and 1, so 3 + 1/log2 3, and not 3 + 3/log2 3.

    At scores 0 the hinge is the largest loss: the document of grade 0, then that of grade 1.
    """
    ideal = 3 + 0.6309297535714575
    xi, _ = GroupedLoss("ndcg@2")([2, 2, 1, 0], [0.0] * 4, groups=["a", "a", "b", "c"])
    assert xi[0] == pytest.approx((ideal - 0.6309297535714575) / ideal)
    alone, _ = GroupedLoss("ndcg@2")([2, 2, 1, 0], [0.0] * 4, groups=["a", "b", "c", "d"])
    assert alone[0] == pytest.approx(1 - 0.6309297535714575 / (3 + 3 * 0.6309297535714575))


def test_grouped_recall_is_normalized_by_all_relevant_documents():
    """Two relevant documents, of which one rank takes one: the loss is ½."""
    xi, _ = GroupedLoss("recall@1")([1, 1, 0], [0.0] * 3, groups=["a", "b", "c"])
    assert xi[0] == pytest.approx(0.5)
