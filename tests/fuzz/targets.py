"""What is fuzzed: for each kind of file, how to draw one, and what has to hold for whatever is read from it."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather, ipc, parquet

from marginrank import Queries, Ranker, load
from marginrank.data import (
    formats,
    read_delimited,
    read_json_lines,
    read_npz,
    read_qrels,
    read_run,
    read_table,
    write_binary,
)
from marginrank.data.formats.binary import QUERY_SETS
from marginrank.data.formats.letor import read_letor
from marginrank.data.formats.score_file import read_scores
from marginrank.data.queries import check_finite
from marginrank.data.reader import read
from marginrank.errors import ColumnsLeftOutWarning, DataError, NumericalError
from marginrank.model.file_format import _MODELS
from marginrank.runtime.array_file import Content, read_array_file, write_array_file
from marginrank.scorers import Additive, Kernel
from tests.data.formats.reference_letor import LINE_END, RefusedError, parse
from tests.data.formats.test_letor_fuzz import NUMBER_FORMS, PLAIN_NUMBERS, assert_same, make_file
from tests.fuzz.damaging import BYTES, ODD_WORDS, TEXT, Damage, damaged, damaged_header, damaged_value
from tests.fuzz.reference_named import DoubtfulError, parse_csv, parse_json_lines
from tests.fuzz.reference_text import parse_scores, parse_trec

FAMILIES = (_MODELS, QUERY_SETS)
#: What a file without a reference is held to: reads, and keeps the laws of its kind.
Check = Callable[[Path, bytes], bool]


@dataclass(frozen=True)
class Target:
    """A kind of file.

    Args:
        suffix: Suffix of its files.
        draw: Draws the content of a file from a seed.
        check: Reads the file; returns whether it was taken. A refusal that is right is a `DataError` with the path.
    """

    suffix: str
    draw: Callable[[Random], bytes]
    check: Check


def refused(path: Path, call: Callable[[], Any]) -> Any:
    """Return what is read, or None where it is refused as it should be; any other error is a finding."""
    try:
        return call()
    except DataError as error:
        if error.path != str(path) or not error.problem or "\n" in str(error):
            raise AssertionError(f"an error that does not help: {error!r}") from error
        return None


# --- text, against a reference


def check_letor(path: Path, data: bytes) -> bool:
    """The reader agrees with the reference bit for bit."""
    try:
        expected = parse(data)
    except RefusedError:
        expected = None
    contents = [line.split(b"#")[0].strip(b" \t") for line in LINE_END.split(data.removeprefix(b"\xef\xbb\xbf"))]
    group = None if any(b"qid:" in content.lower() for content in contents) else [sum(map(bool, contents))]
    found = refused(path, partial(read_letor, path, group=group, dtype=np.float64, n_jobs=1))
    assert (found is None) == (expected is None), "the reference disagrees"
    if expected is not None:
        assert_same(found, expected, np.float64)
    return found is not None


def check_trec(path: Path, data: bytes, *, reader: Callable[[Path], Any], columns: int, number: int) -> bool:
    """Topics, documents and numbers are those of the reference."""
    try:
        expected = parse_trec(data, columns, number)
    except RefusedError:
        expected = None
    found = refused(path, partial(reader, path))
    assert (found is None) == (expected is None), "the reference disagrees"
    if expected is None:
        return False
    numbers = np.array([x for _, x in expected.pairs])
    numbers = np.where(numbers < 0, np.nan, numbers) if columns == 4 else numbers
    assert [encoded(topic) for topic in found.topics] == list(expected.topics)
    assert np.diff(found.offsets).tolist() == [len(documents) for documents in expected.topics.values()]
    assert [encoded(name) for name in found.document_ids] == [name for name, _ in expected.pairs]
    np.testing.assert_array_equal(found.grades if columns == 4 else found.scores, numbers)
    return True


def encoded(name: str) -> bytes:
    return str(name).encode("utf-8", "surrogateescape")


def check_scores(path: Path, data: bytes) -> bool:
    """One number per line, those of the reference."""
    try:
        expected = parse_scores(data)
    except RefusedError:
        expected = None
    found = refused(path, partial(read_scores, path))
    assert (found is None) == (expected is None), "the reference disagrees"
    if expected is not None:
        np.testing.assert_array_equal(found, expected)
    return found is not None


def frames(data: bytes) -> Iterator[bytes]:
    """Unpack frame after frame; one that is cut short is an error."""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(data)
        if not frame.eof:
            raise EOFError
        data = frame.unused_data


UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda data: b"".join(frames(data)),
}
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def check_packed(path: Path, data: bytes) -> bool:
    """What does not unpack is refused; what does is read as the text is."""
    try:
        text = UNPACK[path.suffix](data)
        expected = parse(text)
    except Exception:
        expected = None
    found = refused(path, partial(read_letor, path, group=None, dtype=np.float64, n_jobs=1))
    if expected is None or not expected.has_queries:
        assert found is None, "read what does not unpack"
        return False
    assert found is not None, "the reference disagrees"
    assert_same(found, expected, np.float64)
    return True


def trec_file(rng: Random, columns: int) -> bytes:
    topics = rng.sample(["1", "2", "007", "a", "bé", "x/y"], rng.randint(1, 3))
    lines = []
    for topic in topics:
        for name in rng.sample(["d1", "d2", "FT-3", "é", "-1", "0"], rng.randint(1, 4)):
            value = rng.choice(PLAIN_NUMBERS + NUMBER_FORMS)(rng)
            words = [topic, "0", name, value] if columns == 4 else [topic, "Q0", name, str(len(lines)), value, "tag"]
            lines.append(rng.choice([" ", " ", "\t", "  "]).join(words))
    return "\n".join(lines).encode() + rng.choice([b"\n", b"", b"\r\n"])


def scores_file(rng: Random) -> bytes:
    lines = [rng.choice(PLAIN_NUMBERS + NUMBER_FORMS)(rng) for _ in range(rng.randint(1, 6))]
    return "\n".join(lines).encode() + b"\n"


def letor_file(rng: Random) -> bytes:
    return make_file(rng.getrandbits(64), PLAIN_NUMBERS if rng.random() < 0.7 else NUMBER_FORMS)


def packed(rng: Random, suffix: str) -> bytes:
    text = b"2 qid:1 1:0.5 2:1\n0 qid:1 1:0.25\n1 qid:b 2:3 # d\n" * rng.choice([1, 1, 50])
    return PACK[suffix](text.replace(b"1:0.5", f"1:{rng.random()}".encode()))


# --- columns by name, against Python's csv and json

#: What a damaged field may become.
ODD_FIELDS = [
    *ODD_WORDS, b"", b'""', b'"a,b"', b'"a""b"', b'"a\nb"', b'"', b'a"b', b"True", b" 1 ", b"NA", b"N/A", b"None",
    b"+1", b"1.", b".5", b"infinity", b"nan(1)", b"007", b"\xe9", b"1;2", b"1\t2", b"null", b"[1]", b"{}", b'"\\ud800"',
    b"-0",
]  # fmt: skip


def replace_field(rng: Random, data: bytes) -> bytes:
    """Put an odd word in place of a field of a line."""
    cells = re.split(rb"([,;\t\n:])", data)
    cells[2 * rng.randrange((len(cells) + 1) // 2)] = rng.choice(ODD_FIELDS)
    return b"".join(cells)


def csv_file(rng: Random, separator: str) -> bytes:
    names = rng.sample(["f1", "f2", "a b", 'c"d'], rng.randint(1, 3))
    lines = io.StringIO(newline="")
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(lines, delimiter=separator, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writerow(["qid", "grade", "docid", *names])
    ids = ["d1", "d,2", 'd"3', "é", "", "d\n4", "007"]
    for query in sorted(rng.choice(["1", "2", "007", "b;é"]) for _ in range(rng.randint(1, 5))):
        values = [rng.choice(["", str(rng.random()), "-3", "1e-300", "NA"]) for _ in names]
        writer.writerow([query, rng.randint(0, 3), rng.choice(ids), *values])
    return rng.choice(["", "", "\ufeff"]).encode() + lines.getvalue().encode()


def json_file(rng: Random) -> bytes:
    names = rng.sample(["f1", "f2", "a b"], rng.randint(1, 3))
    records = []
    for _ in range(rng.randint(1, 5)):
        values = {name: rng.choice([None, rng.random(), 7, -3, True, float("nan")]) for name in names}
        record = {
            "qid": rng.choice(["a", "007", "7"]),
            "grade": rng.randint(0, 3),
            "docid": rng.choice(["é", ""]),
            **values,
        }
        records.append(
            {name: value for name, value in record.items() if name in ("qid", "grade") or rng.random() < 0.9}
        )
    return "".join(json.dumps(record, ensure_ascii=rng.random() < 0.5) + "\n" for record in records).encode()


def check_named(
    path: Path, data: bytes, *, reader: Callable[..., Queries], reference: Callable[[bytes], dict[str, Any]]
) -> bool:
    """Columns are those of the reference, if that reads the file; the laws hold for all files.

    Half of the files are read in blocks of a few lines.
    """
    with pytest.MonkeyPatch.context() as patch:
        if len(data) % 2:
            patch.setattr(formats.csv, "TEXT_BLOCK_BYTES", 64)
            patch.setattr(formats.json_lines, "TEXT_BLOCK_BYTES", 64)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = refused(path, partial(reader, path, missing="nan"))
    if found is not None:
        lawful(found)
    # The reference refuses columns of text, which are left out with a warning.
    if any(issubclass(warning.category, ColumnsLeftOutWarning) for warning in caught):
        return found is not None
    try:
        expected = reference(data)
    except DoubtfulError:
        return found is not None
    except RefusedError:
        expected = None
    assert (found is None) == (expected is None), "the reference disagrees"
    if expected is None:
        return False
    assert list(found.feature_names) == list(expected["X"])
    assert found.query_ids[found.query_of_row].tolist() == expected["qid"]
    np.testing.assert_array_equal(found.grades, expected["grade"])
    assert found.document_ids is not None
    assert found.document_ids.tolist() == expected["docid"]
    np.testing.assert_array_equal(found.X.T, list(expected["X"].values()))
    return True


# --- binary, by what must hold


def lawful(queries: Queries) -> None:
    """Everything that the rest of the package takes for granted, by plain means."""
    n, offsets = queries.n_documents, queries.query_offsets
    assert offsets[0] == 0
    assert offsets[-1] == n
    assert (np.diff(offsets) >= 0).all()
    assert len(queries.query_ids) == len(offsets) - 1 == len(queries)
    assert len(set(map(str, queries.query_ids.tolist()))) <= len(queries)
    if queries.has_grades:
        assert queries.grades.shape == (n,)
        assert queries.grades.dtype == np.float64
        assert not np.isinf(queries.grades).any()
        assert not (queries.grades < 0).any()
    X = queries.X
    assert X.shape[0] == n
    assert X.dtype in (np.float32, np.float64)
    if queries.is_sparse:
        assert X.indptr[0] == 0
        assert X.indptr[-1] == len(X.indices) == len(X.data)
        assert (np.diff(X.indptr) >= 0).all()
        assert not len(X.indices) or (X.indices.min() >= 0 and X.indices.max() < X.shape[1])
        for row in range(n):
            assert (np.diff(X.indices[X.indptr[row] : X.indptr[row + 1]]) > 0).all()
    if queries.query_weights is not None:
        weights = queries.query_weights
        assert weights.shape == (len(queries),)
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
    for column in (queries.document_ids, queries.document_groups):
        assert column is None or column.shape == (n,)
    if queries.feature_names is not None:
        assert len(queries.feature_names) == queries.n_features
        assert all(isinstance(name, str) for name in queries.feature_names)


def check_queries(path: Path, data: bytes, *, reader: Callable[[Path], Any]) -> bool:
    """What is read keeps the laws, and can be counted, sliced and touched."""
    found = refused(path, partial(reader, path))
    if found is None:
        return False
    lawful(found)
    repr(found)
    if not np.isfinite(found.X.data if found.is_sparse else found.X).all():
        # The binary form is mapped into memory: features are read when they are used.
        with pytest.raises(DataError, match="X"):
            check_finite(found.X, allow_nan=False)
    found[: len(found) // 2 + 1].dense()
    return True


def some_queries(rng: Random, *, sparse: bool | None = None) -> Queries:
    import scipy.sparse as sp

    n, d = rng.randint(2, 9), rng.randint(1, 4)
    values = np.array([[rng.choice([0.0, 0.5, -3.0, rng.random()]) for _ in range(d)] for _ in range(n)])
    is_sparse = rng.random() < 0.5 if sparse is None else sparse
    return Queries.from_arrays(
        sp.csr_array(values) if is_sparse else values.astype(rng.choice([np.float32, np.float64])),
        [rng.randint(0, 3) for _ in range(n)],
        qid=sorted(rng.choice(["a", "bé", "c"]) for _ in range(n)),
        document_ids=[f"d{k}" for k in range(n)] if rng.random() < 0.7 else None,
        feature_names=[f"f{k}" for k in range(d)] if rng.random() < 0.5 else None,
    )


def some_table(rng: Random) -> pa.Table:
    queries = some_queries(rng, sparse=False)
    columns: dict[str, Any] = {
        "qid": pa.array(np.repeat(queries.query_ids, queries.lengths).astype(str)),
        "grade": pa.array(queries.grades.astype(rng.choice(["i4", "f8"]))),
        "document_id": pa.array([f"d{k}" for k in range(queries.n_documents)]),
    }
    for k in range(queries.n_features):
        values = np.ascontiguousarray(queries.X[:, k])
        columns[f"f{k}"] = pa.array(values)
    if rng.random() < 0.3:
        columns["qid"] = columns["qid"].dictionary_encode()
    if rng.random() < 0.3:
        columns["grade"] = pa.array([None, *queries.grades[1:]])
    return pa.table(columns)


#: Number of good files of a kind, some of which take a while to make.
GOOD_FILES = 30


@cache
def written(kind: str, seed: int) -> bytes:
    """Return one of some good files."""
    rng = Random(seed)
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        match kind:
            case "binary":
                path = path.with_suffix(".queries")
                write_binary(path, some_queries(rng))
            case "npz":
                queries = some_queries(rng, sparse=False)
                qid = np.repeat(queries.query_ids, queries.lengths).astype(str)
                save = rng.choice([np.savez, np.savez_compressed])
                save(path.with_suffix(".npz"), X=queries.X, y=queries.grades, qid=qid)
                path = path.with_suffix(".npz")
            case "parquet":
                parquet.write_table(some_table(rng), path, compression=rng.choice(["none", "snappy", "zstd", "gzip"]))
            case "feather":
                feather.write_feather(some_table(rng), path, compression=rng.choice(["uncompressed", "lz4", "zstd"]))
            case "stream":
                table = some_table(rng)
                with pa.OSFile(str(path), "wb") as sink, ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
            case _:
                a_model(kind, rng).save(path)
        return path.read_bytes()


# --- models


def a_model(kind: str, rng: Random) -> Any:
    draw = np.random.default_rng(rng.getrandbits(32))
    X, y, qid = draw.standard_normal((24, 3)), draw.integers(0, 3, 24), np.repeat(np.arange(6), 4)
    scaling = rng.choice([None, "standard", "query-minmax"])
    rankers = {
        "linear": Ranker("svmmap", scaling=scaling),
        "additive": Ranker("ranksvm", scorer=Additive(bins=4)),
        "kernel": Ranker("svmauc", scorer=Kernel(rng.choice(["rbf", "poly"]), rank=8), scaling=scaling),
        "trees": Ranker("rankboost@5"),
        "process": Ranker("gp") if "gp" in presets() else Ranker("prank"),
    }
    return rankers[kind].fit(X, y, qid=qid)


@cache
def presets() -> Sequence[str]:
    from marginrank.methods.presets import all_presets

    return tuple(all_presets())


def check_model(path: Path, data: bytes) -> bool:
    """What is loaded scores with finite numbers, describes itself, and is written and read again."""
    ranker = refused(path, partial(load, path))
    if ranker is None:
        return False
    model = ranker.model_
    if model.n_features > 1000:
        raise AssertionError(f"{model.n_features} features from a file of {len(data)} bytes")
    X = np.linspace(-2.0, 2.0, 4 * model.n_features).reshape(4, -1)
    try:
        scores = ranker.predict(X, qid=[1, 1, 2, 2])
    except NumericalError:
        # Weights beyond any that are learned.
        assert max(np.abs(one).max(initial=0) for one in model.arrays().values()) > 1e100
        return True
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()
    assert model.describe()
    assert not model.solution.dual > model.solution.primal + 1e-9 * abs(model.solution.primal)
    again = path.with_name("again.safetensors")
    ranker.save(again)
    np.testing.assert_array_equal(load(again).predict(X, qid=[1, 1, 2, 2]), scores)
    return True


def of(kind: str, damages: Sequence[Damage], *, header: bool = False) -> Callable[[Random], bytes]:
    """Draw one of the good files and damage it; half the time, the JSON of its header."""

    def draw(rng: Random) -> bytes:
        data = written(kind, rng.randrange(GOOD_FILES))
        if header and rng.random() < 0.5:
            return damaged_header(rng, data)
        return damaged(rng, data, damages)

    return draw


#: Values that an array of numbers may not always hold.
ODD_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, -1e-300, 0.0, 1.0, 2.0, 1e308, 2.0**31, 2.0**32, 2.0**63, 3e9, -(2.0**31))


@cache
def parts(kind: str, seed: int) -> Content:
    with TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(written(kind, seed))
        content = read_array_file(path, FAMILIES[kind == "binary"])
        return replace(content, arrays={name: np.array(array) for name, array in content.arrays.items()})


def forged(kind: str) -> Callable[[Random], bytes]:
    """Draw a good file and change its header or an array, with digests that fit: damage by someone who knows how."""

    def draw(rng: Random) -> bytes:
        content = parts(kind, rng.randrange(GOOD_FILES))
        header, arrays = content.header, dict(content.arrays)
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.5:
                header = damaged_value(rng, header)
            else:
                change_array(rng, arrays)
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            path = Path(folder, "file")
            try:
                write_array_file(path, FAMILIES[kind == "binary"], content.kind, header, arrays)
            except (TypeError, ValueError):
                # A header that JSON cannot hold.
                return written(kind, 0)
            return path.read_bytes()

    return draw


def change_array(rng: Random, arrays: dict[str, Any]) -> None:
    """Change a number, the length, the shape, the type or the name of one array."""
    if not arrays:
        return
    name = rng.choice(sorted(arrays))
    array = np.array(arrays[name])
    match rng.randrange(8):
        case 0:
            arrays[name] = array[: len(array) // 2] if array.ndim else array
        case 1:
            arrays[name] = np.concatenate([array, array[:1]]) if array.ndim else array
        case 2:
            arrays[name] = rng.choice([array.reshape(-1), array.reshape(1, -1), array.reshape(-1, 1)])
        case 3:
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(rng.choice(["float64", "float32", "int64", "int32", "uint8", "bool"]))
        case 4:
            arrays[rng.choice([*sorted(arrays), "extra"])] = arrays.pop(name)
        case _:
            if array.size:
                with np.errstate(all="ignore"):
                    odd = np.asarray(rng.choice(ODD_NUMBERS)).astype(array.dtype)
                array.reshape(-1)[rng.randrange(array.size)] = odd
            arrays[name] = array


def text(draw: Callable[[Random], bytes]) -> Callable[[Random], bytes]:
    return lambda rng: damaged(rng, draw(rng), TEXT)


def named(draw: Callable[[Random], bytes]) -> Callable[[Random], bytes]:
    return lambda rng: damaged(rng, draw(rng), (*TEXT, replace_field, replace_field, replace_field))


def anything(rng: Random) -> bytes:
    return rng.randbytes(rng.randrange(200))


TARGETS: dict[str, Target] = {
    "letor": Target(".txt", text(letor_file), check_letor),
    "qrels": Target(
        ".txt", text(partial(trec_file, columns=4)), partial(check_trec, reader=read_qrels, columns=4, number=3)
    ),
    "run": Target(
        ".txt", text(partial(trec_file, columns=6)), partial(check_trec, reader=read_run, columns=6, number=4)
    ),
    "scores": Target(".txt", text(scores_file), check_scores),
    **{
        suffix[1:]: Target(suffix, lambda rng, s=suffix: damaged(rng, packed(rng, s), BYTES), check_packed)
        for suffix in PACK
    },
    **{
        name: Target(
            suffix,
            named(partial(csv_file, separator=separator)),
            partial(check_named, reader=read_delimited, reference=partial(parse_csv, separator=separator)),
        )
        for name, suffix, separator in (("csv", ".csv", ","), ("semicolons", ".csv", ";"), ("tsv", ".tsv", "\t"))
    },
    "jsonl": Target(
        ".jsonl", named(json_file), partial(check_named, reader=read_json_lines, reference=parse_json_lines)
    ),
    "binary": Target(".queries", of("binary", BYTES, header=True), partial(check_queries, reader=read)),
    "npz": Target(".npz", of("npz", BYTES), partial(check_queries, reader=read_npz)),
    "parquet": Target(".parquet", of("parquet", BYTES), partial(check_queries, reader=read_table)),
    "feather": Target(".feather", of("feather", BYTES), partial(check_queries, reader=read_table)),
    "stream": Target(".arrow", of("stream", BYTES), partial(check_queries, reader=read_table)),
    "forged-binary": Target(".queries", forged("binary"), partial(check_queries, reader=read)),
    **{
        f"forged-{kind}": Target(".safetensors", forged(kind), check_model)
        for kind in ("linear", "additive", "kernel", "trees", "process")
    },
    **{
        f"model-{kind}": Target(".safetensors", of(kind, BYTES, header=True), check_model)
        for kind in ("linear", "additive", "kernel", "trees", "process")
    },
}
