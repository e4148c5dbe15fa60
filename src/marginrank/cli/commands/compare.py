"""``marginrank compare``: tests of the differences between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.machine_grades import MachineGrades, prediction_powered_results
from marginrank.cli.options.evaluation_options import BASELINE, EvaluationOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import BoundsOption, By, IntervalsOption, Judged, Systems
from marginrank.cli.output import Output
from marginrank.cli.summary import unjudged_line
from marginrank.cli.system_files import (
    EvaluatedSystems,
    check_systems,
    columns_among,
    evaluate_systems,
    system_names,
    with_baseline,
)
from marginrank.cli.system_means import Intervals, Parts, add_intervals, intervals_of, means_text, parts_of
from marginrank.runtime.default_measures import DEFAULT_MEASURE

if TYPE_CHECKING:
    from marginrank.evaluation.comparison import Comparison
    from marginrank.evaluation.evaluation import Evaluation

EXAMPLES: Final = (
    "marginrank compare test.txt model.safetensors scores.txt",
    "marginrank compare test.txt model.safetensors --baseline 1 -m ap",
)


def command(
    judged: Judged,
    systems: Systems,
    reading: ReadingOptions,
    output: Output,
    judging: EvaluationOptions,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM",
            help="The system to compare with: one of SYSTEM by its name, another file, or a column of JUDGED.",
            show_default=BASELINE,
        ),
    ] = None,
    intervals: IntervalsOption = False,
    bounds: BoundsOption = False,
    by: By = None,
    machine_grades: MachineGrades = None,
) -> None:
    """Compare systems with a baseline on judged queries: differences, intervals, and tests of significance.

    A system is a model, a file of scores, a TREC run or a column of JUDGED, such as bm25. Unnamed columns are numbered.
    """
    judging = replace(judging, measures=judging.measures or [DEFAULT_MEASURE])
    systems, names, baseline = with_baseline(systems, baseline, lambda paths: system_names(paths, columns_among(paths)))
    if len(names) < 2:
        raise UsageError("a comparison needs two systems; give another one, or --baseline")
    judging.check(names, baseline)
    if bounds:
        judging.check_bounds()
    check_systems("compare", judged, systems)
    paths = dict(zip(names, systems, strict=True))
    evaluated = evaluate_systems(judged, paths, judging, reading, by, baseline=baseline, bounds=bounds)
    compared = _compare(evaluated.results, judging.spellings, baseline or evaluated.baseline)
    parts = parts_of(evaluated.results)
    within = intervals_of(parts, judging.spellings) if intervals else []
    sections = [means_text(parts, judging.spellings, within) + unjudged_line(evaluated.unjudged, judging.unjudged_rule)]
    sections += [f"{measure}\n{result}" for measure, result in compared.items()]
    sections += [f"for all grades of unjudged documents\n{one}" for one in evaluated.bounds.values()]
    record = _record(evaluated, compared, parts, within)
    if bounds:
        record["bounds"] = [one.to_dict() for one in evaluated.bounds.values()]
    if machine_grades is not None:
        reference = baseline or evaluated.baseline
        record["prediction_powered"], text = prediction_powered_results(
            evaluated.results, machine_grades, paths, judging, reading, reference
        )
        sections.append(text)
    output.result(record, "\n\n".join(sections))


def _compare(results: Mapping[str, Evaluation], measures: Sequence[str], baseline: str) -> dict[str, Comparison]:
    from marginrank.evaluation.comparison import summarize  # noqa: PLC0415

    summary = summarize(results, questions=[(measure, baseline) for measure in measures])
    return {measure: comparison for (measure, _), comparison in summary.comparisons.items()}


def _record(
    found: EvaluatedSystems, compared: Mapping[str, Comparison], parts: Parts, intervals: Sequence[Intervals]
) -> dict[str, Any]:
    systems = {name: one.to_dict() for name, one in found.results.items()}
    add_intervals(systems, parts, intervals)
    for name, record in systems.items():
        del record["per_query"]
        if name in found.unjudged:
            record["unjudged"] = asdict(found.unjudged[name])
    comparisons = {measure: result.to_dicts() for measure, result in compared.items()}
    return {"systems": systems, "comparisons": comparisons, "trained_on_these": found.trained_on_these}
