"""Requests and responses in the format of the rerank routes of Cohere and Jina."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from marginrank.runtime.text import listed
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.serving.limits import Refusal, ServiceLimits
from marginrank.serving.requests import (
    Query,
    RankRequest,
    check_object,
    go_on,
    kind_of,
    parse_json,
    read_k,
    refuse,
    table_of_objects,
)

#: Fields of a request that clients send and that have no effect: there is one model, and texts are not read.
_WITHOUT_EFFECT: Final = ("model", "rank_fields", "max_chunks_per_doc", "max_tokens_per_doc")
_REQUEST: Final = ("query", "documents", "top_n", "return_documents", *_WITHOUT_EFFECT)


@dataclass(frozen=True)
class RerankRequest(RankRequest):
    """One query to rank, with the documents to return beside their scores; None if they are not to be returned."""

    documents: list[dict[str, Any]] | None


def read_rerank(
    content: Any, model: ScoringFunction, limits: ServiceLimits, check_stop: Callable[[], None] = go_on
) -> RerankRequest:
    """Check a request of parsed JSON against a model, and refuse it with the place and a fix.

    A document is an object with the model's features (of a fusion: the scores of its runs) and whatever else, or such
    an object as text, for clients that send nothing but text.

    >>> import numpy as np
    >>> from marginrank.scorers.terms import LinearTerm
    >>> weights = LinearTerm(np.array([1.0, 2.0]), None, None, np.zeros(0, dtype=np.int64), np.zeros(0))
    >>> model = ScoringFunction(("bm25", "clicks"), (weights,))
    >>> documents = [{"text": "A spade.", "clicks": 2, "bm25": 0.5}, '{"bm25": 3, "clicks": 0}']
    >>> read_rerank({"query": "spade", "documents": documents}, model, ServiceLimits()).queries[0].table.tolist()
    [[0.5, 2.0], [3.0, 0.0]]
    >>> read_rerank({"query": "spade", "documents": ["A spade."]}, model, ServiceLimits())
    Traceback (most recent call last):
    ...
    marginrank.serving.limits.Refusal: documents[0]: it is text, which this model does not read; give an object with \
bm25, clicks, or such an object as text
    """
    check_object(content, "the request", _REQUEST)
    if type(content.get("query", "")) is not str:
        refuse("query", f"it is {kind_of(content['query'])}; give text")
    documents = content.get("documents")
    if type(documents) is not list:
        absent = 'it is not there; send {"query": "...", "documents": [{...}]}'
        refuse("documents", f"it is {kind_of(documents)}; give a list" if "documents" in content else absent)
    if len(documents) > limits.max_documents:
        raise Refusal(413, f"documents: {len(documents):,} of them; send {limits.max_documents:,} at a time at most")
    returned = content.get("return_documents", False)
    if returned is not None and type(returned) is not bool:
        refuse("return_documents", f"it is {kind_of(returned)}; give true or false")
    objects = []
    for number, document in enumerate(documents):
        check_stop()
        objects.append(_as_object(document, f"documents[{number}]", model))
    query = Query(0, range(len(objects)), table_of_objects(objects, "documents", model))
    shown = [{"text": document} if type(document) is str else document for document in documents]
    return RerankRequest((query,), read_k(content.get("top_n"), "top_n"), False, shown if returned else None)


def _as_object(document: Any, place: str, model: ScoringFunction) -> dict[str, Any]:
    if type(document) is dict:
        return document
    expected = f"give an object with {listed(model.inputs, 5)}"
    if type(document) is not str:
        refuse(place, f"it is {kind_of(document)}; {expected}")
    if not document.lstrip().startswith("{"):
        refuse(place, f"it is text, which this model does not read; {expected}, or such an object as text")
    try:
        parsed: dict[str, Any] = parse_json(document.encode("utf-8", "replace"))
    except Refusal as refusal:
        raise Refusal(refusal.status, f"{place}: {refusal.reason}") from None
    return parsed
