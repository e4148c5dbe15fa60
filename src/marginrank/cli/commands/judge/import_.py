"""``marginrank judge import``: judgements of other tools as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.runtime.text import count, printable

EXAMPLES: Final = ("marginrank judge import raters.csv -o judgements.csv",)


def command(
    sources: Annotated[list[Path], typer.Argument(metavar="FILE", help="Tables with one judgement per row.")],
    out: Annotated[Path, out_option("The table to write: query_id, document_id, rater, grade.")],
    output: Output,
    force: Force = False,
) -> None:
    """Read judgements of several raters, and write them as one CSV table."""
    check_inputs(sources)
    check_outputs([out], inputs=sources, force=force)
    from marginrank.judging import read_judgements, write_judgements  # noqa: PLC0415

    first, *others = [read_judgements(path) for path in sources]
    judgements = first.joined(*others)
    with atomic_output(out, force=force) as place:
        write_judgements(place, judgements)
    grades, documents = int(judgements.judged.sum()), len(judgements.grades)
    record = {"output": out, "raters": judgements.raters, "grades": grades, "documents": documents}
    written = f"{count(grades, 'grade')} of {count(documents, 'document')} by {', '.join(judgements.raters)}"
    output.summary(record, f"wrote {printable(str(out))}: {written}")
