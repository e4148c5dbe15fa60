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
    """Audit machine grades against those of people, on documents that both judged.

    Prints the weighted kappa of the machine with each person and of people with each other, how much higher the machine
    grades, and how often it gives the same grade or a higher one: overall, by grade and by segment, with intervals.
    """
    judgements = read_raters(sources)
    segment_by_query = None if segments is None else read_query_segments(segments)
    from marginrank.judging import audit  # noqa: PLC0415

    result = audit(judgements, machine, segments=segment_by_query, distance=distance, confidence=confidence)
    output.result(result.to_dict(), str(result))
