"""``marginrank judge agreement``: how far raters agree, and what each of them is like."""

from __future__ import annotations

from typing import Any, Final

from marginrank.cli.judgement_tables import Confidence, DistanceOption, JudgementFiles, read_raters
from marginrank.cli.output import Output

EXAMPLES: Final = ("marginrank judge agreement raters.csv",)


def command(
    sources: JudgementFiles,
    output: Output,
    distance: DistanceOption = "quadratic",
    confidence: Confidence = 0.95,
) -> None:
    """Show how far raters agree, and what each of them is like.

    Prints Krippendorff's alpha of all raters and weighted kappa of each pair; bias and spread of each rater; ratings
    that look constant or copied; the queries with most disagreement.
    """
    judgements = read_raters(sources)
    from marginrank.judging import agreement, describe_raters  # noqa: PLC0415

    report = describe_raters(judgements, confidence=confidence)
    record: dict[str, Any] = {"alpha": None, "kappa": [], **report.to_dict()}
    sections = [str(report)]
    if (judgements.judged.sum(axis=1) > 1).any():
        found = agreement(judgements, distance=distance, confidence=confidence)
        record |= found.to_dict()
        sections.insert(0, str(found))
    else:
        sections.insert(0, "no document was judged by two raters, so there is no agreement to measure")
    output.result(record, "\n\n".join(sections))
