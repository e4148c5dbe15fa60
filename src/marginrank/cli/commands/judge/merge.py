"""``marginrank judge merge``: one grade for each document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from marginrank.cli.judgement_tables import JudgementFiles, read_raters
from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.runtime.text import count, printable

EXAMPLES: Final = ("marginrank judge merge raters.csv -o merged.csv",)

_METHOD: Final = "The mean, the most frequent grade, or the most probable one, given how reliable each rater is."


def command(
    sources: JudgementFiles,
    out: Annotated[Path, out_option("The table to write: query, document, grade, uncertainty, raters, disputed.")],
    output: Output,
    method: Annotated[Literal["mean", "majority", "dawid-skene"], typer.Option(help=_METHOD)] = "mean",
    force: Force = False,
) -> None:
    """Merge the grades of several raters into one for each document, with its uncertainty.

    Prints the disputed documents, the most uncertain first.
    """
    judgements = read_raters(sources)
    check_outputs([out], inputs=sources, force=force)
    from marginrank.judging import merge  # noqa: PLC0415

    merged = merge(judgements, method)
    with atomic_output(out, force=force) as place:
        merged.write(place)
    order = merged.adjudication().tolist()
    names = [{"query": str(merged.query_ids[at]), "document": str(merged.document_ids[at])} for at in order]
    disputed = [
        {**name, "grade": merged.grades[at], "uncertainty": merged.uncertainty[at]}
        for name, at in zip(names, order, strict=True)
    ]
    record = {"output": out, "method": method, "documents": len(merged), "disputed": disputed}
    written = f"wrote {printable(str(out))}: {count(len(merged), 'document')} by {method}"
    output.summary(record, f"{written}\n{merged}" if order else f"{written}, none disputed")
