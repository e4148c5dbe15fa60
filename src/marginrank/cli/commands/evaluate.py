"""``marginrank evaluate``: measures of models, scores and runs, and tests of their differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.evaluation_options import BASELINE, EvaluationOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import Judged, Systems, out_option
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.ranking_files import check_fields
from marginrank.cli.summary import unjudged_line
from marginrank.cli.system_files import check_data_first, judge, read_all, system_names
from marginrank.runtime.text import table

if TYPE_CHECKING:
    from marginrank.evaluation.comparison import Comparison
    from marginrank.evaluation.evaluation import Evaluation, Unjudged

EXAMPLES: Final = (
    "marginrank evaluate test.txt model.safetensors -m ndcg@10 -m ap",
    "marginrank evaluate test.txt model.safetensors scores.txt --compare",
)


def command(
    judged: Judged,
    systems: Systems,
    reading: ReadingOptions,
    output: Output,
    judging: EvaluationOptions,
    per_query: Annotated[bool, typer.Option("--per-query", help="Print the values for each query.")] = False,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Print bootstrap confidence intervals of the means.")
    ] = False,
    comparison: Annotated[bool, typer.Option("--compare", help="Test the differences to the baseline.")] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --compare, the baseline system: its file without suffix.", show_default=BASELINE
        ),
    ] = None,
    out: Annotated[
        Path | None, out_option("With --per-query, write the values to this file, tab-separated.", "stdout")
    ] = None,
    force: Force = False,
) -> None:
    """Evaluate models, files of scores or TREC runs on judged queries.

    JUDGED is a data file with grades, or TREC judgements for evaluating TREC runs.
    """
    names = system_names(systems)
    measures = judging.spellings
    judging.check(names, baseline)
    _check_usage(names, per_query, comparison, baseline, out)
    check_inputs([judged, *systems])
    check_data_first("evaluate", judged, systems)
    check_outputs([out], inputs=[judged, *systems], force=force)
    found = _evaluate(judged, dict(zip(names, systems, strict=True)), judging, reading)
    results = found.results
    compared = _compare(results, measures, baseline or found.baseline) if comparison else {}
    if per_query and out is not None:
        with atomic_output(out, force=force) as place:
            place.write_text(_tsv(results, measures), encoding="utf-8")
    shown = per_query and out is None
    within = _intervals(results, measures) if intervals else {}
    means = _means_within(results, within) if intervals else _means(results, measures)
    sections = [means + unjudged_line(found.unjudged)]
    sections += [_per_query(results, measures)] if shown else []
    sections += [f"{measure}\n{result}" for measure, result in compared.items()]
    record = _record(results, within, compared, per_query=shown)
    for name, one in found.unjudged.items():
        record["systems"][name]["unjudged"] = asdict(one)
    output.result({**record, "trained_on_these": found.trained_on_these, "output": out}, "\n\n".join(sections))


def _check_usage(
    names: Sequence[str], per_query: bool, comparison: bool, baseline: str | None, out: Path | None
) -> None:
    if out is not None and not per_query:
        raise UsageError("-o goes with --per-query")
    if baseline is not None and not comparison:
        raise UsageError("--baseline goes with --compare")
    if comparison and len(names) < 2:
        raise UsageError("--compare needs at least two systems")


class _Evaluated(NamedTuple):
    """Systems on judged queries."""

    results: dict[str, Evaluation]
    #: Of runs, what nobody judged.
    unjudged: dict[str, Unjudged]
    #: The systems that were trained on these queries.
    trained_on_these: list[str]
    #: The system to compare with where none is named.
    baseline: str


def _evaluate(
    judged: Path, systems: Mapping[str, Path], judging: EvaluationOptions, reading: ReadingOptions
) -> _Evaluated:
    """Evaluate the systems, and warn of those that were trained on these queries."""
    from marginrank.data.formats.trec import Run  # noqa: PLC0415
    from marginrank.evaluation.evaluation import count_unjudged  # noqa: PLC0415
    from marginrank.evaluation.systems import default_baseline, warn_if_trained_on  # noqa: PLC0415

    truth, opened = read_all(judged, systems, reading)
    judging.check_systems(opened)
    options = {"policy": judging.policy, "depth": judging.depth, "missing_topics": judging.missing_topics}
    results = {name: judge(truth, one, systems[name], judging.spellings, **options) for name, one in opened.items()}
    unjudged = {name: count_unjudged(truth, one) for name, one in opened.items() if isinstance(one, Run)}
    return _Evaluated(results, unjudged, warn_if_trained_on(truth, opened), default_baseline(opened))


def _compare(results: Mapping[str, Evaluation], measures: Sequence[str], baseline: str) -> dict[str, Comparison]:
    from marginrank.evaluation.comparison import summarize  # noqa: PLC0415

    found = summarize(results, questions=[(measure, baseline) for measure in measures])
    return {measure: comparison for (measure, _), comparison in found.comparisons.items()}


def _intervals(results: Mapping[str, Evaluation], measures: Sequence[str]) -> dict[str, dict[str, tuple[float, float]]]:
    from marginrank.evaluation.comparison import summarize  # noqa: PLC0415

    found = summarize(results, measures).intervals
    return {name: {measure: found[name, measure] for measure in measures} for name in results}


def _means_within(results: Mapping[str, Evaluation], intervals: Mapping[str, Mapping[str, tuple[float, float]]]) -> str:
    rows = [["system", "measure", "mean", "95% interval", "queries"]]
    for name, one in results.items():
        for measure, (low, high) in intervals[name].items():
            cells = [f"{one.mean[measure]:.4f}", f"[{low:.4f}, {high:.4f}]", f"{one.counted(measure):,}"]
            rows.append([name, measure, *cells])
    policy = next(iter(results.values())).policy
    return table(rows, right=range(2, len(rows[0]))) + f"\npolicy: {policy}"


def _means(results: Mapping[str, Evaluation], measures: Sequence[str]) -> str:
    if len(results) == 1:
        return str(next(iter(results.values())))
    rows = [["system", *measures, "queries"]]
    for name, one in results.items():
        rows.append([name, *(f"{one.mean[measure]:.4f}" for measure in measures), f"{one.counted(measures[0]):,}"])
    policy = next(iter(results.values())).policy
    return table(rows, right=range(1, len(rows[0]))) + f"\npolicy: {policy}"


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
    results: Mapping[str, Evaluation],
    intervals: Mapping[str, Mapping[str, tuple[float, float]]],
    compared: Mapping[str, Comparison],
    *,
    per_query: bool,
) -> dict[str, Any]:
    systems = {name: one.to_dict() for name, one in results.items()}
    for name, within in intervals.items():
        systems[name]["interval"] = within
    for record in systems.values():
        if not per_query:
            del record["per_query"]
    comparisons = {measure: result.to_dicts() for measure, result in compared.items()}
    return {"systems": systems, "comparisons": comparisons}
