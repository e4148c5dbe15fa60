"""Hybrid search of OpenSearch and Elasticsearch: learned weights of retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from marginrank.export.base import Target, json_text
from marginrank.preparation.run_features import RRF_K
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.scorers.terms import LinearTerm
from marginrank.typing import FloatArray


def refuse_hybrid(function: ScoringFunction) -> str | None:
    """Return the reason why a fusion is no weighted sum of min-max scores or reciprocal ranks, or None."""
    if not isinstance(function, FusedFunction) or not isinstance(function.terms[0], LinearTerm):
        return "it is not a weighted sum"
    if len(function.kinds) != 1 or function.kinds[0] not in ("minmax", "rrf"):
        return f"its features are {'+'.join(function.kinds)}; train it with features='minmax' or 'rrf'"
    if (function.terms[0].weights < 0).any() or not function.terms[0].weights.any():
        return "a weight is below 0, or all are 0"
    return None


def run_weights(function: ScoringFunction) -> tuple[str, dict[str, float]]:
    """Return the kind of features, and the weight of each run as a share of their sum."""
    assert isinstance(function, FusedFunction)
    term = function.terms[0]
    assert isinstance(term, LinearTerm)
    shares: FloatArray = term.weights / np.sum(term.weights)
    return function.kinds[0], dict(zip(function.runs, shares.tolist(), strict=True))


@dataclass(frozen=True)
class OpenSearchHybrid(Target):
    """Write a search pipeline for hybrid queries of OpenSearch, with the learned weights, and a query to go with it.

    Min-max fusions need OpenSearch 2.10, reciprocal rank fusions with weights 3.1. Weights are shares of their sum, so
    scores there are smaller by one factor.
    """

    name = "opensearch-hybrid"
    takes: ClassVar[str] = "linear fusions with features minmax or rrf"
    suffix: ClassVar[str] = ".json"
    takes_fusions: ClassVar[bool] = True
    takes_rankers: ClassVar[bool] = False

    def refusal(self, function: ScoringFunction) -> str | None:
        """Return the reason why a function is not taken, or None."""
        return refuse_hybrid(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the pipeline and the query."""
        kind, weights = run_weights(function)
        shares = {"parameters": {"weights": list(weights.values())}}
        if kind == "minmax":
            processor: dict[str, Any] = {
                "normalization-processor": {
                    "normalization": {"technique": "min_max"},
                    "combination": {"technique": "arithmetic_mean", **shares},
                }
            }
        else:
            combination = {"technique": "rrf", "rank_constant": RRF_K, **shares}
            processor = {"score-ranker-processor": {"combination": combination}}
        pipeline = {"description": f"{' + '.join(weights)}, weighted", "phase_results_processors": [processor]}
        query = {"query": {"hybrid": {"queries": [{"match": {f"query_of_{run}": "..."}} for run in weights]}}}
        return {"": json_text(pipeline), ".query.json": json_text(query)}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the files."""
        stem = path.name.partition(".")[0]
        return (
            f"PUT /_search/pipeline/marginrank with {path.name}; write the queries into {stem}.query.json, in this "
            "order, and send it to INDEX/_search?search_pipeline=marginrank"
        )


@dataclass(frozen=True)
class ElasticsearchRetriever(Target):
    """Write a ``linear`` or ``rrf`` retriever of Elasticsearch with the learned weights.

    The ``linear`` retriever needs Elasticsearch 8.18 or 9.0, ``rrf`` with weights 9.2.

    Args:
        window: How many documents of each retriever are combined.
    """

    name = "elasticsearch-retriever"
    takes: ClassVar[str] = "linear fusions with features minmax or rrf"
    suffix: ClassVar[str] = ".json"
    takes_fusions: ClassVar[bool] = True
    takes_rankers: ClassVar[bool] = False
    window: int = 100

    def refusal(self, function: ScoringFunction) -> str | None:
        """Return the reason why a function is not taken, or None."""
        return refuse_hybrid(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the body of a search."""
        kind, weights = run_weights(function)
        retrievers = [
            {"retriever": {"standard": {"query": {"match": {f"query_of_{run}": "..."}}}}, "weight": weight}
            for run, weight in weights.items()
        ]
        if kind == "minmax":
            combined = {"linear": {"retrievers": [{**retriever, "normalizer": "minmax"} for retriever in retrievers]}}
        else:
            combined = {"rrf": {"retrievers": retrievers, "rank_constant": RRF_K}}  # type: ignore[dict-item]
        for options in combined.values():
            options["rank_window_size"] = self.window  # type: ignore[assignment]
        return {"": json_text({"retriever": combined})}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return f"write the query of each retriever into {path.name}, and send it to INDEX/_search"
