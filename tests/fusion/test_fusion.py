"""Combining runs: the table, its features, fusions with and without weights, and the protocol."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from marginrank import DataError, Queries, Ranker, evaluate, read, read_run
from marginrank.data import Qrels, Run, write_run
from marginrank.fusion import (
    ENGINE_KINDS,
    UNSUPERVISED,
    BestRun,
    Fusion,
    UnsupervisedFusion,
    balanced_splits,
    compare_on_random_splits,
    compare_on_splits,
    fusion_features,
    pool_runs,
    read_runs,
)
from marginrank.integrations.candidates import in_order
from marginrank.model.file_format import write_model
from marginrank.preparation.run_features import KINDS
from marginrank.ranker.selection import selection_table
from marginrank.scorers import Additive


def run_of(topics, tag="run"):
    """A run from ``{topic: {document: score}}``."""
    sizes = [len(documents) for documents in topics.values()]
    pairs = [pair for documents in topics.values() for pair in documents.items()]
    return Run(
        np.array(list(topics)),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.array([document for document, _ in pairs]),
        np.array([score for _, score in pairs], dtype=np.float64),
        tag,
    )


def qrels_of(topics):
    run = run_of(topics)
    return Qrels(run.topics, run.offsets, run.document_ids, run.scores)


def random_runs(n_runs, seed, n_topics=5, n_documents=30, depth=12):
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(n_runs):
        topics = {}
        for topic in rng.permutation(n_topics):
            documents = rng.choice(n_documents, int(rng.integers(1, depth)), replace=False)
            scores = np.round(rng.standard_normal(len(documents)) * 10, 6)
            topics[f"t{topic}"] = {f"d{document}": float(s) for document, s in zip(documents, scores, strict=True)}
        found[f"r{number}"] = topics
    return found


def retrievers(n_queries, seed, noises=(1.0, 1.5, 3.0), depth=15, n_documents=40):
    """Judged queries with one column per retriever, which returns its first documents; the last is mostly noise."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n_queries, n_documents))
    scores = truth[..., None] + np.array(noises) * rng.standard_normal((n_queries, n_documents, len(noises)))
    scores = np.where(np.sort(scores, axis=1)[:, -depth, None] <= scores, scores, np.nan)
    found = ~np.isnan(scores).all(axis=2)
    grades = np.digitize(truth, [1.0, 1.8])
    return Queries.from_arrays(
        scores[found] * np.array([10.0, 0.1, 1.0])[: len(noises)],
        grades[found],
        qid=np.repeat(np.arange(n_queries), n_documents).reshape(n_queries, -1)[found],
        feature_names=["bm25", "dense", "noise"][: len(noises)],
        allow_nan=True,
    )


TRAIN, TEST = retrievers(50, 0), retrievers(200, 1)


# The table.


def test_every_score_and_grade_is_found_where_it_belongs():
    topics = random_runs(3, seed=0)
    judged = {"t3": {"d1": 2, "d5": 1, "nowhere": 1}, "t1": {"d0": 1}, "unknown": {"d0": 1}, "t0": {"d9": 0, "d2": 3}}
    table = pool_runs({name: run_of(own) for name, own in topics.items()}, qrels_of(judged))
    assert table.query_ids.tolist() == ["t3", "t1", "t0"]
    assert table.feature_names == ("r0", "r1", "r2")
    for query in table:
        topic = query.query_ids[0]
        pool = set().union(*(own[topic] for own in topics.values()))
        assert set(query.document_ids.tolist()) == pool
        assert len(query.document_ids) == len(pool)
        for document, row, grade in zip(query.document_ids.tolist(), query.X, query.grades, strict=True):
            assert grade == judged[topic].get(document, 0)
            expected = [own[topic].get(document, math.nan) for own in topics.values()]
            assert np.array_equal(row, expected, equal_nan=True)


def test_without_judgements_all_topics_are_there_and_with_judged_only_no_unjudged_document():
    one, two = run_of({"7": {"a": 3, "b": 2}, "9": {"c": 1}}), run_of({"9": {"d": 5}, "8": {"e": 4}})
    table = pool_runs({"one": one, "two": two})
    assert table.query_ids.tolist() == ["7", "9", "8"]
    assert not table.has_grades
    assert np.isnan(table.select(["7"]).X[:, 1]).all()
    judged = qrels_of({"9": {"d": 1, "c": 0}, "7": {"x": 1}})
    only = pool_runs({"one": one, "two": two}, judged, judged_only=True)
    assert (only.query_ids.tolist(), only.document_ids.tolist()) == (["9"], ["c", "d"])


def test_bad_runs_are_refused():
    one, two = run_of({"1": {"a": 1}}), run_of({"2": {"a": 1}})
    with pytest.raises(TypeError, match="by name"):
        pool_runs([one, two])
    with pytest.raises(DataError, match="no run to pool"):
        pool_runs({})
    with pytest.raises(DataError, match="run 'one' shares no topic with the others: 1 against 2; leave it out"):
        pool_runs({"one": one, "two": two})
    with pytest.raises(
        DataError, match=r"share no topic: 1 against 401, 402, 403, \.\.\.; give those of one collection"
    ):
        pool_runs({"one": one}, qrels_of({str(topic): {"a": 1} for topic in range(401, 405)}))
    with pytest.raises(ValueError, match="judged_only needs judgements"):
        pool_runs({"one": one}, judged_only=True)
    with pytest.raises(DataError, match="no run returned a judged document"):
        pool_runs({"one": one}, qrels_of({"1": {"b": 1}}), judged_only=True)
    for judged in (None, {"1": {"a": 1}}):
        with pytest.raises(DataError, match="no run returned a document; check the runs"):
            pool_runs({"one": {"1": {}}, "two": {"1": {}}}, judged)
    twice = Run(np.array(["1"]), np.array([0, 2]), np.array(["a", "a"]), np.array([1.0, 2.0]))
    with pytest.raises(DataError, match="run 'twice' has a document twice for one topic"):
        pool_runs({"one": one, "twice": twice})
    with pytest.raises(TypeError, match="read_qrels"):
        pool_runs({"one": one}, one)


def test_runs_are_read_by_tag_and_a_fused_run_is_written(tmp_path):
    for tag, topics in random_runs(2, seed=3).items():
        write_run(tmp_path / f"{tag}.run", run_of(topics, tag))
    runs = read_runs([tmp_path / "r0.run", tmp_path / "r1.run"])
    table = pool_runs(runs)
    write_run(tmp_path / "fused.run", table, UnsupervisedFusion("rrf").predict(table), tag="rrf")
    fused = read_run(tmp_path / "fused.run")
    assert set(fused.topics.tolist()) == set(table.query_ids.tolist())
    assert len(fused.scores) == table.n_documents
    with pytest.raises(DataError, match=r"r0\.run: another run is called 'r0' too"):
        read_runs([tmp_path / "r0.run", tmp_path / "r0.run"])
    (tmp_path / "copy.run").write_text((tmp_path / "r0.run").read_text())
    assert list(read_runs([tmp_path / f"{name}.run" for name in ("copy", "r1", "r0")])) == ["copy", "r1", "r0"]


# Features.


def table_of(*columns, group=None, **options):
    X = np.array(columns, dtype=np.float64).T
    return Queries.from_arrays(X, np.zeros(len(X)), group=group or [len(X)], allow_nan=True, **options)


def test_features_by_hand():
    nan = math.nan
    queries = table_of([30.0, 10.0, nan, 30.0, 70.0, nan], [nan, 0.5, nan, nan, 0.1, 0.9], group=[5, 1])
    by_hand = {
        "minmax": [[1 / 3, 0], [0, 1], [0, 0], [1 / 3, 0], [1, 0], [0, 0]],
        "percentile": [[0.5, 0], [0.125, 0.75], [0, 0], [0.5, 0], [0.875, 0.25], [0, 0.5]],
        "rrf": [[61 / 62.5, 0], [61 / 64, 1], [0, 0], [61 / 62.5, 0], [1, 61 / 62], [0, 1]],
        "borda": [[3.5 / 5, 0], [2 / 5, 1], [0, 0], [3.5 / 5, 0], [1, 4 / 5], [0, 1]],
        "retrieved": [[1, 0], [1, 1], [0, 0], [1, 0], [1, 1], [0, 1]],
        "best": [[70, 0.5]] * 5 + [[0, 0.9]],
        "gap": [[60, 0.4]] * 5 + [[0, 0]],
        # 30, 10, 30, 70: mean 35, variance (25 + 625 + 25 + 1225) / 4; 0.5, 0.1: one standard deviation.
        "peak": [[35 / math.sqrt(475), 1]] * 5 + [[0, 0]],
        "overlap": [[2 / 4, 2 / 2]] * 5 + [[0, 0]],
        "count": [[4, 2]] * 5 + [[0, 1]],
    }
    assert set(by_hand) | {"score"} == set(KINDS)
    for kind, expected in by_hand.items():
        features = fusion_features(queries, kind).X
        assert features == pytest.approx(np.array(expected, dtype=float)), kind
    both = fusion_features(queries, "rrf + retrieved", keep_missing=True)
    assert both.feature_names is None
    assert np.array_equal(np.isnan(both.X[:, :2]), np.isnan(queries.X))


@pytest.mark.parametrize(
    ("hits", "unit"),
    [
        ([5.0, 5.0, 5.0], [0, 0, 0]),
        ([5.0] * 5, [0] * 5),
        ([0.0, 0.0], [0, 0]),
        ([-2.0, -2.0, -2.0], [0, 0, 0]),
        ([1e-200, 1e-200], [0, 0]),
        ([12.7], [0]),
        ([5.0, 5.0, 3.0], [1, 1, 0]),
        ([5.0, 3.0, 3.0], [1, 0, 0]),
        ([5.0, 5.0 * (1 - 2**-24)], [1, 0]),
    ],
)
def test_equal_hits_keep_their_order_and_are_equal_for_minmax(hits, unit):
    queries = table_of(in_order(hits))
    assert fusion_features(queries, "rrf").X.ravel() == pytest.approx([61 / (61 + rank) for rank in range(len(hits))])
    assert fusion_features(queries, "minmax").X.ravel() == pytest.approx(unit, abs=1e-12)


@pytest.mark.parametrize("kind", ["percentile", "rrf", "borda", "retrieved"])
def test_features_of_ranks_see_only_the_order(kind):
    bent = TRAIN.with_features(np.exp(TRAIN.X / 10) - 5, TRAIN.feature_names)
    assert np.array_equal(fusion_features(TRAIN, kind).X, fusion_features(bent, kind).X)


def test_ranks_that_are_given_are_taken_as_they_are():
    queries = table_of([3.0, 1.0, math.nan, 40.0])
    assert fusion_features(queries, "rrf", ranks=True).X.ravel().tolist() == [61 / 63, 1.0, 0.0, 61 / 100]
    assert fusion_features(queries, "borda", ranks=True).X.ravel().tolist() == [0.75, 1.0, 0.0, 0.5]
    assert fusion_features(queries, "minmax", ranks=True).X.ravel().tolist() == [37 / 39, 1.0, 0.0, 0.0]
    kept = fusion_features(queries, "score", ranks=True, keep_missing=True)
    assert np.array_equal(kept.X.ravel(), [-3.0, -1.0, math.nan, -40.0], equal_nan=True)


def test_bad_features_are_refused():
    with pytest.raises(ValueError, match="unknown kind of features 'rank'; known: score, minmax"):
        fusion_features(TRAIN, "rrf+rank")
    with pytest.raises(ValueError, match="names a kind twice"):
        fusion_features(TRAIN, "rrf+rrf")
    with pytest.raises(DataError, match="no number stands for a missing score; use scorer='additive'"):
        fusion_features(TRAIN, "score")
    with pytest.raises(DataError, match="0 is not a rank; ranks begin at 1; for scores leave out ranks=True"):
        fusion_features(table_of([0.0, 1.0]), "rrf", ranks=True)
    with pytest.raises(DataError, match="infinite score"):
        fusion_features(TRAIN.with_features(np.full_like(TRAIN.X, np.inf)), "rrf")


# Fusions without weights.


def reference(method, runs, topic):
    """Scores of a topic's documents, from the definitions, on dictionaries."""
    pool = set().union(*(run[topic] for run in runs))
    fused = dict.fromkeys(pool, 0.0)
    for document in pool:
        for run in (run[topic] for run in runs):
            rank = 1 + sum(score > run.get(document, math.inf) for score in run.values())
            low, high = min(run.values()), max(run.values())
            if document in run and method == "rrf":
                fused[document] += 1 / (60 + rank)
            elif document in run and method in ("combsum", "combmnz"):
                fused[document] += (run[document] - low) / max(high - low, 1e-9)
            elif method == "borda":
                fused[document] += len(pool) - rank + 1 if document in run else (len(pool) - len(run) + 1) / 2
        if method == "combmnz":
            fused[document] *= sum(document in run[topic] for run in runs)
    return fused


@pytest.mark.parametrize("method", UNSUPERVISED)
def test_fixed_fusions_are_what_they_say(method):
    runs = random_runs(4, seed=5)
    table = pool_runs({name: run_of(own) for name, own in runs.items()})
    fused = UNSUPERVISED[method](table)
    for query in range(len(table)):
        rows = slice(*table.offsets[query : query + 2])
        expected = reference(method, list(runs.values()), table.query_ids[query])
        assert dict(zip(table.document_ids[rows].tolist(), fused[rows], strict=True)) == pytest.approx(expected)


RANX = """
import json, sys, warnings
warnings.simplefilter("ignore")
from ranx import Run, fuse
runs = [Run(run) for run in json.load(sys.stdin)]
how = {"rrf": (None, "rrf"), "combsum": ("min-max", "sum"), "combmnz": ("min-max", "mnz"), "borda": (None, "bordafuse")}
fused = {name: fuse(runs, norm=norm, method=method).run for name, (norm, method) in how.items()}
json.dump({name: {t: {d: float(s) for d, s in own.items()} for t, own in run.items()} for name, run in fused.items()},
          sys.stdout)
"""


def test_fixed_fusions_agree_with_ranx():
    if find_spec("ranx") is None:
        pytest.skip("ranx is not installed")
    runs = random_runs(3, seed=8)
    # Compiled, ranx takes half a minute for what Python does in no time.
    answer = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps(list(runs.values())),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    table = pool_runs({name: run_of(own) for name, own in runs.items()})
    topic_of_row = np.repeat(table.query_ids, table.lengths).tolist()
    for method, fused in json.loads(answer.stdout).items():
        theirs = [fused[topic][d] for topic, d in zip(topic_of_row, table.document_ids.tolist(), strict=True)]
        assert UNSUPERVISED[method](table) == pytest.approx(theirs), method


def test_the_best_run_is_the_best_in_training_and_ends_with_what_it_did_not_return():
    best = BestRun().fit(TRAIN)
    means = [evaluate(TRAIN, np.nan_to_num(column, nan=-1e9), "ndcg@10").mean["ndcg@10"] for column in TRAIN.X.T]
    assert best.means_ == pytest.approx(means)
    assert best.run_ == int(np.argmax(means)) == 0
    scores = best.predict(TEST)
    absent = np.isnan(TEST.X[:, 0])
    assert scores[absent].max() < scores[~absent].min()
    empty = TRAIN.with_features(TRAIN.X)[:2]
    with pytest.raises(DataError, match="no training query has a relevant document"):
        BestRun().fit(Queries.from_arrays(empty.X, np.zeros(empty.n_documents), group=empty.lengths, allow_nan=True))
    with pytest.raises(ValueError, match="unknown fusion 'condorcet'; known: rrf"):
        UnsupervisedFusion("condorcet").predict(TRAIN)


# Learned fusions.


@pytest.fixture(scope="module")
def learned():
    return Fusion(["minmax", "percentile", "rrf"], Cs=[1.0, 10.0, 100.0]).fit(TRAIN)


def test_by_default_a_kind_that_engines_compute_is_chosen_and_the_cost_is_known(learned):
    fusion = Fusion(Cs=[1.0, 10.0, 100.0]).fit(TRAIN)
    assert fusion.kinds_ in ENGINE_KINDS
    assert (learned.kinds_, learned.cost_of_engines) == ("percentile", None)
    kind, gain = fusion.cost_of_engines
    assert kind == "percentile"
    assert gain == pytest.approx(learned.selection_.best.mean - fusion.selection_.best.mean)


def test_learned_weights_beat_the_best_run_and_every_fixed_fusion(learned):
    own = learned.score(TEST)
    assert own == pytest.approx(evaluate(TEST, learned.predict(TEST), "ndcg@10").mean["ndcg@10"])
    others = {"best": BestRun(), **{name: UnsupervisedFusion(name) for name in UNSUPERVISED}}
    for name, method in others.items():
        assert own > evaluate(TEST, clone(method).fit(TRAIN).predict(TEST), "ndcg@10").mean["ndcg@10"] + 0.01, name


def test_no_weight_is_negative_unless_asked_for(learned):
    weights = learned.weights()
    assert list(weights) == [f"{learned.kinds_}({name})" for name in ("bm25", "dense", "noise")]
    assert min(weights.values()) >= 0
    assert max(weights, key=weights.get).endswith("(bm25)")
    whole = retrievers(30, 0, depth=40)
    turned = whole.with_features(np.column_stack([whole.X[:, 1], -whole.X[:, 0]]), ["dense", "turned"])
    assert Fusion("rrf", Cs=[10.0]).fit(turned).weights()["rrf(turned)"] == 0
    assert Fusion("rrf", Cs=[10.0], nonnegative=False).fit(turned).weights()["rrf(turned)"] < -0.1


def test_C_and_features_are_chosen_by_the_validation_queries():
    valid = retrievers(40, 2)
    fusion = Fusion(
        ["rrf", "minmax", "percentile+retrieved"], Cs=[0.1, 10.0], preset="svmmap", measure="ndcg@5", tol=1e-6
    )
    fusion.fit(TRAIN, valid)
    table = fusion.selection_.candidates
    assert [(one.parameters["features"], one.parameters["C"]) for one in table] == [
        (kind, C) for kind in ("rrf", "minmax", "percentile+retrieved") for C in (0.1, 10.0)
    ]
    for one in table:
        kind, C = one.parameters["features"], one.parameters["C"]
        alone = Fusion(kind, Cs=[C], preset="svmmap", measure="ndcg@5", tol=1e-6).fit(TRAIN, valid)
        assert alone.score(valid) == pytest.approx(one.mean, abs=1e-3)
    chosen = fusion.selection_.best
    assert chosen.mean == max(one.mean for one in table)
    assert (fusion.kinds_, fusion.ranker_.C) == (chosen.parameters["features"], chosen.parameters["C"])
    assert fusion.score(valid) == pytest.approx(chosen.mean)


def test_a_large_C_is_tried_for_curves_where_the_largest_of_the_others_is_best():
    valid, kinds, additive = retrievers(20, 3), ["rrf", "minmax"], Additive(bins=16)

    def tried(Cs, **options):
        fusion = Fusion(kinds, Cs=Cs, **options).fit(TRAIN, valid)
        table = {}
        for one in fusion.selection_.candidates:
            table.setdefault(one.parameters["features"], []).append(one.parameters["C"])
        return fusion, table

    rising, falling = [2000.0, 100.0, 1000.0], [0.001, 100.0, 2000.0]
    fusion, table = tried(rising, scorer=additive)
    other = next(kind for kind in kinds if kind != fusion.kinds_)
    assert table == {fusion.kinds_: sorted(rising), other: [100.0, 1000.0]}
    alone = Fusion(fusion.kinds_, Cs=rising, scorer=additive).fit(TRAIN, valid)
    assert np.array_equal(fusion.predict(TEST), alone.predict(TEST))
    assert tried(falling, scorer=additive)[1] == {key: [0.001, 100.0] for key in kinds}
    assert tried([3000.0, 2000.0], scorer=additive)[1] == {key: [2000.0, 3000.0] for key in kinds}
    for Cs in (rising, falling):
        assert tried(Cs)[1] == dict.fromkeys(kinds, sorted(Cs))


@pytest.mark.parametrize(("Cs", "message"), [("1", "a list of values"), (1.0, "a list of values"), ([], "empty")])
def test_what_is_no_list_of_C_is_refused(Cs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Fusion(Cs=Cs).fit(TRAIN)


def test_scores_come_in_the_order_of_the_queries(learned):
    rng = np.random.default_rng(0)
    order = rng.permutation(TEST.n_documents)
    qid = np.repeat(TEST.query_ids, TEST.lengths)[order]
    mixed = Queries.from_arrays(
        TEST.X[order], TEST.grades[order], qid=qid, feature_names=TEST.feature_names, allow_nan=True
    )
    for method in (learned, UnsupervisedFusion("combmnz"), BestRun().fit(TRAIN)):
        assert np.array_equal(method.predict(mixed), method.predict(TEST)[order])


@pytest.mark.parametrize("options", [{}, {"scorer": Additive(bins=8), "kinds": "score"}], ids=["linear", "steps"])
def test_a_saved_fusion_predicts_the_same(tmp_path, options):
    fusion = Fusion(**{"kinds": ("rrf", "minmax"), **options}, Cs=np.array([1.0])).fit(TRAIN, retrievers(20, 3))
    fusion.save(tmp_path / "fusion.safetensors")
    again = Fusion.load(tmp_path / "fusion.safetensors")
    assert np.array_equal(again.predict(TEST), fusion.predict(TEST))
    assert (again.kinds_, again.scorer, list(again.Cs)) == (fusion.kinds_, fusion.scorer, [1.0])
    assert again.run(TEST, "fused").tag == "fused"
    other_order = TEST.with_features(TEST.X[:, [2, 0, 1]], [TEST.feature_names[k] for k in (2, 0, 1)])
    assert np.array_equal(again.predict(other_order), fusion.predict(TEST))
    with pytest.raises(DataError, match=r"this model combines the runs .*; give the same runs"):
        again.predict(TEST.with_features(TEST.X, ["dense", "bm25", "other"]))


def test_the_scorer_of_a_fusion_is_chosen_like_C(tmp_path):
    valid, options = retrievers(20, 3), {"kinds": ["rrf", "minmax"], "Cs": [1.0, 100.0]}
    alone = {name: Fusion(scorer=name, **options).fit(TRAIN, valid) for name in ("linear", "additive")}
    best = max(alone, key=lambda name: alone[name].selection_.best.mean)
    fusion = Fusion(scorer="auto", **options).fit(TRAIN, valid)
    assert fusion.ranker_.form_.kind == best
    assert fusion.predict(valid).tolist() == alone[best].predict(valid).tolist()
    tried = {(one.parameters["scorer"], one.parameters["features"]) for one in fusion.selection_.candidates}
    assert tried == {(name, kind) for name in alone for kind in ("rrf", "minmax")}
    fusion.save(tmp_path / "fusion.safetensors")
    again = Fusion.load(tmp_path / "fusion.safetensors")
    assert again.scorer == "auto"
    assert again.predict(valid).tolist() == fusion.predict(valid).tolist()
    figures = {name: alone[name].selection_.best.mean for name in alone}
    listed = [f"{name} {figures[name]:.4f}" for name in sorted(figures, key=lambda name: -figures[name])]
    assert f"ndcg@10 by scorer: {', '.join(listed)}" in selection_table(again.ranker_.model_.selection)


def test_models_of_something_else_are_refused(tmp_path):
    path = tmp_path / "ranker.safetensors"
    ranker = Ranker(C=1.0).fit(fusion_features(TRAIN, "rrf"))
    ranker.save(path)
    with pytest.raises(
        DataError, match=r"ranker\.safetensors: this model is not a fusion; read it with marginrank\.load"
    ):
        Fusion.load(path)
    parts = {"model": ranker.model_.describe()}
    for broken in (
        {},
        {"features": "rank", "parameters": {}, "trained_on": {}},
        {"features": "rrf", "parameters": {"weight": 1}, "trained_on": {}},
        {"features": "rrf", "parameters": {}},
        [],
    ):
        write_model(path, "fusion", {**parts, "fusion": broken}, ranker.model_.arrays())
        with pytest.raises(DataError, match=r"ranker\.safetensors: this model is incomplete or contradicts itself"):
            Fusion.load(path)


def test_step_functions_do_not_fall_and_know_what_is_missing():
    fusion = Fusion("score", scorer=Additive(bins=6), Cs=[10.0], preset="svmauc").fit(TRAIN, retrievers(20, 3))
    shapes = fusion.ranker_.shapes()
    assert [shape.name for shape in shapes] == ["score(bm25)", "score(dense)", "score(noise)"]
    assert all((np.diff(shape.values) >= 0).all() and shape.missing is not None for shape in shapes)
    assert np.ptp(shapes[0].values) > 2 * np.ptp(shapes[2].values)
    with pytest.raises(ValueError, match="curves have no weights"):
        fusion.weights()


def test_ranks_and_scores_of_the_same_runs_give_the_same_fusion():
    ranked = TRAIN.with_features(61 / fusion_features(TRAIN, "rrf", keep_missing=True).X - 60)
    from_scores, from_ranks = Fusion("rrf", Cs=[1.0]).fit(TRAIN), Fusion("rrf", Cs=[1.0], ranks=True).fit(ranked)
    assert list(from_ranks.weights()) == ["rrf(0)", "rrf(1)", "rrf(2)"]
    assert list(from_ranks.weights().values()) == pytest.approx(list(from_scores.weights().values()))
    for name in ("rrf", "borda"):
        assert UNSUPERVISED[name](ranked, ranks=True) == pytest.approx(UNSUPERVISED[name](TRAIN))


def test_bad_fusions_are_refused():
    with pytest.raises(ValueError, match="kinds is empty"):
        Fusion([]).fit(TRAIN)
    with pytest.raises(ValueError, match="unknown kind of features 'bm25'"):
        Fusion(["rrf", "bm25"]).fit(TRAIN)


# The protocol.


@given(st.integers(3, 40), st.integers(1, 30), st.data())
def test_every_query_is_in_every_role_equally_often(n, n_trials, data):
    train = data.draw(st.integers(1, n - 1))
    valid = data.draw(st.integers(0, n - train - 1))
    test = data.draw(st.integers(1, n - train - valid))
    splits = balanced_splits(n, n_trials, (train, valid, test), data.draw(st.integers(0, 99)))
    assert len(splits) == n_trials
    for split in splits:
        assert [len(part) for part in split] == [train, valid, test]
        assert len(np.unique(np.concatenate(split))) == train + valid + test
    for role, size in enumerate((train, valid, test)):
        counts = np.bincount(np.concatenate([split[role] for split in splits]), minlength=n)
        assert math.floor(size * n_trials / n) <= counts.min() <= counts.max() <= math.ceil(size * n_trials / n)


def test_the_division_of_the_paper_is_exact_and_random():
    splits = balanced_splits(50, 50, (10, 5, 35), random_state=0)
    for role, size in enumerate((10, 5, 35)):
        assert np.bincount(np.concatenate([split[role] for split in splits])).tolist() == [size] * 50
    # Drawn independently, two sets of 10 of 50 share 2; windows of a circle would share up to 9.
    shared = [len(np.intersect1d(one[0], two[0])) for at, one in enumerate(splits) for two in splits[:at]]
    assert np.mean(shared) == pytest.approx(2, abs=0.2)
    assert np.std(shared) < 1.5
    assert not np.array_equal(splits[0][0], balanced_splits(50, 50, (10, 5, 35), random_state=1)[0][0])
    with pytest.raises(DataError, match="need 50 queries that count, and there are 49; ask for fewer"):
        balanced_splits(49, 50, (10, 5, 35))
    with pytest.raises(ValueError, match="give training, validation and test queries"):
        balanced_splits(50, 50, (10, 5, 0))


def test_trials_average_what_each_trial_found():
    some = TEST[:24]
    grades = np.where(np.repeat(np.arange(24), some.lengths) < 4, 0.0, some.grades)
    judged = Queries.from_arrays(some.X, grades, group=some.lengths, feature_names=some.feature_names, allow_nan=True)
    methods = {"learned": Fusion("rrf", Cs=[1.0, 10.0]), "rrf": UnsupervisedFusion("rrf"), "best": BestRun()}
    found = compare_on_random_splits(judged, methods, n_trials=4, sizes=(6, 4, 10), random_state=3, n_jobs=2)
    assert found.query_ids.tolist() == list(range(4, 24))
    kept = judged[4:]
    values = {name: [[] for _ in range(20)] for name in methods}
    for trial, (train, valid, test) in enumerate(balanced_splits(20, 4, (6, 4, 10), random_state=3)):
        for name, method in methods.items():
            scores = clone(method).fit(kept[train], kept[valid]).predict(kept[test])
            own = evaluate(kept[test], scores, "ndcg@10")
            assert found.per_trial[name][trial] == pytest.approx(own.mean["ndcg@10"])
            for query, value in zip(test, own["ndcg@10"], strict=True):
                values[name][query].append(value)
    for name, of_queries in values.items():
        assert found.per_query[name] == pytest.approx([np.mean(own) for own in of_queries])
        assert found.mean[name] == pytest.approx(np.mean(found.per_trial[name]))
    row = found.compare("best").rows[0]
    difference = found.per_query["learned"] - found.per_query["best"]
    assert (row.wins, row.losses) == ((difference > 1e-9).sum(), (difference < -1e-9).sum())
    assert 0 <= row.p_wilcoxon <= 1
    assert str(found).splitlines()[-1] == "over 4 splits of the queries; 20 of 20 queries count"
    json.dumps(found.to_dict(), allow_nan=False)
    with pytest.raises(ValueError, match="give at least one method"):
        compare_on_splits(judged, {}, [])


# Runs of the Million Query track.


@pytest.fixture(scope="module")
def million(shared_data):
    folder = shared_data("letor4-mq2008-agg")
    return [read(folder / f"A{part}.txt.xz", missing="nan", dtype="float64") for part in range(1, 6)]


def test_fixed_fusions_of_25_systems(million):
    together = Queries.concatenate(million)
    means = {
        name: evaluate(together, fuse(together, ranks=True), "ap").mean["ap"] for name, fuse in UNSUPERVISED.items()
    }
    assert means == pytest.approx({"rrf": 0.6633, "combsum": 0.6637, "combmnz": 0.6683, "borda": 0.6647}, abs=5e-5)


def test_learned_weights_of_25_systems_beat_them_on_the_first_fold(million):
    train, valid, test = Queries.concatenate(million[:3]), million[3], million[4]
    fusion = Fusion(ranks=True, Cs=[1.0, 10.0, 100.0]).fit(train, valid)
    own = evaluate(test, fusion.predict(test), "ap")
    others = {"best": BestRun(ranks=True), **{name: UnsupervisedFusion(name, ranks=True) for name in UNSUPERVISED}}
    for name, method in others.items():
        assert own.mean["ap"] > evaluate(test, method.fit(train, valid).predict(test), "ap").mean["ap"] + 0.02, name
