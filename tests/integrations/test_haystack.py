"""The components in a pipeline of Haystack, evaluated by its own evaluators."""

from __future__ import annotations

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: pip install haystack-ai")

from haystack import Document, Pipeline
from haystack.components.evaluators import DocumentMAPEvaluator, DocumentMRREvaluator, DocumentNDCGEvaluator

from marginrank import DataError
from marginrank.integrations.haystack import Reranker, ScoreJoiner
from tests.integrations.judged_documents import fused_runs, ranked_features


def check(example, documents):
    """Compare the values of Haystack's evaluators with ours."""
    relevant, ranked = [], []
    for qid, judged in example.queries.items():
        truth = [Document(id=one["id"], content=one["id"]) for one in judged if one["grade"] > 0]
        if truth:
            relevant.append(truth)
            ranked.append(documents[qid])
    evaluators = {"rr": DocumentMRREvaluator(), "ap": DocumentMAPEvaluator(), "ndcg": DocumentNDCGEvaluator()}
    share = len(relevant) / len(example.queries)  # the others count 0
    values = {
        name: share * evaluator.run(ground_truth_documents=relevant, retrieved_documents=ranked)["score"]
        for name, evaluator in evaluators.items()
    }
    assert values == pytest.approx(example.expected, abs=1e-12)


def test_its_evaluators_find_our_numbers_for_features(tmp_path):
    example = ranked_features(tmp_path)
    pipeline = Pipeline()
    pipeline.add_component("ranker", Reranker(str(example.path), score="bm25"))
    pipeline = Pipeline.loads(pipeline.dumps(), allowed_modules=["marginrank.integrations.haystack"])
    documents = {
        qid: [
            Document(
                id=one["id"],
                content=one["id"],
                meta={"clicks": one["features"]["clicks"]},
                score=one["features"]["bm25"],
            )
            for one in judged
        ]
        for qid, judged in example.queries.items()
    }
    found = {
        qid: pipeline.run({"ranker": {"documents": some}})["ranker"]["documents"] for qid, some in documents.items()
    }
    check(example, found)
    two = pipeline.run({"ranker": {"documents": documents["q3"], "top_k": 2}})["ranker"]["documents"]
    assert two == found["q3"][:2]


def test_its_evaluators_find_our_numbers_for_runs_that_are_joined(tmp_path):
    example, runs = fused_runs(tmp_path)
    pipeline = Pipeline()
    pipeline.add_component("joiner", ScoreJoiner(["bm25", "dense"]))
    pipeline.add_component("ranker", Reranker(str(example.path)))
    pipeline.connect("joiner.documents", "ranker.documents")
    pipeline = Pipeline.loads(pipeline.dumps(), allowed_modules=["marginrank.integrations.haystack"])

    def ranked(qid):
        lists = {
            name: [Document(id=one, content=one, score=score) for one, score in run[qid].items()]
            for name, run in runs.items()
        }
        return pipeline.run({"joiner": lists})["ranker"]["documents"]

    check(example, {qid: ranked(qid) for qid in example.queries})


def test_mistakes_are_named(tmp_path):
    reranker = Reranker(str(ranked_features(tmp_path).path))
    with pytest.raises(DataError, match=r"document 0: meta\['bm25'\] is not there"):
        reranker.run(documents=[Document(content="a", score=1.0)])
    assert reranker.run(documents=[]) == {"documents": []}
