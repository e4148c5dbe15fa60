"""Pictures of models and of how they were chosen; needs matplotlib (``pip install 'marginrank[plot]'``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginrank.scorers.bins import Shape
from marginrank.solvers.solution import Solution


def new_figure(width: float, height: float) -> Any:
    """Make an empty matplotlib figure of so many inches, or say how to get matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'marginrank[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _finish(figure: Any, path: str | Path | None) -> Any:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_selection(selection: Mapping[str, Any], path: str | Path | None = None) -> Any:
    """Draw the criterion against C with one standard error, one line per setting of the other parameters."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    known = ("C", "mean", "standard_error", "objective", "average_slack", "norm", "passes")
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for one in selection["candidates"]:
        label = ", ".join(f"{name}={value}" for name, value in one.items() if name not in known)
        lines.setdefault(label, []).append(one)
    for label, line in lines.items():
        Cs, means = [one["C"] for one in line], [one["mean"] for one in line]
        axes.errorbar(Cs, means, [one["standard_error"] for one in line], marker="o", capsize=3, label=label or None)
    best = selection["candidates"][selection["chosen"]]
    axes.plot([best["C"]], [best["mean"]], "o", markersize=12, fillstyle="none", color="black", label="chosen")
    axes.set(xscale="log", xlabel="C", ylabel=selection["criterion"], title=selection["held_out"])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return _finish(figure, path)


def plot_shapes(shapes: Sequence[Shape], path: str | Path | None = None, *, most: int = 24) -> Any:
    """Draw the curves of an additive ranker, those with the largest spread first; missing values as a dotted line."""
    spread = [
        max([*shape.values, shape.missing or 0.0]) - min([*shape.values, shape.missing or 0.0]) for shape in shapes
    ]
    chosen = [shapes[number] for number in np.argsort(np.negative(spread), kind="stable")[:most]]
    columns = min(4, max(1, len(chosen)))
    rows = -(-len(chosen) // columns)
    figure = new_figure(3.0 * columns, 2.2 * rows)
    for axes, shape in zip(figure.subplots(rows, columns, squeeze=False, sharey=True).ravel(), chosen, strict=False):
        _draw_curve(axes, shape)
        if shape.missing is not None:
            axes.axhline(shape.missing, linestyle=":", color="gray", label="missing")
            axes.legend(frameon=False, fontsize="small")
        axes.set_title(shape.name, fontsize="medium")
        axes.grid(alpha=0.3)
    for axes in figure.axes[len(chosen) :]:
        axes.remove()
    figure.supylabel("score")
    return _finish(figure, path)


def _draw_curve(axes: Any, shape: Shape) -> None:
    if shape.start is not None:
        axes.plot(shape.knots, shape.values, linewidth=1.8)
        return
    inner = np.asarray(shape.thresholds, dtype=np.float64)
    width = float(np.ptp(inner)) or 1.0
    edges = np.concatenate([[inner.min(initial=0.0) - 0.1 * width], inner, [inner.max(initial=0.0) + 0.1 * width]])
    axes.stairs(shape.values, edges, baseline=None, linewidth=1.8)


def plot_convergence(solution: Solution, path: str | Path | None = None) -> Any:
    """Draw the gap, as a share of the objective, against passes over the data."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    passes = [step.passes for step in solution.trace]
    shares = [step.gap / max(abs(step.primal), 1e-300) for step in solution.trace]
    if np.isfinite(shares).any():
        axes.semilogy(passes, np.maximum(shares, 1e-16), marker="o")
        axes.set(ylabel="gap / objective")
    else:
        axes.plot(passes, [step.primal for step in solution.trace], marker="o")
        axes.set(ylabel="objective")
    axes.set(xlabel="passes over the data")
    axes.grid(alpha=0.3)
    return _finish(figure, path)


def plot_weights(
    names: Sequence[str], weights: Sequence[float], path: str | Path | None = None, *, most: int = 40
) -> Any:
    """Draw the weights of a linear ranker, the largest first."""
    order = np.argsort(-np.abs(np.asarray(weights)), kind="stable")[:most][::-1]
    figure = new_figure(6.4, 0.8 + 0.22 * len(order))
    axes = figure.subplots()
    axes.barh([names[number] for number in order], [weights[number] for number in order])
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel="weight")
    axes.grid(axis="x", alpha=0.3)
    return _finish(figure, path)
