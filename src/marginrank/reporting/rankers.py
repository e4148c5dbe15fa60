"""What a ranker is made of, as plain records."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginrank.ranker import Ranker


def ranker_record(ranker: Ranker) -> dict[str, Any]:
    """What a ranker is, how it was trained and how good its optimum is."""
    solution = ranker.solution_
    return {
        "preset": preset_of(ranker),
        "measure": ranker.measure_,
        "loss": ranker.loss_,
        "bound": ranker.bound_,
        "scorer": ranker.form_.kind,
        "scaling": ranker.scaling_,
        "weighting": ranker.weighting,
        "solver": ranker.solver_,
        "C": solution.C,
        "objective": solution.primal,
        "gap": solution.gap,
        "certificate": math.isfinite(solution.gap),
        "stopped": solution.reason,
        "iterations": solution.n_iter,
        "passes": solution.passes,
        "health": None if ranker.health_ is None else asdict(ranker.health_),
        "n_features": ranker.n_features_in_,
        "trained_on": ranker.trained_on_,
    }


def preset_of(ranker: Ranker) -> str | None:
    """The preset that was asked for, or that nothing asked for stands for; None for a measure or a loss."""
    from marginrank.ranker import DEFAULT_PRESET  # noqa: PLC0415

    return ranker.preset or (DEFAULT_PRESET if ranker.measure is None and ranker.loss is None else None)


def trace(ranker: Ranker) -> list[dict[str, float]]:
    """Where the solver stood after each iteration."""
    return [
        {"passes": step.passes, "seconds": step.seconds, "objective": step.primal, "gap": step.gap}
        for step in ranker.solution_.trace
    ]


def weights(ranker: Ranker) -> list[dict[str, Any]]:
    """One record per feature: its weight, its curve and the spread of it, or how often trees ask for it."""
    names = [str(name) for name in getattr(ranker, "feature_names_in_", range(ranker.n_features_in_))]
    if ranker.bins_ is not None:
        return [
            {
                "feature": name,
                "size": float(max(shape.values) - min(shape.values)),
                "thresholds": shape.thresholds.tolist(),
                "values": shape.values.tolist(),
                "missing": shape.missing,
                "start": shape.start,
            }
            for name, shape in zip(names, ranker.shapes(), strict=True)
        ]
    sizes = ranker.form_.sizes(ranker.coef_).tolist()
    return [{"feature": name, "size": size} for name, size in zip(names if sizes else [], sizes, strict=True)]
