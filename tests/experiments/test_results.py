"""The results in the repository: their verdicts are those of the rules as they are now."""

from __future__ import annotations

import json

import pytest

from experiments import all_experiments
from experiments.writing import RESULTS
from marginrank.evaluation import paired_tests


@pytest.fixture(scope="module", autouse=True)
def samples_drawn_once():
    """Keep bootstrap samples: all reports draw the same, and it takes half of their time."""
    draw, kept = paired_tests._draws, {}

    def remembered(rng, rows, n):
        if len({n, *(size for *_, size in kept)}) > 3:
            kept.clear()  # those of a few numbers of queries, or they would take up much memory
        key = (repr(rng.bit_generator.state), rows, n)
        if key not in kept:
            kept[key] = draw(rng, rows, n), rng.bit_generator.state
        counts, rng.bit_generator.state = kept[key]
        return counts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired_tests, "_draws", remembered)
        yield


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
        assert (row in summary) == all_experiments()[name].of_paper  # only claims of papers are counted there
