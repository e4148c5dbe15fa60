"""`marginrank judge preferences`: checks of preferences, and the accuracy of systems."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marginrank import load, read
from marginrank.data.formats.trec import read_run


def test_runs_are_evaluated_by_preferences(run):
    done = run("judge", "preferences", "preferences.csv", "bm25.run", "dense.run", "--json")
    assert done.code == 0, done.err
    rows = [line.split(",") for line in Path("preferences.csv").read_text().splitlines()[1:]]
    for name in ("bm25.run", "dense.run"):
        scores = read_run(name)
        topics = np.repeat(scores.topics, np.diff(scores.offsets)).tolist()
        known = dict(zip(zip(topics, scores.document_ids.tolist(), strict=True), scores.scores.tolist(), strict=True))
        hits = []
        for query, a, b, preferred, _ in rows:
            if preferred != "tie":
                better, worse = (a, b) if preferred == "a" else (b, a)
                high, low = (known.get((query, one), -np.inf) for one in (better, worse))
                hits.append(0.5 if high == low else float(high > low))
        assert done.json["accuracy"][name]["value"] == pytest.approx(np.mean(hits))
    ties = sum(row[3] == "tie" for row in rows)
    assert (done.json["preferences"], done.json["ties"], done.json["raters"]) == (len(rows), ties, 2)
    first = np.mean([row[3] == "a" for row in rows if row[3] != "tie"])
    assert done.json["shown_first"]["value"] == pytest.approx(first)
    assert done.json["alpha"]["documents"] > 0
    text = run("judge", "preferences", "preferences.csv", "bm25.run").out
    assert "first wins" in text
    assert "bm25.run" in text


def test_models_need_documents(run, fails):
    documents = read("test.txt")
    scores = load("model.safetensors").predict(documents)
    query = np.repeat(documents.query_ids, np.diff(documents.query_offsets))
    first, second = documents.document_ids[0], documents.document_ids[1]
    better, worse = (first, second) if scores[0] > scores[1] else (second, first)
    Path("p.csv").write_text(f"query,better,worse\n{query[0]},{better},{worse}\n")
    words = ("judge", "preferences", "p.csv", "model.safetensors")
    assert run(*words, "--data", "test.txt", "--json").json["accuracy"]["model.safetensors"]["value"] == 1.0
    assert "give the documents with --data" in fails(*words, code=2)
