"""Tables, pictures and findings on which losses learn: Chakrabarti et al. (KDD 2008), Figures 4 to 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from experiments.base import Cell, Finding, Picture, Table
from experiments.chk import LOSSES, MEASURES, differences, title, unpack
from experiments.letor import SETS
from experiments.verdicts import in_all, largest
from marginrank.model.plots import new_figure

#: Largest number of relevant documents of a query.
FEW: Final = (1, 2, 5)
#: A loss has left w = 0 when the objective is below this share of that at 0, and adapts when it is below the next.
LEFT: Final = 0.999
ADAPTED: Final = 0.9
#: The lines of Figures 4 to 6, and what the paper says of each.
PAPER: Final = {"DORM": "adapts", "MRR": "adapts", "AUC": "adapts", "MAP": "stays", "NDCG": "stays"}
DRAWN: Final = (*PAPER, "NDCG-NC", "MRR φpo")
#: φpo with and without its scale.
WAYS: Final = ("mean", "sum", "sum, C ≥ 0.01")
#: Almost zero accuracy is below this share of the accuracy with the scale.
_ALMOST_ZERO: Final = 0.5
_SECTION: Final = "Chakrabarti et al. (2008), §4.2"


def _data(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sets that were trained on, and whether they were cleaned."""
    names = [name.split("/") for name in results if name.startswith("path/")]
    return list(dict.fromkeys((parts[1], parts[2]) for parts in names))


def left_at(path: Mapping[str, Sequence[float]]) -> float | None:
    """Return the smallest C at which a loss has left w = 0; None where it never does.

    >>> left_at({"C": [1.0, 10.0], "ratio": [1.0, 0.97]})
    10.0
    """
    return next((C for C, ratio in zip(path["C"], path["ratio"], strict=True) if ratio < LEFT), None)


def tables(results: Mapping[str, Any]) -> list[Table]:
    """Health at the largest C, the slope at 0, few relevant documents, and the scale of φpo."""
    shown = [_health_table(results, *data) for data in _data(results)]
    for name in dict.fromkeys(name for name, _ in _data(results)):
        few = results[f"few/{name}"]
        rows = [(method, *ratios.values()) for method, ratios in few.items()]
        columns = ("loss", *(f"at most {cap}" for cap in FEW), "all")
        caption = f"Objective over objective at 0 by relevant documents kept: {title(name, 'cleaned')}"
        shown.append(Table(caption, columns, rows))
    rows = [
        (SETS[name].title, method, *(float(unpack(by_way[label][m]).mean()) for m in MEASURES for label in WAYS))
        for name, method, by_way in _scales(results)
    ]
    columns = ("set", "loss", *(f"{measure}, {label}" for measure in MEASURES for label in WAYS))
    return [*shown, Table("Test accuracy with φpo as a mean and as a sum over pairs (cleaned)", columns, rows)]


def _health_table(results: Mapping[str, Any], name: str, cleaning: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for method in LOSSES:
        path = results[f"path/{name}/{cleaning}/{method}"]
        slope, rising = results[f"why/{name}/{cleaning}"][method]
        slack, ratio, norm = (path[key][-1] for key in ("slack", "ratio", "norm"))
        rows.append((method, slack, ratio, norm**2, _spelled(left_at(path)), slope, rising))
    largest = results[f"path/{name}/{cleaning}/AUC"]["C"][-1]
    columns = (
        "loss",
        f"slack at C = {largest:g}",
        "objective / at 0",
        "‖w‖²",
        "leaves 0 at C",
        "slope at 0 towards RankSVM",
        "queries whose slack rises",
    )
    return Table(f"Health: {title(name, cleaning)}", columns, rows)


def _spelled(C: float | None) -> str:
    return "never" if C is None else f"{C:g}"


def _scales(results: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    tasks = [(name.split("/"), result) for name, result in results.items() if name.startswith("scale/")]
    return [(parts[1], parts[2], result) for parts, result in tasks]


def pictures(results: Mapping[str, Any]) -> list[Picture]:
    """Draw Figures 4 to 6, one column of panels per set."""
    data = _data(results)
    figure = new_figure(3.4 * len(data) + 1.6, 7.5)
    panels = figure.subplots(3, len(data), squeeze=False, sharex=True, sharey="row")
    for column, (name, cleaning) in enumerate(data):
        for number, method in enumerate(DRAWN):
            path = results[f"path/{name}/{cleaning}/{method}"]
            lines = (path["slack"], path["ratio"], np.maximum(np.square(path["norm"]), 1e-8))
            for axes, line in zip(panels[:, column], lines, strict=True):
                axes.plot(path["C"], line, marker="osv^D<>"[number], markevery=(number % 4, 4), label=method)
        panels[0, column].set_title(title(name, cleaning).replace(", ", "\n"), fontsize="medium")
        panels[2, column].set(xscale="log", yscale="log", xlabel="C")
    for axes, label in zip(panels[:, 0], ("average slack", "objective / at 0", "‖w‖² (1e-8: 0)"), strict=True):
        axes.set_ylabel(label)
    for axes in panels.ravel():
        axes.grid(alpha=0.3)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    caption = "Average slack, objective over objective at 0, and ‖w‖² against C: Figures 4 to 6 of the paper."
    return [Picture("lines", caption, figure)]


def findings(results: Mapping[str, Any]) -> list[Finding]:
    """Test what §4.2 says of each line, of maps made for a measure, and of the scale of φpo."""
    adapted = [_adapts(results, method, said) for method, said in PAPER.items()]
    custom = [_custom(results, *pair) for pair in (("MRR", "MRR φpo", "φmrr"), ("DORM", "NDCG", "φdorm"))]
    return [*adapted, *custom, _scale_finding(results)]


def _adapts(results: Mapping[str, Any], method: str, said: str) -> Finding:
    paths = {data: results["path/{}/{}/{}".format(*data, method)] for data in _data(results)}
    below = [path["ratio"][-1] < ADAPTED for path in paths.values()]
    held = below if said == "adapts" else [not one for one in below]
    reached = "; ".join(
        f"{title(*data)} {path['ratio'][-1]:.4f}, {_leaving(left_at(path))}" for data, path in paths.items()
    )
    claim = f"{method} adapts as C grows" if said == "adapts" else f"{method} stays near w = 0"
    evidence = f"objective over objective at 0: {reached}{_with_few(results, method)}"
    return Finding(claim, f"{_SECTION}, Figures 4 to 6", in_all(held), evidence)


def _leaving(C: float | None) -> str:
    return "never leaves 0" if C is None else f"leaves 0 at C = {C:g}"


def _with_few(results: Mapping[str, Any], method: str) -> str:
    few = {
        name.split("/")[1]: by_method[method]
        for name, by_method in results.items()
        if name.startswith("few/") and method in by_method
    }
    reached = ", ".join(f"{SETS[name].title} {ratios[str(FEW[0])]:.4f}" for name, ratios in few.items())
    return f"; with one relevant document per query: {reached}" if reached else ""


def _custom(results: Mapping[str, Any], method: str, other: str, feature_map: str) -> Finding:
    pairs = {
        data: [results["path/{}/{}/{}".format(*data, method)]["ratio"][-1] for method in (method, other)]
        for data in _data(results)
    }
    reached = "; ".join(f"{title(*data)} {pair[0]:.4f} and {pair[1]:.4f}" for data, pair in pairs.items())
    return Finding(
        f"A feature map designed for its measure is easier to train than φpo: {feature_map} for {method}",
        _SECTION,
        in_all([pair[0] < pair[1] for pair in pairs.values()]),
        f"objective over objective at 0 with {feature_map} and with φpo: {reached}",
        "A feature map designed for its measure is easier to train than φpo",
    )


def _scale_finding(results: Mapping[str, Any]) -> Finding:
    scales = _scales(results)
    rows = differences(
        {
            f"{SETS[name].title}, {method}, {way}": (unpack(by[way]["MAP"]), unpack(by["mean"]["MAP"]))
            for name, method, by in scales
            for way in WAYS[1:]
        }
    )
    shares = {
        way: [unpack(by[way]["MAP"]).mean() / unpack(by["mean"]["MAP"]).mean() for _, _, by in scales]
        for way in WAYS[1:]
    }
    ranges = ", ".join(f"{min(ratios):.3f} to {max(ratios):.3f} ({way})" for way, ratios in shares.items())
    return Finding(
        "Without the scale 1/(n⁺n⁻) of φpo there is almost zero accuracy",
        "Chakrabarti et al. (2008), §3.1.1",
        in_all(share < _ALMOST_ZERO for by_set in shares.values() for share in by_set),
        f"MAP without the scale over that with it: {ranges}; differences: {largest(rows)}",
    )
