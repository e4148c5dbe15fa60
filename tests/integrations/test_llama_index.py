"""The postprocessor in a retriever of LlamaIndex, evaluated by its own evaluator."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed: pip install llama-index-core")

from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from marginrank import DataError
from marginrank.integrations.llama_index import Reranker, merge_nodes
from tests.integrations.judged_documents import fused_runs, ranked_features


class Lists(BaseRetriever):
    """Returns what a function returns for the text of the query."""

    def __init__(self, function):
        self.function = function
        super().__init__()

    def _retrieve(self, query_bundle):
        return self.function(query_bundle.query_str)


async def means(evaluator, queries):
    """Average the values of the evaluator over queries; those without relevant documents count 0."""
    totals = dict.fromkeys(("mrr", "ap", "ndcg"), 0.0)
    for qid, judged in queries.items():
        relevant = [one["id"] for one in judged if one["grade"] > 0]
        if relevant:
            result = await evaluator.aevaluate(qid, relevant)
            totals = {name: total + result.metric_vals_dict[name] for name, total in totals.items()}
    return {name: total / len(queries) for name, total in totals.items()}


def check(example, retrieve, reranker):
    evaluator = RetrieverEvaluator.from_metric_names(
        ["mrr", "ap", "ndcg"], retriever=Lists(retrieve), node_postprocessors=[reranker]
    )
    values = asyncio.run(means(evaluator, example.queries))
    expected = {"mrr": example.expected["rr"], "ap": example.expected["ap"], "ndcg": example.expected["ndcg"]}
    assert values == pytest.approx(expected, abs=1e-12)


def test_its_evaluator_finds_our_numbers_for_features(tmp_path):
    example = ranked_features(tmp_path)

    def retrieve(qid):
        """The score of the retriever is a feature; the other is in the metadata."""
        return [
            NodeWithScore(
                node=TextNode(id_=one["id"], text="", metadata={"clicks": one["features"]["clicks"]}),
                score=one["features"]["bm25"],
            )
            for one in example.queries[qid]
        ]

    check(example, retrieve, Reranker(example.path, score="bm25"))


def test_its_evaluator_finds_our_numbers_for_runs(tmp_path):
    example, runs = fused_runs(tmp_path)

    def retrieve(qid):
        return merge_nodes(
            {
                name: [NodeWithScore(node=TextNode(id_=one), score=score) for one, score in run[qid].items()]
                for name, run in runs.items()
            }
        )

    check(example, retrieve, Reranker(str(example.path)))
    assert len(Reranker(example.path, top_n=2).postprocess_nodes(retrieve("q3"))) == 2


def test_models_of_text_do_not_see_the_scores():
    node = TextNode(text="A spade.", metadata={"shop": "tools"}, excluded_llm_metadata_keys=["shop"])
    (merged,) = merge_nodes({"bm25": [NodeWithScore(node=node, score=7.0)], "dense": []})
    assert merged.node.metadata == {"shop": "tools", "bm25": 7.0, "dense": None}
    assert merged.node.get_content(MetadataMode.LLM) == "A spade."
    assert merged.node.get_content(MetadataMode.EMBED) == node.get_content(MetadataMode.EMBED)
    assert node.metadata == {"shop": "tools"}


def test_mistakes_are_named(tmp_path):
    reranker = Reranker(ranked_features(tmp_path).path)
    with pytest.raises(DataError, match=r"document 0: metadata\['bm25'\] is not there"):
        reranker.postprocess_nodes([NodeWithScore(node=TextNode(text="a"), score=1.0)])
    assert reranker.postprocess_nodes([]) == []
    with pytest.raises(DataError, match="run 'bm25': document 'a' has no score; let it return scored"):
        merge_nodes({"bm25": [NodeWithScore(node=TextNode(id_="a"))]})
