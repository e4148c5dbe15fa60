"""Results of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from marginrank.runtime.text import ResultTable, count, data_frame, plain
from marginrank.typing import FloatArray

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker


#: Columns about the training of a candidate: its figures, and their formats.
_DETAILS: Final = {"slack": ("average_slack", ".4g"), "‖w‖": ("norm", ".3g"), "passes": ("passes", ".0f")}


@dataclass(frozen=True, eq=False)
class Candidate:
    """Values of the parameters, and the results with them on the validation queries.

    ``values`` has the criterion of each validation query, in one order for all candidates of a search.
    """

    parameters: Mapping[str, Any]
    mean: float
    standard_error: float
    objective: float
    average_slack: float
    norm: float
    passes: float
    values: FloatArray = field(default_factory=lambda: np.zeros(0), repr=False)

    def clearly_better(self, other: Candidate) -> bool:
        """Return whether the mean is higher by more than one standard error of the difference, query by query."""
        differences = self.values - other.values
        differences = differences[~np.isnan(differences)]
        if len(differences) < 2:
            return False
        return bool(differences.mean() > differences.std(ddof=1) / np.sqrt(len(differences)))


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The result of `tune`: all candidates, the selected one, and a ranker trained with its parameters.

    Args:
        candidates: The candidates, in the order they were tried.
        chosen: Index of the selected candidate.
        ranker: A ranker trained with its parameters, on the training queries if there were validation queries,
            otherwise on all.
        criterion: The measure that it was selected by.
        policy: How ties and queries without relevant documents were scored.
        rule: ``best``, or ``one-se``.
        held_out: The queries that the criterion was computed on, in words.
        complete: Whether everything was tried and trained to the end; False after a time limit or a callback that
            stopped the search. The candidates are then those that were tried on all validation queries, if there are
            any, and with folds the ranker is that of one fold.
        compared: With ``scorer="auto"``, the best candidate of each scorer for softmax, if softmax compared them.
    """

    candidates: tuple[Candidate, ...]
    chosen: int
    ranker: Ranker
    criterion: str
    policy: str
    rule: Rule
    held_out: str
    complete: bool = True
    compared: tuple[Candidate, ...] = ()

    @property
    def best(self) -> Candidate:
        """The selected candidate."""
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
                {**plain(candidate.parameters), **{name: getattr(candidate, name) for name in _FIGURES}}
                for candidate in self.candidates
            ],
            "by_softmax": {str(candidate.parameters["scorer"]): candidate.mean for candidate in self.compared},
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
        """Return a pandas frame with one row per candidate: parameters, results, and whether it was selected."""
        candidates = self.to_dict()["candidates"]
        columns = {name: [candidate[name] for candidate in candidates] for name in candidates[0]}
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


def selection_table(selection: Mapping[str, Any], *, details: bool = True) -> str:
    """Return the table of a selection, as `Selection.to_dict` or a model file has it.

    Args:
        selection: The selection.
        details: Whether to show the slack, the norm and the passes of each candidate.
    """
    return _result_table(selection, details).text()


def scorers_compared(selection: Mapping[str, Any]) -> str:
    """Describe the best result of each scorer, the best scorer first, if several were tried or compared by softmax.

    >>> tried = [{"scorer": "linear", "mean": 0.5}, {"scorer": "additive", "mean": 0.6}]
    >>> scorers_compared({"candidates": tried, "criterion": "ap"})
    '; ap by scorer: additive 0.6000, linear 0.5000'
    """
    best: dict[str, float] = {}
    for candidate in selection["candidates"]:
        if "scorer" in candidate:
            scorer = candidate["scorer"]
            best[scorer] = max(candidate["mean"], best.get(scorer, -np.inf))
    loss = ""
    if len(best) <= 1:
        # Models of version 0.1.0 do not have it.
        best, loss = selection.get("by_softmax", {}), " with softmax"
    ranked = sorted(best.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {mean:.4f}" for name, mean in ranked)
    return f"; {selection['criterion']} by scorer{loss}: {listed}" if len(best) > 1 else ""


def _result_table(selection: Mapping[str, Any], details: bool = True) -> ResultTable:
    candidates = selection["candidates"]
    parameters = [name for name in candidates[0] if name not in _FIGURES and name != "C"]
    rows = [[*parameters, "C", selection["criterion"], "± s.e.", *(_DETAILS if details else ()), ""]]
    for number, candidate in enumerate(candidates):
        rows.append(
            [
                *(str(candidate[name]) for name in parameters),
                f"{candidate['C']:g}",
                f"{candidate['mean']:.4f}",
                f"{candidate['standard_error']:.4f}",
                *(f"{candidate[name]:{form}}" for name, form in _DETAILS.values() if details),
                "chosen" if number == selection["chosen"] else "",
            ]
        )
    state = "" if selection["complete"] else "; stopped before everything was tried"
    state = f"{scorers_compared(selection)}{state}"
    how = f"{selection['held_out']}, policy {selection['policy']}, rule {selection['rule']}{state}"
    return ResultTable(rows, right=range(len(rows[0]) - 1), note=how)


_FIGURES: Final = ("mean", "standard_error", "objective", "average_slack", "norm", "passes")
