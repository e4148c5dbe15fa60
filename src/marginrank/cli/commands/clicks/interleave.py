"""``marginrank clicks interleave``: mix two rankings into lists to show."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.system_files import read_rankings
from marginrank.runtime.text import count, printable

EXAMPLES: Final = ("marginrank clicks interleave bm25.run dense.run --k 10 -o lists.csv",)
_HEAD: Final = ["query", "position", "document", "team"]


def command(
    a: Annotated[Path, typer.Argument(metavar="A", help="A ranking: a TREC run, or one written by `marginrank rank`.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other ranking.")],
    out: Annotated[Path, out_option("The lists to write, as CSV.")],
    output: Output,
    method: Annotated[
        Literal["team-draft", "balanced"],
        typer.Option(help="team-draft: both draw in turn, by a coin in each round; balanced: one coin for the list."),
    ] = "team-draft",
    k: Annotated[int | None, typer.Option("--k", min=1, help="Length of the lists.", show_default="all")] = None,
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    force: Force = False,
) -> None:
    """Interleave two rankings query by query, for users to click on.

    Show the lists, log the team of each shown document with its clicks, and give the log to `marginrank clicks
    preference`. Draw new lists for each user: another --random-state, or interleave() in Python.
    """
    check_inputs([a, b])
    check_outputs([out], inputs=[a, b], force=force)
    import numpy as np  # noqa: PLC0415

    from marginrank.clicks import interleave  # noqa: PLC0415

    rankings = read_rankings(a, b)
    rng = np.random.default_rng(random_state)
    rows: list[list[Any]] = []
    for query, (first, second) in rankings.items():
        mixed = interleave(first, second, k, method=method, random_state=rng)
        teams = mixed.teams or ("",) * len(mixed.documents)
        rows += [[query, at, name, team] for at, (name, team) in enumerate(zip(mixed.documents, teams, strict=True), 1)]
    with atomic_output(out, force=force) as place:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([_HEAD, *rows])
        place.write_text(text.getvalue(), encoding="utf-8")
    output.summary(
        {"lists": len(rankings), "method": method, "output": out},
        f"wrote {printable(str(out))}: {count(len(rankings), 'list')}, {count(len(rows), 'row')}, {method}",
    )
