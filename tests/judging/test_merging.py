"""Merged grades against hand counts, a published example and an implementation by the formulas of the paper."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from marginrank import Queries
from marginrank.errors import DataError, ParameterError
from marginrank.judging import Judgements, dawid_skene, merge

# Dawid and Skene (1979), Table 1: 45 patients, observer 1 three times, observers 2 to 5 once each.
PATIENTS = """
111 1 1 1 1|333 4 3 3 4|112 2 1 2 2|222 3 1 2 1|222 3 2 2 2|222 3 3 2 2|122 2 1 1 1|333 3 4 3 3|222 2 2 2 3|232 2 2 2 3
444 4 4 4 4|222 3 3 4 3|111 1 1 1 1|222 3 2 1 2|121 1 1 1 1|111 2 1 1 1|111 1 1 1 1|111 1 1 1 1|222 2 2 2 1|222 1 3 2 2
222 2 2 2 2|222 2 2 2 1|222 3 2 2 2|221 2 2 2 2|111 1 1 1 1|111 1 1 1 1|232 2 2 2 2|111 1 1 1 1|111 1 1 1 1|112 1 1 2 1
111 1 1 1 1|333 3 2 3 3|111 1 1 1 1|222 2 2 2 2|222 3 2 3 2|433 4 3 4 3|221 2 2 3 2|232 3 2 3 3|333 3 4 3 2|111 1 1 1 1
111 1 1 1 1|121 2 1 1 1|232 2 2 2 2|121 1 1 1 1|222 2 2 2 2
"""


def patients():
    rows = [row.split() for row in PATIENTS.replace("\n", "|").strip("|").split("|")]
    counts = np.zeros((len(rows), 5, 4))
    for at, row in enumerate(rows):
        for observer, given in enumerate(row):
            for grade in given:
                counts[at, observer, int(grade) - 1] += 1
    return counts


def by_the_formulas(counts, iterations):
    """The two steps as products, number by number."""
    n, observers, levels = counts.shape
    truth = [[counts[i, :, j].sum() / counts[i].sum() for j in range(levels)] for i in range(n)]
    for _ in range(iterations):
        shares = [sum(truth[i][j] for i in range(n)) / n for j in range(levels)]
        errors = np.zeros((observers, levels, levels))
        for k in range(observers):
            for j in range(levels):
                for given in range(levels):
                    errors[k, j, given] = sum(truth[i][j] * counts[i, k, given] for i in range(n))
                errors[k, j] /= errors[k, j].sum()
        for i in range(n):
            joint = [shares[j] * np.prod(errors[:, j, :] ** counts[i]) for j in range(levels)]
            truth[i] = [value / sum(joint) for value in joint]
    return np.array(truth), np.array(shares), errors


def test_the_example_of_the_paper():
    model = dawid_skene(patients())
    assert model.converged
    truth, shares, errors = by_the_formulas(patients(), model.iterations)
    np.testing.assert_allclose(model.probabilities, truth, atol=1e-9)
    np.testing.assert_allclose(model.shares, shares, atol=1e-9)
    np.testing.assert_allclose(model.confusion, errors, atol=1e-9)


def test_the_likelihood_is_that_of_the_model_at_its_maximum():
    counts = patients()
    model = dawid_skene(counts)

    def log_likelihood(shares, confusion):
        joint = [[shares[j] * np.prod(confusion[:, j, :] ** one) for j in range(4)] for one in counts]
        return float(np.log(np.sum(joint, axis=1)).sum())

    best = log_likelihood(model.shares, model.confusion)
    assert model.log_likelihood == pytest.approx(best, abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = 0.99 * model.shares + 0.01 * rng.dirichlet(np.ones(4))
        confusion = 0.99 * model.confusion + 0.01 * rng.dirichlet(np.ones(4), (5, 4))
        assert log_likelihood(shares, confusion) < best + 1e-6


def simulated(seed, n=20_000):
    """True grades of n documents, and those of four raters: good, fair, middling, and one that guesses."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    guesses = rng.integers(0, 3, (n, 4))
    grades = np.where(rng.random((n, 4)) < [0.9, 0.8, 0.7, 0.1], truth[:, None], guesses)
    documents = np.array([f"d{at:05}" for at in range(n)])
    order = rng.permutation(4 * n)
    columns = np.tile(documents, 4), np.repeat(["good", "fair", "middling", "guess"], n), grades.T.ravel()
    return truth, Judgements.of(np.array(["q"] * 4 * n), *(column[order] for column in columns))


def test_reliable_raters_count_more_and_errors_are_found_again():
    truth, table = simulated(0)
    merged, votes = merge(table, "dawid-skene"), merge(table, "majority")
    assert np.mean(merged.grades == truth) > np.mean(votes.grades == truth) + 0.02
    confusion = dict(zip(table.raters, merged.model.confusion, strict=True))
    assert confusion["good"].diagonal() == pytest.approx([0.9 + 0.1 / 3] * 3, abs=0.04)
    assert confusion["guess"].diagonal() == pytest.approx([0.1 + 0.9 / 3] * 3, abs=0.06)


def test_probabilities_are_those_of_the_true_parameters_and_uncertainties_are_calibrated():
    truth, table = simulated(1)
    merged = merge(table, "dawid-skene")
    accuracy = {"good": 0.9, "fair": 0.8, "middling": 0.7, "guess": 0.1}
    joint = np.array([0.5, 0.3, 0.2]) * np.ones((len(truth), 1))
    for rater, grades in zip(table.raters, table.grades.T, strict=True):
        joint *= accuracy[rater] * (grades[:, None] == [0, 1, 2]) + (1 - accuracy[rater]) / 3
    exact = joint / joint.sum(axis=1, keepdims=True)
    assert np.abs(merged.model.probabilities - exact).mean() < 0.01
    expected = merged.model.probabilities @ table.levels
    assert np.mean((expected - truth) ** 2) == pytest.approx(np.mean(merged.uncertainty**2), rel=0.1)


def test_the_standard_error_of_a_mean_is_that_of_repeated_grades():
    rng = np.random.default_rng(2)
    truth = rng.uniform(1, 3, 5000)
    grades = truth[:, None] + 0.7 * rng.standard_normal((5000, 3))
    grades[rng.random(grades.shape) < 0.4] = np.nan
    row, column = np.nonzero(~np.isnan(grades))
    names = np.array([f"d{at:04}" for at in range(5000)])
    merged = merge(
        Judgements.of(["q"] * len(row), names[row], np.array(list("abc"))[column], grades[row, column].clip(0))
    )
    known = truth[np.isin(names, merged.document_ids)]
    for m in (1, 2, 3):
        among = merged.raters == m
        assert np.std(merged.grades[among] - known[among]) == pytest.approx(merged.uncertainty[among].mean(), rel=0.05)


def test_ties_of_votes_go_to_the_grade_nearest_to_the_mean():
    table = Judgements.of(["q"] * 9, list("aaaaabbbb"), list("vwxyzvwxy"), [0, 0, 1, 3, 3, 0, 0, 1, 1])
    # a: mean 1.4, which is nearer to 0 than to 3; b: as near to 0 as to 1, so the lower
    assert merge(table, "majority").grades.tolist() == [0, 0]


def test_documents_are_adjudicated_by_uncertainty_and_written(tmp_path):
    table = Judgements.of(
        ["q1"] * 6 + ["q2"], list("aabbbcd"), ["x", "y", "x", "y", "z", "x", "x"], [2, 1, 2, 2, 0, 1, 3]
    )
    merged = merge(table)
    assert [str(merged.document_ids[at]) for at in merged.adjudication()] == ["a", "b"]
    merged.write(tmp_path / "merged.csv")
    with (tmp_path / "merged.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["query"], row["document"], float(row["grade"])) for row in rows] == [
        ("q1", "a", 1.5), ("q1", "b", pytest.approx(4 / 3)), ("q1", "c", 1.0), ("q2", "d", 3.0),
    ]  # fmt: skip
    qrels = merged.to_qrels()
    assert qrels.topics.tolist() == ["q1", "q2"]
    assert qrels.grades.tolist() == pytest.approx([1.5, 4 / 3, 1.0, 3.0])
    assert np.isnan(merge(table.of_raters(["x"])).uncertainty).all()
    assert len(merge(table.of_raters(["x"])).adjudication()) == 0
    with pytest.raises(ParameterError, match="choose 'mean', 'majority' or 'dawid-skene'"):
        merge(table, "median")


def test_grades_are_put_onto_queries_in_any_order():
    table = Judgements.of(["7", "7", "8"], ["a", "a", "c"], ["x", "y", "x"], [2, 1, 3])
    queries = Queries.from_arrays(np.zeros((3, 1)), None, qid=[8, 7, 7], document_ids=["c", "b", "a"])
    merged = merge(table).onto(queries)
    np.testing.assert_array_equal(merged.grades, [3, np.nan, 1.5])
    assert merged.n_unjudged == 1
    with pytest.raises(DataError, match="do ids of queries and documents agree"):
        merge(table).onto(Queries.from_arrays(np.zeros((1, 1)), None, qid=["q7"], document_ids=["a"]))
