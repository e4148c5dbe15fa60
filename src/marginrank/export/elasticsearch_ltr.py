"""The Learning to Rank plugin of Elasticsearch and OpenSearch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from marginrank.export.base import Target, identifier, not_tree_shaped
from marginrank.export.xgboost_json import tree_dump
from marginrank.scorers.formula import LinearTerm
from marginrank.scoring import Function


def not_linear(function: Function) -> str | None:
    """Say why a function is not a sum of weights of standardised or raw features, or return None."""
    if function.needs_queries:
        return f"its scaling is {function.scaling}"
    if len(function.terms) == 1 and isinstance(function.terms[0], LinearTerm):
        return None
    return "it is not a linear model"


def linear_or_trees(function: Function) -> str | None:
    """Say why a function is neither linear nor a sum of trees, or return None."""
    return None if not_linear(function) is None else not_tree_shaped(function)


@dataclass(frozen=True)
class ElasticsearchLTR(Target):
    """Write a model for the Learning to Rank plugin of Elasticsearch or OpenSearch, and the feature set it needs.

    Features that a document lacks are 0 there, and numbers are float32.

    Args:
        model: What to call the model.
        features: What to call the feature set.
    """

    name = "elasticsearch-ltr"
    takes: ClassVar[str] = "linear models, trees and additive models with steps"
    suffix: ClassVar[str] = ".json"
    knows_missing: ClassVar[bool] = False
    model: str = "marginrank"
    features: str = "marginrank_features"

    def refusal(self, function: Function) -> str | None:
        """Say why a function is not taken, or return None."""
        return linear_or_trees(function)

    def write(self, function: Function) -> Mapping[str, str | bytes]:
        """Return the bodies of the requests that create the model and the feature set."""
        names = feature_ids(function)
        body = {"model": {"name": self.model, "model": _linear(function, names) or _trees(function, names)}}
        feature_set = {
            "featureset": {
                "name": self.features,
                "features": [
                    {
                        "name": name,
                        "params": ["keywords"],
                        "template_language": "mustache",
                        "template": {"match": {name: "{{keywords}}"}},
                    }
                    for name in names
                ],
            }
        }
        return {"": _json(body), ".featureset.json": _json(feature_set)}

    def next_steps(self, path: Path) -> str:
        """Say what to do with the files."""
        stem = path.name.partition(".")[0]
        return (
            f"write the query of each feature into {stem}.featureset.json; POST _ltr/_featureset/{self.features} with "
            f"it, then POST _ltr/_featureset/{self.features}/_createmodel with {path.name}"
        )


def feature_ids(function: Function) -> list[str]:
    """Return names of features that are safe in JSON paths and templates, each of them once."""
    names: list[str] = []
    for number, name in enumerate(map(identifier, function.names)):
        names.append(f"{name}_{number}" if name in names else name)
    return names


def _linear(function: Function, names: list[str]) -> dict[str, Any] | None:
    if not_linear(function) is not None:
        return None
    term = function.terms[0]
    assert isinstance(term, LinearTerm)
    weights = dict(zip(names, term.weights.tolist(), strict=True))
    model: dict[str, Any] = {"type": "model/linear"}
    if function.mean is not None and function.scale is not None:
        rows = zip(names, function.mean.tolist(), function.scale.tolist(), strict=True)
        scales = {name: (mean, scale) for name, mean, scale in rows if scale}
        model["feature_normalizers"] = {
            name: {"standard": {"mean": mean, "standard_deviation": scale}} for name, (mean, scale) in scales.items()
        }
        weights = {name: weight for name, weight in weights.items() if name in scales}
    return {**model, "definition": json.dumps(weights)}


def _trees(function: Function, names: list[str]) -> dict[str, Any]:
    return {"type": "model/xgboost+json", "definition": json.dumps(tree_dump(function, names))}


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
