"""Judgements and runs as dicts, and the share of documents that are judged."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries, Ranker, compare, evaluate, parse_measure, tune, write_report
from marginrank.data import Qrels, Run, write_run
from marginrank.errors import DataError
from marginrank.evaluation import measure_scorer
from marginrank.fusion import Fusion, pool_runs
from marginrank.losses import GroupedLoss, ListHinge, SmoothedHinge, StructuredLoss
from marginrank.measures.base import parse_mix

JUDGED = {"q1": {"a": 2, "b": 0, "c": 1}, 7: {"x": 0, "y": True}, "q3": {"n": 0}}
#: Of q1, the judged documents are at ranks 1, 3 and 4 of five; of 7, at rank 2 of two; of q3, nowhere.
RUN = {"q1": {"u": 4.0, "a": 5, "b": 3.0, "c": 2, "v": np.float32(1)}, "7": {"y": 0.1, "w": 0.2}, "q3": {"z": -1.0}}
SHARES = {
    "judged@1": [1, 0, 0],
    "judged@2": [1 / 2, 1 / 2, 0],
    "judged@3": [2 / 3, 1 / 2, 0],
    "judged@10": [3 / 5, 1 / 2, 0],
    "judged": [3 / 5, 1 / 2, 0],
}


def flat(lists, kind, numbers):
    sizes = [len(documents) for documents in lists.values()]
    ids = [name for documents in lists.values() for name in documents]
    values = [float(value) for documents in lists.values() for value in documents.values()]
    return kind(np.array(list(map(str, lists))), np.cumsum([0, *sizes]), np.array(ids), np.array(values), *numbers)


def test_dicts_are_judgements_and_runs():
    qrels, run = flat(JUDGED, Qrels, []), flat(RUN, Run, ["mine"])
    expected = evaluate(qrels, run, ["ndcg@10", "ap", "rr"])
    for judged, ranked in ((JUDGED, RUN), (qrels, RUN), (JUDGED, run), (JUDGED, dict(reversed(RUN.items())))):
        found = evaluate(judged, ranked, ["ndcg@10", "ap", "rr"])
        assert found.query_ids.tolist() == ["q1", "7", "q3"]
        for name in expected.values:
            np.testing.assert_array_equal(found[name], expected[name])
    # By hand: c of q1 is at rank 4 after a at rank 1; y of 7 at rank 2; q3 has nothing relevant.
    np.testing.assert_allclose(expected["ap"], [(1 + 2 / 4) / 2, 1 / 2, np.nan])


def test_a_dict_is_judged_by_queries():
    queries = Queries.from_arrays(
        [[0.0]] * 4, [0, 1, 1, 0], qid=["p", "q", "p", "q"], document_ids=["a", "b", "c", "d"]
    )
    found = evaluate(queries, {"q": {"d": 2.0, "b": 1.0}, "p": {"c": 3.0, "zzz": 1.0}}, ["rr", "judged@2"])
    assert (found.query_ids.tolist(), found["rr"].tolist()) == (["p", "q"], [1.0, 0.5])
    assert found["judged@2"].tolist() == [0.5, 1.0]


def test_dicts_are_compared_fused_and_reported(tmp_path):
    other = {query: {name: -score for name, score in documents.items()} for query, documents in RUN.items()}
    found = compare({"mine": RUN, "other": other}, JUDGED, measure="rr", resamples=99)
    assert found == compare(
        {name: evaluate(JUDGED, run, "rr") for name, run in (("mine", RUN), ("other", other))}, resamples=99
    )
    gathered = pool_runs({"mine": RUN, "other": other}, JUDGED)
    again = pool_runs({"mine": flat(RUN, Run, []), "other": flat(other, Run, [])}, flat(JUDGED, Qrels, []))
    np.testing.assert_array_equal(gathered.X, again.X)
    assert gathered.grades.tolist() == again.grades.tolist()
    assert gathered.feature_names == ("mine", "other")
    assert {one.kind for one in write_report(tmp_path / "page.html", JUDGED, {"mine": RUN}, ["rr"]).systems} == {"run"}
    facts = write_report(tmp_path / "page.html", JUDGED, {"mine": RUN, "other": other}, ["rr", "judged@2"])
    assert {mean.measure: mean.mean for mean in facts.means if mean.system == "mine"}["judged@2"] == pytest.approx(
        1 / 3
    )


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        ({"q1": ["a", "b"]}, "query 'q1' has a list, not a dict; give {query: {document: grade}}"),
        ({"q1": {"a": "good"}}, "query 'q1', document 'a': the grade is 'good'; give a number"),
        ({"q1": {"a": "2"}}, "query 'q1', document 'a': the grade is '2'; give a number"),
        (
            {"q1": {"a": float("inf")}},
            "query 'q1', document 'a': the grade is inf; leave the document out, or give a finite number",
        ),
        ({}, "there are no queries in this dict; give {query: {document: grade}}"),
        ({"7": {"a": 1}, 7: {"a": 1}}, "two queries have the same name, as text and as a number; keep one"),
        ({"q1": {"7": 1, 7: 0}}, "query 'q1' has two documents of the same name, as text and as a number; keep one"),
    ],
)
def test_mistakes_in_dicts_are_named(judged, said):
    with pytest.raises(DataError) as refused:
        evaluate(judged, RUN)
    assert str(refused.value) == said
    with pytest.raises(DataError) as refused:
        pool_runs({"mine": judged}, JUDGED)
    assert str(refused.value) == said.replace("grade", "score")


def test_a_dict_needs_judgements():
    with pytest.raises(TypeError, match="'mine' has no values yet; give judged queries"):
        compare({"mine": RUN, "again": RUN})
    with pytest.raises(TypeError, match=r"evaluate takes \(queries, scores\), \(qrels, run\)"):
        evaluate([1, 0], RUN, qid=[1, 1])


@pytest.mark.parametrize("grade", [-1, -2, None, float("nan")])
def test_documents_without_a_grade_are_unjudged(grade):
    judged = {"q": {"spam": grade, "a": 1}}
    np.testing.assert_array_equal(Qrels.from_dict(judged).grades, [np.nan, 1])
    result = evaluate(judged, {"q": {"spam": 2.0, "a": 1.0}}, ["judged@1", "rr"])
    assert result.mean == {"judged@1": 0.0, "rr": 0.5}
    assert evaluate(judged, {"q": {"spam": 2.0, "a": 1.0}}, "rr", unjudged="skip").mean["rr"] == 1.0


# --- judged@k


@pytest.mark.parametrize("policy", ["standard", "letor3", "letor4", "mslr", "trec", "lightgbm"])
@pytest.mark.parametrize("measure", SHARES)
def test_the_share_of_judged_documents_by_hand(measure, policy):
    assert evaluate(JUDGED, RUN, measure, policy=policy)[measure].tolist() == SHARES[measure]


def test_names_of_other_tools():
    assert {str(parse_measure(name)) for name in ("Judged@10", "judged_10", "judged@10")} == {"judged@10"}
    assert str(parse_measure("hit_rate@5")) == "success@5"


def test_ties_count_their_mean():
    """Of three documents at rank 1, one is judged: 1/3 at 1, 2/3 of 2 at 2."""
    tied = evaluate(
        {"q": {"a": 1, "b": 1}}, {"q": {"a": 1.0, "u": 1.0, "v": 1.0, "b": 0.0}}, ["judged@1", "judged@2", "judged@4"]
    )
    assert list(tied.mean.values()) == pytest.approx([1 / 3, 1 / 3, 1 / 2])
    cut = evaluate({"q": {"a": 1}}, {"q": {"u": 3.0, "a": 2.0, "v": 1.0}}, ["judged", "judged@5"], depth=2)
    assert list(cut.mean.values()) == [0.5, 0.5]
    cut = evaluate({"q": {"a": 1}}, {"q": {"u": 1.0, "a": 1.0}}, "judged", depth=1)
    assert cut.mean["judged"] == 0.5


def test_topics_that_a_run_lacks():
    found = evaluate(JUDGED, {"q1": {"a": 1.0}}, "judged@3", missing_topics="zero")
    assert found["judged@3"].tolist() == [1, 0, 0]
    assert evaluate(JUDGED, {"q1": {"a": 1.0}, "7": {}, "q3": {}}, "judged@3")["judged@3"].tolist() == [1, 0, 0]


def test_all_documents_of_queries_are_judged():
    queries = Queries.from_arrays([[0.0]] * 4, [0, 0, 1, 0], qid=[1, 1, 2, 2])
    assert evaluate(queries, [1.0, 1.0, 2.0, 0.0], "judged@3")["judged@3"].tolist() == [1, 1]
    assert evaluate([0, 0, 1], [1, 2, 3], "judged@1", qid=[1, 2, 1])["judged@1"].tolist() == [1, 1]


def test_it_cannot_be_trained_for():
    queries = Queries.from_arrays([[0.0], [1.0]] * 4, [0, 1] * 4, group=[2] * 4)
    message = "judged@5 does not depend on the order of judged documents; choose another measure, such as ndcg@10"
    attempts = [
        lambda: Ranker("judged@5").fit(queries),
        lambda: Ranker(measure="ndcg@10 + 0.5*judged@5").fit(queries),
        lambda: tune(Ranker(), queries, criterion="judged@5", folds=2, Cs=[1.0]),
        lambda: StructuredLoss("judged@5"),
        lambda: SmoothedHinge("judged@5"),
        lambda: ListHinge("judged@5"),
        lambda: measure_scorer("judged@5"),
        lambda: parse_mix(parse_measure("judged@5")),
        lambda: Fusion("score", measure="judged@5", Cs=[1.0]).fit(queries, folds=2),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=message):
            attempt()
    with pytest.raises(ValueError, match="groups need a sum over ranks, such as ndcg@10, or rr, not judged@5"):
        GroupedLoss("judged@5")


def test_it_is_measured_on_the_command_line(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from marginrank.cli.app import app

    monkeypatch.chdir(tmp_path)
    lines = [
        f"{query} 0 {name} {int(grade)}" for query, documents in JUDGED.items() for name, grade in documents.items()
    ]
    (tmp_path / "judged.qrels").write_text("\n".join(lines) + "\n")
    write_run(tmp_path / "mine.run", Run.from_dict(RUN))
    done = CliRunner().invoke(app, ["evaluate", "judged.qrels", "mine.run", "-m", "ndcg@10", "-m", "judged_3"])
    assert done.exit_code == 0, done.output
    assert "judged@3  0.3889        3" in done.stdout  # (2/3 + 1/2 + 0) / 3
