"""The Learning to Rank plugin of Elasticsearch and OpenSearch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marginrank.export.base import Plugin, distinct_names, is_linear, json_text, placeholder, weights_of
from marginrank.export.xgboost_json import tree_dump
from marginrank.scorers.scoring_function import ScoringFunction


@dataclass(frozen=True)
class ElasticsearchLTR(Plugin):
    """Write a model for the Learning to Rank plugin of Elasticsearch or OpenSearch, and the feature set it needs.

    Features that a document lacks are 0 there, and numbers are float32.

    Args:
        missing: ``error`` refuses models that score a missing value otherwise than 0; ``zero`` exports them too.
        model: What to call the model.
        features: What to call the feature set.
    """

    name = "elasticsearch-ltr"
    model: str = "marginrank"
    features: str = "marginrank_features"

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the bodies of the requests that create the model and the feature set."""
        names = distinct_names(function.names)
        model = _linear(function, names) if is_linear(function) else _trees(function, names)
        body = {"model": {"name": self.model, "model": model}}
        feature_set = {
            "featureset": {
                "name": self.features,
                "features": [
                    {
                        "name": name,
                        "params": ["keywords"],
                        "template_language": "mustache",
                        "template": placeholder(title),
                    }
                    for name, title in zip(names, function.names, strict=True)
                ],
            }
        }
        return {"": json_text(body), ".featureset.json": json_text(feature_set)}

    def next_steps(self, path: Path) -> str:
        """Return what to do with the files."""
        stem = path.name.partition(".")[0]
        return (
            f"write the queries in place of TODO into {stem}.featureset.json; "
            f"POST _ltr/_featureset/{self.features} with it, "
            f"then POST _ltr/_featureset/{self.features}/_createmodel with {path.name}"
        )


def _linear(function: ScoringFunction, names: list[str]) -> dict[str, Any]:
    weights = weights_of(function, names)
    model: dict[str, Any] = {"type": "model/linear"}
    if function.mean is not None:
        model["feature_normalizers"] = {
            weight.feature: {"standard": {"mean": weight.mean, "standard_deviation": weight.scale}}
            for weight in weights
        }
    return {**model, "definition": json.dumps({weight.feature: weight.weight for weight in weights})}


def _trees(function: ScoringFunction, names: list[str]) -> dict[str, Any]:
    return {"type": "model/xgboost+json", "definition": json.dumps(tree_dump(function, names))}
