"""A scoring function as plain JSON values, for languages that run it with a few loops."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import other_terms
from marginrank.export.tree_ensemble import Leaf, Node, Split, depth_first, forest
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import AdaptiveTerm, CurvesTerm, KernelTerm, LinearTerm, NetworkTerm, Term, TreesTerm


def refuse_plan(function: ScoringFunction) -> Message | None:
    """Return the reason why a function has no plan, or None."""
    if any(isinstance(term, KernelTerm) and not term.kernel for term in function.terms):
        return "its kernel is a Python function"
    return other_terms(function, LinearTerm, AdaptiveTerm, CurvesTerm, TreesTerm, NetworkTerm, KernelTerm)


def plan_of(function: ScoringFunction) -> str:
    """Return everything that scores are made of, as JSON."""
    scaling: dict[str, Any] = {"kind": function.scaling or "none"}
    if function.mean is not None and function.scale is not None:
        scaling |= {"mean": function.mean.tolist(), "scale": function.scale.tolist()}
    plan = {
        "features": list(function.names),
        "takes_missing": function.takes_nan,
        "raw_fill": None if function.raw_fill is None else function.raw_fill.tolist(),
        "scaling": scaling,
        "terms": [_term(function, term) for term in function.terms],
    }
    return json.dumps(plan, ensure_ascii=False, allow_nan=False)


def _term(function: ScoringFunction, term: Term) -> dict[str, Any]:
    parts: dict[str, Any] = {"kind": term.kind}
    if isinstance(term, LinearTerm):
        flags = [list(pair) for pair in zip(term.flagged.tolist(), term.flag_weights.tolist(), strict=True)]
        fill = None if term.fill is None else term.fill.tolist()
        parts |= {"weights": term.weights.tolist(), "fill": fill, "flags": flags}
    elif isinstance(term, AdaptiveTerm):
        arrays = {name: getattr(term, name) for name in ("weights", "changes", "context", "low", "width")}
        parts |= {name: array.tolist() for name, array in arrays.items()}
    elif isinstance(term, CurvesTerm):
        parts["curves"] = [
            {
                "thresholds": curve.thresholds.tolist(),
                "values": curve.values.tolist(),
                "missing": curve.missing,
                "start": curve.start,
            }
            for curve in term.curves
        ]
    elif isinstance(term, TreesTerm):
        # The plan scales features itself, so only rounding to float32 moves thresholds.
        unscaled = ScoringFunction(function.names, (term,))
        parts["trees"] = [_tree(tree) for tree in forest(unscaled, term)]
        parts |= {"outputs": term.outputs.tolist(), "grades": term.grades.tolist()}
    elif isinstance(term, NetworkTerm):
        layers = [{"weights": weights.tolist(), "biases": biases.tolist()} for weights, biases in term.layers]
        parts |= {"layers": layers, "activation": term.activation}
    elif isinstance(term, KernelTerm):
        parts |= {"documents": term.documents.tolist(), "coefficients": term.coefficients.tolist()}
        parts |= {"kernel": term.kernel, "parameters": list(term.parameters)}
    return parts


def _tree(tree: Node) -> dict[str, list[Any]]:
    """Write the nodes of a tree down in columns."""
    nodes = depth_first(tree)
    place = {id(node): number for number, node in enumerate(nodes)}
    largest = float(np.finfo(np.float64).max)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "left", "right", "missing_left", "value")
    }
    for node in nodes:
        split = node if isinstance(node, Split) else None
        columns["feature"].append(-1 if split is None else split.feature)
        columns["threshold"].append(0.0 if split is None else float(np.clip(split.threshold, -largest, largest)))
        columns["left"].append(0 if split is None else place[id(split.left)])
        columns["right"].append(0 if split is None else place[id(split.right)])
        columns["missing_left"].append(split is not None and split.missing_left)
        columns["value"].append(node.value if isinstance(node, Leaf) else 0.0)
    return columns
