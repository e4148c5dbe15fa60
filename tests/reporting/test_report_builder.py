"""The facts of a report are those of the library, and hold for odd data too."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker, compare, evaluate
from marginrank.data import Qrels, Run
from marginrank.evaluation.comparison import mean_interval
from marginrank.reporting import report_builder as gathering
from marginrank.reporting.report_builder import gather_facts, write_report
from marginrank.runtime.text import plain
from marginrank.solvers import Auto


def judged(n_queries=30, n_documents=6, seed=0, **columns):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 3))
    grades = np.digitize(X[:, 0] + rng.standard_normal(len(X)), [0.8, 1.6])
    return Queries.from_arrays(X, grades, qid=np.repeat(np.arange(n_queries), n_documents), **columns)


@pytest.fixture(scope="module")
def queries():
    return judged()


@pytest.fixture(scope="module")
def systems(queries):
    return {"first": queries.X[:, 0].copy(), "second": queries.X[:, 1].copy(), "sum": queries.X.sum(axis=1)}


def test_means_intervals_and_curves_are_those_of_the_library(queries, systems):
    facts = gather_facts(queries, systems, ["ap", "ndcg@3"], policy="letor4", k=4)
    found = {
        name: evaluate(queries, own, ["ap", "ndcg@3", *(f"ndcg@{k}" for k in range(1, 5))], policy="letor4")
        for name, own in systems.items()
    }
    assert {(one.system, one.measure): (one.mean, one.low, one.high, one.queries) for one in facts.means} == {
        (name, measure): (one.mean[measure], *mean_interval(one, measure), one.counted(measure))
        for name, one in found.items()
        for measure in ("ap", "ndcg@3")
    }
    assert {(one.system, one.k): one.ndcg for one in facts.curve} == {
        (name, k): one.mean[f"ndcg@{k}"] for name, one in found.items() for k in range(1, 5)
    }
    assert facts.comparisons["ap"] == compare(found, measure="ap", baseline="first")


def test_differences_are_sorted_and_the_documents_are_those_of_the_rankings(queries, systems):
    facts = gather_facts(queries, systems, ["ap"], k=3, baseline="second")
    assert [contest.system for contest in facts.contests] == ["first", "sum"]
    contest = facts.contests[0]
    values, others = (evaluate(queries, systems[name], "ap")["ap"] for name in ("first", "second"))
    counted = ~np.isnan(values)
    assert not counted.all()
    assert [bar.difference for bar in contest.bars] == sorted((values - others)[counted].tolist(), reverse=True)
    assert all(duel.difference > 0 for duel in contest.won)
    assert all(duel.difference < 0 for duel in contest.lost)
    assert contest.won[0].difference == max(values[counted] - others[counted])
    for duel in (*contest.won, *contest.lost):
        rows = np.arange(int(duel.query) * 6, int(duel.query) * 6 + 6)
        own, theirs = (rows[np.argsort(-systems[name][rows])].tolist() for name in ("first", "second"))
        assert [(place.rank, int(place.document)) for place in duel.documents] == list(enumerate(own[:3], 1))
        for place in duel.documents:
            row = int(place.document)
            assert place.score == systems["first"][row]
            assert place.grade == queries.grades[row]
            assert place.other_rank == 1 + theirs.index(row)
        assert [int(place.document) for place in duel.other_documents] == theirs[:3]


def test_a_run_is_ranked_and_judged_as_the_scores_it_was_made_of(systems):
    queries = judged(document_ids=[f"d{row}" for row in range(180)])
    run = Run.from_scores(queries, systems["second"])
    with_scores, with_run = (
        gather_facts(queries, {"a": systems["first"], "b": own}) for own in (systems["second"], run)
    )
    assert with_scores.means == with_run.means
    assert with_scores.contests == with_run.contests


def test_documents_that_nobody_judged_have_no_grade_and_lists_may_lack_documents():
    qrels = Qrels(np.array(["q", "p"]), np.array([0, 2, 3]), np.array(["a", "b", "a"]), np.array([1.0, 0.0, 2.0]))
    one = Run(np.array(["q", "p"]), np.array([0, 2, 3]), np.array(["a", "z", "a"]), np.array([1.0, 2.0, 0.0]))
    other = Run(np.array(["q"]), np.array([0, 1]), np.array(["a"]), np.array([5.0]))
    facts = gather_facts(qrels, {"one": one, "other": other}, ["ap"], missing_topics="zero")
    contest = facts.contests[0]
    (won,), (lost,) = contest.won, contest.lost
    assert (won.query, [place.document for place in won.other_documents]) == ("q", ["z", "a"])
    assert [(place.grade, place.other_rank) for place in won.other_documents] == [(None, None), (1.0, 1)]
    assert (lost.query, lost.documents) == ("p", ())
    assert facts.profile["grades"] == {"0": 1, "1": 1, "2": 1}
    with pytest.raises(DataError, match="'other' ranks different queries than 'one'"):
        gather_facts(qrels, {"one": one, "other": other}, ["ap"], missing_topics="skip")


def test_many_queries_share_bars_and_the_table_keeps_the_queries_that_differ_most(monkeypatch, queries, systems):
    everything = gather_facts(queries, {"a": systems["first"], "b": systems["second"]}, ["ap"])
    for name, most in (("MOST_BARS", 7), ("MOST_ROWS", 5), ("MOST_DUELS", 2)):
        monkeypatch.setattr(gathering, name, most)
    facts = gather_facts(queries, {"a": systems["first"], "b": systems["second"]}, ["ap"])
    bars, all_bars = facts.contests[0].bars, everything.contests[0].bars
    assert len(bars) == 7
    for bar in bars:
        own = [one.difference for one in all_bars[bar.first - 1 : bar.last]]
        assert bar.difference == pytest.approx(np.mean(own))
    assert [bar.first for bar in bars[1:]] == [bar.last + 1 for bar in bars[:-1]]
    assert bars[-1].last == len(all_bars)
    gaps = sorted((abs(np.ptp(row.values)) for row in everything.queries.rows), reverse=True)
    assert sorted((abs(np.ptp(row.values)) for row in facts.queries.rows), reverse=True) == gaps[:5]
    assert (facts.queries.counted, facts.queries.left_out) == (len(all_bars), 30 - len(all_bars))
    assert [len(facts.contests[0].won), len(facts.contests[0].lost)] == [2, 2]


def test_the_trace_of_a_model_is_thinned_to_its_ends(monkeypatch, queries):
    monkeypatch.setattr(gathering, "MOST_STEPS", 3)
    ranker = Ranker("svmmap", C=100.0, solver=Auto(tol=1e-8)).fit(queries[:20])
    model = gather_facts(queries, {"m": ranker}).models[0]
    assert model.iterations == len(ranker.solution_.trace) > 3
    assert len(model.trace) == 3
    assert model.trace[0]["objective"] == ranker.solution_.trace[0].primal
    assert model.trace[-1]["gap"] == ranker.gap_


def test_one_system_and_one_query_have_no_comparison_and_no_interval(queries, systems):
    facts = gather_facts(queries[:1], {"a": systems["first"][:6]})
    assert (facts.comparisons, facts.contests) == ({}, ())
    assert (facts.means[0].low, facts.means[0].high) == (-math.inf, math.inf)
    json.dumps(plain(facts.to_dict()), allow_nan=False)


def test_segments_are_those_of_the_library(queries, systems):
    by = np.arange(30) % 3
    facts = gather_facts(queries, systems, ["ap"], by=by)
    found = {name: evaluate(queries, own, "ap", by=by) for name, own in systems.items()}
    assert list(facts.segments) == ["0", "1", "2"]
    for segment, means in facts.segments.items():
        for mean in means:
            part = found[mean.system].by_segment[segment]
            assert (mean.mean, mean.queries) == (part.mean["ap"], part.counted("ap"))
            assert (mean.low, mean.high) == mean_interval(part, "ap")
    assert facts.comparisons["ap"] == compare(found, measure="ap", baseline="first")
    assert not gather_facts(queries, systems, ["ap"]).segments


def test_a_report_shows_a_limited_number_of_segments(monkeypatch, queries, systems):
    monkeypatch.setattr(gathering, "MOST_SEGMENTS", 29)
    with pytest.raises(DataError, match="the queries have 30 segments, and a report shows 29; merge the small ones"):
        gather_facts(queries, systems, ["ap"], by=np.arange(30))


@pytest.mark.parametrize(
    ("systems", "options", "said"),
    [
        ({}, {}, "no system"),
        ({"a": np.zeros(180)}, {"measures": []}, "no measure"),
        ({"a": np.zeros(180)}, {"k": 0}, "k is 0"),
        ({"a": np.zeros(180)}, {"baseline": "b"}, "known: a"),
        ({"a": np.zeros(7)}, {}, "system 'a': scores"),
    ],
)
def test_what_makes_no_sense_is_refused(queries, systems, options, said):
    with pytest.raises(ValueError, match=said):
        gather_facts(queries, systems, **options)


def test_nothing_is_reported_where_no_query_counts():
    queries = Queries.from_arrays([[0.0], [1.0]], [0, 0], qid=[1, 1])
    with pytest.raises(DataError, match="leaves every query out of ap"):
        gather_facts(queries, {"a": [0.0, 1.0]}, ["ap"])
    assert gather_facts(queries, {"a": [0.0, 1.0]}, ["ap"], policy="letor4").means[0].mean == 0.0


def test_missing_judgements_have_shares_and_bounds(tmp_path):
    """P@1 by hand: the second query of a begins with an unjudged document, and both of b with judged ones."""
    queries = Queries.from_arrays(np.zeros((4, 1)), [1, 0, np.nan, 1], qid=[1, 1, 2, 2])
    systems = {"b": [2.0, 1.0, 1.0, 2.0], "a": [2.0, 1.0, 2.0, 1.0]}
    facts = write_report(tmp_path / "page.html", queries, systems, ["p@1", "ap"], k=1)
    assert {name: (one.documents, one.out_of) for name, one in facts.unjudged.items()} == {"b": (0, 2), "a": (1, 2)}
    assert facts.bounds is not None
    assert [tuple(one) for one in facts.bounds.means] == [("b", 1.0, 1.0, 1.0), ("a", 0.5, 0.5, 1.0)]
    assert [tuple(one) for one in facts.bounds.differences] == [("a", "b", -0.5, -0.5, 0.0)]
    page = (tmp_path / "page.html").read_text()
    assert "Missing judgements" in page
    assert "cannot flip" in page
    assert facts.to_dict()["bounds"]["unjudged"] == 1
    skipped = write_report(tmp_path / "skipped.html", queries, systems, ["ndcg@2"], unjudged="skip")
    assert skipped.bounds is None
    judged = Queries.from_arrays(np.zeros((4, 1)), [1, 0, 0, 1], qid=[1, 1, 2, 2])
    write_report(tmp_path / "judged.html", judged, systems, ["ndcg@2"])
    assert "Missing judgements" not in (tmp_path / "judged.html").read_text()
    default = write_report(tmp_path / "page.html", queries, systems, ["ndcg@2"], k=2)
    assert default.bounds is not None
    assert default.bounds.measure == "dcg@2"
