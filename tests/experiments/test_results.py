"""The results in the repository: their verdicts are those of the rules as they are now."""

from __future__ import annotations

import json

import pytest

from experiments import all_experiments
from experiments.writing import RESULTS


@pytest.mark.parametrize("name", all_experiments())
def test_verdicts_follow_from_the_results(name):
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    findings = all_experiments()[name].report(record["results"]).findings
    written = [(finding["claim"], finding["verdict"]) for finding in record["findings"]]
    assert written == [(finding.claim, finding.verdict) for finding in findings]
    page, summary = ((RESULTS / file).read_text(encoding="utf-8") for file in (f"{name}.md", "findings.md"))
    for finding in findings:
        row = f"| {finding.claim} | {finding.source} | **{finding.verdict}** |".replace("\n", " ")
        assert row in page
        assert row in summary
