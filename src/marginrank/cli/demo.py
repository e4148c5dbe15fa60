"""``marginrank demo``: train and compare two rankers on data that scikit-learn has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.files import Force, check_outputs, whole
from marginrank.cli.output import Output
from marginrank.words import printable

EXAMPLES: Final = ("marginrank demo --page digits.html",)


def command(
    output: Output,
    page: Annotated[Path, typer.Option("--page", help="HTML file to write.")] = Path("demo.html"),
    force: Force = False,
) -> None:
    """Learn image search on scikit-learn's digits, and compare with Euclidean distance.

    Each query is an image, documents are other images, and features are squared differences of pixels. A document is
    relevant if it shows the same digit. Two rankers are trained, evaluated on test queries, and shown on a page.
    """
    from marginrank.reporting.demo import learn, record, render, summary  # noqa: PLC0415

    check_outputs([page], force=force)
    outcome = learn()
    with whole(page, force=force) as place:
        place.write_text(render(outcome), encoding="utf-8")
    output.result({**record(outcome), "page": page}, f"{summary(outcome)}\n\nwrote {printable(str(page))}")
