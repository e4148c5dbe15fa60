"""``marginrank evaluate``: measures of models, scores and runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.machine_grades import MachineGrades, prediction_powered_results
from marginrank.cli.options.evaluation_options import EvaluationOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import BoundsOption, By, IntervalsOption, Judged, Systems, out_option
from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.cli.ranking_files import check_fields
from marginrank.cli.summary import unjudged_line
from marginrank.cli.system_files import check_systems, columns_among, evaluate_systems, system_names
from marginrank.cli.system_means import Intervals, Parts, add_intervals, intervals_of, means_text, parts_of
from marginrank.runtime.text import table

if TYPE_CHECKING:
    from marginrank.evaluation.evaluation import Evaluation

EXAMPLES: Final = (
    "marginrank evaluate test.txt model.safetensors -m ndcg@10 -m ap",
    "marginrank evaluate test.txt model.safetensors scores.txt --intervals",
)


def command(
    judged: Judged,
    systems: Systems,
    reading: ReadingOptions,
    output: Output,
    judging: EvaluationOptions,
    per_query: Annotated[bool, typer.Option("--per-query", help="Print the values for each query.")] = False,
    intervals: IntervalsOption = False,
    bounds: BoundsOption = False,
    by: By = None,
    machine_grades: MachineGrades = None,
    out: Annotated[
        Path | None, out_option("With --per-query, write the values to this file, tab-separated.", "stdout")
    ] = None,
    force: Force = False,
) -> None:
    """Evaluate models, files of scores, TREC runs or columns of the data on judged queries.

    JUDGED is a data file with grades, or TREC judgements for evaluating TREC runs.
    """
    if out is not None and not per_query:
        raise UsageError("-o requires --per-query")
    names = system_names(systems, columns_among(systems))
    measures = judging.spellings
    judging.check(names, None)
    if bounds:
        judging.check_bounds()
    check_systems("evaluate", judged, systems)
    check_outputs([out], inputs=[judged, *systems], force=force)
    paths = dict(zip(names, systems, strict=True))
    evaluated = evaluate_systems(judged, paths, judging, reading, by, bounds=bounds)
    results = evaluated.results
    if per_query and out is not None:
        with atomic_output(out, force=force) as place:
            place.write_text(_tsv(results, measures), encoding="utf-8")
    shown = per_query and out is None
    parts = parts_of(results)
    within = intervals_of(parts, measures) if intervals else []
    means = means_text(parts, measures, within)
    sections = [means + unjudged_line(evaluated.unjudged, judging.unjudged_rule)]
    sections += [f"for all grades of unjudged documents\n{one}" for one in evaluated.bounds.values()]
    sections += [_per_query(results, measures)] if shown else []
    record = _record(parts, within, per_query=shown)
    for name, one in evaluated.unjudged.items():
        record["systems"][name]["unjudged"] = asdict(one)
    if bounds:
        record["bounds"] = [one.to_dict() for one in evaluated.bounds.values()]
    if machine_grades is not None:
        record["prediction_powered"], text = prediction_powered_results(
            results, machine_grades, paths, judging, reading
        )
        sections.append(text)
    output.result({**record, "trained_on_these": evaluated.trained_on_these, "output": out}, "\n\n".join(sections))


def _rows(results: Mapping[str, Evaluation], measures: Sequence[str]) -> Iterator[tuple[str, str, list[float]]]:
    """Query, system and values, one row for each; a query that the policy leaves out has NaN."""
    for name, one in results.items():
        columns = [one[measure].tolist() for measure in measures]
        for query, *values in zip(one.query_ids.tolist(), *columns, strict=True):
            yield str(query), name, values


def _tsv(results: Mapping[str, Evaluation], measures: Sequence[str]) -> str:
    for one in results.values():
        check_fields("TSV", query=one.query_ids)
    lines = [["query", "system", *measures]]
    for query, name, values in _rows(results, measures):
        lines.append([query, name, *("" if math.isnan(value) else repr(value) for value in values)])
    return "".join("\t".join(line) + "\n" for line in lines)


def _per_query(results: Mapping[str, Evaluation], measures: Sequence[str]) -> str:
    lines = [["query", "system", *measures]]
    for query, name, values in _rows(results, measures):
        lines.append([query, name, *("-" if math.isnan(value) else f"{value:.4f}" for value in values)])
    return table(lines, right=range(2, len(lines[0])))


def _record(
    parts: Parts,
    intervals: Sequence[Intervals],
    *,
    per_query: bool,
) -> dict[str, Any]:
    systems = {name: one.to_dict() for name, one in parts[0][1].items()}
    add_intervals(systems, parts, intervals)
    for record in systems.values():
        if not per_query:
            del record["per_query"]
    return {"systems": systems}
