"""Bounds of additive measures over missing grades, against all grades that unjudged documents may have."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from marginrank import Queries, compare, evaluate
from marginrank.data import Qrels, Run
from marginrank.errors import DataError
from marginrank.evaluation import grade_bounds

MEASURES = ["dcg@3", "dcg@2(gain=linear)", "p@2", "p@3(rel=2)", "rbp(p=0.6)", "eru(halflife=2,neutral=1)"]
POLICIES = ["standard", "letor3", "trec", "lightgbm"]


def random_grades(rng: np.random.Generator, n: int, n_unjudged: int) -> np.ndarray:
    grades = rng.choice([0.0, 0.0, 1.0, 2.0], n)
    grades[rng.permutation(n)[:n_unjudged]] = np.nan
    return grades


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_scores_are_those_of_all_grades(seed: int, policy: str) -> None:
    """Means and differences over every assignment of grades 0, 1 and 2, by `evaluate`."""
    rng = np.random.default_rng(seed)
    qid = rng.permutation([1, 1, 1, 2, 2, 3, 3, 3, 4])
    grades = random_grades(rng, 9, 4)
    weights = [1.0, 2.0, 0.5, 1.5] if seed % 2 else None
    scores = {name: rng.integers(0, 3, 9).astype(float) for name in ("a", "b")}

    def made(y: Any) -> Queries:
        return Queries.from_arrays(np.zeros((9, 1)), y, qid=qid, query_weights=weights, document_ids=np.arange(9))

    unjudged = np.flatnonzero(np.isnan(grades))
    seen = []
    for drawn in product([0.0, 1.0, 2.0], repeat=len(unjudged)):
        filled = grades.copy()
        filled[unjudged] = drawn
        a, b = (evaluate(made(filled), one, MEASURES, policy=policy).mean for one in scores.values())
        seen.append([[a[measure], b[measure], a[measure] - b[measure]] for measure in MEASURES])
    lowest, highest = np.nanmin(seen, axis=0), np.nanmax(seen, axis=0)
    for number, measure in enumerate(MEASURES):
        found = grade_bounds(made(grades), scores, measure, policy=policy, grades=[0, 1, 2])
        rows = [*found.means, *found.differences]
        assert [row.lowest for row in rows] == pytest.approx(lowest[number].tolist(), abs=1e-12), measure
        assert [row.highest for row in rows] == pytest.approx(highest[number].tolist(), abs=1e-12), measure
        now = [evaluate(made(grades), one, measure, policy=policy).mean[measure] for one in scores.values()]
        assert [row.mean for row in found.means] == pytest.approx(now, abs=1e-12, nan_ok=True), measure


@pytest.mark.parametrize("policy", ["standard", "trec"])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_runs_are_those_of_all_grades(seed: int, policy: str) -> None:
    """Documents of grade −1, and documents that only one run returns."""
    rng = np.random.default_rng(seed)
    topics = ["t", "u", "v"]
    judged = {t: {f"d{k}": int(rng.choice([-1, 0, 1, 2])) for k in rng.permutation(5)[:3]} for t in topics}
    runs = {
        name: {t: {f"d{k}": float(rng.integers(0, 3)) for k in rng.permutation(6)[:3]} for t in topics} for name in "ab"
    }
    pooled = {(t, d) for t in topics for source in (judged, *runs.values()) for d in source[t]}
    unjudged = sorted((t, d) for t, d in pooled if judged[t].get(d, -1) < 0)
    for measure in ("dcg@2", "p@2", "rbp"):
        found = grade_bounds(judged, runs, measure, policy=policy, grades=[0, 2])
        seen = []
        for drawn in product([0, 2], repeat=len(unjudged)):
            filled = {t: {d: g for d, g in judged[t].items() if g >= 0} for t in topics}
            for (t, d), grade in zip(unjudged, drawn, strict=True):
                filled[t][d] = grade
            a, b = (evaluate(filled, run, measure, policy=policy).mean[measure] for run in runs.values())
            seen.append([a, b, a - b])
        lowest, highest = np.min(seen, axis=0).tolist(), np.max(seen, axis=0).tolist()
        rows = [*found.means, *found.differences]
        assert [row.lowest for row in rows] == pytest.approx(lowest, abs=1e-12), measure
        assert [row.highest for row in rows] == pytest.approx(highest, abs=1e-12), measure
        assert found.n_unjudged == len(unjudged)


def test_bounds_by_hand() -> None:
    """P@1: a puts the unjudged document first in one query of two, b never."""
    y, qid = [1, np.nan, 0, 1], [1, 1, 2, 2]
    found = grade_bounds(y, {"a": [1.0, 2.0, 0.0, 1.0], "b": [2.0, 1.0, 0.0, 1.0]}, "p@1", qid=qid)
    assert [tuple(row) for row in found.means] == [("a", 0.5, 0.5, 1.0), ("b", 1.0, 1.0, 1.0)]
    assert [tuple(row) for row in found.differences] == [("a", "b", -0.5, -0.5, 0.0)]
    assert not found.differences[0].could_flip
    other = grade_bounds(y, {"a": [1.0, 2.0, 1.0, 0.0], "b": [2.0, 1.0, 1.0, 0.0]}, "p@1", qid=qid, grades=[0, 1])
    assert repr(other) == "GradeBounds(p@1: 1 unjudged document, 0 of 1 verdict could flip)"
    assert other.to_dict()["differences"][0]["could_flip"] is False


def test_a_verdict_that_could_flip() -> None:
    y, qid = [1, np.nan, 0], [1, 1, 1]
    found = grade_bounds(y, {"a": [3.0, 1.0, 2.0], "b": [1.0, 3.0, 2.0]}, "dcg@1", qid=qid, grades=[0, 1, 2])
    (row,) = found.differences
    assert (row.difference, row.lowest, row.highest, row.could_flip) == (1.0, -2.0, 1.0, True)
    assert "could flip" in str(found)
    baseline = grade_bounds(y, {"a": [3.0, 1.0, 2.0], "b": [1.0, 3.0, 2.0]}, "dcg@1", qid=qid, baseline="a")
    assert [(row.system, row.other) for row in baseline.differences] == [("b", "a")]


def test_compare_says_whether_a_verdict_could_flip() -> None:
    y, qid = [1, np.nan, 0, 1, 0, np.nan], [1, 1, 1, 2, 2, 2]
    systems = {"a": [3.0, 1.0, 2.0, 3.0, 2.0, 1.0], "b": [1.0, 3.0, 2.0, 1.0, 2.0, 3.0]}
    found = compare(systems, y, qid=qid, measure="dcg@1")
    assert found.bounds is not None
    (row,) = found.bounds.differences
    assert (row.difference, row.lowest, row.highest) == (found.rows[0].difference, 0.0, 1.0)
    last = "a - b is between +0.0000 and +1.0000 for all grades of unjudged documents: it cannot flip"
    assert str(found).splitlines()[-1] == last
    turned = found.turned().bounds
    assert turned is not None
    assert (turned.differences[0].lowest, turned.differences[0].system) == (-1.0, "b")
    assert compare(systems, y, qid=qid, measure="ndcg@1").bounds is None
    assert compare(systems, np.nan_to_num(y), qid=qid, measure="dcg@1").bounds is None
    assert compare(systems, y, qid=qid, measure="dcg@1", unjudged="skip").bounds is None


def test_all_judged_leaves_no_room() -> None:
    queries = Queries.from_arrays(np.zeros((3, 1)), [1, 0, 2], group=[3])
    (row,) = grade_bounds(queries, {"a": [1.0, 2.0, 3.0]}).means
    assert row.mean == row.lowest == row.highest == evaluate(queries, [1.0, 2.0, 3.0], "dcg@10").mean["dcg@10"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"measure": "ndcg@10"}, "ndcg@10, which is not a sum over documents.*choose dcg@10"),
        ({"grades": [-1, 2]}, "give the grades that a document may have"),
        ({"grades": []}, "give the grades"),
        ({"baseline": "c"}, "there is no system 'c'; known: a"),
    ],
)
def test_what_has_no_bounds_is_refused(options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        grade_bounds([1, np.nan], {"a": [1.0, 2.0]}, qid=[1, 1], **options)


def test_runs_of_other_topics_are_refused() -> None:
    qrels = Qrels.from_dict({"t": {"x": 1}, "u": {"x": 1}})
    runs = {"a": Run.from_dict({"t": {"x": 1.0}}), "b": Run.from_dict({"t": {"y": 1.0}, "u": {"x": 1.0}})}
    with pytest.raises(DataError, match="a judged topic is missing from a run"):
        grade_bounds(qrels, runs)
    assert len(grade_bounds(qrels, runs, missing_topics="zero").means) == 2
