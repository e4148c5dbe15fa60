"""What search engines do with exported models, written from their documentation alone.

- Learning to Rank plugin 1.5 of Elasticsearch, and of OpenSearch 3: "Uploading a trained model".
- Solr 9: "Learning To Rank", with the 1e-6 that MultipleAdditiveTreesModel adds to thresholds.
- Vespa 8: "Ranking expressions", "Phased ranking".
- OpenSearch 3: "Normalization processor", "Score ranker processor".
- Elasticsearch 9: "Linear retriever", "RRF retriever".

Numbers of the first two are float32, and a feature that a document lacks is 0.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np


def elasticsearch_ltr(body: dict[str, Any], features: dict[str, np.ndarray]) -> np.ndarray:
    """Score with the model of a _createmodel request."""
    model = body["model"]["model"]
    definition = json.loads(model["definition"])
    values = {name: np.nan_to_num(column, nan=0.0).astype(np.float32) for name, column in features.items()}
    if model["type"] == "model/xgboost+json":
        scores = [_dumped_tree(tree, values) for tree in definition]
        return np.sum(scores, axis=0, dtype=np.float32)
    assert model["type"] == "model/linear"
    for name, normalizer in model.get("feature_normalizers", {}).items():
        ((kind, options),) = normalizer.items()
        assert kind == "standard"
        # The plugin computes in double precision from the float of the feature.
        values[name] = (values[name].astype(np.float64) - options["mean"]) / options["standard_deviation"]
    return np.sum([weight * values[name].astype(np.float64) for name, weight in definition.items()], axis=0)


def _dumped_tree(node: dict[str, Any], values: dict[str, np.ndarray]) -> np.ndarray:
    if "leaf" in node:
        return np.full(len(next(iter(values.values()))), np.float32(node["leaf"]), dtype=np.float32)
    children = {child["nodeid"]: child for child in node["children"]}
    yes, no = _dumped_tree(children[node["yes"]], values), _dumped_tree(children[node["no"]], values)
    return np.where(values[node["split"]] < np.float32(node["split_condition"]), yes, no)


def solr(model: dict[str, Any], features: dict[str, np.ndarray]) -> np.ndarray:
    """Score with a model of the model store."""
    values = {}
    for feature in model["features"]:
        column = np.nan_to_num(features[feature["name"]], nan=0.0).astype(np.float32)
        if "norm" in feature:
            assert feature["norm"]["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
            average, deviation = (float(feature["norm"]["params"][name]) for name in ("avg", "std"))
            column = (column.astype(np.float64) - average) / deviation
        values[feature["name"]] = column
    if model["class"] == "org.apache.solr.ltr.model.LinearModel":
        weights = model["params"]["weights"]
        assert weights.keys() == values.keys()
        return np.sum([weight * values[name].astype(np.float64) for name, weight in weights.items()], axis=0)
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    trees = model["params"]["trees"]
    return np.sum([float(tree["weight"]) * _solr_tree(tree["root"], values) for tree in trees], axis=0)


def _solr_tree(node: dict[str, Any], values: dict[str, np.ndarray]) -> np.ndarray:
    if "value" in node:
        return np.full(len(next(iter(values.values()))), np.float32(node["value"]), dtype=np.float32)
    threshold = np.float32(np.float32(node["threshold"]) + np.float32(1e-6))
    left, right = _solr_tree(node["left"], values), _solr_tree(node["right"], values)
    return np.where(values[node["feature"]] <= threshold, left, right)


def vespa(profile: str, attributes: dict[str, np.ndarray], group: list[int]) -> np.ndarray:
    """Score with the last phase of a rank profile."""
    functions = dict(re.findall(r"function (\w+)\(\) \{\s*expression: (.*?)\s*\}", profile, re.DOTALL))
    phases = dict(re.findall(r"(first|global)-phase \{\s*(?:rerank-count: \d+\s*)?expression: (.*?)\s*\}", profile))
    names: dict[str, Any] = {
        "choose": np.where,
        "isNan": lambda x: np.isnan(x).astype(float),
        "negate": np.logical_not,
        "attribute": lambda name: attributes[name],
        "normalize_linear": lambda x: _by_query(_unit, x, group),
        "reciprocal_rank": lambda x: _by_query(lambda y: 1.0 / (60.0 + _ranks(y)), x, group),
    }
    for name, expression in functions.items():
        names[name] = _evaluate(expression, names)
    return np.broadcast_to(_evaluate(phases.get("global", phases.get("first", "")), names), sum(group))


def _evaluate(expression: str, names: dict[str, Any]) -> Any:
    """Evaluate arithmetic, comparisons, ``if`` and ``!``, which Python has under other names."""
    text = re.sub(r"attribute\((\w+)\)", r"attribute('\1')", expression)
    text = text.replace("if (", "choose(").replace("!(", "negate(")
    with np.errstate(invalid="ignore"):
        return eval(text, {"__builtins__": {}}, names)


def opensearch_hybrid(pipeline: dict[str, Any], runs: list[np.ndarray], group: list[int]) -> np.ndarray:
    """Combine scores of queries, NaN where a query did not return the document, by a search pipeline."""
    ((kind, processor),) = pipeline["phase_results_processors"][0].items()
    combination = processor["combination"]
    weights = combination["parameters"]["weights"]
    assert abs(sum(weights) - 1.0) < 1e-6
    assert all(0 <= weight <= 1 for weight in weights)
    assert len(weights) == len(runs)
    if kind == "normalization-processor":
        assert processor["normalization"] == {"technique": "min_max"}
        assert combination["technique"] == "arithmetic_mean"
        columns = [_by_query(_unit, run, group) for run in runs]
    else:
        assert kind == "score-ranker-processor"
        k = combination["rank_constant"]
        columns = [_by_query(lambda y: 1.0 / (k + _ranks(y)), run, group) for run in runs]
    return np.sum([w * np.nan_to_num(x, nan=0.0) for w, x in zip(weights, columns, strict=True)], axis=0)


def elasticsearch_retriever(body: dict[str, Any], runs: list[np.ndarray], group: list[int]) -> np.ndarray:
    """Combine scores of retrievers by a ``linear`` or ``rrf`` retriever."""
    ((kind, options),) = body["retriever"].items()
    total = np.zeros(sum(group))
    for one, run in zip(options["retrievers"], runs, strict=True):
        assert one["weight"] >= 0
        if kind == "linear":
            assert one["normalizer"] == "minmax"
            scaled = _by_query(_unit, run, group)
        else:
            k = options["rank_constant"]
            scaled = _by_query(lambda y, k=k: 1.0 / (k + _ranks(y)), run, group)
        total += one["weight"] * np.nan_to_num(scaled, nan=0.0)
    return total


def _by_query(change: Any, x: np.ndarray, group: list[int]) -> np.ndarray:
    return np.concatenate([change(part) for part in np.split(x, np.cumsum(group)[:-1])])


def _unit(x: np.ndarray) -> np.ndarray:
    low, high = np.nanmin(x), np.nanmax(x)
    return (x - low) / (high - low)


def _ranks(x: np.ndarray) -> np.ndarray:
    """Return 1 for the highest score, 2 for the next, and NaN for documents that are not there."""
    order = np.argsort(-x, kind="stable")
    ranks = np.empty(len(x))
    ranks[order] = np.arange(1, len(x) + 1)
    return np.where(np.isnan(x), np.nan, ranks)
