"""``marginrank demo``: train a ranker on the documentation of installed packages and compare it with retrievers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.cli.streams import note
from marginrank.runtime.text import printable

EXAMPLES: Final = ("marginrank demo --page search.html",)


def command(
    output: Output,
    page: Annotated[Path, typer.Option("--page", help="HTML file to write.")] = Path("demo.html"),
    force: Force = False,
) -> None:
    """Search the documentation of NumPy, SciPy and scikit-learn, with a ranker learned from judged queries.

    The collection is built from installed docstrings: five retrievers search them for the descriptions in See Also
    sections. A ranker learns to combine the retrievers, and is compared with each of them and with reciprocal rank
    fusion on test queries. The page also shows queries before and after, and the weights.
    """
    from marginrank.reporting.demo_page import (  # noqa: PLC0415
        learn,
        record,
        render,
        summary,
    )

    check_outputs([page], force=force)
    outcome = learn(None if output.quiet else note)
    with atomic_output(page, force=force) as place:
        place.write_text(render(outcome), encoding="utf-8")
    output.result({**record(outcome), "page": page}, f"{summary(outcome)}\n\nwrote {printable(str(page))}")
