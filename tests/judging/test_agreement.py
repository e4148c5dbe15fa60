"""Agreement of raters against scikit-learn, a published example and counting by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from marginrank.errors import DataError
from marginrank.judging import Judgements, agreement, read_judgements

WEIGHTS = {"nominal": None, "linear": "linear", "quadratic": "quadratic"}


def table(grades):
    """Judgements of a matrix of grades, documents × raters, three documents per query."""
    row, column = np.nonzero(~np.isnan(grades))
    query, rater = [f"q{at // 3}" for at in row], [f"r{at}" for at in column]
    return Judgements.of(query, [f"d{at}" for at in row], rater, grades[row, column])


def random_grades(seed, raters=3, missing=0.2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 60)
    grades = np.clip(truth[:, None] + rng.integers(-1, 2, (60, raters)), 0, 3).astype(float)
    grades[rng.random(grades.shape) < missing] = np.nan
    return grades


@pytest.mark.parametrize("distance", WEIGHTS)
def test_kappa_is_that_of_scikit_learn(distance):
    grades = random_grades(1)
    result = agreement(table(grades), distance=distance, resamples=99)
    assert len(result.kappa) == 3
    for (a, b), one in result.kappa.items():
        pair = grades[:, [int(a[1]), int(b[1])]]
        pair = pair[~np.isnan(pair).any(axis=1)].astype(int)
        assert one.documents == len(pair)
        assert one.value == pytest.approx(cohen_kappa_score(*pair.T, weights=WEIGHTS[distance]), abs=1e-12)


def alpha_by_counting(grades, delta):
    """Observed and expected disagreement from their definitions, pair by pair."""
    units = [row[~np.isnan(row)] for row in grades]
    units = [unit for unit in units if len(unit) > 1]
    values = np.concatenate(units)
    n = len(values)
    observed = sum(sum(delta(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units) / n
    expected = sum(delta(a, b) for a, b in permutations(values, 2)) / (n * (n - 1))
    return 1 - observed / expected


DELTAS = {"nominal": lambda a, b: a != b, "linear": lambda a, b: abs(a - b), "quadratic": lambda a, b: (a - b) ** 2}


@pytest.mark.parametrize("distance", DELTAS)
def test_alpha_is_that_of_its_definition(distance):
    grades = random_grades(2, raters=4, missing=0.4)
    value = agreement(table(grades), distance=distance, resamples=99).alpha.value
    assert value == pytest.approx(alpha_by_counting(grades, DELTAS[distance]), abs=1e-12)


def test_alpha_of_the_example_of_krippendorff():
    # "Computing Krippendorff's alpha-reliability" (2011), section C: four observers, twelve units, missing data.
    rows = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]
    grades = np.array([[np.nan if word == "." else float(word) for word in row.split()] for row in rows]).T
    assert agreement(table(grades), distance="nominal", resamples=99).alpha.value == pytest.approx(0.743, abs=5e-4)
    assert agreement(table(grades), distance="quadratic", resamples=99).alpha.value == pytest.approx(0.849, abs=5e-4)


def test_intervals_contain_the_value_and_narrow_with_more_queries():
    few, many = (np.concatenate([random_grades(seed) for seed in range(n)]) for n in (1, 9))
    width = {}
    for name, grades in (("few", few), ("many", many)):
        one = agreement(table(grades)).alpha
        assert one.interval[0] < one.value < one.interval[1] < 1
        width[name] = one.interval[1] - one.interval[0]
    assert width["many"] < width["few"] / 2
    assert agreement(table(few[:3]), resamples=99).alpha.interval == (-np.inf, np.inf)


def test_few_queries_without_disagreement_prove_little():
    # 0.05 ** (1 / 2): the share of queries in which raters may agree as by chance, with two queries that show none
    twice = table(np.repeat([[0.0], [1.0], [2.0]], 2, axis=1).repeat(2, axis=0))
    assert agreement(twice).alpha.interval == pytest.approx((0.05**0.5, 1.0))
    many = table(np.tile([[0.0], [1.0], [2.0]], (100, 2)))
    assert agreement(many).kappa["r0", "r1"].interval == pytest.approx((0.05**0.01, 1.0))


def test_documents_in_common_are_needed():
    with pytest.raises(DataError, match="no document was judged by two raters"):
        agreement(Judgements.of(["q", "q"], ["a", "b"], ["x", "y"], [1, 0]))


def test_shuffled_frames_with_an_odd_index_are_the_same_table():
    frame = pd.DataFrame(
        {"Query": [7, 7, 8], "doc_id": ["b", "a", "a"], "Annotator": ["x", "y", "x"], "label": [1.0, -1.0, 2.0]},
        index=[3, 3, 1],
    )
    one, other = Judgements.from_frame(frame), Judgements.from_frame(frame.iloc[[2, 0, 1]])
    assert repr(one) == repr(other) == "Judgements(2 grades of 2 documents of 2 queries by x)"
    np.testing.assert_array_equal(one.grades, [[1.0], [2.0]])
    with pytest.raises(DataError, match=r"no column of raters among .*; name it with rater="):
        Judgements.from_frame(frame.drop(columns="Annotator"))
    assert Judgements.from_frame(frame.rename(columns={"Annotator": "who"}), rater="who").raters == ("x",)


def test_files_name_the_line_of_what_is_wrong(tmp_path):
    path = tmp_path / "judged.csv"
    path.write_text("query,document,rater,grade\n01,a,x,1\n01,a,y,\n01,b,y,2\n")
    read = read_judgements(path)
    assert (read.query_ids.tolist(), read.document_ids.tolist()) == (["01", "01"], ["a", "b"])
    np.testing.assert_array_equal(read.grades, [[1, np.nan], [np.nan, 2]])
    path.write_text("query,document,rater,grade\n01,a,x,good\n")
    with pytest.raises(DataError, match=r"judged.csv:2: the grade is 'good', which is not a number"):
        read_judgements(path)
    path.write_text("query,document,rater,grade\n1,a,x,1\n1,a,x,2\n")
    with pytest.raises(DataError, match="x judged document a of query 1 2 times; keep one"):
        read_judgements(path)


def test_tables_are_joined_by_document():
    people = Judgements.of(["q", "q"], ["a", "b"], "ann", [1, 0])
    machine = Judgements.of(["q", "q"], ["b", "c"], "llm", [2, 1])
    joined = people.joined(machine)
    np.testing.assert_array_equal(joined.grades, [[1, np.nan], [0, 2], [np.nan, 1]])
    assert joined.of_raters(["llm"]).document_ids.tolist() == ["b", "c"]
    with pytest.raises(DataError, match="two tables have a rater 'ann'"):
        people.joined(people)
    with pytest.raises(DataError, match="did you mean 'llm'"):
        joined.of_raters(["lmm"])
