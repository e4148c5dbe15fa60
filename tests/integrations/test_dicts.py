"""Judgements and runs as the dicts of ir-measures and ranx, both ways; their evaluation finds our numbers."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest

from marginrank import Queries, evaluate
from marginrank.data.formats.trec import Qrels, Run
from marginrank.evaluation.systems import as_qrels


def judged_run():
    """Judgements and a run from shuffled rows, with an unjudged document, and one that only the run has."""
    rng = np.random.default_rng(3)
    rows = rng.permutation(60)
    queries = Queries.from_arrays(
        np.zeros((60, 1)),
        rng.integers(0, 3, 60),
        qid=[f"q{row // 10}" for row in rows],
        document_ids=[f"d{row}" for row in rows],
    )
    run = Run.from_scores(queries, rng.standard_normal(60)).to_dict()
    qrels = as_qrels(queries).to_dict()
    run["q1"]["only here"] = 0.25
    qrels["q2"]["d20"] = -1
    return Qrels.from_dict(qrels), Run.from_dict(run)


def test_dicts_lead_back():
    qrels, run = judged_run()
    judgements, scores = qrels.to_dict(), run.to_dict()
    assert "d20" not in judgements["q2"]
    assert all(type(grade) is int for grades in judgements.values() for grade in grades.values())
    assert Qrels.from_dict(judgements).to_dict() == judgements
    assert Run.from_dict(scores).to_dict() == scores
    assert evaluate(judgements, scores, "ap").mean == evaluate(qrels, run, "ap").mean


def test_ir_measures_finds_our_numbers():
    qrels, run = judged_run()
    measures = {"ap": ir_measures.AP, "rr": ir_measures.RR, "ndcg@5": ir_measures.nDCG @ 5}
    ours = evaluate(qrels, run, list(measures), policy="trec").mean
    theirs = ir_measures.calc_aggregate(list(measures.values()), qrels.to_dict(), run.to_dict())
    assert list(ours.values()) == pytest.approx([theirs[measure] for measure in measures.values()], abs=1e-12)


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # of ranx 0.3.21
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaWarning")  # of its kernels
def test_ranx_finds_our_numbers_and_its_objects_come_back():
    ranx = pytest.importorskip("ranx", reason="ranx is not installed: pip install ranx")
    qrels, run = judged_run()
    their_qrels, their_run = ranx.Qrels(qrels.to_dict()), ranx.Run(run.to_dict())
    theirs = ranx.evaluate(their_qrels, their_run, ["map", "mrr", "ndcg@5"])
    ours = evaluate(qrels, run, ["ap", "rr", "ndcg@5"], policy="trec").mean
    assert list(ours.values()) == pytest.approx(list(theirs.values()), abs=1e-12)
    back = evaluate(their_qrels.to_dict(), their_run.to_dict(), ["ap", "rr", "ndcg@5"], policy="trec").mean
    assert back == ours
