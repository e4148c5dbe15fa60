"""The compressor in a retriever of LangChain: its order gives our number."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_core", reason="LangChain is not installed: pip install langchain-core langchain-classic")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from marginrank import DataError, evaluate
from marginrank.integrations.langchain import Reranker, merge_documents
from tests.integrations.judged_documents import fused_runs, ranked_features


def measured(queries, documents):
    """Evaluate the order of documents, best first, by reciprocal rank and average precision."""
    qrels = {qid: {one["id"]: one["grade"] for one in judged} for qid, judged in queries.items()}
    run = {qid: {one.id: -float(rank) for rank, one in enumerate(found)} for qid, found in documents.items()}
    result = evaluate(qrels, run, ["rr", "ap"], policy="trec")
    return {"rr": result.mean["rr"], "ap": result.mean["ap"]}


def test_a_compression_retriever_ranks_as_the_model_does(tmp_path):
    retrievers = pytest.importorskip("langchain_classic.retrievers", reason="needs pip install langchain-classic")
    example = ranked_features(tmp_path)

    def retrieve(query):
        return [
            Document(page_content=one["id"], id=one["id"], metadata=one["features"]) for one in example.queries[query]
        ]

    retriever = retrievers.ContextualCompressionRetriever(
        base_compressor=Reranker(model=example.path), base_retriever=RunnableLambda(retrieve)
    )
    found = {qid: retriever.invoke(qid) for qid in example.queries}
    values = measured(example.queries, found)
    assert values == pytest.approx({"rr": example.expected["rr"], "ap": example.expected["ap"]}, abs=1e-12)
    first = next(iter(found.values()))
    scores = [one.metadata["relevance_score"] for one in first]
    assert scores == sorted(scores, reverse=True)
    assert set(first[0].metadata) == {"bm25", "clicks", "relevance_score"}


def test_merged_runs_rank_as_the_fusion_does(tmp_path):
    example, runs = fused_runs(tmp_path)

    def retrieve(qid):
        return merge_documents(
            {
                name: [(Document(page_content=f"Text of {one}", id=one), score) for one, score in run[qid].items()]
                for name, run in runs.items()
            }
        )

    reranker = Reranker(model=str(example.path))
    chain = RunnableLambda(lambda qid: reranker.compress_documents(retrieve(qid), qid))
    found = {qid: chain.invoke(qid) for qid in example.queries}
    values = measured(example.queries, found)
    assert values == pytest.approx({"rr": example.expected["rr"], "ap": example.expected["ap"]}, abs=1e-12)
    top = Reranker(model=str(example.path), top_n=2)
    assert [one.id for one in top.compress_documents(retrieve("q3"), "")] == [one.id for one in found["q3"][:2]]


def test_ids_that_only_one_store_gives_are_refused():
    documents = [Document(page_content=f"text {number}") for number in range(3)]
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(documents)
    runs = {
        "bm25": [(one, 1.0) for one in documents],
        "dense": store.similarity_search_with_score("text", k=3),
    }
    with pytest.raises(DataError, match=r"document 'text 0' has no id in one run, .*; give documents an id before you"):
        merge_documents(runs)
    runs["bm25"] = [(one, score) for score, (one, _) in enumerate(runs["dense"])]
    assert len(merge_documents(runs)) == 3


def test_documents_stay_as_they_were_and_mistakes_are_named(tmp_path):
    reranker = Reranker(model=ranked_features(tmp_path).path)
    documents = [Document(page_content="a", metadata={"bm25": 1.0, "clicks": 2}), Document(page_content="b")]
    with pytest.raises(DataError, match=r"document 1: metadata\['bm25'\] is not there, which the model needs \(bm25, "):
        reranker.compress_documents(documents, "")
    assert documents[0].metadata == {"bm25": 1.0, "clicks": 2}
    documents[1].metadata = {"bm25": "high", "clicks": 2}
    with pytest.raises(DataError, match=r"document 1: metadata\['bm25'\] is 'high'; give a number"):
        reranker.compress_documents(documents, "")
    documents[1].metadata = {"bm25": None, "clicks": 2}
    with pytest.raises(DataError, match=r"document 1: metadata\['bm25'\] is None; fill it, or train with"):
        reranker.compress_documents(documents, "")
    assert reranker.compress_documents([], "") == []
    pair = (Document(page_content="a"), 1.0)
    with pytest.raises(DataError, match="run 'bm25': document 'a' appears twice; let it return each"):
        merge_documents({"bm25": [pair, pair]})
    with pytest.raises(TypeError, match="this is a dict; give the path of a model file"):
        Reranker(model={})
