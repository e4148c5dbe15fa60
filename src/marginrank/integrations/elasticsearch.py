"""Hybrid search in Elasticsearch: candidates with the score of each retriever, and learned weights as a search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Judgements, check_runs, exported, runs_of
from marginrank.integrations.engine_minmax import EngineMinMax, check_depth
from marginrank.integrations.search_requests import (
    Agreement,
    QueryValues,
    Template,
    collect_hits,
    compare_scores,
    fill,
    log_features,
    sample_of,
    scores_by_query,
    search,
    verify_model,
)

__all__ = ["collect", "hybrid_query", "log_features", "verify", "verify_model"]

#: Scores that differ by less are equal for the ``minmax`` normalizer.
_EQUAL: Final = 1e-6
_MINMAX: Final = EngineMinMax(
    "Elasticsearch",
    "their own scores",
    are_equal=lambda runs: runs.best - runs.least < _EQUAL,
    unit=lambda runs: np.where(runs.best - runs.least < _EQUAL, runs.least, runs.unit),
)


def collect(
    client: Any,
    index: str,
    queries: QueryValues,
    retrievers: Mapping[str, Template],
    judgements: Judgements = None,
    *,
    k: int = 100,
) -> Queries:
    """Run every retriever for every query, and return a column of scores per retriever, NaN where it found nothing.

    A warning says if a retriever returned a single hit or equal scores, which min-max scaling of Elasticsearch leaves
    as they are, while training scales them to 0.

    Args:
        client: The client of elasticsearch-py, or one with the same ``search``.
        index: Name of the index.
        queries: The values of the parameters of retrievers, by query id.
        retrievers: Retrievers by name, as Elasticsearch takes them, with ``{{name}}`` for parameters, such as
            ``{"standard": {"query": {"match": {"body": "{{words}}"}}}}``.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``. Queries without
            judgements are left out, and unjudged documents have grade 0.
        k: Number of documents that each retriever returns.
    """
    return _MINMAX.check(_collect(client, index, queries, retrievers, judgements, k))


def _collect(
    client: Any,
    index: str,
    queries: QueryValues,
    retrievers: Mapping[str, Template],
    judgements: Judgements,
    k: int,
) -> Queries:
    return collect_hits(
        client,
        index,
        queries,
        retrievers,
        judgements,
        lambda retriever: {"retriever": retriever, "size": k, "_source": False},
    )


def hybrid_query(
    fusion: Fusion, retrievers: Mapping[str, Template], values: Mapping[str, Any], *, k: int = 100
) -> dict[str, Any]:
    """Return the body of a search that ranks by a fusion: ``client.search(index=..., body=...)``.

    Args:
        fusion: ``Fusion("minmax")`` or ``Fusion("rrf")``, trained on what `collect` returned. The first becomes a
            ``linear`` retriever (Elasticsearch 8.18, 9.0), the second an ``rrf`` retriever with weights (9.2).
        retrievers: Retrievers by name, as for `collect`.
        values: The values of the parameters for one query.
        k: Number of documents that each retriever returns, as it was for `collect`; take the first of the hits for a
            page of results.

    Raises:
        DataError: The fusion is of another kind, which Elasticsearch does not compute.
    """
    check_runs(fusion, retrievers)
    check_depth(fusion, k)
    (text,) = exported(fusion, f"elasticsearch-retriever(window={k})")
    body: dict[str, Any] = json.loads(text)
    (combined,) = body["retriever"].values()
    for retriever, run in zip(combined["retrievers"], runs_of(fusion), strict=True):
        retriever["retriever"] = fill(retrievers[run], values, f"retriever {run!r}")
    return {**body, "size": k, "_source": False}


def verify(
    client: Any,
    index: str,
    fusion: Fusion,
    queries: QueryValues,
    retrievers: Mapping[str, Template],
    *,
    k: int = 100,
    sample: int = 20,
) -> Agreement:
    """Compare the scores of hybrid searches with those of the fusion, for a sample of queries.

    Min-max scaling of Elasticsearch leaves equal scores and those of single hits as they are, instead of 0, which is
    taken into account, with a warning.

    Args:
        client: The client of elasticsearch-py, or one with the same ``search``.
        index: Name of the index.
        fusion: What `hybrid_query` takes.
        queries: The values of the parameters of retrievers, by query id.
        retrievers: Retrievers by name, as for `collect`.
        k: Number of documents that each retriever returns.
        sample: Number of queries, drawn at random.

    Raises:
        DataError: A score differs by more than the precision of float32; the message names the first query and
            document.
    """
    drawn = sample_of(queries, sample)
    candidates = _collect(client, index, drawn, retrievers, None, k)
    return compare_scores(
        lambda query, values: search(client, index, hybrid_query(fusion, retrievers, values, k=k), f"query {query!r}"),
        scores_by_query(candidates, _MINMAX.fused_scores(fusion, candidates)),
        drawn,
        k,
        "search with the retrievers and the k that the fusion was trained on",
    )
