"""``marginrank judge import``: judgements of other tools as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.runtime.text import count, printable

EXAMPLES: Final = (
    "marginrank judge import raters.csv -o judgements.csv",
    "marginrank judge import raters.csv judged.qrels -o all.csv",
)


def command(
    sources: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of judgements.")],
    out: Annotated[Path, out_option("The table to write: query_id, document_id, rater, grade.")],
    output: Output,
    qid: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of query ids in a table.")] = None,
    document_id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of document ids in a table.")
    ] = None,
    grade: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of grades in a table.")] = None,
    rater: Annotated[str | None, typer.Option("--rater-column", metavar="COLUMN", help="Column of raters.")] = None,
    raters: Annotated[
        list[str] | None,
        typer.Option("--rater-grades", metavar="COLUMN,...", help="Columns with the grades of one rater each."),
    ] = None,
    rater_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the rater, for files without one.",
            show_default="the name of the file or list",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Read judgements of other tools, and write them as one CSV table.

    Reads tables (CSV of Quepid and of spreadsheets, JSON Lines, Parquet) with one judgement per row or with a column
    for each rater, cases and books of Quepid and judgement lists of OpenSearch as JSON, TREC judgements, and databases
    of marginrank judge. Empty grades, NaN and -1 mean unjudged.
    """
    check_inputs(sources)
    check_outputs([out], inputs=sources, force=force)
    from marginrank.judging import read_judgements, write_judgements  # noqa: PLC0415

    columns = [name.strip() for words in raters or () for name in words.split(",")] or None
    first, *others = [
        read_judgements(
            path, qid=qid, document_id=document_id, rater=rater, grade=grade, raters=columns, rater_name=rater_name
        )
        for path in sources
    ]
    judgements = first.joined(*others)
    with atomic_output(out, force=force) as place:
        write_judgements(place, judgements)
    grades, documents = int(judgements.judged.sum()), len(judgements.grades)
    record = {"output": out, "raters": judgements.raters, "grades": grades, "documents": documents}
    written = f"{count(grades, 'grade')} of {count(documents, 'document')} by {', '.join(judgements.raters)}"
    output.summary(record, f"wrote {printable(str(out))}: {printable(written)}")
