"""Prediction-powered results of ``marginrank evaluate`` and ``compare``: few queries by people, many by a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import check_inputs
from marginrank.cli.system_files import evaluate_systems
from marginrank.runtime.text import table

if TYPE_CHECKING:
    from marginrank.cli.options.evaluation_options import EvaluationOptions
    from marginrank.evaluation.evaluation import Evaluation
    from marginrank.judging import PredictionPoweredMean

#: The grades of a machine.
MachineGrades: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--machine-grades",
        metavar="FILE",
        help="Machine grades for the queries of JUDGED and others; results cover all of them, corrected for bias.",
        show_default=False,
    ),
]


def prediction_powered_results(
    people: Mapping[str, Evaluation],
    machine: Path,
    systems: Mapping[str, Path],
    judging: EvaluationOptions,
    reading: ReadingOptions,
    baseline: str | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """Evaluate systems by the grades of the machine too, and return records and text of the estimates for people.

    With a baseline they are of differences from it. A machine that cannot help is said so, for each measure.
    """
    check_inputs([machine])
    from marginrank.judging import prediction_powered_compare, prediction_powered_evaluate  # noqa: PLC0415

    machine_results = evaluate_systems(machine, systems, judging, reading, None).results
    pairs: list[tuple[str, str, Callable[[], PredictionPoweredMean]]] = []
    for name in people:
        for measure in judging.spellings:
            if baseline is None:
                pairs.append(
                    (name, measure, _later(prediction_powered_evaluate, people[name], machine_results[name], measure))
                )
            elif name != baseline:
                graded = (people[name], people[baseline]), (machine_results[name], machine_results[baseline])
                pairs.append((name, measure, _later(prediction_powered_compare, *graded, measure)))
    return _shown(pairs, "mean" if baseline is None else f"minus {baseline}")


def _later(function: Callable[..., PredictionPoweredMean], *arguments: Any) -> Callable[[], PredictionPoweredMean]:
    return lambda: function(*arguments)


def _shown(
    pairs: Sequence[tuple[str, str, Callable[[], PredictionPoweredMean]]], title: str
) -> tuple[list[dict[str, Any]], str]:
    from marginrank.judging import MachineCannotHelpError  # noqa: PLC0415

    rows = [["system", "measure", title, "95% interval", "people alone", "95% interval", "worth"]]
    records, refusals = [], []
    for name, measure, estimate in pairs:
        record: dict[str, Any] = {"system": name, "measure": measure}
        try:
            one = estimate()
        except MachineCannotHelpError as error:
            refusals.append(f"{name}, {measure}: {error}")
            records.append({**record, "refused": str(error)})
            continue
        records.append({**record, **asdict(one), "worth": one.gain})
        inside = ["[{:.4f}, {:.4f}]".format(*interval) for interval in (one.interval, one.people_interval)]
        means = f"{one.mean:.4f}", f"{one.people_mean:.4f}"
        rows.append([name, measure, means[0], inside[0], means[1], inside[1], f"{one.gain:.2f}"])
    note = "by grades of people and of the machine; worth: times the queries that people judged"
    lines = [table(rows, right=range(2, 7)), note] if len(rows) > 1 else []
    return records, "\n".join([*lines, *refusals])
