"""What a model learned, as plain records."""

from __future__ import annotations

from typing import Any

from marginrank.errors import DataError
from marginrank.model import Model
from marginrank.ranker import ranker_of
from marginrank.scorers.bins import Bins


def trace_records(model: Model) -> list[dict[str, float]]:
    """Return where the solver stood after each iteration."""
    return [
        {"passes": step.passes, "seconds": step.seconds, "objective": step.primal, "gap": step.gap}
        for step in model.solution.trace
    ]


def takes_C(model: Model) -> bool:
    """Whether C had an effect on a model; it has none on networks, and on trees and baselines without one."""
    try:
        return ranker_of(model)._path_of_C
    except (DataError, TypeError):  # a part of it is not known here
        return True


def feature_records(model: Model) -> list[dict[str, Any]]:
    """Return one record per feature: its weight, its curve and the spread of it, or how often trees split on it."""
    names = model.names
    if isinstance(model.form, Bins):
        return [
            {
                "feature": name,
                "size": float(max(shape.values) - min(shape.values)),
                "thresholds": shape.thresholds.tolist(),
                "values": shape.values.tolist(),
                "missing": shape.missing,
                "start": shape.start,
            }
            for name, shape in zip(names, model.shapes(), strict=True)
        ]
    sizes = model.form.sizes(model.theta).tolist()
    return [{"feature": name, "size": size} for name, size in zip(names if sizes else [], sizes, strict=True)]
