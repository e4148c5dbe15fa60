"""Fractional grades below a whole relevance threshold do not become irrelevant without a word."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from marginrank import Queries, evaluate
from marginrank.errors import FractionalGradesWarning
from marginrank.losses import GroupedLoss, ListHinge, SmoothedHinge, StructuredLoss
from marginrank.losses.slack_rescaling import SlackLoss

FRACTIONAL = np.array([0.0, 0.5, 1.0, 0.25])
USES = {
    "evaluate": lambda measure, grades: evaluate(
        Queries.from_arrays(np.zeros((len(grades), 1)), grades, group=[len(grades)]), np.arange(len(grades)), measure
    ),
    "structured": lambda measure, grades: StructuredLoss(measure).prepare(grades),
    "slack": lambda measure, grades: SlackLoss(measure).prepare(grades),
    "smoothed": lambda measure, grades: SmoothedHinge(measure).prepare(grades),
    "list": lambda measure, grades: ListHinge(measure).prepare(grades),
}
every_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


@every_use
@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("ap", r"irrelevant: 2 for ap; set a threshold that suits the grades, for example ap\(rel=0.5\)"),
        ("auc(rel=2)", r"irrelevant: 2 for auc\(rel=2\); .*, for example auc\(rel=1.5\)"),
        ("p@2", r"irrelevant: 2 for p@2; .*, for example p@2\(rel=0.5\)"),
        ("rr", r"for example rr\(rel=0.5\)"),
        ("recall@3", r"for example recall@3\(rel=0.5\)"),
        ("rbp", r"for example rbp\(rel=0.5\)"),
        ("ndcg@3(gain=binary)", r"scale the grades so that those of relevant documents are at least 1"),
    ],
)
def test_fractional_grades_below_the_threshold_are_reported_once(use, measure, message):
    with pytest.warns(FractionalGradesWarning, match=message) as caught:
        use(measure, FRACTIONAL)
    assert len(caught) == 1


@every_use
@pytest.mark.parametrize(
    ("measure", "grades"),
    [
        ("ap(rel=2)", [0, 1, 2, 4]),  # whole grades below the threshold
        ("ap(rel=0.5)", FRACTIONAL),  # the advice of the warning
        ("ap", [0, 1, 1.5, 2.5]),  # fractions above the threshold
        ("ap", [0, 0, 1, 1]),
        ("wta", [0.5, 0.25, 0.25, 0.25]),
    ],
)
def test_other_grades_are_silent(use, measure, grades):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use(measure, np.array(grades, dtype=float))


def test_graded_measures_are_silent():
    queries = Queries.from_arrays(np.zeros((4, 1)), FRACTIONAL, group=[4])
    evaluate(queries, np.arange(4), ["ndcg@10", "dcg(gain=linear)", "err", "eru"])


def test_several_measures_give_one_warning():
    queries = Queries.from_arrays(np.zeros((4, 1)), FRACTIONAL, group=[4])
    with pytest.warns(FractionalGradesWarning, match=r"irrelevant: 2 for ap, 2 for p@5;") as caught:
        evaluate(queries, np.arange(4), ["ap", "ndcg@10", "p@5", "ap(rel=0.5)"])
    assert len(caught) == 1


def test_the_warning_points_to_the_call_of_evaluate():
    queries = Queries.from_arrays(np.zeros((4, 1)), FRACTIONAL, group=[4])
    with pytest.warns(FractionalGradesWarning) as caught:
        evaluate(queries, np.arange(4), "ap")
    assert caught[0].filename == __file__


def test_groups_are_checked_too():
    with pytest.warns(FractionalGradesWarning, match=r"irrelevant: 2 for recall@1;"):
        GroupedLoss("recall@1").prepare(FRACTIONAL, groups=np.arange(4))
