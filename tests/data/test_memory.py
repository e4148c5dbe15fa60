"""Memory stays within a stated budget, which is checked before memory is taken."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import feather, parquet

from marginrank.data import Queries, read, read_letor, read_npz, read_qrels, read_table, write_letor, write_run
from marginrank.data.formats.score_file import read_scores
from marginrank.data.statistics import profile
from marginrank.data.text_arrays import as_text, join_text, text_array, text_bytes
from marginrank.errors import DataError
from marginrank.runtime.memory import max_memory

#: Reads files, each in a process of its own of at most 6 GB of addresses, and reports the peak of its memory by VmHWM:
#: that of getrusage is never below the peak of the process that started this one. What small files of all kinds need is
#: loaded once, before.
READ = """
import json, os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from marginrank import DataError, read

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))

for path in sys.argv[1:]:
    read(path)
for line in sys.stdin:
    path, environment = json.loads(line)
    if os.fork():
        status = os.wait()[1]
        if status:
            print(json.dumps({"said": f"ended with status {status}", "megabytes": -1}), flush=True)
        continue
    os.environ.update(environment)
    before = peak()
    try:
        said = [len(read(path).document_ids)]
    except DataError as error:
        said = str(error)
    print(json.dumps({"said": said, "megabytes": peak() - before}), flush=True)
    os._exit(0)
"""
SMALL = {
    "a.txt": "1 qid:1 1:1 #docid = a\n",
    "b.txt": "1 0 a 1\n",
    "c.txt": "1 Q0 a 1 0.5 x\n",
    "d.csv.gz": "qid,docid,x\n1,a,1\n1,b,+1\n",
    "e.jsonl.gz": '{"qid": 1, "x": 1}\n',
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    folder = tmp_path_factory.mktemp("small")
    for name, text in SMALL.items():
        (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    words = [sys.executable, "-c", READ, *(str(folder / name) for name in SMALL)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def peak(reader: subprocess.Popen[str]) -> Any:
    """Read a file, and return what was said and the megabytes that it took."""

    def measure(path: Path, **environment: str) -> tuple[Any, int]:
        print(json.dumps([str(path), environment]), file=reader.stdin, flush=True)
        found = json.loads(reader.stdout.readline())
        return found["said"], found["megabytes"]

    return measure


# --- long ids


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["letor", "qrels", "run"])
def test_one_long_id_does_not_make_all_of_them_long(tmp_path: Path, peak: Any, kind: str) -> None:
    forms = {"letor": "1 qid:1 1:1 #docid = {}\n", "qrels": "1 0 {} 1\n", "run": "1 Q0 {} 1 0.5 x\n"}
    names = [*(f"d{row}" for row in range(80_000)), "x" * 2000]
    path = tmp_path / "file.txt"
    path.write_text("".join(forms[kind].format(name) for name in names))
    said, megabytes = peak(path)
    assert said == [80_001]
    assert megabytes < 300  # 640 MB at fixed width, several times over
    assert read(path).document_ids.tolist() == names


def test_long_ids_can_be_used_like_others(tmp_path: Path) -> None:
    names = [*"cab", "x" * 2000]
    q = Queries.from_arrays(np.ones((4, 1)), [0, 1, 2, 3], qid=[1, 2, 1, 2], document_ids=names)
    assert q.document_ids.dtype == object
    assert q.document_names.tolist() == ["c", "a", "b", "x" * 2000]
    assert Queries.concatenate([q[0], q[1]]).document_ids.tolist() == ["c", "b", "a", "x" * 2000]
    write_run(tmp_path / "run", q, [1.0, 1.0, 1.0, 1.0])
    assert [line.split()[2] for line in (tmp_path / "run").read_text().splitlines()] == ["c", "b", "x" * 2000, "a"]
    write_letor(tmp_path / "copy.txt", q)
    assert read(tmp_path / "copy.txt").document_ids.tolist() == q.grouped.document_ids.tolist()


def test_text_takes_memory_by_its_length() -> None:
    words = [*map(str, range(10_000)), "x" * 5000]
    assert text_bytes(text_array(words)) < 1_000_000
    joined = join_text([text_array(words[:-1]), text_array(words[-1:])])
    assert joined.tolist() == words
    assert text_bytes(joined) < 1_000_000
    assert as_text(text_array(words)).tolist() == words


# --- high indices


def test_a_small_file_with_a_high_index_is_refused(tmp_path: Path, peak: Any) -> None:
    path = tmp_path / "wide.txt"
    path.write_text("1 qid:1 1:1\n0 qid:1 200000000:1 #docid = a\n")
    said, megabytes = peak(path)
    assert said == (
        f"{path}: 200,000,000 features, by the highest index, and only 2 values; "
        "check the index, or pass n_features=200000000"
    )
    assert megabytes < 100
    wide = read_letor(path, n_features=200_000_000)
    assert wide.is_sparse
    with pytest.raises(DataError, match=r"2 documents with 200,000,000 features need 1.6 GB"):
        read_letor(path, n_features=200_000_000, sparse=False, max_memory="1GB")


def test_what_would_be_large_when_dense_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    q = Queries.from_arrays(sp.csr_array((3, 10**8)), [0, 1, 2], group=[3])
    monkeypatch.setenv("MARGINRANK_MAX_MEMORY", "1GB")
    with pytest.raises(DataError, match=r"3 documents with 100,000,000 features need 2.4 GB"):
        q.dense()
    with pytest.raises(DataError, match=r"counts of 100,000,000 features need 20.0 GB"):
        profile(q)


def test_a_high_index_in_an_archive_is_refused(tmp_path: Path) -> None:
    parts = {"X.data": [1.0], "X.indices": [2 * 10**9], "X.indptr": [0, 1]}
    np.savez(tmp_path / "a.npz", y=[1], qid=[1], **parts)
    with pytest.raises(DataError, match=r"a.npz: 2,000,000,001 features, by the highest index, and only 1 value;"):
        read_npz(tmp_path / "a.npz")


# --- compressed data


def bomb(text: str) -> bytes:
    """Return a gigabyte of text in some megabytes. Rows differ in the first part, which is all that is ever read."""
    n = (1 << 20) // len(text)
    first, rest = "".join(map(text.format, range(n))), text.format(n) * n
    return gzip.compress(first.encode(), 6) * 32 + gzip.compress(rest.encode(), 6) * 992


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["1 qid:1 1:1\n", "1 qid:{} 1:1\n", "1 qid:1 1:1 #docid = a\n", "1", "1 0 {} 1\n", "1 Q0 {} 1 0.5 x\n"],
    ids=["rows", "queries", "ids", "one line", "qrels", "run"],
)
def test_a_bomb_is_stopped(tmp_path: Path, peak: Any, text: str) -> None:
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(bomb(text))
    said, megabytes = peak(path, MARGINRANK_MAX_MEMORY="10MB")
    assert f"{path}: " in said
    assert "of memory, and max_memory is 10.0 MB; " in said
    assert "MARGINRANK_MAX_MEMORY higher" in said
    assert megabytes < 600


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "head", "text"),
    [
        ("bomb.csv.gz", "qid,x\n", "1,1\n"),
        ("bomb.csv.gz", "qid,docid,x\n", "1,d{},1\n"),
        ("bomb.csv.gz", 'qid,x\n1,"', "1,1\n"),
        ("bomb.csv.gz", "qid,x\n1,+1\n", "1,1\n"),
        ("bomb.jsonl.gz", "", '{{"qid": 1, "x": 1}}\n'),
        ("bomb.jsonl.gz", "", '{{"qid": "q{}", "x": 1}}\n'),
    ],
    ids=["csv", "csv ids", "csv quote", "csv by line", "jsonl", "jsonl ids"],
)
def test_a_bomb_with_columns_is_stopped(tmp_path: Path, peak: Any, name: str, head: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(head.encode()) + bomb(text))
    said, megabytes = peak(path, MARGINRANK_MAX_MEMORY="10MB")
    assert f"{path}:" in said
    assert ": a quote is never closed" in said or "of memory, and max_memory is 10.0 MB; " in said
    assert megabytes < 600


def test_scores_and_sizes_are_stopped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARGINRANK_MAX_MEMORY", "20MB")
    path = tmp_path / "scores.gz"
    path.write_bytes(gzip.compress(b"1\n" * 1_000_000) * 50)
    with pytest.raises(DataError, match=r"scores need .* of memory"):
        read_scores(path)
    (tmp_path / "data").write_text("1 1:1\n")
    (tmp_path / "data.query.gz").write_bytes(gzip.compress(b"0\n" * 1_000_000) * 50)
    with pytest.raises(DataError, match=r"sizes need .* of memory"):
        read_letor(tmp_path / "data")


def test_archives_and_tables_are_stopped_too(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((10**5, 100)), y=np.zeros(10**5), group=[10**5])
    with pytest.raises(DataError, match=r"a.npz: the arrays of this archive need 80.8 MB"):
        read_npz(tmp_path / "a.npz", max_memory="50MB")
    table = pa.table({"qid": np.zeros(10**6, dtype=int), "y": np.zeros(10**6, dtype=int), "f": np.zeros(10**6)})
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, tmp_path / "a.feather")
    for name in ("a.parquet", "a.feather"):
        with pytest.raises(DataError, match=r"max_memory is 10.0 MB"):
            read_table(tmp_path / name, max_memory="10MB")
        assert read_table(tmp_path / name).n_documents == 10**6


def test_readers_take_a_budget(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:1\n" * 100_000)
    with pytest.raises(DataError, match=r"a.txt: .* need .*, and max_memory is 100 bytes"):
        read(tmp_path / "a.txt", max_memory=100)
    (tmp_path / "a.qrels").write_text("".join(f"1 0 d{k} 1\n" for k in range(1000)))
    with pytest.raises(DataError, match=r"a.qrels: .* need .*, and max_memory is 1.0 KB"):
        read_qrels(tmp_path / "a.qrels", max_memory="1KB")


# --- the budget


def test_the_budget_is_below_what_the_process_may_have() -> None:
    assert 0 < max_memory() <= 0.8 * int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9));"
        "from marginrank.runtime.memory import max_memory; print(max_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 800_000_000


@pytest.mark.parametrize("word", ["", "x", "-1", "1.5X", "1e9", "GB"])
def test_a_budget_that_is_no_size_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="give bytes, or a size such as '8GB'"):
        max_memory(word)
