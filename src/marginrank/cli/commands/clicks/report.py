"""``marginrank clicks report``: one page about a search log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from marginrank.cli.commands.clicks.evaluate import ClickSystems, names_of
from marginrank.cli.options.click_options import (
    ClickFeatureOptions,
    ClickLogOptions,
    Log,
    PropensityOptions,
    system_scores,
)
from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.cli.system_files import columns_among, with_baseline
from marginrank.runtime.text import printable

EXAMPLES: Final = (
    "marginrank clicks report clicks.csv stars price --table products.csv --propensities harvest -o clicks.html",
)


def command(
    log: Log,
    systems: ClickSystems,
    clicks: ClickLogOptions,
    table: ClickFeatureOptions,
    correction: PropensityOptions,
    output: Output,
    measure: Annotated[
        str,
        typer.Option(
            "--measure", "-m", metavar="MEASURE", help="dcg, dcg@k, or rank: the mean rank of relevant documents."
        ),
    ] = "dcg@10",
    estimator: Annotated[
        Literal["ips", "snips"],
        typer.Option(help="ips: unbiased, per impression; snips: per relevant document, with less variance."),
    ] = "ips",
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM",
            help="The system to compare with: one of SYSTEM, or another.",
            show_default="the first that is not a model",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="systems and data")] = None,
    out: Annotated[Path, out_option("HTML file to write.", shown=True)] = Path("report.html"),
    force: Force = False,
) -> None:
    """Write an HTML page: propensities, what the correction changes, systems, and the queries that moved most."""
    systems, names, baseline = with_baseline(systems, baseline, names_of)
    check_outputs([out], inputs=[log, *systems], force=force)
    correction.check()
    from marginrank.reporting.click_report import write_click_report  # noqa: PLC0415

    shown = table.read(log, clicks, "nan")
    curve = correction.of(shown, resamples=200)
    scores = system_scores(shown, systems, names)
    with atomic_output(out, force=force) as place:
        report = write_click_report(
            place,
            shown,
            scores,
            measure,
            propensities=curve,
            estimator=estimator,
            baseline=baseline or (names_of(columns_among(systems)) or names)[0],
            title=title or f"{', '.join(names)} by the clicks of {log.name}",
        )
    output.summary({**report.to_dict(), "output": out}, f"{printable(report.verdict)}\nwrote {printable(str(out))}")
