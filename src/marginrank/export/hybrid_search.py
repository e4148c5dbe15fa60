"""Hybrid search of OpenSearch and Elasticsearch: learned weights of retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from marginrank.errors import Message, Parameter
from marginrank.export.base import Target, json_text, missing_is_not_zero, placeholder
from marginrank.preparation.run_features import RRF_K
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction
from marginrank.scorers.terms import LinearTerm
from marginrank.typing import FloatArray

#: Documents of each retriever that are combined if the depth of the runs is not known.
_DEPTH: Final = 100


def refuse_hybrid(function: ScoringFunction) -> Message | None:
    """Return the reason why a fusion is no weighted sum of min-max scores or reciprocal ranks, or None."""
    if not isinstance(function, FusedFunction) or not isinstance(function.terms[0], LinearTerm):
        return "it is not a weighted sum"
    if len(function.kinds) != 1 or function.kinds[0] not in ("minmax", "rrf"):
        return f"its features are {'+'.join(function.kinds)}; train it with ", Parameter("kinds", "minmax", "rrf")
    if (function.terms[0].weights < 0).any() or not function.terms[0].weights.any():
        return "a weight is below 0, or all are 0"
    return missing_is_not_zero(function, ("as ", Parameter("scorer", "linear"), " does"))


def depth_of(function: ScoringFunction) -> int:
    """Return how many documents of each run a fusion combines: as many as in training, or 100 if that is not known."""
    return (function.depth if isinstance(function, FusedFunction) else None) or _DEPTH


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

    def refusal(self, function: ScoringFunction) -> Message | None:
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
        # Each query returns as many documents as are asked for.
        query = {"size": depth_of(function), "query": {"hybrid": {"queries": list(map(placeholder, weights))}}}
        return {"": json_text(pipeline), ".query.json": json_text(query)}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the files."""
        stem = path.name.partition(".")[0]
        return (
            f"PUT /_search/pipeline/marginrank with {path.name}; write the queries in place of TODO into "
            f"{stem}.query.json, in this order, and send it to INDEX/_search?search_pipeline=marginrank"
        )


@dataclass(frozen=True)
class ElasticsearchRetriever(Target):
    """Write a ``linear`` or ``rrf`` retriever of Elasticsearch with the learned weights.

    The ``linear`` retriever needs Elasticsearch 8.18 or 9.0, ``rrf`` with weights 9.2.

    Args:
        window: How many documents of each retriever are combined; as many as the runs had in training by default.
    """

    name = "elasticsearch-retriever"
    takes: ClassVar[str] = "linear fusions with features minmax or rrf"
    suffix: ClassVar[str] = ".json"
    takes_fusions: ClassVar[bool] = True
    takes_rankers: ClassVar[bool] = False
    window: int | None = None

    def refusal(self, function: ScoringFunction) -> Message | None:
        """Return the reason why a function is not taken, or None."""
        return refuse_hybrid(function)

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the body of a search."""
        kind, weights = run_weights(function)
        retrievers = [
            {"retriever": {"standard": {"query": placeholder(run)}}, "weight": weight}
            for run, weight in weights.items()
        ]
        if kind == "minmax":
            combined = {"linear": {"retrievers": [{**retriever, "normalizer": "minmax"} for retriever in retrievers]}}
        else:
            combined = {"rrf": {"retrievers": retrievers, "rank_constant": RRF_K}}  # type: ignore[dict-item]
        for options in combined.values():
            # At least as many as a search returns.
            options["rank_window_size"] = self.window or max(10, depth_of(function))  # type: ignore[assignment]
        return {"": json_text({"retriever": combined})}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the file."""
        return f"write the query of each retriever in place of TODO into {path.name}, and send it to INDEX/_search"
