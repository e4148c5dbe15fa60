"""``marginrank convert``: judged data from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from marginrank.cli.describing import data_line
from marginrank.cli.failures import Misuse
from marginrank.cli.files import Force, check_inputs, check_outputs, whole
from marginrank.cli.output import Output
from marginrank.cli.reading import Reading
from marginrank.words import printable

if TYPE_CHECKING:
    from marginrank.data.queries import Queries

EXAMPLES: Final = (
    "marginrank convert train.txt train.queries",
    "marginrank convert train.txt valid.txt both.csv --missing zero",
)


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="SRC... DST", help="Files to read, then the file to write.", show_default=False),
    ],
    reading: Reading,
    output: Output,
    force: Force = False,
) -> None:
    """Convert judged data to another format, given by the suffix of DST.

    .queries is one binary file that is memory-mapped when opened; .txt, .letor and .svm are LETOR text; .csv, .tsv,
    .jsonl and .parquet have a column for each feature. Text may be compressed, as in .csv.gz.
    """
    *sources, target = paths
    if not sources:
        raise Misuse("give the files to read, then the file to write: marginrank convert SRC DST")
    check_inputs(sources)
    check_outputs([target], inputs=sources, force=force)
    queries = _convert(sources, target, reading, force)
    record = {
        "output": target,
        "queries": len(queries),
        "documents": queries.n_documents,
        "features": queries.n_features,
    }
    output.summary(record, f"wrote {printable(str(target))} from {data_line(queries, sources)}")


def _convert(sources: list[Path], target: Path, reading: Reading, force: bool) -> Queries:
    from marginrank.data.formats import convert  # noqa: PLC0415

    options = reading.options_of(sources[0])
    with whole(target, force=force) as place:
        return convert(sources, place, **options)
