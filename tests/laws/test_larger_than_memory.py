"""Data that is larger than the budget of memory is read a few rows at a time, and nothing comes out otherwise."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import marginrank.data.formats.letor
import marginrank.runtime.mapped_arrays
from marginrank import DataError, Queries, Ranker, read, tune
from marginrank.data.fingerprint import fingerprint
from marginrank.data.formats.binary import write_binary
from marginrank.data.formats.text_files import line_blocks
from marginrank.data.reader import convert
from marginrank.runtime.mapped_arrays import allocate, blocks, flush_rows, is_large, reader_of, take_rows
from marginrank.runtime.memory import VARIABLE
from marginrank.scorers import Additive, Linear


def judged(n_queries, n_features, *, gaps=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_queries * 20, n_features), dtype=np.float32) * np.float32(3.0)
    hidden = X[:, :4] @ [1.0, -0.5, 0.2, 0.1] + 3.0 * rng.standard_normal(len(X))
    if gaps:
        X[rng.random(X.shape) < 0.01] = np.nan
    grades = np.digitize(hidden, [2.0, 5.0])
    return Queries.from_arrays(X, grades, qid=np.repeat(np.arange(n_queries), 20), allow_nan=True)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.queries"
    write_binary(path, judged(1500, 50))
    return path


@pytest.fixture(scope="module")
def file_with_gaps(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "gaps.queries"
    write_binary(path, judged(1500, 50, gaps=True))
    return path


@pytest.fixture
def little_memory(monkeypatch):
    take_memory(monkeypatch, "8MB")


def take_memory(monkeypatch, budget):
    """Leave a budget that features do not fit in, and read them in several blocks."""
    monkeypatch.setenv(VARIABLE, budget)
    monkeypatch.setattr(marginrank.runtime.mapped_arrays, "BLOCK_BYTES", 1 << 20)


def outcome(ranker, queries):
    return ranker.coef_.tobytes(), ranker.objective_, ranker.gap_, ranker.predict(queries[:50]).tobytes()


on_disk = marginrank.runtime.mapped_arrays._on_disk
RANKERS = {
    "scaled": Ranker("svmmap"),
    "as it is": Ranker("svmmap", scaling=None),
    "by query": Ranker("svmauc", scaling="query-minmax"),
    "smooth": Ranker("ranksvm-squared"),
    "steps": Ranker("svmmap", scorer=Additive(bins=8, shape="steps")),
    "lines": Ranker("svmmap", scorer=Additive(bins=8)),
}


@pytest.mark.parametrize("name", RANKERS)
def test_the_model_is_the_same_bit_for_bit(name, file, monkeypatch):
    ranker = RANKERS[name].set_params(solver="auto(max_iter=3)")
    expected = outcome(ranker.fit(read(file)), read(file))
    monkeypatch.setenv(VARIABLE, "1MB")
    monkeypatch.setattr(marginrank.runtime.mapped_arrays, "BLOCK_BYTES", 1 << 16)
    made = []
    monkeypatch.setattr(
        marginrank.runtime.mapped_arrays, "_on_disk", lambda *given: made.append(given) or on_disk(*given)
    )
    queries = read(file)
    assert reader_of(queries.X) is not None
    assert outcome(ranker.fit(queries), queries) == expected
    assert bool(made) == (name != "as it is")


@pytest.mark.parametrize("missing", ["zero", "mean", "indicator"])
def test_missing_values_are_replaced_the_same_way(missing, file_with_gaps, monkeypatch):
    ranker = Ranker("svmmap", scorer=Linear(missing=missing), solver="auto(max_iter=2)")
    expected = outcome(ranker.fit(read(file_with_gaps)), read(file_with_gaps))
    take_memory(monkeypatch, "4MB")
    queries = read(file_with_gaps)
    assert reader_of(queries.X) is not None
    assert outcome(ranker.fit(queries), queries) == expected


def test_scores_fingerprints_keys_and_folds_are_the_same(file, monkeypatch):
    def facts():
        queries, ranker = read(file), Ranker("svmmap", solver="auto(max_iter=1)")
        chosen = tune(ranker, queries, folds=2, Cs=[1.0]).to_dict()
        scores = ranker.fit(queries).predict(queries)
        picked = queries[np.arange(0, 1500, 2)]
        return fingerprint(queries), queries.document_keys.tobytes(), scores.tobytes(), chosen, fingerprint(picked)

    expected = facts()
    take_memory(monkeypatch, "4MB")
    assert reader_of(read(file).X) is not None
    assert facts() == expected


@pytest.mark.usefixtures("little_memory")
def test_rows_are_those_of_the_file_on_any_number_of_threads(file):
    X = read(file).X
    reader = reader_of(X)
    assert is_large(X)
    assert reader is not None
    assert np.array_equal(np.concatenate([block.copy() for _, block in blocks(X)]), X)
    assert np.array_equal(reader.rows(7, 19), X[7:19])
    part = reader.rows(7, 19)
    assert part is not reader.rows(8, 9)
    assert np.array_equal(reader.rows(29_999, 30_000), X[-1:])
    selected = read(file)[100:1400]
    assert np.array_equal(reader_of(selected.X).rows(0, 5), X[2000:2005])
    assert reader_of(np.ones((10, 2))) is None
    assert reader_of(X[:, :2]) is None


@pytest.mark.usefixtures("little_memory")
def test_a_file_may_be_replaced_or_cut_while_it_is_open(file, tmp_path):
    copy = tmp_path / "copy.queries"
    copy.write_bytes(file.read_bytes())
    X = read(copy).X
    reader, first = reader_of(X), X[:3].copy()
    (tmp_path / "other").write_bytes(b"something else")
    (tmp_path / "other").replace(copy)
    assert np.array_equal(reader.rows(0, 3), first)
    short = tmp_path / "short.queries"
    short.write_bytes(file.read_bytes())
    reader = reader_of(read(short).X)
    os.truncate(short, 1000)
    with pytest.raises(DataError, match="truncated while it was read"):
        reader.rows(20_000, 20_010)


@pytest.mark.usefixtures("little_memory")
def test_room_is_on_disk_where_memory_has_none(monkeypatch):
    out = allocate((3000, 1000), np.float64)
    assert isinstance(out, np.memmap)
    for rows, block in blocks(np.arange(3000.0)):
        out[rows] = block[:, None]
        flush_rows(out, rows)
    assert out[:, 7].tolist() == list(range(3000))
    assert take_rows(out, np.array([5, 2999, 0]))[:, 0].tolist() == [5, 2999, 0]
    assert not isinstance(allocate((100, 1000), np.float64), np.memmap)
    monkeypatch.setenv(VARIABLE, "100MB")
    kept = [allocate((3000, 1000), np.float64) for _ in range(3)]  # 24 MB each
    assert [isinstance(one, np.memmap) for one in kept] == [False, False, True]
    kept.clear()
    assert not isinstance(allocate((3000, 1000), np.float64), np.memmap)


@pytest.mark.usefixtures("little_memory")
def test_a_full_disk_is_an_error_and_not_a_crash(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(marginrank.runtime.mapped_arrays.os, "posix_fallocate", full)
    with pytest.raises(DataError, match=r"needs 24.0 MB, more than half of max_memory, 8.0 MB.*set TMPDIR"):
        allocate((3000, 1000), np.float64)


MEASURE = """
import json, sys, threading
from marginrank import Ranker, read

# Pages of files are not counted: the system takes them back when it needs them.
def anonymous():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["RssAnon"].split()[0]) * 1024

small = read(sys.argv[1])
ranker = Ranker("svmmap", solver="auto(max_iter=2)", n_jobs=2)
ranker.fit(small).predict(small)  # what is compiled and imported is not counted
before, seen, done = anonymous(), [], threading.Event()

def watch():
    while not done.wait(0.003):
        seen.append(anonymous())

watching = threading.Thread(target=watch)
watching.start()
queries = read(sys.argv[2])
ranker.fit(queries).predict(queries)
done.set()
watching.join()
print(json.dumps([max(seen) - before, queries.X.nbytes, 8 * queries.n_documents]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")  # noqa: PTH110
def test_training_takes_little_memory_beside_its_budget(file, tmp_path):
    write_binary(tmp_path / "large.queries", judged(4000, 200))
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, str(file), str(tmp_path / "large.queries")],
        env={**os.environ, VARIABLE: "8MB"},
        capture_output=True,
        text=True,
        check=True,
    )
    grown, features, per_document = json.loads(result.stdout)
    assert features == 64_000_000
    # Half of the budget for copies, blocks of rows in float64, and numbers for each document.
    assert grown < 4e6 + 40e6 + 20 * per_document


@pytest.mark.parametrize("options", [{}, {"missing": "min"}, {"dtype": "float64", "missing": "nan"}, {"regroup": True}])
@pytest.mark.parametrize("kind", ["rectangular", "ragged"])
def test_text_is_converted_on_disk_to_the_same_file(options, kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((1000, 12)).round(3)
    lines = []
    for row in range(1000):
        query = row // 10 if row < 980 or "regroup" not in options else 3
        pairs = [f"{f + 1}:{value}" for f, value in enumerate(values[row]) if kind == "rectangular" or (row + f) % 7]
        if row % 5 == 0 and "missing" in options:
            pairs[3] = f"{pairs[3].partition(':')[0]}:NULL"
        lines.append(f"{row % 3} qid:{query} {' '.join(pairs)} #docid = d{row}\n")
    (tmp_path / "a.txt").write_text("".join(lines))
    convert(tmp_path / "a.txt", tmp_path / "memory.queries", **options)
    monkeypatch.setenv(VARIABLE, "200KB")
    monkeypatch.setattr(marginrank.runtime.mapped_arrays, "BLOCK_BYTES", 1 << 12)
    original = line_blocks
    monkeypatch.setattr(
        marginrank.data.formats.letor, "line_blocks", lambda path, budget: original(path, 1 << 13, budget)
    )
    moved = []
    monkeypatch.setattr(
        marginrank.data.formats.letor,
        "SpillFile",
        lambda: moved.append(1) or marginrank.runtime.mapped_arrays.SpillFile(),
    )
    convert(tmp_path / "a.txt", tmp_path / "disk.queries", **options)
    assert moved
    assert (tmp_path / "disk.queries").read_bytes() == (tmp_path / "memory.queries").read_bytes()
