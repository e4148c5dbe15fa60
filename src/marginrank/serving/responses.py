"""Responses as JSON, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from marginrank.errors import DataError
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.serving.limits import Refusal
from marginrank.serving.requests import Query, RankRequest
from marginrank.serving.rerank import RerankRequest
from marginrank.serving.served_model import Loaded

#: Documents of a response that are written at a time.
_DOCUMENTS: Final = 100

# Characters beyond ASCII are escaped: ids may hold halves of a pair, which UTF-8 does not have.
_dumps: Final = json.JSONEncoder(allow_nan=False).encode


def write_ranking(rank_request: RankRequest, loaded: Loaded) -> Iterator[str]:
    """Write the ranking of each query."""
    yield f'{{"model": {_dumps(loaded.digest)}, "queries": ['
    for number, query in enumerate(rank_request.queries):
        yield f'{", " if number else ""}{{"id": {_dumps(query.id)}, "documents": ['
        yield from _listed(_ranked(query, f"queries[{number}]", rank_request, loaded.model))
        yield "]}"
    yield "]}"


def write_rerank(rerank_request: RerankRequest, loaded: Loaded) -> Iterator[str]:
    """Write the ranking of one query in the format of the rerank routes of Cohere and Jina."""
    (query,), returned = rerank_request.queries, rerank_request.documents
    yield f'{{"model": {_dumps(loaded.digest)}, "results": ['
    yield from _listed(
        {"index": document["id"], "relevance_score": document["score"]}
        | ({} if returned is None else {"document": returned[document["id"]]})
        for document in _ranked(query, "documents", rerank_request, loaded.model)
    )
    yield "]}"


def _listed(values: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Write values with commas between them, some at a time."""
    separator = ""
    while some := list(islice(values, _DOCUMENTS)):
        try:
            yield f"{separator}{_dumps(some)[1:-1]}"
        except RecursionError:
            raise Refusal(422, "a document is nested too deep to be returned; leave return_documents out") from None
        separator = ", "


def _ranked(query: Query, place: str, rank_request: RankRequest, model: ScoringFunction) -> Iterator[dict[str, Any]]:
    """Yield the documents of a query, best first."""
    contributions = None
    try:
        rows, scores = (part.tolist() for part in model.rerank(query.table, rank_request.k))
        if rank_request.explain and rows:
            contributions = model.explain(query.table, rows=rows)
    except DataError as error:
        raise Refusal(422, f"{place}: {error}") from None
    except TypeError as error:
        raise Refusal(422, f"explain: {error}; leave explain out") from None
    for at, (row, score) in enumerate(zip(rows, scores, strict=True)):
        document = {"id": query.documents[row], "rank": at + 1, "score": score}
        if contributions is not None:
            document["contributions"] = dict(zip(model.names, contributions[at].tolist(), strict=True))
        yield document
