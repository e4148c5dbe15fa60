"""Lazy and sparse frames, complex numbers and names that are no text: clear errors by every door, or right results."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from marginrank import Queries, Ranker, evaluate, from_frame, load, read, tune
from marginrank.data import write_parquet
from marginrank.errors import DataError

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "qid": np.repeat(np.arange(8), 5),
        "grade": np.tile([0, 1, 2, 0, 1], 8),
        "a": RNG.standard_normal(40),
        "b": RNG.standard_normal(40),
    }
)
X, Y, QID = FRAME[["a", "b"]], FRAME["grade"], FRAME["qid"]
LAZY = pl.from_pandas(FRAME).lazy()


def sparse(fill):
    """Features of which half are 0, as pandas' sparse columns."""
    return X.clip(lower=0).apply(lambda column: pd.arrays.SparseArray(column, fill_value=fill))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Ranker().fit(LAZY.select("a", "b"), Y, qid=QID), "X"),
        (lambda: Ranker().fit(X, LAZY.select("grade"), qid=QID), "y"),
        (lambda: Ranker().fit(X, Y, qid=LAZY.select("qid")), "qid"),
        (lambda: Ranker().fit(X, Y, qid=QID).predict(LAZY.select("a", "b")), "X"),
        (lambda: tune(Ranker(), LAZY.select("a", "b"), Y, qid=QID), "X"),
        (lambda: Queries.from_arrays(LAZY.select("a", "b"), Y, qid=QID), "X"),
        (lambda: evaluate(LAZY.select("grade"), X["a"], qid=QID), "grades"),
        (lambda: evaluate(Y, LAZY.select("a"), qid=QID), "scores"),
    ],
)
def test_a_lazy_frame_where_rows_are_needed(call, name):
    with pytest.raises(DataError, match=rf"{name} is a LazyFrame, which has no rows yet; give {name}\.collect\(\)"):
        call()


def test_from_frame_collects_a_lazy_frame():
    np.testing.assert_array_equal(from_frame(LAZY).X, X)


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_sparse_columns_of_pandas_in_a_frame(fill):
    frame = pd.concat([FRAME[["qid", "grade"]], sparse(fill)], axis=1)
    with pytest.raises(DataError, match=r"column 'a' holds Sparse\[float64, .*make it dense with frame\['a'\]\.sparse"):
        from_frame(frame)
    frame["a"], frame["b"] = frame["a"].sparse.to_dense(), frame["b"].sparse.to_dense()
    np.testing.assert_array_equal(from_frame(frame).X, X.clip(lower=0))


def test_sparse_columns_of_pandas_in_fit_are_those_of_scipy_or_refused():
    dense = Ranker().fit(X.clip(lower=0), Y, qid=QID)
    ranker = Ranker().fit(sparse(0.0), Y, qid=QID)
    np.testing.assert_allclose(ranker.coef_, dense.coef_)
    for call in (lambda: Ranker().fit(sparse(np.nan), Y, qid=QID), lambda: dense.predict(sparse(np.nan))):
        with pytest.raises(DataError, match=r"column 'a' holds Sparse\[float64, nan\].*to_dense\(\)"):
            call()


def complex_objects(values):
    return np.array([np.complex128(value) for value in values] + [None], dtype=object)[:-1]


@pytest.mark.parametrize("make", [lambda values: np.asarray(values) + 1j, complex_objects], ids=["array", "objects"])
@pytest.mark.parametrize(
    "call",
    [
        lambda make: Ranker().fit(X, make(Y), qid=QID),
        lambda make: tune(Ranker(), X, make(Y), qid=QID),
        lambda make: Queries.from_arrays(X, make(Y), qid=QID),
        lambda make: Queries.from_arrays(make(X["a"])[:, None], Y, qid=QID),
        lambda make: Ranker().fit(make(X["a"])[:, None], Y, qid=QID),
        lambda make: Ranker().fit(X.assign(a=make(X["a"])), Y, qid=QID),
        lambda make: evaluate(make(Y), X["a"], qid=QID),
        lambda make: evaluate(Y, make(X["a"]), qid=QID),
        lambda make: from_frame(FRAME.assign(grade=make(Y))),
    ],
)
def test_complex_numbers_are_no_grades_features_or_scores(call, make):
    with pytest.raises(DataError, match=r"(?i)complex"):
        call(make)


def test_complex_features_of_a_frame_and_ids():
    with pytest.raises(DataError, match="column 'a' holds complex128, not numbers"):
        from_frame(FRAME.assign(a=X["a"] + 1j))
    with pytest.raises(DataError, match="qid holds complex numbers"):
        Queries.from_arrays(X, Y, qid=QID.to_numpy() + 1j)


def named(name):
    """The frame with an odd name for its first feature."""
    frame = FRAME.copy()
    frame.columns = pd.Index(["qid", "grade", name, "b"], dtype=object)
    return frame


def test_half_of_a_surrogate_pair_in_a_name_is_refused_by_every_door():
    for call in (
        lambda: from_frame(named("a\ud800")),
        lambda: Queries.from_arrays(X.to_numpy(), Y, qid=QID, feature_names=["a\ud800", "b"]),
        lambda: Ranker().fit(named("a\ud800").iloc[:, 2:], Y, qid=QID),
    ):
        with pytest.raises(DataError, match=r"feature name 'a\\ud800' is not valid Unicode"):
            call()


def test_a_nul_in_a_name_is_kept(tmp_path):
    queries = from_frame(named("a\0"))
    Ranker().fit(queries).save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").feature_names_in_.tolist() == ["a\0", "b"]
    write_parquet(tmp_path / "data.parquet", queries)
    assert read(tmp_path / "data.parquet").feature_names == ("a\0", "b")


@pytest.mark.parametrize("name", ["q\0", "q\ud800"])
def test_odd_ids_stay_apart_and_are_kept(name):
    ids = QID.astype(str).to_numpy(dtype=object)
    ids[ids == "3"], ids[ids == "4"] = "q", name
    assert Queries.from_arrays(X, Y, qid=ids).query_ids.tolist() == ["0", "1", "2", "q", name, "5", "6", "7"]


@pytest.mark.parametrize("frame", [X, LAZY, sparse(0.0)], ids=["pandas", "lazy", "sparse"])
def test_a_model_takes_arrays(frame):
    model = Ranker().fit(X, Y, qid=QID).model_
    with pytest.raises(TypeError, match=r"a Model takes Queries or arrays, not a \w+Frame; give it to a Ranker"):
        model.score(frame)


@pytest.mark.parametrize(
    "column",
    [pa.nulls(4), pa.array([b"ab"] * 4, pa.binary(2))],
    ids=lambda column: str(column.type),
)
def test_types_of_arrow_that_hold_no_numbers_are_named(column, tmp_path):
    table = pa.table({"query_id": [1, 1, 2, 2], "grade": [0, 1, 0, 1], "a": [1.0, 2.0, 3.0, 4.0], "b": column})
    message = re.escape(f"column 'b' holds {column.type}, not numbers; name the feature columns with features=['a']")
    with pytest.raises(DataError, match=message):
        from_frame(table, qid="query_id", grade="grade")
    parquet.write_table(table, tmp_path / "judged.parquet")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "judged.parquet")
