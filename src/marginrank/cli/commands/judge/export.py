"""``marginrank judge export``: judgements for this and other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.runtime.text import count, printable

EXAMPLES: Final = (
    "marginrank judge export raters.csv --rater ann -o ann.qrels",
    "marginrank judge export raters.csv --format quepid -o quepid.csv",
)


def command(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="The database of marginrank judge, or another file of judgements.")
    ],
    out: Annotated[Path, out_option("The file to write.")],
    output: Output,
    raters: Annotated[
        list[str] | None,
        typer.Option("--rater", metavar="NAME", help="Export only this rater; repeat for more.", show_default="all"),
    ] = None,
    kind: Annotated[
        Literal["csv", "trec", "quepid"] | None,
        typer.Option("--format", help="Format of the output.", show_default="trec for .qrels, else csv"),
    ] = None,
    force: Force = False,
) -> None:
    """Write judgements as CSV, as TREC judgements, or for Quepid.

    csv has the columns query_id, document_id, rater and grade. trec has one grade per document: choose a rater, or
    merge their grades with marginrank judge merge. quepid has query, docid and rating for one rater, as a case imports
    it, and a column for each of several.
    """
    check_inputs([source])
    check_outputs([out], inputs=[source], force=force)
    from marginrank.judging import read_judgements, write_judgements  # noqa: PLC0415

    judgements = read_judgements(source)
    if raters:
        judgements = judgements.of_raters(raters)
    written = kind or ("trec" if out.suffix == ".qrels" else "csv")
    with atomic_output(out, force=force) as place:
        write_judgements(place, judgements, written)
    grades, documents = int(judgements.judged.sum()), len(judgements.grades)
    record = {"output": out, "format": written, "raters": judgements.raters, "grades": grades, "documents": documents}
    said = f"{count(grades, 'grade')} of {count(documents, 'document')} by {', '.join(judgements.raters)}"
    output.summary(record, f"wrote {printable(str(out))}: {printable(said)}")
