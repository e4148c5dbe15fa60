"""``marginrank judge audit``: a machine's grades against those of people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.judgement_tables import Confidence, DistanceOption, JudgementFiles, read_query_segments, read_raters
from marginrank.cli.output import Output

EXAMPLES: Final = ("marginrank judge audit raters.csv --machine bob",)

_SEGMENTS: Final = "A table with a query and its segment in each row, to break results down by."


def command(
    sources: JudgementFiles,
    machine: Annotated[str, typer.Option(metavar="RATER", help="The rater to audit; the others are people.")],
    output: Output,
    segments: Annotated[Path | None, typer.Option(metavar="FILE", help=_SEGMENTS, show_default=False)] = None,
    distance: DistanceOption = "quadratic",
    confidence: Confidence = 0.95,
) -> None:
    """Audit the grades of a machine against those of people, on the documents that both judged.

    Prints weighted kappa with each person, and of people with each other; how much higher the machine grades than
    people do, and how often as they do or higher: in all, by their grade and by segment, with intervals.
    """
    judgements = read_raters(sources)
    found = None if segments is None else read_query_segments(segments)
    from marginrank.judging import audit  # noqa: PLC0415

    result = audit(judgements, machine, segments=found, distance=distance, confidence=confidence)
    output.result(result.to_dict(), str(result))
