"""Times of other tools for the calls of `whole_calls.py`, on the same files and arrays.

A tool yields its calls with the names of ours. The libraries of trees train 100 rounds of their ranking objective, with
the default size of trees, on two threads; dlib trains a linear RankSVM, of which the relevant documents are those with
a grade of at least 1. What a tool needs as input is made inside the call, as ours is from X, y and qid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Calls: TypeAlias = Iterator[tuple[str, Callable[[], Any]]]

ROUNDS, THREADS = 100, 2
#: dlib holds each document as objects of its own, and trains for minutes beyond.
MOST_ROWS_DLIB = 30_000


class Skipped(Exception):  # noqa: N818
    """A tool that cannot make these calls, with the reason."""


def lengths_of(qid: Any) -> Any:
    """Return the number of documents of each query."""
    return np.diff(np.flatnonzero(np.r_[True, qid[1:] != qid[:-1], True]))


def scikit_learn(folder: Path, *_: Any) -> Calls:
    from sklearn.datasets import load_svmlight_file

    yield "read, SVM-light", partial(load_svmlight_file, str(folder / "judged.txt"), query_id=True)


def pandas(folder: Path, *_: Any) -> Calls:
    import pandas as pd

    yield "read, CSV", partial(pd.read_csv, folder / "judged.csv")
    yield "read, Parquet", partial(pd.read_parquet, folder / "judged.parquet")


def lightgbm(_: Path, X: Any, y: Any, qid: Any) -> Calls:
    import lightgbm as lgb

    settings = {"n_estimators": ROUNDS, "n_jobs": THREADS, "verbosity": -1}

    def fit() -> Any:
        return lgb.LGBMRanker(**settings).fit(X, y, group=lengths_of(qid))

    ranker = fit()
    yield "fit, X, y, qid", fit
    yield "predict, all rows", lambda: ranker.predict(X)
    yield "predict, 10 rows", lambda: ranker.predict(X[:10])


def xgboost(_: Path, X: Any, y: Any, qid: Any) -> Calls:
    import xgboost as xgb

    def fit() -> Any:
        return xgb.XGBRanker(n_estimators=ROUNDS, n_jobs=THREADS).fit(X, y, qid=qid)

    ranker = fit()
    yield "fit, X, y, qid", fit
    yield "predict, all rows", lambda: ranker.predict(X)
    yield "predict, 10 rows", lambda: ranker.predict(X[:10])


def catboost(_: Path, X: Any, y: Any, qid: Any) -> Calls:
    import catboost as cb

    settings = {"iterations": ROUNDS, "thread_count": THREADS, "verbose": False, "allow_writing_files": False}

    def fit() -> Any:
        return cb.CatBoostRanker(loss_function="YetiRank", **settings).fit(X, y, group_id=qid)

    ranker = fit()
    yield "fit, X, y, qid", fit
    yield "predict, all rows", lambda: ranker.predict(X)
    yield "predict, 10 rows", lambda: ranker.predict(X[:10])


def dlib(_: Path, X: Any, y: Any, qid: Any) -> Calls:
    import dlib as dl

    if len(X) > MOST_ROWS_DLIB:
        raise Skipped(f"more than {MOST_ROWS_DLIB:,} documents; see training.py")

    def fit() -> Any:
        pairs = dl.ranking_pairs()
        for rows, grades in zip(*(np.split(one, np.cumsum(lengths_of(qid))[:-1]) for one in (X, y)), strict=True):
            if 0 < np.count_nonzero(grades) < len(grades):
                pair = dl.ranking_pair()
                pair.relevant = dl.vectors([dl.vector(row) for row in rows[grades > 0].tolist()])
                pair.nonrelevant = dl.vectors([dl.vector(row) for row in rows[grades == 0].tolist()])
                pairs.append(pair)
        return dl.svm_rank_trainer().train(pairs)

    yield "fit, X, y, qid", fit


def ranx(_: Path, X: Any, y: Any, qid: Any) -> Calls:
    import ranx as rx

    scores, starts = X[:, 0].astype(float), np.r_[0, np.cumsum(lengths_of(qid))]
    spans = [(f"q{query}", slice(*starts[query : query + 2].tolist())) for query in range(len(starts) - 1)]
    names = [f"d{number}" for number in range(int(np.diff(starts).max()))]

    def dictionaries(values: Any) -> Any:
        return {query: dict(zip(names, values[rows].tolist(), strict=False)) for query, rows in spans}

    judged, scored = dictionaries(y), dictionaries(scores)

    def evaluate() -> Any:
        return rx.evaluate(rx.Qrels(judged), rx.Run(scored), ["ndcg@10", "map"])

    evaluate()  # which compiles for half a minute
    yield "evaluate", evaluate


TOOLS: dict[str, Callable[[Path, Any, Any, Any], Calls]] = {
    "scikit-learn": scikit_learn,
    "pandas": pandas,
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "CatBoost": catboost,
    "dlib": dlib,
    "ranx": ranx,
}
