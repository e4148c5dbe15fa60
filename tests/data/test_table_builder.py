"""Tables of any size become the binary form: the same queries as from the whole table, in little memory."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import marginrank.data.formats.csv
import marginrank.data.formats.json_lines
import marginrank.data.formats.parquet
import marginrank.data.formats.row_writer
import marginrank.data.frames
import marginrank.data.table_builder
import marginrank.runtime.mapped_arrays
from marginrank.data import Queries, convert, from_frame, read, read_queries
from marginrank.data.fingerprint import fingerprint
from marginrank.errors import DataError
from marginrank.runtime.memory import VARIABLE
from marginrank.runtime.threads import in_order

#: Lines, quotes, separators and a word much longer than the others.
WORDS = ['2" pipe, steel', "é\nü", "q;\t7", "x" * 40]


def frame(n: int = 2000, *, text: bool = True, spread: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    queries = np.repeat(np.arange(n // 8), 8)
    if spread:
        queries = rng.permutation(queries)
    ids = [WORDS[q] if q < len(WORDS) else f"q{q}" for q in queries] if text else queries
    columns: dict[str, Any] = {"query": ids, "label": rng.integers(0, 3, n).astype(float)}
    columns |= {"docid": [f"d{row % 7}\n{row}" for row in range(n)], "host": [f"h{row % 3}" for row in range(n)]}
    X = rng.standard_normal((n, 5))
    X[rng.random(X.shape) < 0.05] = np.nan
    return pd.DataFrame(columns | {f"f{k}": X[:, k] for k in range(5)})


def to_jsonl(table: pd.DataFrame, path: Path) -> None:
    """Leave out what is missing."""
    records = [{name: value for name, value in row.items() if not pd.isna(value)} for row in table.to_dict("records")]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "t.csv": lambda table, path: table.to_csv(path, index=False),
    "t.csv.gz": lambda table, path: table.to_csv(path, index=False),
    "windows.csv": lambda table, path: table.to_csv(path, index=False, lineterminator="\r\n", encoding="utf-8-sig"),
    "quoted.csv": lambda table, path: table.to_csv(path, index=False, quoting=1, sep=";"),
    "t.tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "t.jsonl": to_jsonl,
    "t.jsonl.gz": to_jsonl,
    "t.parquet": lambda table, path: parquet.write_table(pa.Table.from_pandas(table), path, row_group_size=300),
    "one.parquet": lambda table, path: parquet.write_table(pa.Table.from_pandas(table), path),
    "t.feather": lambda table, path: feather.write_feather(table, path, chunksize=300),
}


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Read small blocks with a small budget; return a list that gets an entry for each file that features move to."""
    moved: list[int] = []
    monkeypatch.setenv(VARIABLE, "150KB")
    monkeypatch.setattr(marginrank.runtime.mapped_arrays, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(marginrank.data.formats.csv, "TEXT_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(marginrank.data.formats.json_lines, "TEXT_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(marginrank.data.formats.parquet, "_TABLE_BYTES", 1 << 12)
    appended = marginrank.runtime.mapped_arrays.SpillFile
    monkeypatch.setattr(marginrank.data.table_builder, "SpillFile", lambda: moved.append(1) or appended())
    return moved


def assert_equal(found: Queries, expected: Queries) -> None:
    assert fingerprint(found) == fingerprint(expected)
    assert found.feature_names == expected.feature_names
    for name in ("X", "judgements", "query_offsets", "query_ids", "document_ids", "document_groups", "order"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize(("text", "spread"), [(True, True), (False, False)], ids=["words-spread", "numbers-grouped"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_converted_file_is_the_whole_table(
    tmp_path: Path, name: str, text: bool, spread: bool, little_memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "36KB")
    table = frame(480, text=text, spread=spread)
    WRITERS[name](table, tmp_path / name)
    # Blocks are put together before their missing values are replaced, whatever the file looked like.
    ways = ("nan", "zero", "min") if name in {"t.csv", "t.jsonl", "t.parquet"} else ("min",)
    for missing in ways:
        options: dict[str, Any] = {"missing": missing, "document_group": "host"}
        expected = from_frame(pa.Table.from_pandas(table), **options)
        returned = convert(tmp_path / name, tmp_path / "t.queries", **options)
        assert_equal(returned, expected)
        assert_equal(read(tmp_path / "t.queries"), expected)
        assert_equal(read_queries(tmp_path / name, max_memory="1GB", **options), expected)
    assert len(little_memory) >= len(ways)
    assert (expected.order is None) == (not spread)
    assert expected.query_ids.dtype.kind == ("U" if text else "i")


@pytest.mark.parametrize("name", WRITERS)
def test_several_files_are_put_one_after_the_other(
    tmp_path: Path, name: str, little_memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "36KB")
    table = frame(480, text=False)
    cuts = [table[table["query"] < 25], table[table["query"] >= 25]]
    paths = [tmp_path / f"{number}-{name}" for number in range(2)]
    for cut, path in zip(cuts, paths, strict=True):
        WRITERS[name](cut, path)
    expected = Queries.concatenate(
        [from_frame(pa.Table.from_pandas(cut), missing="nan", features=["f0", "f3"]) for cut in cuts]
    )
    assert_equal(convert(paths, tmp_path / "t.queries", missing="nan", features=["f0", "f3"]), expected)
    assert len(little_memory) >= 2
    assert_equal(read(tmp_path / "t.queries"), expected)
    with pytest.raises(DataError, match="is in more than one part"):
        convert([paths[0], paths[0]], tmp_path / "t.queries", missing="nan", features=["f0"])


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv.gz", "jsonl", "parquet"])
def test_tables_become_other_text_and_tables(
    tmp_path: Path, suffix: str, little_memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marginrank.data.formats.row_writer, "_ROWS_AT_ONCE", 300)
    monkeypatch.setattr(marginrank.data.formats.parquet, "_LEAST_GROUP", 300)
    monkeypatch.setattr(marginrank.data.formats.parquet, "_GROUP_BYTES", 1)
    monkeypatch.setenv(VARIABLE, "36KB")
    table = frame(1000, text=False).drop(columns=["docid", "host"]).fillna(0.5)
    WRITERS["t.csv"](table, tmp_path / "t.csv")
    convert(tmp_path / "t.csv", tmp_path / f"copy.{suffix}")
    assert little_memory
    found, expected = read_queries(tmp_path / f"copy.{suffix}", max_memory="1GB", dtype="float64"), from_frame(table)
    assert fingerprint(found) == fingerprint(expected)
    assert found.query_ids.tolist() == expected.query_ids.tolist()
    if suffix == "parquet":
        assert parquet.ParquetFile(tmp_path / "copy.parquet").num_row_groups == 4


def test_float32_stays_float32(tmp_path: Path, little_memory: list[int]) -> None:
    table = frame(n=4000)
    names = [name for name in table if name.startswith("f")]
    narrow = table.astype(dict.fromkeys(names, np.float32))
    WRITERS["t.parquet"](narrow, tmp_path / "t.parquet")
    found = convert(tmp_path / "t.parquet", tmp_path / "t.queries", missing="nan", features=names)
    assert found.X.dtype == np.float32
    assert little_memory
    assert_equal(found, from_frame(pa.Table.from_pandas(narrow), missing="nan", features=names))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.filterwarnings("ignore::marginrank.errors.RepeatedDocumentsWarning")
@pytest.mark.parametrize(
    ("last", "expected"),
    [('"007"', [*map(str, range(700)), "007"]), ("7.5", [*map(str, range(700)), "7.5"]), ("7.0", [*range(700)])],
)
def test_ids_are_numbers_if_those_of_all_blocks_are_whole(tmp_path: Path, last: str, expected: list[Any]) -> None:
    lines = [f'{{"qid": {q}, "docid": {q}, "x": 1}}\n' for q in range(700)]
    (tmp_path / "a.jsonl").write_text("".join(lines) + f'{{"qid": {last}, "docid": {last}, "x": 2}}\n')
    found = convert(tmp_path / "a.jsonl", tmp_path / "a.queries")
    assert found.query_ids.tolist() == expected
    names = [*map(str, range(700)), last.strip('"').removesuffix(".0")]
    assert sorted(found.document_ids.tolist()) == sorted(names)


@pytest.mark.parametrize("ids", [[7, 2**63 - 1], [7, 2**63 + 1]])
def test_large_ids_of_tables_are_exact(tmp_path: Path, ids: list[int]) -> None:
    parquet.write_table(pa.table({"qid": np.array(ids, dtype=np.uint64), "x": [1.0, 2.0]}), tmp_path / "t.parquet")
    assert read_queries(tmp_path / "t.parquet").query_ids.tolist() == ids


@pytest.mark.usefixtures("little_memory")
def test_whole_numbers_in_csv_are_ids_unless_one_is_not(tmp_path: Path) -> None:
    rows = "".join(f"{q},1\n" for q in range(3000))
    (tmp_path / "a.csv").write_text("qid,x\n" + rows)
    assert convert(tmp_path / "a.csv", tmp_path / "a.queries").query_ids.dtype.kind == "i"
    (tmp_path / "a.csv").write_text("qid,x\n" + rows + "007,1\n")
    assert convert(tmp_path / "a.csv", tmp_path / "a.queries").query_ids.tolist() == [*map(str, range(3000)), "007"]


@pytest.mark.usefixtures("little_memory")
def test_names_that_come_up_late(tmp_path: Path) -> None:
    early = "".join(f'{{"query": {q}, "x": {q}}}\n' for q in range(500))
    (tmp_path / "a.jsonl").write_text(early + '{"y": 2, "query": 7, "z": 1.5}\n')
    graded = convert(tmp_path / "a.jsonl", tmp_path / "a.queries", missing="nan")
    assert (graded.n_unjudged, graded.grades[-1]) == (500, 2.0)
    (tmp_path / "a.jsonl").write_text(early + '{"query": 7, "x": 0, "z": 1.5}\n')
    with pytest.raises(DataError, match=r"a.jsonl:1: column 'z' has no value; choose what it becomes"):
        convert(tmp_path / "a.jsonl", tmp_path / "a.queries")
    (tmp_path / "a.jsonl").write_text(early + '{"query": 7, "z": 1.5}\n')
    found = convert(tmp_path / "a.jsonl", tmp_path / "a.queries", missing="nan")
    assert found.feature_names == ("x", "z")
    np.testing.assert_array_equal(found.X[[7, -1]], [[7, np.nan], [np.nan, 1.5]])
    only = convert(tmp_path / "a.jsonl", tmp_path / "a.queries", missing="zero", features=["z"])
    assert (only.n_features, only.X.sum(), only.n_documents) == (1, 1.5, 501)
    # "qid" takes the place of "query", which is a feature then.
    (tmp_path / "a.jsonl").write_text(early + '{"qid": 7, "z": 1.5}\n')
    with pytest.raises(DataError, match=r"a.jsonl:1: this row has no query id"):
        convert(tmp_path / "a.jsonl", tmp_path / "a.queries", missing="nan")


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("7,-3,d,1", "column 'label' is -3; grades must not be negative"),
        ("7,1,d,", "column 'x' has no value; choose"),
        ("7,1,d,+1.5", None),
        ("7,1,d,1e999", "column 'x' is inf; replace it"),
        ("7,1,d,red", "column 'x' holds 'red', not a number"),
        (",1,d,2", "this row has no query id"),
        ("7,1,d", "3 fields instead of 4"),
        ('7,1,"d,2', "a quote is never closed"),
    ],
)
def test_errors_name_the_line_in_any_block(tmp_path: Path, bad: str, said: str | None) -> None:
    good = "".join(f'{row},1,"a\nb {row}",{row}\n' for row in range(1000))
    (tmp_path / "a.csv").write_text(f"qid,label,docid,x\n{good}{bad}\n1001,1,d,1\n")
    if said is None:
        assert convert(tmp_path / "a.csv", tmp_path / "a.queries").X[7].tolist() == [7.0]
        return
    for reader in (read, lambda path: convert(path, tmp_path / "a.queries")):
        with pytest.raises(DataError) as refused:
            reader(tmp_path / "a.csv")
        assert f"a.csv:2002: {said}" in str(refused.value)


@pytest.mark.usefixtures("little_memory")
def test_rows_of_a_parquet_file_are_counted_through(tmp_path: Path) -> None:
    table = frame().fillna(0.0)
    table.loc[1234, "f2"] = np.inf
    WRITERS["t.parquet"](table.drop(columns="host"), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"row 1234 of column 'f2' is inf; replace it"):
        convert(tmp_path / "t.parquet", tmp_path / "t.queries")


@pytest.mark.usefixtures("little_memory")
def test_rows_on_disk_are_taken_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginrank.runtime.mapped_arrays, "_WRITE_BYTES", 1 << 14)
    rng = np.random.default_rng(0)
    for shape, dtype in (((1500, 30), "float32"), ((6000,), "U12")):
        array = marginrank.runtime.mapped_arrays.allocate(shape, dtype)
        array[:] = rng.integers(0, 10**9, shape)
        assert marginrank.runtime.mapped_arrays.reader_of(array) is not None
        for rows in (rng.permutation(len(array)), rng.integers(0, len(array), 2000)):
            assert np.array_equal(marginrank.runtime.mapped_arrays.take_rows(array, rows), array[rows])


def test_results_come_in_order_and_before_the_error_of_their_source() -> None:
    def numbers():
        yield from range(20)
        raise ValueError("no more")

    results = in_order(lambda k: -k, numbers(), 3)
    assert [next(results) for _ in range(20)] == [-k for k in range(20)]
    with pytest.raises(ValueError, match="no more"):
        next(results)


#: Converts a small file of each kind, which loads what is needed. Then each kind has a process of its own, which
#: converts the other two files and prints the peak of memory after each by VmHWM: that of getrusage is never below the
#: peak of the process that started this one.
CONVERT = """
import os, sys
from pathlib import Path
from marginrank.data import convert
kinds = [sys.argv[at : at + 3] for at in range(1, len(sys.argv), 3)]
for small, *_ in kinds:
    convert(small, small + ".queries")
for _, *files in kinds:
    if os.fork():
        if os.wait()[1]:
            sys.exit("converting failed")
        continue
    for path in files:
        convert(path, path + ".queries")
        lines = Path("/proc/self/status").read_text().splitlines()
        print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:")), flush=True)
    os._exit(0)
"""
KINDS = ("csv", "jsonl", "parquet")


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """The peaks of memory, in megabytes, of converting features of 38 and 96 MB with a budget of 16 MB, by kind."""
    folder, rng = tmp_path_factory.mktemp("peaks"), np.random.default_rng(0)
    values = rng.integers(0, 1 << 10, (1000, 40)) / 16.0
    names = [f"f{k}" for k in range(40)]
    rows = {
        "csv": [",".join(map(repr, row)) + "\n" for row in values.tolist()],
        "jsonl": [json.dumps(dict(zip(names, row, strict=True)))[1:] + "\n" for row in values.tolist()],
    }
    starts, heads = {"csv": "{},", "jsonl": '{{"qid": {}, '}, {"csv": f"qid,{','.join(names)}\n", "jsonl": ""}

    def write(kind: str, n: int) -> str:
        path, queries = folder / f"{n}.{kind}", rng.permutation(np.arange(n) // 20)
        if kind == "parquet":
            columns = np.resize(values, (n, 40)).T
            table = pa.table({"qid": queries} | dict(zip(names, columns, strict=True)))
            parquet.write_table(table, path, row_group_size=10_000)
        else:
            lines = (starts[kind].format(q) + rows[kind][at % 1000] for at, q in enumerate(queries.tolist()))
            path.write_text(heads[kind] + "".join(lines))
        return str(path)

    files = [write(kind, n) for kind in KINDS for n in (100, 120_000, 300_000)]
    environment = {**os.environ, VARIABLE: "16MB"}
    words = [sys.executable, "-c", CONVERT, *files]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    found = iter(map(int, done.stdout.split()))
    return {kind: [next(found), next(found)] for kind in KINDS}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_converting_takes_little_memory_whatever_the_size(peaks: dict[str, list[int]], kind: str) -> None:
    """Tables with tabs are read like those with commas."""
    few, many = peaks[kind]
    # 170, 110 and 140 MB if the budget is larger than the features.
    assert many - few < {"csv": 110, "jsonl": 60, "parquet": 60}[kind]
