"""Components of Haystack: a ranker that takes a saved model or fusion, and a joiner that keeps all scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from marginrank.integrations.document_fields import as_function, merge_runs, rerank_fields

try:
    from haystack import Document, component
except ImportError:
    raise ImportError("marginrank.integrations.haystack needs Haystack: pip install haystack-ai") from None


@component
class Reranker:
    """Ranks documents by a model whose features are in their meta; the score of a document becomes that of the model.

    >>> pipeline.add_component("ranker", Reranker("model.safetensors", top_k=3))  # doctest: +SKIP

    Args:
        model: The path of a model file, of a ranker or a fusion, or what `marginrank.model.scoring.load` returns, which
            a pipeline cannot be written with.
        top_k: Number of documents to return; all by default.
        score: The feature that the score of the retriever is; None if the model does not use it.
    """

    def __init__(self, model: Any, top_k: int | None = None, score: str | None = None) -> None:
        self.model, self.top_k, self.score = model, top_k, score
        self._function = as_function(model)

    @component.output_types(documents=list[Document])
    def run(
        self,
        documents: list[Document],
        query: str | None = None,  # noqa: ARG002
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return the documents of one query, best first; the text of the query is not used."""
        fields = [one.meta | ({} if self.score is None else {self.score: one.score}) for one in documents]
        rows, scores = rerank_fields(self._function, fields, self.top_k if top_k is None else top_k, "meta")
        ranked = zip(rows.tolist(), scores.tolist(), strict=True)
        return {"documents": [replace(documents[row], score=score) for row, score in ranked]}


@component
class ScoreJoiner:
    """Merges the documents of several retrievers; each has its score in each run in its meta, None if it has none.

    It has an input for each run, of its name, to connect a retriever with.

    >>> pipeline.connect("bm25_retriever.documents", "joiner.bm25")  # doctest: +SKIP

    Args:
        runs: Names of the runs.
    """

    def __init__(self, runs: Sequence[str]) -> None:
        self.runs = list(runs)
        component.set_input_types(self, **dict.fromkeys(self.runs, list[Document]))

    @component.output_types(documents=list[Document])
    def run(self, **runs: list[Document]) -> dict[str, list[Document]]:
        """Return each document once."""
        merged = merge_runs(
            {name: runs[name] for name in self.runs}, key=lambda one: one.id, score=lambda one: one.score
        )
        return {"documents": [replace(document, meta={**document.meta, **scores}) for document, scores in merged]}
