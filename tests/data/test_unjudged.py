"""Documents that nobody judged: they are ranked, and refused where grades are needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

from marginrank import Ranker, compare, evaluate, tune
from marginrank.cli.app import app
from marginrank.data import Queries, from_frame, read, write_binary, write_letor
from marginrank.data.fingerprint import fingerprint
from marginrank.data.reader import convert
from marginrank.errors import DataError
from marginrank.reporting.report_builder import write_report

# Rows of two queries, mixed; clicks alone decide, so the best first are z, x, y and v, u.
ROWS = {
    "query": ["red", "blue", "red", "blue", "red"],
    "docid": ["x", "u", "y", "v", "z"],
    "clicks": [2.0, 1.0, 1.0, 5.0, 9.0],
    "noise": [0.5, 0.5, 0.5, 0.5, 0.5],
}
RANKED = [["z", "x", "y"], ["v", "u"]]
SOURCES = ["arrays", "pandas", "polars", "parquet", "arrow", "npz", "binary"]


def trained() -> Ranker:
    X = [[3.0, 0.5], [1.0, 0.5], [0.0, 0.5], [4.0, 0.5]]
    judged = Queries.from_arrays(X, [1, 0, 0, 1], qid=["a", "a", "b", "b"], feature_names=["clicks", "noise"])
    return Ranker("svmmap", C=100.0, scaling=None).fit(judged)


def unjudged(source: str, folder: Path) -> Queries:
    """The rows from every door."""
    X = np.column_stack([ROWS["clicks"], ROWS["noise"]])
    names = ["clicks", "noise"]
    if source == "arrays":
        return Queries.from_arrays(X, qid=ROWS["query"], document_ids=ROWS["docid"], feature_names=names)
    if source in ("pandas", "polars"):
        return from_frame(pd.DataFrame(ROWS) if source == "pandas" else pl.DataFrame(ROWS))
    return read(written(source, folder))  # type: ignore[return-value]


def written(source: str, folder: Path) -> Path:
    frame, path = pd.DataFrame(ROWS), folder / {"binary": "rows.queries"}.get(source, f"rows.{source}")
    if source == "parquet":
        frame.to_parquet(path)
    elif source == "arrow":
        pl.DataFrame(ROWS).write_ipc(path)
    elif source == "npz":
        np.savez(
            path,
            X=frame[["clicks", "noise"]].to_numpy(),
            qid=np.array(ROWS["query"]),
            document_ids=np.array(ROWS["docid"]),
            feature_names=np.array(["clicks", "noise"]),
        )
    else:
        write_binary(path, from_frame(frame))
    return path


@pytest.mark.parametrize("source", SOURCES)
def test_rows_without_grades_are_ranked(source: str, tmp_path: Path) -> None:
    queries, ranker = unjudged(source, tmp_path), trained()
    assert repr(queries) == "Queries(2 queries, 5 documents, 2 features, no grades)"
    assert not queries.has_grades
    assert ranker.rank(queries, ids=True) == RANKED
    weight = ranker.coef_[0]
    assert weight > 0
    assert ranker.predict(queries) == pytest.approx(np.array(ROWS["clicks"]) * weight + ranker.coef_[1] * 0.5)
    # Clicks less their mean in the query: 4 in the first, 3 in the second.
    means = np.array([{"red": 4.0, "blue": 3.0}[query] for query in ROWS["query"]])
    assert ranker.explain(queries)[:, 0] == pytest.approx((np.array(ROWS["clicks"]) - means) * weight)
    assert ranker.rank(queries[1], ids=True) == [["v", "u"]]


@pytest.mark.parametrize("scaling", ["standard", "query-minmax"])
def test_scalings_need_no_grades(scaling: str, tmp_path: Path) -> None:
    ranker = Ranker("svmmap", scaling=scaling).fit([[3.0, 0.5], [1.0, 0.4]] * 2, [1, 0] * 2, qid=[1, 1, 2, 2])
    queries = unjudged("arrays", tmp_path)
    frame = pd.DataFrame(ROWS)
    assert ranker.rank(
        Queries.from_arrays(queries.grouped.X, group=[3, 2], document_ids=queries.grouped.document_ids), ids=True
    ) == (RANKED)
    assert [rows.tolist() for rows in ranker.rank(frame[["clicks", "noise"]].to_numpy(), qid=frame["query"])] == [
        [4, 0, 2],
        [3, 1],
    ]


@pytest.mark.parametrize("source", ["parquet", "arrow", "npz", "binary"])
def test_the_command_line_ranks_files_without_grades(source: str, tmp_path: Path) -> None:
    trained().save(tmp_path / "model.safetensors")
    path = written(source, tmp_path)
    words = ["rank", str(tmp_path / "model.safetensors"), str(path), "--k", "1"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    rows = [line.split("\t")[:3] for line in done.stdout.splitlines()[1:]]
    assert rows == [["red", "1", "z"], ["blue", "1", "v"]]
    shown = CliRunner().invoke(app, ["inspect", str(path)], catch_exceptions=False).stdout
    assert "queries         2\n" in shown
    assert "grades          none\n" in shown
    assert CliRunner().invoke(app, ["verify", str(path)]).exit_code == 0
    assert CliRunner().invoke(app, ["rank", *words[1:3], "-o", str(tmp_path / "scores.txt")]).exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        ["train", "rows.parquet", "-o", "new.safetensors"],
        ["tune", "rows.parquet", "-o", "new.safetensors"],
        ["evaluate", "rows.parquet", "model.safetensors"],
        ["report", "rows.parquet", "model.safetensors", "-o", "page.html"],
        ["fuse", "rows.parquet", "-o", "new.safetensors"],
    ],
    ids=lambda words: words[0],
)
def test_commands_that_need_grades_say_so(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained().save("model.safetensors")
    written("parquet", tmp_path)
    done = CliRunner().invoke(app, command)
    wanted = "columns  query: query, document: docid, 2 features: clicks, noise\n"
    wanted += "error: rows.parquet: no grades in this data, and they are needed here; name their column with --grade\n"
    assert (done.exit_code, done.stderr) == (1, wanted)


@pytest.mark.parametrize(
    "needs_grades",
    [
        lambda _, queries: Ranker().fit(queries),
        lambda _, queries: Ranker("lambdarank").fit(queries),
        lambda ranker, queries: ranker.fit(judged_like(queries), validation=queries),
        lambda _, queries: Ranker().fit_path(queries, Cs=[1.0]),
        lambda ranker, queries: ranker.score(queries),
        lambda ranker, queries: evaluate(queries, ranker),
        lambda _, queries: evaluate(queries, queries.feature("clicks")),
        lambda ranker, queries: compare({"a": ranker, "b": queries.feature("clicks")}, queries),
        tune,
        lambda ranker, queries: tune(ranker, judged_like(queries), valid=queries),
        lambda ranker, queries: write_report("page.html", queries, {"a": ranker}),
    ],
    ids=["fit", "baseline", "validation", "path", "score", "model", "scores", "compare", "tune", "valid", "report"],
)
def test_what_needs_grades_says_so(needs_grades, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"these queries have no grades, .*; give y, or name the column .* grade="):
        needs_grades(trained(), unjudged("arrays", tmp_path))


def judged_like(queries: Queries) -> Queries:
    ids = [f"{query}'" for query in queries.query_ids]
    return Queries.from_arrays(
        queries.X, [1, 0, 1, 0, 1], qid=np.repeat(ids, queries.lengths), feature_names=queries.feature_names
    )


def test_files_keep_that_there_are_no_grades(tmp_path: Path) -> None:
    queries = unjudged("arrays", tmp_path)
    write_binary(tmp_path / "a.queries", queries)
    assert fingerprint(read(tmp_path / "a.queries")) == fingerprint(queries)
    convert(tmp_path / "a.queries", tmp_path / "a.parquet")
    assert pd.read_parquet(tmp_path / "a.parquet").columns.tolist() == ["qid", "document_id", "clicks", "noise"]
    with pytest.raises(DataError, match="text has a grade on every line, and these queries have none"):
        write_letor(tmp_path / "a.txt", queries)
    zeros = Queries.from_arrays(queries.X, np.zeros(5), group=[3, 2])
    assert fingerprint(zeros) != fingerprint(queries)


def test_judged_and_unjudged_sets_do_not_mix(tmp_path: Path) -> None:
    queries = unjudged("arrays", tmp_path)
    with pytest.raises(DataError, match="some parts have grades and some have none"):
        Queries.concatenate([queries, judged_like(queries)])
    renamed = replace(queries, query_ids=np.array(["a", "b"]))
    assert Queries.concatenate([queries, renamed]).n_documents == 10
