"""``marginrank split``: parts of judged data, such as training and test queries."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.summary import data_line, sizes_line
from marginrank.errors import DataError
from marginrank.runtime.text import facts

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.typing import FloatArray

EXAMPLES: Final = (
    "marginrank split train.txt --share fit=0.8,check=0.2",
    "marginrank split train.txt valid.txt --share a=2,b=1,c=1 --hash --suffix .csv",
)


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Data files, judged or not.")],
    reading: ReadingOptions,
    output: Output,
    share: Annotated[
        str, typer.Option(metavar="NAME=SIZE,...", help="Parts and their sizes, relative to each other.")
    ] = "train=0.8,test=0.2",
    hashed: Annotated[
        bool,
        typer.Option("--hash", help="Split by a hash of the query id: a query stays in its part as data are added."),
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Split by time: the first part has the earliest queries of a table."),
    ] = None,
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write to.", rich_help_panel="Output")
    ] = Path(),
    suffix: Annotated[
        str | None,
        typer.Option(
            metavar="SUFFIX", help="Format of the parts.", show_default="that of DATA", rich_help_panel="Output"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Split data into files such as train.csv and test.csv; the documents of a query stay together.

    Queries are drawn at random, unless --hash or --time is given. With --time, the time of a query is that of its
    latest row, queries with the same time stay together, and the column is not a feature.
    """
    shares = parse_shares(share)
    if hashed and time is not None:
        raise UsageError("give --hash or --time, not both")
    check_inputs(data)
    ending = suffix or "".join(re.findall(r"\.[a-z]+(?:\.(?:gz|xz|bz2|zst))?$", data[0].name, re.IGNORECASE))
    targets = {name: out / f"{name}{ending}" for name in shares}
    check_outputs(list(targets.values()), inputs=data, force=force)
    queries, quantiles = _read(data, reading, hashed, time, random_state)
    from marginrank.data.query_splits import split_queries  # noqa: PLC0415
    from marginrank.data.reader import write_queries  # noqa: PLC0415

    try:
        parts = split_queries(queries, shares, quantiles)
    except DataError as error:
        raise error.at(data[0]) from None
    with ExitStack() as written:
        # All parts, or none.
        places = {name: written.enter_context(atomic_output(path, force=force)) for name, path in targets.items()}
        for name, part in parts.items():
            write_queries(places[name], part)
    counts = {name: {"queries": len(part), "documents": part.n_documents} for name, part in parts.items()}
    record = {name: {"output": targets[name], **counts[name]} for name in parts}
    wrote = [f"{targets[name]}: {sizes_line(part)}" for name, part in parts.items()]
    output.summary({"parts": record}, facts([("data", data_line(queries, data)), ("wrote", wrote)]))


def parse_shares(text: str) -> dict[str, float]:
    """Read the names and sizes of parts.

    >>> parse_shares("train=0.8,test=0.2")
    {'train': 0.8, 'test': 0.2}
    """
    shares: dict[str, float] = {}
    for word in text.split(","):
        match = re.fullmatch(r"\s*([\w-]+)\s*=\s*([0-9.]+)\s*", word)
        size = None if match is None else _size(match[2])
        if match is None or size is None or match[1] in shares:
            raise UsageError(f"--share {text}: write distinct names and sizes, for example train=0.8,test=0.2")
        shares[match[1]] = size
    if len(shares) < 2:
        raise UsageError(f"--share {text}: a split has two parts or more, for example train=0.8,test=0.2")
    return shares


def _size(word: str) -> float | None:
    try:
        size = float(word)
    except ValueError:
        return None
    return size if size > 0 else None


def _read(
    data: list[Path], reading: ReadingOptions, hashed: bool, time: str | None, random_state: int
) -> tuple[Queries, FloatArray]:
    """Read queries, and place each of them from 0 to 1."""
    from marginrank.data.formats.base import all_formats  # noqa: PLC0415
    from marginrank.data.query_splits import hashed_quantiles, random_quantiles, time_quantiles  # noqa: PLC0415
    from marginrank.data.reader import recognize  # noqa: PLC0415

    kind = all_formats()[recognize(data[0])]
    if kind.name == "letor" and reading.dtype is None:
        reading = replace(reading, dtype="float64")
    if time is None:
        queries = reading.read_queries(data, "nan", judged=False)
        return queries, (hashed_quantiles if hashed else random_quantiles)(queries, random_state)
    if "document_group" not in kind.options:
        raise UsageError(f"--time {time}: {data[0].name} is {kind.title}, which has no column of times; leave it out")
    if reading.document_group is not None:
        raise UsageError("document groups are not written to the parts; leave out --document-group")
    queries = reading.read_labeled(data, time, "nan", judged=False)
    assert queries.document_groups is not None
    try:
        quantiles = time_quantiles(queries, queries.document_groups)
    except DataError as error:
        raise error.at(data[0]) from None
    return replace(queries, document_groups=None), quantiles
