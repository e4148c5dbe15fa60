"""Reading LETOR, SVMlight and LightGBM text: what is understood, and what is refused in which words."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from marginrank.data.formats import letor
from marginrank.data.formats.letor import read_letor
from marginrank.data.formats.text_files import line_blocks
from marginrank.data.reader import read
from marginrank.errors import DataError
from marginrank.runtime.tuned_constants import TEXT_BLOCK_BYTES

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".bz2": lambda data: bz2.compress(data, 1),  # the smallest blocks
    ".zst": zstandard.ZstdCompressor().compress,
}
SMALL = b"2 qid:7 1:0.5 2:-1\n0 qid:7 1:0.25 2:3\n1 qid:9 1:1e-3 2:0\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(data: bytes | str, name: str = "train.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


def set_block(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(letor, "line_blocks", partial(line_blocks, size=size))


@cache
def long_text(n_queries: int = 40, seed: int = 1) -> bytes:
    """Queries of up to nine documents, ragged features, comments and blank lines between them."""
    rng = np.random.default_rng(seed)
    lines: list[str] = []
    for query in range(n_queries):
        for document in range(rng.integers(1, 10)):
            columns = np.flatnonzero(rng.random(6) < 0.7) + 1
            pairs = " ".join(f"{column}:{rng.normal():.17g}" for column in columns)
            lines.append(f"{rng.integers(0, 5)} qid:{query} {pairs} #docid = D{query}-{document} inc = 1")
        lines += [["", "# between", "   "][query % 3]] * int(rng.integers(0, 2))
    return "\n".join(lines).encode()


def same(a: Any, b: Any) -> bool:
    return (
        a.is_sparse == b.is_sparse
        and a.X.dtype == b.X.dtype
        and np.array_equal(a.dense(), b.dense(), equal_nan=True)
        and np.array_equal(a.grades, b.grades)
        and np.array_equal(a.offsets, b.offsets)
        and np.array_equal(a.query_ids, b.query_ids)
        and np.array_equal(a.document_ids, b.document_ids)
    )


# --- what is understood


def test_a_small_file(write: Callable[..., Path]) -> None:
    q = read_letor(write(SMALL))
    assert q.query_ids.tolist() == [7, 9]
    assert q.lengths.tolist() == [2, 1]
    assert q.grades.tolist() == [2, 0, 1]
    assert q.X.dtype == np.float32
    assert q.document_ids is None
    assert q.order is None
    np.testing.assert_array_equal(q.X, np.array([[0.5, -1], [0.25, 3], [1e-3, 0]], dtype=np.float32))


@pytest.mark.parametrize(
    "text",
    [
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.rstrip(b"\n"),
        b"\xef\xbb\xbf" + SMALL,
        b"# made by hand\n\n" + SMALL + b"\n   \n\t\r\n#\n# end",
        SMALL.replace(b" ", b"\t"),
        SMALL.replace(b" ", b"   ").replace(b"\n", b"  \n"),
        b"  " + SMALL.replace(b"\n", b"\n \t"),
        SMALL.replace(b"qid", b"QID"),
        SMALL.replace(b"\n", b"#\n"),
        SMALL.replace(b"\n", b" #\n"),
        SMALL.replace(b"1:", b"001:"),
        SMALL.replace(b"2 qid", b"+2.0e0 qid"),
    ],
    ids=[
        "CRLF", "no last line feed", "BOM", "comments and blank lines", "tabs", "many blanks", "blanks in front",
        "capitals", "empty comment at a word", "empty comment", "zeros before the index", "grade with exponent",
    ],
)  # fmt: skip
def test_the_same_data_in_other_words(write: Callable[..., Path], text: bytes) -> None:
    assert same(read_letor(write(text, "other.txt")), read_letor(write(SMALL)))


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("capital", [False, True], ids=["lower", "upper"])
def test_compressed_files(write: Callable[..., Path], suffix: str, capital: bool) -> None:
    text = long_text()
    name = f"train.txt{suffix.upper() if capital else suffix}"
    assert same(read_letor(write(COMPRESS[suffix](text), name)), read_letor(write(text)))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_in_several_parts(write: Callable[..., Path], suffix: str) -> None:
    text = long_text()
    parts = b"".join(COMPRESS[suffix](part) for part in (text[:100], text[100:777], text[777:]))
    assert same(read_letor(write(parts, f"train.txt{suffix}")), read_letor(write(text)))


def test_zstandard_without_a_size_in_its_header(write: Callable[..., Path]) -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    data = stream.compress(long_text()) + stream.flush()
    assert same(read_letor(write(data, "train.zst")), read_letor(write(long_text())))


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("#docid = GX000-00-0000000 inc = 1 prob = 0.0246906", "GX000-00-0000000"),
        ("#docid=X", "X"),
        ("# docid : X", "X"),
        ("#docid:X", "X"),
        ("#DocID = X", "X"),
        ("# X", "X"),
        ("#X", "X"),
        ("#X inc = 1", "X"),
        ("#docid X", "docid"),
        ("#docids = X", "docids"),
        ("#docid = Müller/漢字", "Müller/漢字"),
        ("#docid = a#b", "a#b"),
        ("#\tX\t", "X"),
        ("#docid = X\r", "X"),
    ],
)
def test_document_ids(write: Callable[..., Path], comment: str, name: str) -> None:
    q = read_letor(write(f"1 qid:1 1:1 {comment}\n0 qid:1 1:2\n"))
    assert q.document_ids.tolist() == [name, ""]


@pytest.mark.parametrize("comment", ["", "#", "#  ", "#docid =", "#docid = \r"])
def test_no_document_ids(write: Callable[..., Path], comment: str) -> None:
    assert read_letor(write(f"1 qid:1 1:1 {comment}\n")).document_ids is None


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["3", "1", "2"], [3, 1, 2]),
        (["-3", "0"], [-3, 0]),
        (["3", "03"], ["3", "03"]),
        (["1", "a"], ["1", "a"]),
        (["1.0", "1"], ["1.0", "1"]),
        (["999999999999999999", "1"], [999999999999999999, 1]),
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
        (["läufer", "漢"], ["läufer", "漢"]),
        (["a:b", "qid:3"], ["a:b", "qid:3"]),
    ],
)
def test_query_ids_are_whole_numbers_or_text(write: Callable[..., Path], words: list[str], ids: list[Any]) -> None:
    q = read_letor(write("".join(f"1 qid:{word} 1:1\n" for word in words)))
    assert q.query_ids.tolist() == ids


@pytest.mark.parametrize("dtype", [np.float32, "float64", np.dtype("f4")])
def test_numbers_are_rounded_once_to_each_precision(write: Callable[..., Path], dtype: Any) -> None:
    words = ["0.1", "1e-320", "0.30000000000000004", "1234567.891", "16777217", "-0"]
    q = read_letor(write("1 qid:1 " + " ".join(f"{k + 1}:{word}" for k, word in enumerate(words))), dtype=dtype)
    expected = np.array([float(word) for word in words]).astype(dtype)
    assert q.X.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(q.X[0], expected)
    assert np.signbit(q.X[0, -1])


def test_grades_are_real_and_huge(write: Callable[..., Path]) -> None:
    q = read_letor(write("0.5 qid:1 1:1\n1e6 qid:1 1:1\n123456789012 qid:1 1:1\n4.25e-3 qid:1 1:1\n"))
    assert q.grades.tolist() == [0.5, 1e6, 123456789012.0, 4.25e-3]


def test_a_document_without_features(write: Callable[..., Path]) -> None:
    q = read_letor(write("1 qid:1\n0 qid:1 2:5\n"))
    np.testing.assert_array_equal(q.dense(), [[0, 0], [0, 5]])
    assert read_letor(write("1 qid:1\n0 qid:2\n")).X.shape == (2, 0)


def test_more_hard_numbers_than_the_kernel_has_room_for(write: Callable[..., Path]) -> None:
    """Exact halfway cases and subnormals are left for Python; there is room for 256 of them at first."""
    words = ["9007199254740993", "4e-320", "1e-999"] * 200
    q = read_letor(write("".join(f"9007199254740993 qid:1 1:{word}\n" for word in words)), dtype=np.float64)
    assert q.X[:, 0].tolist() == [float(word) for word in words]
    assert set(q.grades.tolist()) == {9007199254740992.0}


# --- dense and sparse

WIDE = "1 qid:1 1:1 50:2\n0 qid:1 3:0\n"


@pytest.mark.parametrize(
    ("text", "sparse", "expected"),
    [
        (WIDE, "auto", True),
        (WIDE, True, True),
        (WIDE, False, False),
        (SMALL.decode(), "auto", False),
        (SMALL.decode(), True, True),
        ("1 qid:1 10:1\n0 qid:1 10:1\n", "auto", False),
        ("1 qid:1 11:1\n0 qid:1 11:1\n", "auto", True),
    ],
    ids=["wide", "wide sparse", "wide dense", "small", "small sparse", "a tenth", "below a tenth"],
)
def test_features_are_sparse_when_few_are_stored(
    write: Callable[..., Path], text: str, sparse: Any, expected: bool
) -> None:
    q = read_letor(write(text), sparse=sparse)
    assert q.is_sparse == expected
    np.testing.assert_array_equal(q.dense(), read_letor(write(text), sparse=False).X)


def test_sparse_features_keep_what_the_text_stores(write: Callable[..., Path]) -> None:
    X = read_letor(write(WIDE)).X
    assert X.shape == (2, 50)
    assert X.has_canonical_format
    assert X.dtype == np.float32
    assert (X.indptr.tolist(), X.indices.tolist(), X.data.tolist()) == ([0, 2, 3], [0, 49, 2], [1, 2, 0])


def test_an_index_beyond_memory_is_sparse(write: Callable[..., Path]) -> None:
    q = read_letor(write("1 qid:1 2147483646:1\n"), n_features=2147483646)
    assert q.X.shape == (1, 2147483646)
    assert q.X.indices.tolist() == [2147483645]


# --- missing values

WITH_NULLS = "1 qid:1 1:NULL 2:5\n0 qid:1 1:3 2:nan\n0 qid:1 1:-2 2:NA\n1 qid:2 1:null 2:7\n"
NAN = np.nan


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("nan", [[NAN, 5], [3, NAN], [-2, NAN], [NAN, 7]]),
        ("zero", [[0, 5], [3, 0], [-2, 0], [0, 7]]),
        ("min", [[-2, 5], [3, 5], [-2, 5], [0, 7]]),
    ],
)
def test_missing_values_become_what_is_chosen(
    write: Callable[..., Path], missing: Any, expected: list[list[float]], dtype: type
) -> None:
    q = read_letor(write(WITH_NULLS), missing=missing, dtype=dtype)
    assert q.X.dtype == dtype
    np.testing.assert_array_equal(q.X, expected)


@pytest.mark.parametrize(("missing", "stored"), [("nan", [NAN, 5.0]), ("zero", [0.0, 5.0])])
def test_missing_values_in_sparse_features(write: Callable[..., Path], missing: Any, stored: list[float]) -> None:
    q = read_letor(write("1 qid:1 1:NULL 99:5\n"), missing=missing)
    assert q.is_sparse
    np.testing.assert_array_equal(q.X.data, stored)


def test_least_value_of_a_query_that_comes_back(write: Callable[..., Path]) -> None:
    q = read_letor(write("1 qid:1 1:NULL\n0 qid:2 1:1\n0 qid:1 1:4\n"), missing="min", regroup=True)
    assert q.X.ravel().tolist() == [4, 1, 4]


def test_least_value_makes_dense_features(write: Callable[..., Path]) -> None:
    path = write("1 qid:1 1:NULL 99:5\n0 qid:1 1:3 99:6\n")
    assert read_letor(path, missing="min").X[0, 0] == 3
    with pytest.raises(DataError, match=r"missing='min' needs dense features; leave out sparse=True$"):
        read_letor(path, missing="min", sparse=True)


# --- numbering and width


def test_features_numbered_from_zero(write: Callable[..., Path]) -> None:
    q = read_letor(write("1 qid:1 0:5 1:6\n"), first_index=0)
    np.testing.assert_array_equal(q.X, [[5, 6]])


def test_a_width_that_is_given(write: Callable[..., Path]) -> None:
    q = read_letor(write(SMALL), n_features=4)
    assert q.X.shape == (3, 4)
    assert not q.X[:, 2:].any()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"dtype": "float16"}, "dtype is float16; features are float32 or float64"),
        ({"dtype": int}, "dtype is int64; features are float32 or float64"),
        ({"missing": "drop"}, "missing is 'drop'; choose one of 'error', 'nan', 'zero', 'min'"),
        ({"first_index": 2}, "first_index is 2; features are numbered from 1 or from 0"),
        ({"n_jobs": 0}, "n_jobs is 0; give a positive number of threads, or -1 for all cores"),
    ],
)
def test_options_that_do_not_exist(write: Callable[..., Path], argument: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_letor(write(SMALL), **argument)


# --- several files, and queries that come back


def test_several_files_one_after_the_other(write: Callable[..., Path]) -> None:
    first, second = write(SMALL, "a.txt"), write(b"3 qid:2 1:1 2:2 # D\n", "b.txt")
    q = read_letor([str(first), second])
    assert q.query_ids.tolist() == [7, 9, 2]
    assert q.grades.tolist() == [2, 0, 1, 3]
    assert q.document_ids.tolist() == ["", "", "", "D"]


def test_files_that_end_in_different_features(write: Callable[..., Path]) -> None:
    first, second = write(SMALL, "a.txt"), write("3 qid:2 1:1 3:2\n", "b.txt")
    q = read_letor([first, second], n_features=3)
    assert q.X.shape == (4, 3)
    assert q.X[3].tolist() == [1, 0, 2]
    with pytest.raises(DataError) as refused:
        read_letor([first, second])
    assert (
        str(refused.value) == f"{second}: 3 features, but a.txt has 2; pass n_features=3 if the missing ones are zero"
    )


RETURNING = "1 qid:a 1:1\n0 qid:b 1:2\n# why?\n2 qid:a 1:3\n0 qid:b 1:4\n"


def test_a_query_that_comes_back_is_put_together_on_demand(write: Callable[..., Path]) -> None:
    q = read_letor(write(RETURNING), regroup=True)
    assert q.query_ids.tolist() == ["a", "b"]
    assert q.lengths.tolist() == [2, 2]
    assert q.X.ravel().tolist() == [1, 2, 3, 4]
    assert q.grades.tolist() == [1, 0, 2, 0]
    assert q.X.ravel().tolist() == [1, 2, 3, 4]


def test_regrouping_what_is_grouped_moves_nothing(write: Callable[..., Path]) -> None:
    q = read_letor(write(SMALL), regroup=True)
    assert q.order is None
    assert same(q, read_letor(write(SMALL)))


def test_a_query_that_comes_back_in_another_file(write: Callable[..., Path]) -> None:
    first, second = write(SMALL, "a.txt"), write("\n3 qid:7 1:1 2:2\n", "b.txt")
    with pytest.raises(DataError) as refused:
        read_letor([first, second])
    assert str(refused.value) == (
        f"{second}:2: query 7 appears again; it began at a.txt:1, in a file before this one; "
        "pass regroup=True to put its documents together"
    )
    assert read_letor([first, second], regroup=True).lengths.tolist() == [3, 1]


def test_the_same_file_twice_is_not_read_as_longer_queries(write: Callable[..., Path]) -> None:
    path = write("1 qid:1 1:1\n0 qid:1 1:2\n")
    with pytest.raises(DataError, match="query 1 appears again"):
        read_letor([path, path])


# --- sizes of the queries in a file of their own

PLAIN = "1 1:1\n0 1:2\n2 1:3\n"


@pytest.mark.parametrize("data_suffix", ["", *COMPRESS])
@pytest.mark.parametrize("side_suffix", ["", *COMPRESS])
@pytest.mark.parametrize("ending", [".query", ".group"])
def test_the_file_of_sizes_beside_the_data(
    write: Callable[..., Path], data_suffix: str, side_suffix: str, ending: str
) -> None:
    data, sizes = PLAIN.encode(), b"2\r\n\n 1 \n"
    path = write(COMPRESS.get(data_suffix, bytes)(data), f"rank.train{data_suffix}")
    write(COMPRESS.get(side_suffix, bytes)(sizes), f"rank.train{ending}{side_suffix}")
    q = read_letor(path)
    assert q.lengths.tolist() == [2, 1]
    assert q.query_ids.tolist() == [0, 1]
    assert q.X.ravel().tolist() == [1, 2, 3]


def test_sizes_as_a_path_and_as_an_array(write: Callable[..., Path]) -> None:
    path, sizes = write(PLAIN), write("1\n0\n2", "elsewhere.txt")
    for group in (sizes, str(sizes), [1, 0, 2], np.array([1, 0, 2], dtype=np.int32)):
        assert read_letor(path, group=group).lengths.tolist() == [1, 0, 2]


def test_sizes_of_several_files(write: Callable[..., Path]) -> None:
    paths = [write(PLAIN, name) for name in ("a", "b")]
    write("3", "a.query")
    write("1\n2", "b.query")
    q = read_letor(paths)
    assert q.lengths.tolist() == [3, 1, 2]
    assert q.query_ids.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match=r"^group= is for a single file; name the size files like the data files, with"):
        read_letor(paths, group=[6])


GROUP_REFUSED: dict[str, tuple[Any, str]] = {
    "too many": ([2, 2], "{data}: group sums to 4 but there are 3 rows; it must count every row once"),
    "too few": ([1], "{data}: group sums to 1 but there are 3 rows; it must count every row once"),
    "negative": ([5, -2], "{data}: group[1] is -2; a query cannot have fewer than 0 rows"),
    "fractional": ([1.5, 1.9], "{data}: group must be a list of whole numbers, the rows of each query"),
    "words": (["a", "b"], "{data}: group must be a list of whole numbers, the rows of each query"),
}


@pytest.mark.parametrize("case", GROUP_REFUSED)
def test_sizes_given_as_an_array_must_fit(write: Callable[..., Path], case: str) -> None:
    group, message = GROUP_REFUSED[case]
    path = write(PLAIN)
    with pytest.raises(DataError) as refused:
        read_letor(path, group=group)
    assert str(refused.value) == message.format(data=path)


SIDE_REFUSED: dict[str, tuple[bytes, str]] = {
    "too many": (
        b"2\n2\n",
        "{side}: its 2 sizes sum to 4, but train.txt has 3 documents; use the size file that belongs to it",
    ),
    "empty": (
        b"\n",
        "{side}: its 0 sizes sum to 0, but train.txt has 3 documents; use the size file that belongs to it",
    ),
    "word": (b"2\n\none\n", "{side}:3:1: 'one' is not a number of documents"),
    "word after blanks": (b"2\n  one\n", "{side}:2:3: 'one' is not a number of documents"),
    "negative": (b"4\n-1\n", "{side}:2:1: '-1' is not a number of documents"),
    "fraction": (b"1.5\n1.5\n", "{side}:1:1: '1.5' is not a number of documents"),
    "two columns": (b"2 1\n", "{side}:1:1: '2 1' is not a number of documents"),
    "not text": (b"\xff\n", "{side}:1:1: '\\\\xff' is not a number of documents"),
}


@pytest.mark.parametrize("case", SIDE_REFUSED)
def test_a_file_of_sizes_must_fit(write: Callable[..., Path], case: str) -> None:
    sizes, message = SIDE_REFUSED[case]
    path, side = write(PLAIN), write(sizes, "train.txt.query")
    with pytest.raises(DataError) as refused:
        read_letor(path)
    assert str(refused.value) == message.format(side=side)


def test_a_size_longer_than_any_number(write: Callable[..., Path]) -> None:
    path, _ = write(PLAIN), write("9" * 5000, "train.txt.query")
    with pytest.raises(DataError):
        read_letor(path)


def test_sizes_for_text_that_has_query_ids(write: Callable[..., Path]) -> None:
    path = write(SMALL)
    with pytest.raises(DataError) as refused:
        read_letor(path, group=[3])
    assert str(refused.value) == f"{path}: the text has query ids, so group= has no use here; leave it out"


# --- blocks and threads


@pytest.mark.parametrize(
    ("options", "n_jobs"),
    [
        *(pytest.param({}, n, id=f"dense-{n}") for n in (1, 2, 5, -1, None)),
        *(pytest.param({"sparse": True}, n, id=f"sparse-{n}") for n in (1, 5)),
        *(pytest.param({"dtype": np.float64}, n, id=f"float64-{n}") for n in (1, 5)),
    ],
)
@pytest.mark.parametrize("size", [4, 50, 333, 5000])
def test_blocks_and_threads_change_nothing(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], n_jobs: int | None, size: int
) -> None:
    path = write(long_text())
    whole = read_letor(path, n_jobs=1, **options)
    set_block(monkeypatch, size)
    assert same(read_letor(path, n_jobs=n_jobs, **options), whole)


@pytest.mark.parametrize("size", [4, 33, TEXT_BLOCK_BYTES])
def test_blocks_are_whole_lines_and_lose_nothing(write: Callable[..., Path], size: int) -> None:
    path = write(long_text())
    blocks = list(line_blocks(path, size))
    assert b"".join(blocks) == long_text() + b"\n"
    assert all(block.endswith(b"\n") for block in blocks)
    assert len(blocks) > 10 or size == TEXT_BLOCK_BYTES


@pytest.mark.parametrize("size", [3, 4])
def test_a_byte_order_mark_as_long_as_a_block(write: Callable[..., Path], size: int) -> None:
    assert b"".join(line_blocks(write(b"\xef\xbb\xbf" + SMALL), size)) == SMALL


def test_a_query_longer_than_a_block_is_one_query(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    set_block(monkeypatch, 16)
    q = read_letor(write("1 qid:1 1:1\n" * 100 + "1 qid:2 1:1\n" * 3))
    assert q.lengths.tolist() == [100, 3]


def test_blocks_with_and_without_document_ids(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    set_block(monkeypatch, 16)
    q = read_letor(write("1 qid:1 1:1\n" * 10 + "1 qid:1 1:1 # long-name-é\n" + "1 qid:1 1:1 # x\n"))
    assert q.document_ids.tolist() == [""] * 10 + ["long-name-é", "x"]


def test_blocks_of_different_widths(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    set_block(monkeypatch, 4)
    path = write("1 qid:1 1:1\n0 qid:1 1:1 2:2 3:3\n0 qid:1\n2 qid:1 2:5\n")
    expected = [[1, 0, 0], [1, 2, 3], [0, 0, 0], [0, 5, 0]]
    for sparse in (True, False):
        np.testing.assert_array_equal(read_letor(path, sparse=sparse).dense(), expected)


# --- what is refused: the text, the options, and the message after the name of the file

BAD: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "a word for a grade": (
        b"1 qid:1 1:1\nrelevant qid:1 1:1\n",
        {},
        ":2:1: 'relevant' is not a grade; a line reads: grade qid:Q index:value ... # comment",
    ),
    "grade with a letter": (
        b"  1x qid:1 1:1\n",
        {},
        ":1:3: '1x' is not a grade; a line reads: grade qid:Q index:value ... # comment",
    ),
    "word for a grade": (
        b"none qid:1 1:1\n",
        {},
        ":1:1: 'none' is not a grade; a line reads: grade qid:Q index:value ... # comment",
    ),
    "no grade": (
        b"qid:1 1:1\n",
        {},
        ":1:1: 'qid:1' is not a grade; a line reads: grade qid:Q index:value ... # comment",
    ),
    "negative grade": (
        b"# x\n\n-2 qid:1 1:1\n",
        {},
        ":3:1: negative grade '-2'; grades start at 0, and -1 means unjudged, so shift them",
    ),
    "slightly negative grade": (
        b"-1e-320 qid:1 1:1\n",
        {},
        ":1:1: negative grade '-1e-320'; grades start at 0, and -1 means unjudged, so shift them",
    ),
    "infinite grade": (b"1e999 qid:1 1:1\n", {}, ":1:1: '1e999' is too large for float64; rescale"),
    "wrong token": (b"1 qid:1 1:1 two 3:3\n", {}, ":1:13: 'two' is not index:value"),
    "no colon": (b"1 qid:1 1 2:3\n", {}, ":1:9: '1' is not index:value"),
    "no index": (b"1 qid:1 :3\n", {}, ":1:9: ':3' is not index:value"),
    "negative index": (b"1 qid:1 -1:3\n", {}, ":1:9: '-1:3' is not index:value"),
    "fractional index": (b"1 qid:1 1.5:3\n", {}, ":1:9: '1.5:3' is not index:value"),
    "blank before the colon": (b"1 qid:1 1 :3\n", {}, ":1:9: '1' is not index:value"),
    "long token": (
        b"1 qid:1 " + b"x" * 100 + b"\n",
        {},
        f":1:9: '{'x' * 37}...' is not index:value",
    ),
    "index 0": (
        b"1 qid:1 0:1 1:2\n",
        {},
        ":1:9: feature index 0: indices start at 1; pass first_index=0 if yours start at 0",
    ),
    "index too large": (
        b"1 qid:1 2147483647:1\n",
        {},
        ":1:9: feature index 2147483647 is beyond the largest possible, 2,147,483,646",
    ),
    "unsorted": (
        b"1 qid:1 1:1 3:1 2:1\n",
        {},
        ":1:17: feature 2 after a higher one; sort each line by feature index",
    ),
    "repeated": (b"1 qid:1 1:1 3:1 3:2\n", {}, ":1:17: feature 3 twice in one line; keep one"),
    "index 0 repeated": (b"1 qid:1 0:1 0:1\n", {"first_index": 0}, ":1:13: feature 0 twice in one line; keep one"),
    "empty query id": (b"1 qid: 1:1\n", {}, ":1:3: qid: without a query id"),
    "query id after the features": (b"1 1:1 qid:1\n", {}, ":1:7: qid: must stand right after the grade"),
    "query id twice": (b"1 qid:1 qid:2 1:1\n", {}, ":1:9: qid: must stand right after the grade"),
    "missing query id": (
        b"1 qid:1 1:1\n0 1:1\n",
        {},
        ":2:3: missing qid: the lines before have one; give every line one, or none",
    ),
    "query id all at once": (
        b"1 1:1\n# here\n0 qid:1 1:1\n",
        {},
        ":3:3: a qid, but the lines before have none; give every line one, or none",
    ),
    "no query ids at all": (
        b"# sizes are lost\n\n1 1:1\n0 1:1\n",
        {},
        ":3: no qid: in this line, and no file {name}.query or {name}.group with the sizes of the queries beside it; "
        "add qid:Q after each grade",
    ),
    "query comes back": (
        RETURNING.encode(),
        {},
        ":4: query a appears again; it began at line 1 and another query came between; "
        "pass regroup=True to put its documents together",
    ),
    "not a number": (b"1 qid:1 1:1 2:abc\n", {}, ":1:15: 'abc' is not a number"),
    "no value": (b"1 qid:1 1: 2:3\n", {}, ":1:11: '' is not a number"),
    "two points": (b"1 qid:1 1:1.2.3\n", {}, ":1:11: '1.2.3' is not a number"),
    "decimal comma": (b"1 qid:1 1:0,5\n", {}, ":1:11: '0,5' is not a number"),
    "hexadecimal": (b"1 qid:1 1:0x1p3\n", {}, ":1:11: '0x1p3' is not a number"),
    "underscore": (b"1 qid:1 1:1_000\n", {}, ":1:11: '1_000' is not a number"),
    "unfinished exponent": (b"1 qid:1 1:1e+\n", {}, ":1:11: '1e+' is not a number"),
    "NULL": (
        b"1 qid:1 1:NULL\n",
        {},
        ":1:11: missing value 'NULL'; choose what it becomes: missing='nan', 'zero' or 'min'",
    ),
    "NaN": (
        b"1 qid:1 1:NaN\n",
        {},
        ":1:11: missing value 'NaN'; choose what it becomes: missing='nan', 'zero' or 'min'",
    ),
    "infinite": (
        b"1 qid:1 1:0 2:-Inf\n",
        {"missing": "nan"},
        ":1:15: infinite value '-Inf'; features must be finite, so replace it",
    ),
    "too large for float32": (
        b"1 qid:1 1:1e39\n",
        {},
        ":1:11: '1e39' is too large for float32; pass dtype='float64' or rescale",
    ),
    "much too large for float32": (
        b"1 qid:1 1:-1e999\n",
        {},
        ":1:11: '-1e999' is too large for float32; pass dtype='float64' or rescale",
    ),
    "too large for float64": (
        b"1 qid:1 1:1e309\n",
        {"dtype": np.float64},
        ":1:11: '1e309' is too large for float64; rescale",
    ),
    "beyond n_features": (
        b"# x\n1 qid:1 1:1\n\n1 qid:1 1:1 3:1\n",
        {"n_features": 2},
        ":4: feature 3 is beyond n_features=2; raise n_features or drop the feature",
    ),
    "beyond n_features from 0": (
        b"1 qid:1 0:1 2:1\n",
        {"n_features": 2, "first_index": 0},
        ":1: feature 2 is beyond n_features=2; raise n_features or drop the feature",
    ),
    "empty": (b"", {}, ": no judged document in this file; it is empty or holds only comments"),
    "only a byte order mark": (
        b"\xef\xbb\xbf",
        {},
        ": no judged document in this file; it is empty or holds only comments",
    ),
    "comments only": (
        b"# one\n\n  # two",
        {},
        ": no judged document in this file; it is empty or holds only comments",
    ),
    "NUL in a comment": (
        b"1 qid:1 1:1 #docid = a\0b\n",
        {},
        ":1:23: a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst",
    ),
    "NUL in a comment line": (
        b"# a\0b\n1 qid:1 1:1\n",
        {},
        ":1:4: a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst",
    ),
    "NUL at the end": (
        b"1 qid:1 1:1\n\0\0\0\0",
        {},
        ":2:1: a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst",
    ),
    "NUL in a value": (
        b"1 qid:1 1:1\0 2:3\n",
        {},
        ":1:12: a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst",
    ),
    "control character in a document id": (
        b"1 qid:1 1:1 #docid = a\x0eb\n",
        {},
        ":1:23: control character in this document id; remove it",
    ),
    "vertical tab": (b"1 qid:1\x0b1:1\n", {}, ":1:8: '\\x0b1:1' is not index:value"),
}


@pytest.mark.parametrize("size", [TEXT_BLOCK_BYTES, 4], ids=["one block", "a block per line"])
@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_with_its_place_and_the_way_out(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, case: str, size: int
) -> None:
    text, options, message = BAD[case]
    set_block(monkeypatch, size)
    path = write(text)
    with pytest.raises(DataError) as refused:
        read_letor(path, **options)
    assert str(refused.value) == f"{path}{message.format(name=path.name)}"


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_the_first_thing_wrong_is_named_and_no_later_one(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, n_jobs: int
) -> None:
    set_block(monkeypatch, 64)
    path = write("1 qid:1 1:1\n" * 500 + "1 qid:1 1:bad\n" + "1 qid:1 1:1\n" * 500 + "1 qid:1 worse\n")
    with pytest.raises(DataError) as refused:
        read_letor(path, n_jobs=n_jobs)
    assert str(refused.value) == f"{path}:501:11: 'bad' is not a number"


def test_a_second_file_without_query_ids(write: Callable[..., Path]) -> None:
    first, second = write(SMALL, "a.txt"), write("# sizes are lost\n1 1:1 2:1\n", "b.txt")
    with pytest.raises(DataError) as refused:
        read_letor([first, second])
    assert str(refused.value) == f"{second}:2:3: missing qid: the lines before have one; give every line one, or none"


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_without_its_suffix(write: Callable[..., Path], suffix: str) -> None:
    path = write(COMPRESS[suffix](SMALL))
    with pytest.raises(DataError) as refused:
        read_letor(path)
    assert str(refused.value) == f"{path}: this is compressed data; its name lacks {suffix}"


# --- files that cannot be read


@cache
def large() -> bytes:
    return long_text(1000)


@cache
def compressed(suffix: str) -> bytes:
    return COMPRESS[suffix](large())


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999], ids=lambda share: f"{share:.1%}")
@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_cut_short(write: Callable[..., Path], suffix: str, share: float) -> None:
    whole = compressed(suffix)
    path = write(whole[: int(len(whole) * share)], f"train.txt{suffix}")
    with pytest.raises(DataError) as refused:
        read_letor(path)
    assert refused.value.path == str(path)
    assert refused.value.problem.startswith("the compressed data is damaged or cut short (")
    assert refused.value.problem.endswith("); copy or download the file again")
    assert refused.value.line == 1


@pytest.mark.parametrize("suffix", COMPRESS)
def test_every_cut_of_a_small_compressed_file_is_noticed(write: Callable[..., Path], suffix: str) -> None:
    whole = COMPRESS[suffix](SMALL)
    for length in range(len(whole)):
        with pytest.raises(DataError, match=r"damaged or cut short|no judged document"):
            read_letor(write(whole[:length], f"train.txt{suffix}"))


DECOMPRESS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.decompressobj(31),
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_cut_after_good_lines_says_how_many(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    set_block(monkeypatch, 1000)
    whole = compressed(suffix)
    cut = whole[: len(whole) * 9 // 10]
    path = write(cut, f"train.txt{suffix}")
    with pytest.raises(DataError) as refused:
        read_letor(path)
    good = refused.value.line - 1
    there = DECOMPRESS[suffix]().decompress(cut).count(b"\n")
    assert 0.5 * there < good <= there
    assert refused.value.problem.startswith(f"the compressed data is damaged or cut short after {good:,} good lines (")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_changed_byte_in_a_compressed_file(write: Callable[..., Path], suffix: str) -> None:
    compress = zstandard.ZstdCompressor(write_checksum=True).compress if suffix == ".zst" else COMPRESS[suffix]
    damaged = bytearray(compress(large()))
    damaged[len(damaged) // 2] ^= 0xFF
    with pytest.raises(DataError):
        read_letor(write(bytes(damaged), f"train.txt{suffix}"))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_suffix_that_lies(write: Callable[..., Path], suffix: str) -> None:
    path = write(SMALL, f"train{suffix}")
    with pytest.raises(DataError) as refused:
        read_letor(path)
    assert str(refused.value).startswith(f"{path}:1: the compressed data is damaged or cut short (")


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_a_missing_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"nowhere.txt{suffix}"
    for reader in (read_letor, read):
        with pytest.raises(FileNotFoundError, match=r"nowhere\.txt.*: no such file"):
            reader(path)


def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="Is a directory: "):
        read_letor(tmp_path)
    with pytest.raises(DataError) as refused:
        read(tmp_path)
    assert str(refused.value) == f"{tmp_path}: this is a folder; give the name of a file"


def test_no_file_at_all() -> None:
    with pytest.raises(DataError, match=r"^no file to read: the list of paths is empty$"):
        read_letor([])
