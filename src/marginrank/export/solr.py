"""Learning to rank in Solr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.export.base import Plugin, distinct_names, is_linear, json_text, placeholder, weights_of
from marginrank.export.tree_ensemble import Node, Split, forest_of
from marginrank.scorers.scoring_function import ScoringFunction

#: What Solr adds to every threshold, in float32.
_SLACK: Final = np.float32(1e-6)
_LARGEST: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Solr(Plugin):
    """Write a model for Solr's Learning to Rank module, and the feature store it needs.

    Features that a document lacks are 0 there, and numbers are float32.

    Args:
        missing: ``error`` refuses models that score a missing value otherwise than 0; ``zero`` exports them too.
        model: What to call the model.
        store: What to call the feature store.
    """

    name = "solr"
    model: str = "marginrank"
    store: str = "marginrank"

    def write(self, function: ScoringFunction) -> Mapping[str, str | bytes]:
        """Return the model and the feature store."""
        names = distinct_names(function.names)
        content = _linear(function, names) if is_linear(function) else _trees(function, names)
        features = [
            {
                "store": self.store,
                "name": name,
                "class": "org.apache.solr.ltr.feature.SolrFeature",
                "params": placeholder(title),
            }
            for name, title in zip(names, function.names, strict=True)
        ]
        model = {"store": self.store, "name": self.model, **content}
        return {
            "": json.dumps(model, indent=1, ensure_ascii=False) + "\n",
            ".features.json": json_text(features),
        }

    def next_steps(self, path: Path) -> str:
        """Return what to do with the files."""
        stem = path.name.partition(".")[0]
        return (
            f"write the queries in place of TODO into {stem}.features.json; PUT it to COLLECTION/schema/feature-store, "
            f"then {path.name} to COLLECTION/schema/model-store; search with rq={{!ltr model={self.model}}}"
        )


def _linear(function: ScoringFunction, names: list[str]) -> dict[str, Any]:
    weights = weights_of(function, names)
    features: list[dict[str, Any]] = [{"name": weight.feature} for weight in weights]
    if function.mean is not None:
        for feature, one in zip(features, weights, strict=True):
            params = {"avg": repr(one.mean), "std": repr(one.scale)}
            feature["norm"] = {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": params}
    return {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "features": features,
        "params": {"weights": {weight.feature: weight.weight for weight in weights}},
    }


def _trees(function: ScoringFunction, names: list[str]) -> dict[str, Any]:
    trees = [{"weight": "1", "root": _node(tree, names)} for tree in forest_of(function)]
    return {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "features": [{"name": name} for name in names],
        "params": {"trees": trees},
    }


def _node(node: Node, names: list[str]) -> dict[str, Any]:
    if not isinstance(node, Split):
        return {"value": repr(node.value)}
    return {
        "feature": names[node.feature],
        "threshold": str(threshold_without_slack(node.threshold)),
        "left": _node(node.left, names),
        "right": _node(node.right, names),
    }


def threshold_without_slack(threshold: float) -> np.float32:
    """Return the number that Solr, which adds 1e-6 to it, takes for a threshold.

    Near 0, where float32 is finer than the sum of the two, the next number above is taken.

    >>> [float(threshold_without_slack(t) + _SLACK) for t in (0.0, 0.5, -3.25, 100.0)]
    [0.0, 0.5, -3.25, 100.0]
    """
    if abs(threshold) >= _LARGEST:
        return np.float32(np.copysign(_LARGEST, threshold))
    limit = np.float32(threshold)
    if float(limit) > threshold:
        limit = np.nextafter(limit, np.float32(-np.inf))
    given = np.float32(limit - _SLACK)
    while np.float32(given + _SLACK) < limit:
        given = np.nextafter(given, np.float32(np.inf))
    return given
