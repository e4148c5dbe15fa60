"""Judged queries, two models trained on others, and the numbers that other tools should find."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import Queries, Ranker, evaluate, load
from marginrank.fusion import Fusion, pool_runs

FEATURES = ("bm25", "clicks")


def _judged(seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(20), 10)
    X = rng.standard_normal((200, 2)) * [1.0, 10.0]
    grades = (X @ [1.0, 0.1] + rng.standard_normal(200) > 1).astype(float)
    grades[::10] = 1.0  # every query has a relevant document
    rows = rng.permutation(200)  # queries are torn apart
    return Queries.from_arrays(
        X[rows],
        grades[rows],
        qid=[f"q{number}" for number in qid[rows]],
        document_ids=[f"d{row}" for row in rows],
        feature_names=FEATURES,
    )


@dataclass(frozen=True)
class Example:
    """A model file, the judged documents of each query as dicts, and what our evaluation says."""

    path: Path
    queries: dict[str, list[dict[str, Any]]]
    expected: dict[str, float]


def ranked_features(folder: Path) -> Example:
    """A ranker of two features."""
    path = folder / "model.safetensors"
    Ranker("svmmap").fit(_judged(0)).save(path)
    judged = _judged(1)
    rows = zip(
        judged.query_ids[judged.query_of_row].tolist(),
        judged.document_ids.tolist(),
        judged.grades.tolist(),
        judged.X.tolist(),
        strict=True,
    )
    queries: dict[str, list[dict[str, Any]]] = {}
    for qid, document, grade, features in rows:
        queries.setdefault(qid, []).append(
            {"id": document, "grade": grade, "features": dict(zip(FEATURES, features, strict=True))}
        )
    scores = load(path).predict(judged)
    return Example(path, queries, _values(judged, scores))


def fused_runs(folder: Path) -> tuple[Example, dict[str, dict[str, dict[str, float]]]]:
    """A fusion of two runs, which return six of ten documents each, and these runs."""
    path = folder / "fusion.safetensors"
    Fusion("rrf", Cs=[1.0]).fit(_pool(_judged(0))[0], folds=2).save(path)
    pool, runs = _pool(_judged(1))
    queries: dict[str, list[dict[str, Any]]] = {}
    rows = zip(
        pool.query_ids[pool.query_of_row].tolist(), pool.document_ids.tolist(), pool.grades.tolist(), strict=True
    )
    for qid, document, grade in rows:
        queries.setdefault(qid, []).append({"id": document, "grade": grade})
    return Example(path, queries, _values(pool, Fusion.load(path).predict(pool))), runs


def _pool(judged: Queries) -> tuple[Queries, dict[str, dict[str, dict[str, float]]]]:
    runs: dict[str, dict[str, dict[str, float]]] = {"bm25": {}, "dense": {}}
    qrels: dict[str, dict[str, float]] = {}
    rows = zip(
        judged.query_ids[judged.query_of_row].tolist(),
        judged.document_ids.tolist(),
        judged.grades.tolist(),
        judged.X.tolist(),
        strict=True,
    )
    for qid, document, grade, features in rows:
        qrels.setdefault(qid, {})[document] = grade
        for name, score in zip(runs, features, strict=True):
            runs[name].setdefault(qid, {})[document] = score
    for run in runs.values():
        for qid, scores in run.items():
            run[qid] = dict(sorted(scores.items(), key=lambda pair: -pair[1])[:6])
    return pool_runs(runs, qrels), runs


def _values(judged: Queries, scores: Any) -> dict[str, float]:
    """Means over queries; those without relevant documents count 0."""
    result = evaluate(judged, scores, ["rr", "ap", "ndcg(gain=linear)"], policy="trec")
    return {"rr": result.mean["rr"], "ap": result.mean["ap"], "ndcg": result.mean["ndcg(gain=linear)"]}
