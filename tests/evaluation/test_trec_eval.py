"""Every value of trec_eval's own test outputs that a measure of ours has, to the printed digit."""

from __future__ import annotations

import lzma

import pytest

from marginrank import evaluate, read_qrels, read_run

#: trec_eval's name of a measure (its cutoff after the last underscore) and ours.
NAMES = {
    "map": "ap", "recip_rank": "rr", "ndcg": "ndcg", "rbp": "rbp(p=0.9)",
    "bpref": "bpref", "infAP": "infap", "rbp_resid": "rbp_residual(p=0.9)",
    "P": "p@{}", "recall": "recall@{}", "ndcg_cut": "ndcg@{}", "map_cut": "ap@{}",
}  # fmt: skip

#: Output, qrels, run, options, and how many values it must hold for us to check.
OUTPUTS = {
    "no options": ("out.test", "qrels.test", "results.test", {}, 12),
    "-m all_trec": ("out.test.a", "qrels.test", "results.test", {}, 43),
    "-q": ("out.test.aq", "qrels.test", "results.test", {}, 172),
    "-q -c": ("out.test.aqc", "qrels.test", "results.trunc", {"missing_topics": "zero"}, 172),
    "-q -c -M 100": ("out.test.aqcM", "qrels.test", "results.trunc", {"missing_topics": "zero", "depth": 100}, 172),
    "-q -l 2": ("out.test.aql", "qrels.rel_level", "results.test", {"rel": 2}, 168),
    "-q with parameters": ("out.test.meas_params", "qrels.test", "results.test", {}, 32),
}


def our_name(name: str, rel: int) -> str | None:
    base, _, k = name.rpartition("_")
    spelling = NAMES.get(name) or (NAMES[base].format(k) if base in NAMES and k.isdigit() else None)
    if spelling is None or rel == 1 or spelling.startswith(("ndcg", "rbp_residual")):
        return spelling
    # trec_eval's rbp weighs grades by the highest one and knows no level.
    return None if spelling.startswith("rbp") else f"{spelling}(rel={rel})"


@pytest.mark.parametrize("options", OUTPUTS)
def test_reproduces_trec_eval(options, shared_data):
    folder = shared_data("trec_eval-test")
    output, qrels_file, run_file, choices, n_values = OUTPUTS[options]
    rel = choices.get("rel", 1)
    with lzma.open(folder / f"{output}.xz", "rt") as file:
        rows = [line.split() for line in file]
    expected = {(our_name(row[0], rel), row[1]): row[2] for row in rows if len(row) == 3 and our_name(row[0], rel)}
    assert len(expected) == n_values
    result = evaluate(
        read_qrels(folder / f"{qrels_file}.xz"),
        read_run(folder / f"{run_file}.xz"),
        {spelling for spelling, _ in expected},
        policy="trec",
        **{name: value for name, value in choices.items() if name != "rel"},
    )
    place = {topic: at for at, topic in enumerate(result.query_ids.tolist())}
    found = {
        (spelling, topic): f"{result.mean[spelling] if topic == 'all' else result[spelling][place[topic]]:.4f}"
        for spelling, topic in expected
    }
    assert found == expected
