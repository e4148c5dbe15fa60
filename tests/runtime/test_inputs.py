"""What is read is all that is there: pipes, line ends, encodings, long ids."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from marginrank.data import Qrels, Queries, Run, convert, read, read_letor, write_binary, write_letor, write_parquet
from marginrank.data.formats.score_file import read_scores
from marginrank.data.formats.text_files import line_blocks
from marginrank.errors import DataError

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")


def many_queries(n: int = 3000) -> Queries:
    rng = np.random.default_rng(0)
    return Queries.from_arrays(
        rng.integers(0, 9, (n, 20)) / 8,
        rng.integers(0, 3, n),
        qid=np.arange(n) // 10,
        document_ids=[f"d{row}" for row in range(n)],
    )


@pytest.fixture
def through_pipe(tmp_path: Path) -> Callable[..., Path]:
    """Make a named pipe that a thread writes a file to, once."""

    def make(source: Path, suffix: str = "") -> Path:
        pipe = tmp_path / f"pipe{suffix}"
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_bytes, args=(source.read_bytes(),), daemon=True).start()
        return pipe

    return make


def write_npz(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


# --- pipes

WRITERS: dict[str, Callable[[Path, Queries], Any]] = {
    "text": write_letor,
    "binary": write_binary,
    "parquet": write_parquet,
    "npz": lambda path, q: write_npz(
        path, X=q.X, y=q.grades, qid=np.repeat(q.query_ids, q.lengths), document_ids=q.document_ids
    ),
    "arrow": lambda path, q: feather.write_feather(
        pa.table(
            {"qid": np.repeat(q.query_ids, q.lengths), "y": q.grades, "docid": q.document_ids.tolist()}
            | {f"f{k}": q.X[:, k] for k in range(q.n_features)}
        ),
        path,
    ),
}


@needs_pipes
@pytest.mark.parametrize("kind", WRITERS)
def test_every_row_comes_through_a_pipe(tmp_path: Path, through_pipe: Callable[..., Path], kind: str) -> None:
    expected = many_queries()
    WRITERS[kind](tmp_path / "file", expected)
    found = read(through_pipe(tmp_path / "file"))
    assert isinstance(found, Queries)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.document_ids, expected.document_ids)


@needs_pipes
@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_compressed_text_comes_through_a_pipe(tmp_path: Path, through_pipe: Callable[..., Path], suffix: str) -> None:
    write_letor(tmp_path / f"file{suffix}", many_queries())
    assert read_letor(through_pipe(tmp_path / f"file{suffix}", suffix)).n_documents == 3000


@needs_pipes
def test_compressed_text_without_a_name_is_refused(tmp_path: Path, through_pipe: Callable[..., Path]) -> None:
    (tmp_path / "file").write_bytes(gzip.compress(b"1 qid:1 1:1\n"))
    with pytest.raises(DataError, match="this is compressed data; decompress it into the pipe"):
        read(through_pipe(tmp_path / "file"))


@needs_pipes
@pytest.mark.parametrize(("text", "kind"), [("1 0 a 1\n", Qrels), ("1 Q0 a 1 0.5 x\n", Run)])
def test_trec_files_come_through_a_pipe(
    tmp_path: Path, through_pipe: Callable[..., Path], text: str, kind: type
) -> None:
    (tmp_path / "file").write_text("".join(text.replace("a", f"a{k}") for k in range(5000)))
    found = read(through_pipe(tmp_path / "file"))
    assert isinstance(found, kind)
    assert len(found.document_ids) == 5000


@needs_pipes
def test_a_pipe_is_converted(tmp_path: Path, through_pipe: Callable[..., Path]) -> None:
    write_letor(tmp_path / "file", many_queries())
    assert convert(through_pipe(tmp_path / "file"), tmp_path / "new.queries").n_documents == 3000


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no process substitution")
def test_the_command_line_reads_all_of_a_pipe(tmp_path: Path) -> None:
    write_letor(tmp_path / "file.txt", many_queries())
    command = f"{sys.executable} -m marginrank inspect <(cat file.txt) --json"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=True, timeout=120)
    assert b'"documents": 3000' in done.stdout


def test_a_device_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARGINRANK_MAX_MEMORY", "10MB")
    with pytest.raises(DataError, match=r"^/dev/zero: the data of this pipe need .* max_memory is 10.0 MB"):
        read("/dev/zero")


# --- line ends


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("size", [4, 5, 7, 4 << 20])
def test_lines_may_end_as_they_like(tmp_path: Path, end: bytes, last: bool, size: int) -> None:
    lines = [b"1 qid:1 1:1", b"", b"0 qid:1 1:2 #docid = a", b"2 qid:2 1:3"]
    (tmp_path / "file").write_bytes(end.join(lines) + (end if last else b""))
    assert b"".join(line_blocks(tmp_path / "file", size)).replace(b"\r", b"") == b"\n".join(lines) + b"\n"
    found = read_letor(tmp_path / "file")
    assert found.X.tolist() == [[1], [2], [3]]
    assert found.document_ids.tolist() == ["", "a", ""]


def test_errors_count_carriage_returns_as_lines(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1 qid:1 1:1\r1 qid:1 1:x\r")
    with pytest.raises(DataError, match=r":2:11: 'x' is not a number"):
        read_letor(tmp_path / "file")


def test_many_carriage_returns_take_no_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\r" * 3_000_000 + b"1 qid:1 1:1")
    assert sum(map(len, line_blocks(tmp_path / "file", 1 << 16))) == 3_000_012


# --- encodings


def test_ids_in_another_encoding_come_back_byte_for_byte(tmp_path: Path) -> None:
    text = b"1 qid:M\xfcller 1:1 #docid = caf\xe9\n0 qid:M\xfcller 1:2 #docid = \xc3\xa9\n"
    (tmp_path / "file").write_bytes(text)
    found = read_letor(tmp_path / "file")
    assert found.query_ids.tolist() == ["M\udcfcller"]
    assert found.document_ids.tolist() == ["caf\udce9", "é"]
    convert(tmp_path / "file", tmp_path / "file.queries")
    convert(tmp_path / "file.queries", tmp_path / "copy.txt")
    assert (tmp_path / "copy.txt").read_bytes() == text
    with pytest.raises(DataError, match="an id is not UTF-8"):
        write_parquet(tmp_path / "copy.parquet", found)


# --- scores


def test_scores_are_read(tmp_path: Path) -> None:
    (tmp_path / "scores").write_bytes(b"0.5\r\n -1e3\n+.5\n-inf\nInfinity\n7.\n\n")
    assert read_scores(tmp_path / "scores").tolist() == [0.5, -1000, 0.5, -np.inf, np.inf, 7]
    with lzma.open(tmp_path / "scores.xz", "wb") as file:
        file.write(b"1\r2\r")
    assert read_scores(tmp_path / "scores.xz").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1\n1_0\n", ":2: '1_0' is not a score"),
        ("1\n2\n1e400\n", ":3: '1e400' is too large for a double"),
        ("-1e400\n", ":1: '-1e400' is too large for a double"),
        ("1\nnan\n", ":2: 'nan' is not a score"),
        ("1\n\n2\n", ":2: '' is not a score"),
        ("", ":1: '' is not a score"),
        ("\n\n", ":1: '' is not a score"),
        ("1\n0x10\n", ":2: '0x10' is not a score"),
        ("1 2\n", ":1: '1 2' is not a score"),
        ("1\x0e\n", ":1: '1\\x0e' is not a score"),
        ("1\x0b\n", ":1: '1\\x0b' is not a score"),
        ("1\n\x0c2\n", ":2: '\\x0c2' is not a score"),
    ],
)
def test_what_is_no_score_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "scores"
    path.write_text(text)
    with pytest.raises(DataError) as refused:
        read_scores(path)
    assert str(refused.value).startswith(f"{path}{problem}")
