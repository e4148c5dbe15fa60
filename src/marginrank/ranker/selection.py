"""Results of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from marginrank.runtime.text import ResultTable, count, data_frame, plain

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of the parameters, and what it reached on the validation queries."""

    parameters: Mapping[str, Any]
    mean: float
    standard_error: float
    objective: float
    average_slack: float
    norm: float
    passes: float


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The result of `tune`: all settings that were tried, the chosen one, and a ranker trained with it.

    Args:
        candidates: The settings, in the order they were tried.
        chosen: Index of the chosen setting.
        ranker: A ranker trained with it, on the training queries if there were validation queries, otherwise on all.
        criterion: The measure that the setting was chosen by.
        policy: How ties and queries without relevant documents were scored.
        rule: ``best``, or ``one-se``.
        held_out: What the criterion was measured on.
        complete: Whether everything was tried and trained to the end; False after a time limit or a callback that
            stopped the search. The candidates are then those that were tried on all validation queries, if there are
            any, and with folds the ranker is that of one fold.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    ranker: Ranker
    criterion: str
    policy: str
    rule: Rule
    held_out: str
    complete: bool = True

    @property
    def best(self) -> Candidate:
        """The chosen setting."""
        return self.candidates[self.chosen]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the ranker, as plain Python values."""
        return {
            "criterion": self.criterion,
            "policy": self.policy,
            "rule": self.rule,
            "held_out": self.held_out,
            "complete": self.complete,
            "chosen": self.chosen,
            "candidates": [
                {**{name: plain(value) for name, value in one.parameters.items()}, **_figures(one)}
                for one in self.candidates
            ],
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot the criterion against C, with standard errors; needs matplotlib.

        Args:
            path: File to write the plot to; its suffix decides the format.

        Returns:
            A matplotlib figure.
        """
        from marginrank.model.plots import plot_selection  # noqa: PLC0415

        return plot_selection(self.to_dict(), path)

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per setting: parameters, what they reached, and which was chosen."""
        candidates = self.to_dict()["candidates"]
        columns = {name: [one[name] for one in candidates] for name in candidates[0]}
        return data_frame({**columns, "chosen": [number == self.chosen for number in range(len(candidates))]})

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={_spelled(value)}" for name, value in self.best.parameters.items())
        reached = f"{self.criterion} {self.best.mean:.4f} ± {self.best.standard_error:.4f}"
        state = "" if self.complete else "; stopped before everything was tried"
        return f"Selection({chosen}: {reached}, of {count(len(self.candidates), 'setting')} on {self.held_out}{state})"

    def __str__(self) -> str:
        return selection_table(self.to_dict())

    def _repr_html_(self) -> str:
        return _result_table(self.to_dict()).html()


Rule: TypeAlias = Literal["best", "one-se"]


def _spelled(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def selection_table(selection: Mapping[str, Any]) -> str:
    """Return the table of a selection, as `Selection.to_dict` or a model file has it."""
    return _result_table(selection).text()


def scorers_compared(selection: Mapping[str, Any]) -> str:
    """Say what each scorer reached at its best, the best first, where several were tried.

    >>> tried = [{"scorer": "linear", "mean": 0.5}, {"scorer": "additive", "mean": 0.6}]
    >>> scorers_compared({"candidates": tried, "criterion": "ap"})
    '; ap by scorer: additive 0.6000, linear 0.5000'
    """
    best: dict[str, float] = {}
    for one in selection["candidates"]:
        if "scorer" in one:
            best[one["scorer"]] = max(one["mean"], best.get(one["scorer"], -np.inf))
    ranked = sorted(best.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {mean:.4f}" for name, mean in ranked)
    return f"; {selection['criterion']} by scorer: {listed}" if len(best) > 1 else ""


def _result_table(selection: Mapping[str, Any]) -> ResultTable:
    candidates = selection["candidates"]
    others = [name for name in candidates[0] if name not in _FIGURES and name != "C"]
    rows = [[*others, "C", selection["criterion"], "± s.e.", "slack", "‖w‖", "passes", ""]]
    for number, one in enumerate(candidates):
        rows.append(
            [
                *(str(one[name]) for name in others),
                f"{one['C']:g}",
                f"{one['mean']:.4f}",
                f"{one['standard_error']:.4f}",
                f"{one['average_slack']:.4g}",
                f"{one['norm']:.3g}",
                f"{one['passes']:.0f}",
                "chosen" if number == selection["chosen"] else "",
            ]
        )
    state = "" if selection["complete"] else "; stopped before everything was tried"
    state = f"{scorers_compared(selection)}{state}"
    how = f"{selection['held_out']}, policy {selection['policy']}, rule {selection['rule']}{state}"
    return ResultTable(rows, right=range(len(rows[0]) - 1), note=how)


_FIGURES: Final = ("mean", "standard_error", "objective", "average_slack", "norm", "passes")


def _figures(one: Candidate) -> dict[str, float]:
    return {name: getattr(one, name) for name in _FIGURES}
