"""Hybrid search in OpenSearch: candidates with the score of each query, and learned weights as a search pipeline."""

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

#: What min-max scaling of OpenSearch gives the last documents of a query instead of 0.
_LAST: Final = 0.001
_MINMAX: Final = EngineMinMax(
    "OpenSearch",
    "1",
    are_equal=lambda runs: runs.equal,
    unit=lambda runs: np.where(runs.equal, 1.0, np.where(runs.last, _LAST, runs.unit)),
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

    A warning says if a retriever returned a single hit or equal scores, which min-max scaling of OpenSearch turns
    into 1, and that of training into 0.

    Args:
        client: The client of opensearch-py, or one with the same ``search``.
        index: Name of the index.
        queries: The values of the parameters of retrievers, by query id.
        retrievers: Query clauses by name, with ``{{name}}`` for parameters, such as
            ``{"match": {"body": "{{words}}"}}`` and ``{"knn": {"embedding": {"vector": "{{vector}}", "k": 100}}}``.
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
        client, index, queries, retrievers, judgements, lambda query: {"query": query, "size": k, "_source": False}
    )


def hybrid_query(
    fusion: Fusion, retrievers: Mapping[str, Template], values: Mapping[str, Any], *, k: int = 100
) -> dict[str, Any]:
    """Return the body of a search that ranks by a fusion: ``client.search(index=..., body=...)``.

    It holds the search pipeline with the weights; to store the pipeline once, see the export ``opensearch-hybrid``.

    Args:
        fusion: ``Fusion("minmax")`` or ``Fusion("rrf")``, trained on what `collect` returned, for OpenSearch 2.10 or
            3.1 and newer.
        retrievers: Query clauses by name, as for `collect`; OpenSearch takes up to five.
        values: The values of the parameters for one query.
        k: Number of documents that each retriever returns, as it was for `collect`; take the first of the hits for a
            page of results.

    Raises:
        DataError: The fusion is of another kind, which OpenSearch does not compute.
    """
    check_runs(fusion, retrievers)
    check_depth(fusion, k)
    pipeline, _ = map(json.loads, exported(fusion, "opensearch-hybrid"))
    clauses = [fill(retrievers[run], values, f"retriever {run!r}") for run in runs_of(fusion)]
    return {"query": {"hybrid": {"queries": clauses}}, "search_pipeline": pipeline, "size": k, "_source": False}


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

    OpenSearch scales the lowest score of a retriever to 0.001, not to 0, and equal scores or a single one to 1. Both
    are taken into account, the second with a warning. In an index of several shards each shard contributes k documents,
    and scores differ.

    Args:
        client: The client of opensearch-py, or one with the same ``search``.
        index: Name of the index.
        fusion: What `hybrid_query` takes.
        queries: The values of the parameters of retrievers, by query id.
        retrievers: Query clauses by name, as for `collect`.
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
        "search with the retrievers and the k that the fusion was trained on, in an index of one shard",
    )
