"""``marginrank clicks preference``: which of two interleaved rankers users prefer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.click_options import ClickLogOptions, Log
from marginrank.cli.output import Output, check_inputs
from marginrank.cli.system_files import read_rankings

EXAMPLES: Final = ("marginrank clicks preference interleaved.csv --planned 5000",)


def command(
    log: Log,
    reading: ClickLogOptions,
    output: Output,
    rankings: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="For balanced interleaving, both rankings: give the option twice."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence level of intervals.")] = 0.95,
    planned: Annotated[
        int | None, typer.Option(min=1, help="Print the power of a test with this many impressions.")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            "--true-share",
            help="With --planned, the true share of wins of the first ranker.",
            show_default="the one observed",
        ),
    ] = None,
) -> None:
    """Count the interleaved impressions that each ranker won, with a sign test and an interval.

    The log has the impression of each row and, for team draft, the team as its system.
    """
    if share is not None and planned is None:
        raise UsageError("--true-share requires --planned")
    if rankings is not None and len(rankings) != 2:
        raise UsageError("--rankings: give it twice, for the two rankings")
    check_inputs(rankings or [])
    from marginrank.clicks import compare_interleaved  # noqa: PLC0415

    shown = reading.read(log)
    both = None
    if rankings is not None:
        lists = read_rankings(*rankings)
        both = {query: lists[str(query)] for query in shown.documents.query_ids.tolist() if str(query) in lists}
    outcome = compare_interleaved(shown, rankings=both, confidence=confidence)
    record: dict[str, Any] = {
        "rankers": outcome.names,
        "wins": outcome.wins,
        "ties": outcome.ties,
        "share": outcome.share,
        "interval": outcome.interval,
        "p": outcome.p,
    }
    text = str(outcome)
    if planned is not None:
        power = outcome.power(planned, share=share)
        record |= {"planned": planned, "power": power}
        text += f"\npower of a test with {planned:,} impressions: {power:.1%}"
    output.result(record, text)
