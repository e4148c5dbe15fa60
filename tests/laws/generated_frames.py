"""Generated frames through every door, compared with plain NumPy: ``python -m tests.laws.generated_frames 500``.

A frame is shuffled, and has an odd index, odd names of columns, columns of many types and ids of many kinds. Whatever
comes out, in whatever order it goes in, is what NumPy computes from the columns, row by row.
"""

from __future__ import annotations

import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from marginrank import Queries, Ranker, compare, convert, evaluate, from_frame, read
from marginrank.data.formats.trec import Run

NAMES = ("bm25", "price (€)", "a,b", 'say "hi"', "x.y", "class", "ключ", "a b", "-1", "NaN", "A", "Unnamed: 7")


class Frame(NamedTuple):
    """A generated frame, and what is known of it without the package."""

    table: pd.DataFrame
    features: list[str]
    #: Features as float64, row by row.
    X: np.ndarray
    grades: np.ndarray
    qid: np.ndarray
    documents: list[str]


def query_ids(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw distinct ids of one kind."""
    numbers = rng.permutation(10 * n)[:n]
    kinds: list[Callable[[], Any]] = [
        lambda: numbers,
        lambda: numbers - 5 * n,
        lambda: numbers.astype(np.uint64) + np.uint64(2**63),
        lambda: numbers.astype(np.float64),
        lambda: np.array([f"q{number}" for number in numbers], dtype=object),
        lambda: np.array([f"{number:04}" for number in numbers], dtype=object),
        lambda: np.array([f"shoes {number}, red" for number in numbers], dtype=object),
        lambda: np.array([f"é{number}" for number in numbers], dtype=object),
    ]
    return np.asarray(kinds[rng.integers(len(kinds))]())


def column(rng: np.random.Generator, n: int) -> Any:
    """Draw a column of numbers of one type."""
    values = rng.standard_normal(n).round(3) * 10.0 ** rng.integers(-2, 4)
    kinds: list[Callable[[], Any]] = [
        lambda: values,
        lambda: values.astype(np.float32),
        lambda: rng.integers(-100, 100, n).astype(np.int8),
        lambda: rng.integers(0, 2**40, n),
        lambda: rng.random(n) < 0.3,
        lambda: pd.array(rng.integers(0, 9, n), dtype="Int64"),
        lambda: pd.array(rng.random(n) < 0.5, dtype="boolean"),
        lambda: pd.array(values, dtype="Float64"),
        lambda: np.zeros(n),
    ]
    return kinds[rng.integers(len(kinds))]()


def index(rng: np.random.Generator, n: int) -> Any:
    """Draw the index of a frame."""
    kinds: list[Callable[[], Any]] = [
        lambda: pd.RangeIndex(n),
        lambda: pd.Index(rng.permutation(n)),
        lambda: pd.Index(rng.integers(0, 3, n)),
        lambda: pd.Index([f"row {number}" for number in rng.permutation(n)], name="key"),
        lambda: pd.date_range("2024-01-01", periods=n)[rng.permutation(n)],
        lambda: pd.MultiIndex.from_arrays([rng.integers(0, 3, n), np.arange(n)], names=["a", "b"]),
    ]
    return kinds[rng.integers(len(kinds))]()


def draw(seed: int) -> Frame:
    """Draw a frame."""
    rng = np.random.default_rng(seed)
    n_queries = int(rng.integers(2, 8))
    sizes = rng.integers(1, 9, n_queries) + (np.arange(n_queries) == 0)
    n = int(sizes.sum())
    order = rng.permutation(n) if rng.random() < 0.9 else np.arange(n)
    number = np.repeat(np.arange(n_queries), sizes)[order]
    grades = rng.integers(0, 4, n)
    grades[number == 0] = np.arange(sizes[0]) % 3  # a query to learn from
    names = [NAMES[k] for k in rng.permutation(len(NAMES))[: rng.integers(1, 6)]]
    columns: dict[str, Any] = {name: column(rng, n) for name in names}
    X = np.column_stack([np.asarray(values, dtype=np.float64) for values in columns.values()])
    qid = query_ids(rng, n_queries)[number]
    documents = [f"d{row}" for row in rng.permutation(n)]
    columns |= {"qid": qid, "grade": grades.astype([np.int64, np.float32, np.uint8][rng.integers(3)])}
    columns["document_id"] = documents
    shuffled = {name: columns[name] for name in rng.permutation(list(columns)).tolist()}
    table = pd.DataFrame(shuffled, index=index(rng, n))
    features = [name for name in shuffled if name in names]
    return Frame(table, features, X[:, [names.index(name) for name in features]], grades, qid, documents)


def doors(frame: Frame, folder: Path) -> Iterator[tuple[str, Queries]]:
    """Yield the queries of every door that takes frames or files."""
    table = frame.table
    yield "pandas", from_frame(table)
    yield "arrow", from_frame(pa.Table.from_pandas(table))
    flat = table.reset_index(drop=True)
    yield "polars", from_frame(pl.from_pandas(flat))
    yield "lazy", from_frame(pl.from_pandas(flat).lazy())
    yield (
        "arrays",
        Queries.from_arrays(
            table[frame.features].to_numpy(dtype=np.float64),
            table["grade"].to_numpy(),
            qid=table["qid"].to_numpy(),
            document_ids=table["document_id"].to_numpy(),
            feature_names=frame.features,
        ),
    )
    table.to_parquet(folder / "a.parquet")
    yield "parquet", read(folder / "a.parquet")
    flat.to_feather(folder / "a.feather")
    yield "feather", read(folder / "a.feather")
    table.to_csv(folder / "a.csv", index=not isinstance(table.index, pd.MultiIndex) and table.index.name is None)
    yield "csv", read(folder / "a.csv")
    flat.to_json(folder / "a.jsonl", orient="records", lines=True, double_precision=15)
    yield "jsonl", read(folder / "a.jsonl", dtype="float64")
    for suffix in ("queries", "parquet", "csv", "jsonl"):
        convert(folder / "a.parquet", folder / f"again.{suffix}")
        yield f"converted to {suffix}", read(folder / f"again.{suffix}")


def ndcg(grades: np.ndarray, scores: np.ndarray, k: int = 10) -> float:
    """NDCG@k by its definition; documents with equal scores share the mean of their gains."""
    gains = 2.0**grades - 1
    order = np.argsort(-scores, kind="stable")
    ranked = gains[order]
    for score in np.unique(scores):
        ranked[scores[order] == score] = gains[scores == score].mean()
    discounts = np.array([1 / math.log2(rank + 2) if rank < k else 0.0 for rank in range(len(gains))])
    return float(ranked @ discounts / (np.sort(gains)[::-1] @ discounts))


def same(found: Any, expected: Any, what: str) -> None:
    """Compare numbers, some of which were float32 in a text file; name the door."""
    tolerance = 1e-6 * max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(np.asarray(found, dtype=np.float64), expected, rtol=0, atol=tolerance, err_msg=what)


def check(seed: int, folder: Path) -> int:
    """Send a frame through every door; return the number of doors."""
    frame = draw(seed)
    table, X, qid = frame.table, frame.X, frame.qid
    ranker = Ranker("ranksvm", scaling=None, C=1.0).fit(table[frame.features], table["grade"], qid=table["qid"])
    scores = X @ ranker.coef_
    texts = np.asarray([str(int(q)) if isinstance(q, float) else str(q) for q in qid.tolist()])
    ids = list(dict.fromkeys(texts.tolist()))
    values = {q: ndcg(frame.grades[texts == q], scores[texts == q]) for q in ids if frame.grades[texts == q].any()}
    first = {q: ndcg(frame.grades[texts == q], X[texts == q, 0]) for q in values}
    centered = X - np.array([X[texts == q].mean(axis=0) for q in texts])
    same(ranker.predict(table[frame.features]), scores, "predict")
    same(ranker.explain(table[frame.features], qid=table["qid"]), centered * ranker.coef_, "explain")
    evaluated = evaluate(table["grade"], pd.Series(scores, index=table.index), "ndcg@10", qid=table["qid"])
    same(evaluated.mean["ndcg@10"], np.mean(list(values.values())), "grades")
    count = 0
    for door, queries in doors(frame, folder):
        by_row = [queries.feature_names.index(name) for name in frame.features]
        same(queries.X[:, by_row], X, door)
        same(queries.grades, frame.grades, door)
        assert queries.document_ids.tolist() == frame.documents, door
        # Text is not taken for a decimal number: 7.0 stays as it is written.
        names = (
            np.char.replace(queries.query_ids.astype(str), ".0", "") if door == "csv" else queries.query_ids.astype(str)
        )
        assert names[queries.query_of_row].tolist() == texts.tolist(), door
        ordered = queries.with_features(np.ascontiguousarray(queries.X[:, by_row]), frame.features)
        same(ranker.predict(ordered), scores, door)
        same(ranker.explain(ordered), centered * ranker.coef_, door)
        result = evaluate(queries, scores, "ndcg@10")
        found = dict(zip(names.tolist(), result["ndcg@10"].tolist(), strict=True))
        same([found[q] for q in values], list(values.values()), door)
        same(evaluate(queries, Run.from_scores(queries, scores), "ndcg@10")["ndcg@10"], result["ndcg@10"], door)
        if len(values) > 1:
            comparison = compare({"model": scores, "first": X[:, 0]}, queries)
            same(comparison.rows[0].difference, np.mean(list(values.values())) - np.mean(list(first.values())), door)
        even = np.arange(len(queries)) % 2 == 0
        part, rows = queries[even], np.isin(texts, names[even])
        assert part.document_ids.tolist() == [name for name, kept in zip(frame.documents, rows, strict=True) if kept]
        count += 1
    return count


def main() -> None:
    """Check as many frames as asked for."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        checked = sum(check(seed, Path(folder)) for seed in range(n))
    print(f"{n} frames through {checked:,} doors: all answers are those of NumPy")


if __name__ == "__main__":
    main()
