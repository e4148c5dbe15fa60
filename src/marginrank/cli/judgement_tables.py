"""Files of judgements that the commands of ``marginrank judge`` take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from marginrank.cli.output import check_inputs
from marginrank.errors import DataError

if TYPE_CHECKING:
    from marginrank.judging import Judgements

#: The judgements of several raters.
JudgementFiles: TypeAlias = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Judgements, as `marginrank judge import` reads and writes them."),
]

#: The confidence level of intervals and verdicts.
Confidence: TypeAlias = Annotated[float, typer.Option(help="Confidence level of intervals.")]

#: The distance of two grades.
DistanceOption: TypeAlias = Annotated[
    Literal["nominal", "linear", "quadratic"],
    typer.Option(help="Distance of two grades: whether they differ, by how much, or the square of that."),
]


def read_raters(sources: Sequence[Path]) -> Judgements:
    """Read files of judgements as one table."""
    check_inputs(sources)
    from marginrank.judging import read_judgements  # noqa: PLC0415

    first, *others = [read_judgements(path) for path in sources]
    return first.joined(*others)


def read_query_segments(path: Path) -> dict[str, str]:
    """Read the segment of each query from a table with the query in the first column and the segment in the second."""
    check_inputs([path])
    from marginrank.data.formats.csv import csv_records  # noqa: PLC0415

    segments: dict[str, str] = {}
    try:
        records = csv_records(path, "," if ".csv" in path.suffixes else "\t")
        next(records, None)
        for line, record in records:
            if len(record) < 2:
                raise DataError("a row has no second column; give query and segment", line=line)
            if segments.setdefault(record[0], record[1]) != record[1]:
                raise DataError(f"query {record[0]} has two segments; give one", line=line)
    except DataError as error:
        raise error.at(path) from None
    return segments
