"""A law over all presets: rows in another order give the same model, the same values and the same rankings."""

from __future__ import annotations

import importlib.util
import json
import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginrank import Queries, Ranker, evaluate, from_frame
from marginrank.cli.app import app
from marginrank.methods import all_presets, parse_preset
from marginrank.ranker.resolution import resolve
from marginrank.solvers import Auto
from marginrank.training import CollapseWarning

NAMES = ["bm25", "clicks", "age"]
#: Scores that differ by less are the same to a solver.
CLOSE = 1e-6
SHORT = {
    "svmprec": "svmprec@3", "dorm-p": "dorm-p@3", "rankboost": "rankboost@10", "mcrank": "mcrank@3",
    "lambdarank": "lambdarank@5", "prank": "prank@3", "jrank": "jrank@3",
}  # fmt: skip


def presets():
    missing = importlib.util.find_spec("lightgbm") is None
    for name in all_presets():
        needed = pytest.mark.skipif(missing and name == "lambdarank", reason="LightGBM is an extra")
        yield pytest.param(name, marks=needed)


def table():
    """Twelve queries of seven documents, whose spreads differ; queries are not sorted by id."""
    rng = np.random.default_rng(3)
    X = (rng.standard_normal((84, 3)) * [1.0, 10.0, 0.1]).round(4)
    grades = np.digitize(X @ [1.0, 0.05, -5.0] + 0.5 * rng.standard_normal(84), [0.5, 1.5])
    qid = [f"q{(7 * (row // 7)) % 12:02d}" for row in range(84)]
    ids = [f"{query}-{row}" for row, query in enumerate(qid)]
    return pd.DataFrame({"qid": qid, "grade": grades, "document_id": ids}).join(pd.DataFrame(X, columns=NAMES))


def within_queries(frame, rng):
    """Queries where they were, their rows shuffled."""
    return pd.concat([part.sample(frac=1, random_state=rng) for _, part in frame.groupby("qid", sort=False)])


def whole_queries(frame, rng):
    """Rows of each query as they were, queries shuffled."""
    parts = [part for _, part in frame.groupby("qid", sort=False)]
    return pd.concat([parts[number] for number in rng.permutation(len(parts))])


def across_queries(frame, rng):
    """All rows shuffled."""
    return frame.sample(frac=1, random_state=rng)


ORDERS = {
    order.__name__: order(table(), np.random.RandomState(seed))
    for seed, order in enumerate((within_queries, whole_queries, across_queries))
}


class Outcome:
    """What a preset makes of rows in some order: parameters, values by query, and documents by query."""

    def __init__(self, ranker, queries):
        self.coef = ranker.coef_
        judged = evaluate(queries, ranker.predict(queries), ["ndcg@5", "ap"])
        self.values = {
            query: (judged["ndcg@5"][at], judged["ap"][at]) for at, query in enumerate(judged.query_ids.tolist())
        }
        scores = dict(zip(queries.document_ids.tolist(), ranker.predict(queries).tolist(), strict=True))
        ranked = ranker.rank(queries, ids=True)
        rankings = {
            query: [(scores[document], document) for document in own]
            for query, own in zip(queries.query_ids.tolist(), ranked, strict=True)
        }
        self.ranked = {query: places(own) for query, own in rankings.items()}
        self.clear = {query for query, own in rankings.items() if is_clear(own)}
        assert len(self.ranked) == 12

    def check_against(self, other):
        assert self.coef == pytest.approx(other.coef, abs=1e-6 * np.abs(other.coef).max())
        assert self.ranked == other.ranked
        assert self.values.keys() == other.values.keys()
        clear = self.clear & other.clear
        assert len(clear) >= 10
        for query in clear:
            assert self.values[query] == pytest.approx(other.values[query], abs=1e-12, nan_ok=True)


def places(ranking):
    """Documents best first, those of equal score together: ties stay in the order given.

    Curves and trees tie exactly, and the optimum of a hinge often lies where two scores are the same, which a solver
    reaches up to its tolerance.
    """
    groups = []
    for at, (score, document) in enumerate(ranking):
        if at and abs(score - ranking[at - 1][0]) < CLOSE:
            groups[-1].add(document)
        else:
            groups.append({document})
    return groups


def is_clear(ranking):
    """Whether scores are the same, or clearly not."""
    scores = [score for score, _ in ranking]
    return not any(0 < abs(one - other) < CLOSE for one, other in pairwise(scores))


def as_queries(frame):
    X, ids = frame[NAMES].to_numpy(), frame["document_id"].to_numpy(str)
    return Queries.from_arrays(X, frame["grade"], qid=frame["qid"].to_numpy(str), document_ids=ids, feature_names=NAMES)


def by_arrays(ranker, frame):
    return ranker.fit(frame[NAMES], frame["grade"], qid=frame["qid"])


def by_queries(ranker, frame):
    return ranker.fit(as_queries(frame))


def by_frame(ranker, frame):
    return ranker.fit(from_frame(frame.reset_index(drop=True)))


def ranker_for(preset):
    solver = {"solver": Auto(tol=1e-12)} if all_presets()[preset].kind == "loss" else {}
    baseline = parse_preset(preset).baseline
    C = 2.0 if baseline is None or baseline.takes_C else 1.0
    return Ranker(SHORT.get(preset, preset), C=C, **solver)


@pytest.fixture(autouse=True)
def collapses():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        yield


@cache
def sorted_outcome(preset):
    return Outcome(by_queries(ranker_for(preset), table()), as_queries(table()))


@pytest.mark.parametrize("preset", list(presets()))
def test_the_order_of_rows_changes_nothing(preset):
    sorted_rows = sorted_outcome(preset)
    assert len({tuple(values) for values in sorted_rows.values.values()}) > 1
    for way, order in zip((by_arrays, by_queries, by_frame), ORDERS, strict=True):
        shuffled = ORDERS[order]
        Outcome(way(ranker_for(preset), shuffled), as_queries(shuffled)).check_against(sorted_rows)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", [by_arrays, by_queries, by_frame])
@pytest.mark.parametrize("preset", ["svmmap", "prank"])
def test_every_way_in_has_no_order(preset, way, order):
    outcome = Outcome(way(ranker_for(preset), ORDERS[order]), as_queries(ORDERS[order]))
    outcome.check_against(sorted_outcome(preset))


def test_baselines_see_the_same_rows_to_the_last_bit():
    """Means of shuffled rows differ in the last digit, and a digest of scaled features would sort them at random."""
    for scaling in ("standard", "query-standard", "query-minmax", "query-percentile", None):
        fits = [Ranker("prank@5", scaling=scaling).fit(as_queries(own)) for own in (table(), *ORDERS.values())]
        assert all(np.array_equal(fits[0].coef_, other.coef_) for other in fits[1:])


def write_letor(path, frame):
    rows = zip(frame["grade"], frame["qid"], frame[NAMES].to_numpy().tolist(), frame["document_id"], strict=True)
    lines = [
        f"{grade} qid:{qid} {' '.join(f'{at}:{value!r}' for at, value in enumerate(own, 1))} #docid = {document}\n"
        for grade, qid, own, document in rows
    ]
    path.write_text("".join(lines))


# All presets read the same rows, so that every third will do; those above have all of them.
@pytest.mark.parametrize("preset", list(presets())[::3])
def test_the_order_of_lines_changes_nothing_on_the_command_line(preset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    reading = ("--regroup", "--dtype", "float64", "--json")
    options = ["--preset", SHORT.get(preset, preset)]
    if all_presets()[preset].kind == "loss":
        options += ["--tol", "1e-9"]
    if resolve(Ranker(preset)).capabilities.takes_C:
        options += ["-C", "2"]
    outcomes = []
    for name, frame in (("sorted", table()), ("shuffled", ORDERS["across_queries"])):
        write_letor(tmp_path / f"{name}.txt", frame)
        run("train", f"{name}.txt", *options, "-o", f"{name}.safetensors", *reading)
        ranking = run("rank", f"{name}.safetensors", f"{name}.txt", "--k", 7, *reading)["ranking"]
        documents = {}
        for row in ranking:
            documents.setdefault(row["query"], []).append((row["score"], row["document"]))
        measured = run("evaluate", f"{name}.txt", f"{name}.safetensors", "--per-query", "-m", "ndcg@5", *reading)
        ranked = {query: places(own) for query, own in documents.items()}
        clear = {query for query, own in documents.items() if is_clear(own)}
        outcomes.append((ranked, clear, measured["systems"][name]["per_query"]["ndcg@5"]))
    (ranked, clear, values), (ranked_shuffled, clear_shuffled, values_shuffled) = outcomes
    assert len(ranked) == 12
    assert ranked_shuffled == ranked
    assert values_shuffled.keys() == values.keys()
    both = clear & clear_shuffled & values.keys()
    assert len(both) >= len(values) - 2
    assert {q: values_shuffled[q] for q in both} == pytest.approx({q: values[q] for q in both}, abs=1e-12)
