"""A node postprocessor of LlamaIndex that ranks with a saved model or fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from marginrank.integrations.document_fields import as_function, merge_runs, rerank_fields

try:
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
except ImportError:
    raise ImportError("marginrank.integrations.llama_index needs LlamaIndex: pip install llama-index-core") from None


class Reranker(BaseNodePostprocessor):
    """Ranks nodes by a model whose features are in their metadata; the score of a node becomes that of the model.

    >>> nodes = Reranker(model="model.safetensors", top_n=3).postprocess_nodes(nodes)  # doctest: +SKIP

    Args:
        model: A model file, of a ranker or a fusion, or what `marginrank.model.scoring.load` returns.
        top_n: Number of nodes to return; all by default.
        score: The feature that the score of the retriever is; None if the model does not use it.
    """

    model: Any = Field(exclude=True)
    top_n: int | None = None
    score: str | None = None
    _function: Any = PrivateAttr()

    def __init__(self, model: Any, top_n: int | None = None, score: str | None = None, **kwargs: Any) -> None:
        super().__init__(model=model, top_n=top_n, score=score, **kwargs)
        self._function = as_function(model)

    @classmethod
    def class_name(cls) -> str:
        """Name the class, for serialization."""
        return "MarginrankReranker"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002
    ) -> list[NodeWithScore]:
        fields = [node.node.metadata | ({} if self.score is None else {self.score: node.score}) for node in nodes]
        rows, scores = rerank_fields(self._function, fields, self.top_n, "metadata")
        return [
            NodeWithScore(node=nodes[row].node, score=score)
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]


def merge_nodes(runs: Mapping[str, Iterable[NodeWithScore]]) -> list[NodeWithScore]:
    """Merge what several retrievers returned; each node has its score in each run in its metadata.

    A run that did not return a node has None. Nodes are the same if their ids are; they are copied. Language models
    and embeddings do not see the scores.

    Args:
        runs: Nodes with scores, by the name of the run.
    """
    merged = merge_runs(runs, key=lambda node: node.node.node_id, score=lambda node: node.score)
    return [NodeWithScore(node=_with_scores(node.node, scores)) for node, scores in merged]


def _with_scores(node: BaseNode, scores: Mapping[str, float | None]) -> BaseNode:
    hidden = {
        keys: list(dict.fromkeys([*getattr(node, keys), *scores]))
        for keys in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    }
    return node.model_copy(update={"metadata": {**node.metadata, **scores}, **hidden})
