"""``marginrank judge agreement``: agreement, bias and spread of raters."""

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
    """Measure how well raters agree, and the bias and spread of each.

    Prints Krippendorff's alpha of all raters and weighted kappa of each pair; bias and spread of each rater; ratings
    that look constant or copied; the queries with most disagreement.
    """
    judgements = read_raters(sources)
    from marginrank.judging import agreement, describe_raters  # noqa: PLC0415

    report = describe_raters(judgements, confidence=confidence)
    record: dict[str, Any] = {"alpha": None, "kappa": [], **report.to_dict()}
    sections = [str(report)]
    if (judgements.judged.sum(axis=1) > 1).any():
        result = agreement(judgements, distance=distance, confidence=confidence)
        record |= result.to_dict()
        sections.insert(0, str(result))
    else:
        sections.insert(0, "no document was judged by two raters, so there is no agreement to measure")
    output.result(record, "\n\n".join(sections))
