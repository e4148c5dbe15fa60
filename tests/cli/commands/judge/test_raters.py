"""`marginrank judge agreement`, `merge` and `audit`: what the library says, on the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from marginrank.judging import agreement, audit, describe_raters, merge, read_judgements


def test_agreement_and_raters_are_those_of_the_library(run):
    table = read_judgements("raters.csv")
    done = run("judge", "agreement", "raters.csv")
    assert done.out == f"{agreement(table)}\n\n{describe_raters(table)}\n"
    record = run("judge", "agreement", "raters.csv", "--distance", "nominal", "--json").json
    found = agreement(table, distance="nominal")
    assert record["alpha"]["value"] == found.alpha.value
    assert record["kappa"][0]["raters"] == ["ann", "bob"]
    assert record["kappa"][0]["value"] == found.kappa["ann", "bob"].value
    assert [one["name"] for one in record["raters"]] == ["ann", "bob"]


def test_raters_without_a_document_in_common_are_described(run):
    Path("apart.csv").write_text("query,document,rater,grade\n1,a,ann,1\n1,b,bob,2\n")
    done = run("judge", "agreement", "apart.csv")
    assert done.code == 0
    assert done.out.startswith("no document was judged by two raters")
    assert run("judge", "agreement", "apart.csv", "--json").json["alpha"] is None


def test_copied_ratings_are_flagged(run):
    rng = np.random.default_rng(0)
    rows = [f"{at // 5},d{at},{who},{grade}" for at, grade in enumerate(rng.integers(0, 4, 200)) for who in ("x", "y")]
    Path("copied.csv").write_text("\n".join(["query,document,rater,grade", *rows]) + "\n")
    assert "flagged: x and y gave equal grades to all 200 documents" in run("judge", "agreement", "copied.csv").out


@pytest.mark.parametrize("method", ["mean", "majority", "dawid-skene"])
def test_merged_grades_are_written(run, method):
    merged = merge(read_judgements("raters.csv"), method)
    done = run("judge", "merge", "raters.csv", "-o", "merged.csv", "--method", method)
    assert done.out.startswith(f"wrote merged.csv: 40 documents by {method}\n")
    with Path("merged.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["grade"]) for row in rows] == pytest.approx(merged.grades.tolist())
    record = run("judge", "merge", "raters.csv", "-o", "merged.csv", "--method", method, "--json", "--force").json
    order = merged.adjudication()
    assert [one["document"] for one in record["disputed"]] == merged.document_ids[order].tolist()


def test_merged_grades_are_evaluated(run):
    """The table is what other commands take: judged documents, here with the runs of the same documents."""
    run("judge", "merge", "raters.csv", "-o", "merged.csv", "--method", "majority")
    done = run("evaluate", "merged.csv", "bm25.run", "-m", "dcg@10", "--missing-topics", "skip")
    assert done.code == 0, done.err


def test_a_machine_is_audited_by_grade_and_segment(run, fails):
    rows = [f"{query},{'tail' if query > 4 else 'head'}" for query in range(1, 9)]
    Path("segments.csv").write_text("\n".join(["query,segment", *rows]) + "\n")
    table = read_judgements("raters.csv")
    segments = {str(query): "tail" if query > 4 else "head" for query in range(1, 9)}
    done = run("judge", "audit", "raters.csv", "--machine", "bob", "--segments", "segments.csv")
    assert done.out == f"{audit(table, 'bob', segments=segments)}\n"
    record = run("judge", "audit", "raters.csv", "--machine", "bob", "--json").json
    assert record["all"]["over_rating"]["value"] == audit(table, "bob").everything.over_rating.value
    assert "no rater is called 'rob'; did you mean 'bob'?" in fails(
        "judge", "audit", "raters.csv", "--machine", "rob", code=1
    )
    Path("segments.csv").write_text("query,segment\n1\n")
    said = fails("judge", "audit", "raters.csv", "--machine", "bob", "--segments", "segments.csv", code=1)
    assert said == "error: segments.csv:2: a row has no second column; give query and segment\n"
