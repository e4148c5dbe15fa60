"""Tables of the means of systems, on all queries and on those of each segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from marginrank.runtime.text import table

if TYPE_CHECKING:
    from marginrank.evaluation.evaluation import Evaluation

#: The results of each system on all queries, then on those of each segment by its name.
Parts: TypeAlias = Sequence[tuple[str | None, Mapping[str, "Evaluation"]]]


#: A confidence interval of the mean by system and measure.
Intervals: TypeAlias = Mapping[str, Mapping[str, tuple[float, float]]]


def parts_of(results: Mapping[str, Evaluation]) -> Parts:
    """Return the results on all queries, then on those of each segment."""
    segments = dict.fromkeys(segment for one in results.values() for segment in one.by_segment)
    return [
        (None, results),
        *(
            (segment, {name: one.by_segment[segment] for name, one in results.items() if segment in one.by_segment})
            for segment in segments
        ),
    ]


def intervals_of(parts: Parts, measures: Sequence[str]) -> list[Intervals]:
    """Return the confidence intervals of the means, for each part."""
    return [_intervals(part, measures) for _, part in parts]


def _intervals(results: Mapping[str, Evaluation], measures: Sequence[str]) -> Intervals:
    from marginrank.evaluation.comparison import summarize  # noqa: PLC0415

    intervals = summarize(results, measures).intervals
    return {name: {measure: intervals[name, measure] for measure in measures} for name in results}


def _means_within(parts: Parts, intervals: Sequence[Intervals]) -> str:
    rows = [["system", "measure", "mean", "95% interval", "queries"]]
    for (_, part), within in zip(parts, intervals, strict=True):
        for name, one in part.items():
            for measure, (low, high) in within[name].items():
                cells = [f"{one.mean[measure]:.4f}", f"[{low:.4f}, {high:.4f}]", f"{one.counted(measure):,}"]
                rows.append([name, measure, *cells])
    sizes = [sum(map(len, within.values())) for within in intervals]
    return _layout(parts, rows, sizes, n_words=2)


def add_intervals(systems: Mapping[str, Any], parts: Parts, intervals: Sequence[Intervals]) -> None:
    """Add intervals, if there are any, to the records of systems."""
    for (segment, _), within in zip(parts, intervals, strict=False):
        for name, interval in within.items():
            record = systems[name] if segment is None else systems[name]["segments"][segment]
            record["interval"] = interval


def means_text(parts: Parts, measures: Sequence[str], intervals: Sequence[Intervals] = ()) -> str:
    """Return a table of the means of systems, with intervals if there are any."""
    if intervals:
        return _means_within(parts, intervals)
    results = parts[0][1]
    if len(results) == 1:
        return str(next(iter(results.values())))
    rows = [["system", *measures, "queries"]]
    for _, part in parts:
        for name, one in part.items():
            rows.append([name, *(f"{one.mean[measure]:.4f}" for measure in measures), f"{one.counted(measures[0]):,}"])
    return _layout(parts, rows, [len(part) for _, part in parts], n_words=1)


def _layout(parts: Parts, rows: list[list[str]], sizes: Sequence[int], n_words: int) -> str:
    """Lay out rows, of which each part has some; with segments, they begin with the name of theirs."""
    if len(parts) > 1:
        names = ["segment", *(segment or "all" for (segment, _), n in zip(parts, sizes, strict=True) for _ in range(n))]
        rows, n_words = [[name, *row] for name, row in zip(names, rows, strict=True)], n_words + 1
    policy = next(iter(parts[0][1].values())).policy
    return table(rows, right=range(n_words, len(rows[0]))) + f"\npolicy: {policy}"
