"""A document compressor of LangChain that ranks with a saved model or fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import shorten
from typing import Any

from marginrank.errors import DataError
from marginrank.integrations.document_fields import as_function, merge_runs, rerank_fields

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from pydantic import ConfigDict, PrivateAttr
except ImportError:
    raise ImportError("marginrank.integrations.langchain needs LangChain: pip install langchain-core") from None


class Reranker(BaseDocumentCompressor):
    """Ranks documents by a model whose features are in their metadata.

    Documents come back best first, with the score of the model as ``relevance_score`` in their metadata.

    >>> ranked = Reranker(model="model.safetensors", top_n=3).compress_documents(documents, query)  # doctest: +SKIP

    Args:
        model: A model file, of a ranker or a fusion, or what `marginrank.model.scoring.load` returns.
        top_n: Number of documents to return; all by default.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: Any
    top_n: int | None = None
    _function: Any = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Read the model."""
        super().model_post_init(context)
        self._function = as_function(self.model)

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,  # noqa: ARG002
        callbacks: Any = None,  # noqa: ARG002
    ) -> list[Document]:
        """Return the documents of one query, best first; the text of the query is not used."""
        fields = [document.metadata for document in documents]
        rows, scores = rerank_fields(self._function, fields, self.top_n, "metadata")
        return [
            documents[row].model_copy(update={"metadata": {**fields[row], "relevance_score": score}})
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]


def merge_documents(runs: Mapping[str, Iterable[tuple[Document, float]]]) -> list[Document]:
    """Merge what several retrievers returned; each document has its score in each run in its metadata.

    Documents are the same if their ids are, or without an id their texts. A run that did not return one has None.

    Args:
        runs: By name, pairs of document and score, as ``similarity_search_with_score`` returns them; higher is better.

    Raises:
        DataError: A run returned a document twice or without a score, or the same text has an id in one run and none in
            another.
    """
    pairs = {name: list(run) for name, run in runs.items()}
    _check_ids([document for run in pairs.values() for document, _ in run])
    merged = merge_runs(pairs, key=lambda pair: pair[0].id or pair[0].page_content, score=lambda pair: float(pair[1]))
    return [
        document.model_copy(update={"metadata": {**document.metadata, **scores}}) for (document, _), scores in merged
    ]


def _check_ids(documents: Sequence[Document]) -> None:
    """Refuse texts with and without an id, as when a vector store gives ids to documents and another index does not."""
    with_id = {document.page_content: document.id for document in documents if document.id}
    for document in documents:
        if not document.id and document.page_content in with_id:
            raise DataError(
                f"document {shorten(document.page_content, 40)!r} has no id in one run, and in another it is "
                f"{with_id[document.page_content]!r}; give documents an id before you index them: Document(id=...)"
            )
