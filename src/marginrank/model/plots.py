"""Plots of models and of their selection; needs matplotlib (``pip install 'marginrank[plot]'``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginrank.scorers.additive.form import Shape
from marginrank.solvers.solution import Solution


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, with sizes in inches."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'marginrank[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _finish(figure: Any, path: str | Path | None) -> Any:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_selection(selection: Mapping[str, Any], path: str | Path | None = None) -> Any:
    """Plot the criterion against C with standard errors, one line per setting of the other parameters."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    known = ("C", "mean", "standard_error", "objective", "average_slack", "norm", "passes")
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for candidate in selection["candidates"]:
        label = ", ".join(f"{name}={value}" for name, value in candidate.items() if name not in known)
        lines.setdefault(label, []).append(candidate)
    for label, line in lines.items():
        Cs, means, errors = ([candidate[name] for candidate in line] for name in ("C", "mean", "standard_error"))
        axes.errorbar(Cs, means, errors, marker="o", capsize=3, label=label or None)
    best = selection["candidates"][selection["chosen"]]
    axes.plot([best["C"]], [best["mean"]], "o", markersize=12, fillstyle="none", color="black", label="chosen")
    axes.set(xscale="log", xlabel="C", ylabel=selection["criterion"], title=selection["held_out"])
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return _finish(figure, path)


def plot_shapes(shapes: Sequence[Shape], path: str | Path | None = None, *, most: int = 24) -> Any:
    """Plot the curves of an additive ranker, largest first, with missing values as a dotted line."""
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
    """Plot the gap, relative to the objective, against passes over the data."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    passes = [step.passes for step in solution.trace]
    gaps = [step.gap / max(abs(step.primal), 1e-300) for step in solution.trace]
    if np.isfinite(gaps).any():
        axes.semilogy(passes, np.maximum(gaps, 1e-16), marker="o")
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
    """Plot the weights of a linear ranker, largest first."""
    order = np.argsort(-np.abs(np.asarray(weights)), kind="stable")[:most][::-1]
    figure = new_figure(6.4, 0.8 + 0.22 * len(order))
    axes = figure.subplots()
    axes.barh([names[number] for number in order], [weights[number] for number in order])
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel="weight")
    axes.grid(axis="x", alpha=0.3)
    return _finish(figure, path)


def plot_waterfall(
    labels: Sequence[str],
    contributions: Sequence[float],
    path: str | Path | None = None,
    *,
    base: float = 0.0,
    start: str = "mean of the query",
    title: str = "",
    most: int = 12,
) -> Any:
    """Plot how the contributions of features lead from one score to another, largest first.

    Args:
        labels: A label for each feature, such as its name and value.
        contributions: A row of `Ranker.explain`.
        path: File to write the plot to; none by default.
        base: The score to start from.
        start: Label of that score.
        title: Title of the plot.
        most: Number of features to show; the others are one bar.
    """
    parts = np.asarray(contributions, dtype=np.float64)
    order = np.argsort(-np.abs(parts), kind="stable")
    order = order[parts[order] != 0.0]
    rest = order[most:]
    bars = [(labels[number], float(parts[number])) for number in order[:most]]
    if len(rest):
        bars.append((f"{len(rest)} other feature{'s' if len(rest) > 1 else ''}", float(parts[rest].sum())))
    ends = base + np.cumsum([0.0, *(part for _, part in bars)])
    figure = new_figure(6.8, 1.4 + 0.32 * len(bars))
    axes = figure.subplots()
    rows = np.arange(len(bars))
    colors = ["#2a78b8" if part > 0 else "#c8553d" for _, part in bars]
    axes.barh(rows, [part for _, part in bars], left=ends[:-1], color=colors, height=0.66)
    axes.vlines(
        ends, np.concatenate([[-0.6], rows - 0.33]), np.concatenate([rows + 0.33, [len(bars) - 0.4]]), "gray", lw=0.8
    )
    span = float(np.ptp(ends)) or 1.0
    for row, (_, part) in enumerate(bars):
        axes.text(max(ends[row], ends[row + 1]) + 0.01 * span, row, f"{part:+.3g}", va="center", fontsize="small")
    axes.set_yticks(rows, [label for label, _ in bars])
    axes.set_xlim(float(ends.min()) - 0.05 * span, float(ends.max()) + 0.14 * span)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set(xlabel=f"score, from {base:.4g} ({start}) to {ends[-1]:.4g}", title=title)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return _finish(figure, path)
