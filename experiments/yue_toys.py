"""Two small examples that show why the measure matters: Yue et al. (SIGIR 2007), Tables 1 to 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Experiment, Finding, Report, Size, Table, Task
from experiments.verdicts import exact
from marginrank.measures import parse_measure

#: Relevance of the documents. Hypothesis h1 ranks them in this order, h2 in the opposite one.
TOYS: Final = {"ROC-Area": (1, 0, 0, 0, 0, 1, 1, 0), "accuracy": (1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0)}
#: What Tables 2 and 4 print: MAP and the other measure.
PRINTED: Final = {
    "ROC-Area": {"h1": (0.59, 0.47), "h2": (0.51, 0.53)},
    "accuracy": {"h1": (0.56, 0.64), "h2": (0.51, 0.73)},
}


def best_accuracy(relevant: Sequence[int]) -> float:
    """Return the share of documents on the right side of the best threshold, top documents first.

    >>> best_accuracy([1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0])       # one above the threshold: 1 + 6 of 11 are right
    0.6363636363636364
    """
    above, below = np.cumsum([0, *relevant]), np.cumsum([0, *(1 - np.asarray(relevant))[::-1]])[::-1]
    return float((above + below).max() / len(relevant))


def _toy(data: Path, *, other: str) -> dict[str, list[float]]:  # noqa: ARG001
    """MAP and the other measure of both hypotheses."""
    second = best_accuracy if other == "accuracy" else parse_measure("auc").value
    average_precision = parse_measure("ap").value
    orders = {"h1": list(TOYS[other]), "h2": list(TOYS[other][::-1])}
    return {name: [float(average_precision(order)), float(second(order))] for name, order in orders.items()}


def _plan(size: Size) -> list[Task]:  # noqa: ARG001
    return [Task(other, _toy, {"other": other}) for other in TOYS]


def _report(results: Mapping[str, Any]) -> Report:
    tables, findings = [], []
    for other, toy in results.items():
        rows = [(name, *toy[name], *PRINTED[other][name]) for name in ("h1", "h2")]
        tables.append(
            Table(f"MAP against {other}", ("hypothesis", "MAP", other, "MAP (paper)", f"{other} (paper)"), rows)
        )
        (map_1, other_1), (map_2, other_2) = toy["h1"], toy["h2"]
        findings.append(
            Finding(
                f"The hypothesis with the better {other} can have the worse MAP.",
                "Yue et al. (2007), section 2",
                exact((map_1 - map_2) * (other_1 - other_2) < 0),
                f"MAP {map_1:.4f} and {map_2:.4f}, {other} {other_1:.4f} and {other_2:.4f}",
            )
        )
    return Report(tables, findings=findings)


EXPERIMENT: Final = Experiment(
    "yue-toys",
    "MAP against ROC-Area and accuracy on toy rankings",
    "Yue et al. (2007), Tables 1 to 4",
    "Two hypotheses rank the documents of one query in opposite orders. Training for ROC-Area or for "
    "accuracy prefers the one with the lower average precision.",
    (),
    _plan,
    _report,
)
