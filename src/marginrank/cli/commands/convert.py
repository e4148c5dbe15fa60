"""``marginrank convert``: judged data from one format to another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.summary import data_line
from marginrank.runtime.text import count, printable

if TYPE_CHECKING:
    from marginrank.data.queries import Queries

EXAMPLES: Final = (
    "marginrank convert train.txt train.queries",
    "marginrank convert train.txt valid.txt both.csv --missing zero",
)


def command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="SRC... DST", help="Input files, then the output file or folder.")
    ],
    reading: ReadingOptions,
    output: Output,
    force: Force = False,
) -> None:
    """Convert judged data to another format, given by the suffix of DST.

    .queries is one binary file that is memory-mapped when opened; .txt, .letor and .svm are LETOR text; .csv, .tsv,
    .jsonl and .parquet have a column for each feature. Text may be compressed, as in .csv.gz.

    Files may be larger than memory; set MARGINRANK_MAX_MEMORY to limit memory use, and TMPDIR to a folder with room for
    a copy of the features, or three if the rows of queries are not contiguous.

    If DST is a folder, each file becomes a binary file in it, to be used as partitions on a cluster.
    """
    *sources, target = paths
    if not sources:
        raise UsageError("give the files to read, then the file to write: marginrank convert SRC DST")
    check_inputs(sources)
    if target.is_dir():
        _convert_each(sources, target, reading, output, force)
        return
    check_outputs([target], inputs=sources, force=force)
    queries = _convert(sources, target, reading, force)
    record = {
        "output": target,
        "queries": len(queries),
        "documents": queries.n_documents,
        "features": queries.n_features,
    }
    output.summary(record, f"wrote {printable(str(target))} from {data_line(queries, sources)}")


def _convert_each(sources: list[Path], folder: Path, reading: ReadingOptions, output: Output, force: bool) -> None:
    targets = [folder / f"{path.name.partition('.')[0]}.queries" for path in sources]
    twice = next((path for path, n in Counter(targets).items() if n > 1), None)
    if twice is not None:
        raise UsageError(f"two files would become {printable(str(twice))}; rename one, or write into two folders")
    check_outputs(targets, inputs=sources, force=force)
    counts = [0, 0]
    for source, target in zip(sources, targets, strict=True):
        queries = _convert([source], target, reading, force)
        counts = [counts[0] + len(queries), counts[1] + queries.n_documents]
    record = {"output": targets, "queries": counts[0], "documents": counts[1], "features": queries.n_features}
    sizes = f"{count(counts[0], 'query', 'queries')}, {count(counts[1], 'document')}"
    output.summary(record, f"wrote {count(len(targets), 'file')} in {printable(str(folder))}: {sizes}")


def _convert(sources: list[Path], target: Path, reading: ReadingOptions, force: bool) -> Queries:
    from marginrank.data.reader import convert  # noqa: PLC0415

    options = reading.options_of(sources[0])
    with atomic_output(target, force=force) as place:
        return convert(sources, place, **options)
