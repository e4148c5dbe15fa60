"""Tables, pictures and findings on time: Chakrabarti et al. (KDD 2008), Figures 8 and 10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from experiments.base import Finding, Picture, Table
from experiments.letor import SETS
from experiments.verdicts import conjunction, growth, in_all, reaches, within
from marginrank.model.plots import new_figure

#: Queries, documents and good documents of each: a fifth of the queries of the three sets, whose sizes are 1 : 3 : 4.6.
SHAPES: Final = {"OHSUMED": (21, 152, 46), "TD2003": (10, 983, 10), "TD2004": (15, 989, 6)}
#: Figure 10 in seconds, and the seconds of §4.4 for DORM on TD2004.
PAPER_FITS: Final = {
    "OHSUMED": {"McRank": 1102.0, "NDCG": 4.8, "MRR": 30.6},
    "TD2003": {"McRank": 10113.0, "NDCG": 14.9, "MRR": 125.0},
    "TD2004": {"McRank": 9308.0, "NDCG": 19.1, "MRR": 148.0},
}
PAPER_DORM: Final = 283 / 19
#: Largest share of the time that counts as very small.
_BARELY: Final = 0.1
#: Ratio of times from which on one is substantially longer.
_SUBSTANTIAL: Final = 2.0
#: Largest power of the size that counts as linear growth.
_LINEAR: Final = 1.2


def _grown(results: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Results of one kind by what varies."""
    return {name.split("/")[1]: result for name, result in results.items() if name.startswith(f"{kind}/")}


def _whole(times: Mapping[str, float]) -> float:
    return times["argmax"] + times["solver"]


def tables(results: Mapping[str, Any]) -> list[Table]:
    """Argmax and solver by size, and training as a whole."""
    return [
        _split_table(_grown(results, "letor"), "Shapes of the sets of Figure 8", "shape"),
        _split_table(_grown(results, "documents"), "Growth with the documents of a query (20 queries)", "documents"),
        _split_table(_grown(results, "queries"), "Growth with the queries (100 documents each)", "queries"),
        _fit_table(_grown(results, "sets")),
    ]


def _split_table(grown: Mapping[str, Any], caption: str, first: str) -> Table:
    """Times of an evaluation as multiples of the argmax of SVMndcg in the same row."""
    rows = []
    for name, times in grown.items():
        unit = times["SVMndcg"]["argmax"]
        cells = [of_method[part] / unit for of_method in times.values() for part in ("argmax", "solver")]
        rows.append((name, *cells))
    methods = next(iter(grown.values()))
    columns = (first, *(f"{method}, {part}" for method in methods for part in ("argmax", "solver")))
    return Table(f"{caption}: time per evaluation, argmax of SVMndcg = 1", columns, rows)


def _fit_table(grown: Mapping[str, Mapping[str, float]]) -> Table:
    """Times of training as multiples of SVMndcg's, ours and the paper's."""
    ours = {SETS[name].title: seconds for name, seconds in grown.items()}
    theirs = {f"{name} (paper)": seconds for name, seconds in PAPER_FITS.items()}
    rows = []
    for method in next(iter(grown.values())):
        cells = [
            (seconds[method] / seconds["NDCG"] if method in seconds else None) for seconds in (ours | theirs).values()
        ]
        rows.append((method, *cells))
    return Table("Time of training, SVMndcg = 1", ("trained for", *ours, *theirs), rows)


def pictures(results: Mapping[str, Any]) -> list[Picture]:
    """Draw growth, and the split of Figure 8."""
    figure = new_figure(10.0, 3.8)
    panels = figure.subplots(1, 2)
    for axes, kind in zip(panels, ("documents", "queries"), strict=True):
        grown = _grown(results, kind)
        sizes = [int(size) for size in grown]
        unit = next(iter(grown.values()))["SVMndcg"]["argmax"]
        for marker, method in zip("os^", next(iter(grown.values())), strict=True):
            axes.loglog(sizes, [one[method]["argmax"] / unit for one in grown.values()], marker=marker, label=method)
        axes.set(xlabel=f"{kind}{' of a query' if kind == 'documents' else ''}", ylabel="time of an argmax")
        axes.set_xticks(sizes, map(str, sizes))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    growth = Picture("growth", "Time of the argmax of all queries, SVMndcg at the smallest size = 1.", figure)
    return [growth, _bars(_grown(results, "letor"))]


def _bars(grown: Mapping[str, Any]) -> Picture:
    figure = new_figure(9.6, 3.6)
    axes = figure.subplots()
    unit = _whole(next(iter(grown.values()))["SVMndcg"])
    labels = [f"{name}\n{method}".replace(" by", "\nby") for method in next(iter(grown.values())) for name in grown]
    cells = [grown[name][method] for method in next(iter(grown.values())) for name in grown]
    argmax = np.array([cell["argmax"] for cell in cells]) / unit
    solver = np.array([cell["solver"] for cell in cells]) / unit
    places = np.arange(len(labels))
    axes.bar(places - 0.2, argmax, 0.4, label="argmax")
    axes.bar(places + 0.2, solver, 0.4, label="solver")
    axes.set(ylabel="time per evaluation", yscale="log")
    axes.set_xticks(places, labels, fontsize="x-small")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    caption = "Time per evaluation in argmax and solver, SVMndcg on OHSUMED's shape = 1: Figure 8 of the paper."
    return Picture("split", caption, figure)


def findings(results: Mapping[str, Any]) -> list[Finding]:
    """Test what §4.4, §2.3 and §4.6 say about time."""
    return [
        _dorm(results, "DORM by assignment"),
        _dorm(results, "DORM"),
        *(_solver_share(results, method) for method in ("SVMndcg", "DORM by assignment")),
        _linear(results),
        *(_mcrank(results, method) for method in ("NDCG", "NDCG tight", "MRR", "MRR tight")),
    ]


def _dorm(results: Mapping[str, Any], row: str) -> Finding:
    letor, grown = _grown(results, "letor"), _grown(results, "documents")
    ratios = {name: times[row]["argmax"] / times["SVMndcg"]["argmax"] for name, times in letor.items()}
    sizes = [float(size) for size in grown]
    (power, _), (base_power, _) = (
        growth(sizes, [one[method]["argmax"] for one in grown.values()]) for method in (row, "SVMndcg")
    )
    shown = ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
    return Finding(
        f"{row} takes substantially longer than SVMndcg and grows more steeply with the documents",
        "Chakrabarti et al. (2008), §4.4 and Figure 8",
        in_all([*(ratio > _SUBSTANTIAL for ratio in ratios.values()), power > base_power]),
        f"argmax of {row} over that of SVMndcg: {shown} (paper, TD2004, in all: {PAPER_DORM:.1f}); "
        f"time grows as documents to the power {power:.2f}, SVMndcg {base_power:.2f}",
    )


def _solver_share(results: Mapping[str, Any], method: str) -> Finding:
    shares = {name: times[method]["solver"] / _whole(times[method]) for name, times in _grown(results, "letor").items()}
    return Finding(
        f"The quadratic program takes a very small part of the time of {method}",
        "Chakrabarti et al. (2008), §4.4 and Figure 8",
        in_all(share < _BARELY for share in shares.values()),
        "share of the solver: " + ", ".join(f"{name} {share:.3f}" for name, share in shares.items()),
        "The quadratic program takes a very small part of the time",
    )


def _linear(results: Mapping[str, Any]) -> Finding:
    grown = _grown(results, "queries")
    sizes = [float(size) for size in grown]
    powers = {
        method: growth(sizes, [one[method]["argmax"] for one in grown.values()])
        for method in next(iter(grown.values()))
    }
    counts = [int(one["SVMndcg"]["evaluations"]) for one in grown.values()]
    steady = reaches(2 * min(counts) / max(counts), 1.0, fails_below=0.5)
    return Finding(
        "A constant number of violated rankings is looked at, so that training takes linear time",
        "Chakrabarti et al. (2008), §2.3",
        conjunction([within([powers["SVMndcg"][1]], most=_LINEAR), steady]),
        "time of the argmax grows as queries to the power "
        + ", ".join(f"{power:.2f} [{low:.2f}, {high:.2f}] ({name})" for name, (power, (low, high)) in powers.items())
        + f"; evaluations of SVMndcg from the fewest queries to the most: {', '.join(map(str, counts))}",
    )


def _mcrank(results: Mapping[str, Any], method: str) -> Finding:
    ratios = {
        SETS[name].title: seconds["McRank"] / seconds[method] for name, seconds in _grown(results, "sets").items()
    }
    base = method.removesuffix(" tight")
    paper = ", ".join(f"{name} {seconds['McRank'] / seconds[base]:.0f}" for name, seconds in PAPER_FITS.items())
    claim = "McRank can take two orders of magnitude more time than a structured learner"
    return Finding(
        f"{claim} ({method})",
        "Chakrabarti et al. (2008), §4.6 and Figure 10",
        reaches(max(ratios.values()), 100, fails_below=10),
        f"McRank over {method}: "
        + ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
        + f" (paper, {base}: {paper})",
        claim,
    )
