"""Bias, spread and flags of raters against plain NumPy, on shuffled tables, and on ratings known to be copied."""

from __future__ import annotations

import csv
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginrank.judging import Judgements, describe_raters

DATA = Path(__file__).parents[2] / "../shared/data"


def frame_of(grades, seed=0):
    """A shuffled frame with an odd index of the grades of documents × raters, five documents per query."""
    row, column = np.nonzero(~np.isnan(grades))
    frame = pd.DataFrame(
        {"query": [f"q{at // 5}" for at in row], "doc_id": [f"d{at}" for at in row], "grade": grades[row, column]}
    )
    frame["rater"] = [f"r{at}" for at in column]
    return frame.sample(frac=1, random_state=seed).set_axis([7] * len(frame))


def independent(seed, n=200, raters=3, missing=0.3):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, (n, 1))
    grades = np.clip(truth + rng.integers(-1, 2, (n, raters)), 0, 3).astype(float)
    grades[rng.random(grades.shape) < missing] = np.nan
    return grades


def test_bias_and_spread_are_those_of_plain_numpy():
    grades = independent(0)
    grades[:, 2] = np.minimum(grades[:, 2] + 1, 3)
    report = describe_raters(Judgements.from_frame(frame_of(grades)))
    for at, one in enumerate(report.raters):
        rows = [row for row in grades if not np.isnan(row[at]) and np.sum(~np.isnan(row)) > 1]
        apart = [row[at] - np.nanmean(np.delete(row, at)) for row in rows]
        others = np.concatenate([np.delete(row, at) for row in rows])
        assert one.name == f"r{at}"
        assert one.grades == np.sum(~np.isnan(grades[:, at]))
        assert one.mean == pytest.approx(np.nanmean(grades[:, at]))
        assert one.bias.documents == len(rows)
        assert one.bias.value == pytest.approx(np.mean(apart))
        assert one.spread == pytest.approx(np.std([row[at] for row in rows]) / np.nanstd(others))
    assert report.raters[2].bias.interval[0] > 0.3
    assert not report.flags


def test_disagreement_is_the_mean_squared_difference_of_pairs():
    grades = independent(1, n=30)
    report = describe_raters(Judgements.from_frame(frame_of(grades)))
    for one in report.queries:
        at = int(one.query[1:]) * 5
        rows = [row[~np.isnan(row)] for row in grades[at : at + 5]]
        rows = [row for row in rows if len(row) > 1]
        pairs = [np.mean([(a - b) ** 2 for i, a in enumerate(row) for b in row[i + 1 :]]) for row in rows]
        assert one.value == pytest.approx(np.mean(pairs))
        assert (one.documents, one.different) == (len(rows), sum(np.ptp(row) > 0 for row in rows))
    values = [one.value for one in report.queries]
    assert values == sorted(values, reverse=True)


def test_copied_ratings_are_flagged_and_the_others_are_not():
    grades = independent(2, missing=0.0)
    grades[:, 2] = grades[:, 1]
    flags = describe_raters(Judgements.from_frame(frame_of(grades))).flags
    assert [(flag.kind, flag.raters, flag.documents, flag.equal) for flag in flags] == [
        ("copied", ("r1", "r2"), 200, 200)
    ]
    grades[0, 2] = 3 - grades[0, 2]
    flags = describe_raters(Judgements.from_frame(frame_of(grades))).flags
    assert [(flag.raters, flag.equal) for flag in flags] == [(("r1", "r2"), 199)]
    assert "r1 and r2 gave equal grades to 199 of 200 documents that they have in common" in str(flags[0])


def test_equal_grades_are_no_copies_if_there_is_hardly_another_grade_or_few_documents():
    mostly = np.zeros((300, 2))
    mostly[0] = 1
    assert not describe_raters(Judgements.from_frame(frame_of(mostly))).flags
    assert not describe_raters(Judgements.from_frame(frame_of(np.zeros((300, 2))))).flags
    few = np.tile([[0.0, 0.0], [1.0, 1.0]], (20, 1))
    assert not describe_raters(Judgements.from_frame(frame_of(few))).flags


def test_raters_of_a_kappa_of_nine_tenths_are_rarely_flagged():
    flagged = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 4, 150)
        second = np.where(rng.random(150) < 0.9, first, rng.integers(0, 4, 150))
        flagged += bool(describe_raters(Judgements.from_frame(frame_of(np.stack([first, second], 1) * 1.0))).flags)
    assert flagged <= 3  # a probability of 0.001 each


def test_constant_ratings_are_flagged():
    grades = independent(3, missing=0.0)
    grades[:, 0] = 2
    flags = describe_raters(Judgements.from_frame(frame_of(grades))).flags
    assert [(flag.kind, flag.raters) for flag in flags] == [("constant", ("r0",))]
    assert str(flags[0]) == "r0 gave all 200 documents the same grade"
    alone = Judgements.of(["q"] * 20, [f"d{at}" for at in range(20)], "ann", [1] * 20)
    assert [flag.kind for flag in describe_raters(alone).flags] == ["constant"]
    assert not describe_raters(alone).queries
    few = Judgements.of(["q"] * 5, [f"d{at}" for at in range(5)], "ann", [1] * 5)
    assert not describe_raters(few).flags


def test_the_double_ratings_of_a_faulty_export_are_flagged():
    path = DATA / "quepid/judgements_anonymised.csv.xz"
    if not path.exists():
        pytest.skip("the Quepid sample is not beside the clone")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = [[row[name] for row in rows] for name in ("query", "doc_id", "rater")]
    table = Judgements.of(*columns, [float(row["grade"]) for row in rows])
    flags = describe_raters(table).flags
    overall = flags[-1]
    assert (overall.kind, overall.documents, overall.equal) == ("copied", 562, 562)
    assert len(overall.raters) > 2
    assert ("rater02", "rater05") in [flag.raters for flag in flags]


def test_reports_show_raters_flags_and_queries():
    grades = independent(4)
    grades[:, 0] = 2
    text = str(describe_raters(Judgements.from_frame(frame_of(grades))))
    assert "flagged: r0 gave all 200 documents the same grade" in text
    assert "most disagreement" in text
    record = describe_raters(Judgements.from_frame(frame_of(grades))).to_dict()
    assert record["flags"][0]["message"] == "r0 gave all 200 documents the same grade"
    alone = Judgements.of(["q", "q"], ["a", "b"], ["x", "y"], [1, 2])
    assert str(describe_raters(alone)).splitlines()[1].split() == ["x", "1", "1.00", "0.00", "-", "-", "-"]
