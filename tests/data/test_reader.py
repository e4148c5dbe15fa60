"""One reader for every form, one writer for each, and LETOR text that comes back as it was."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import feather, parquet

from marginrank.data.formats.binary import read_binary, write_binary
from marginrank.data.formats.letor import read_letor, write_letor
from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.queries import Queries
from marginrank.data.reader import convert, read, read_queries, recognize
from marginrank.errors import DataError

#: Drawn ids repeat.
pytestmark = pytest.mark.filterwarnings("ignore::marginrank.errors.RepeatedDocumentsWarning")

LETOR = "2 qid:1 1:0.5 2:1\n0 qid:1 1:0.25 2:-3\n1 qid:2 1:4 2:0\n"
QRELS = "1 0 a 1\n1 0 b 0\n"
RUN = "1 Q0 a 1 2.5 mine\n1 Q0 b 2 1.5 mine\n"
CSV = "qid,grade,f1,f2\n1,2,0.5,1\n1,0,0.25,-3\n2,1,4,0\n"
JSON_LINES = (
    '{"qid": 1, "grade": 2, "f1": 0.5, "f2": 1}\n{"qid": 1, "grade": 0, "f1": 0.25, "f2": -3}\n'
    '{"qid": 2, "grade": 1, "f1": 4, "f2": 0}\n'
)
TABLE = pa.table({"qid": [1, 1, 2], "grade": [2.0, 0.0, 1.0], "f1": [0.5, 0.25, 4.0], "f2": [1.0, -3.0, 0.0]})
ARRAYS: dict[str, Any] = {"X": [[0.5, 1], [0.25, -3], [4, 0]], "y": [2, 0, 1], "qid": [1, 1, 2]}


def lightgbm(path: Path) -> None:
    path.write_text("2 1:0.5 2:1\n0 1:0.25 2:-3\n1 1:4 2:0\n")
    path.with_name(path.name + ".query").write_text("2\n1\n")


KINDS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "letor": ("a.txt", "letor", lambda path: path.write_text(LETOR)),
    "letor without suffix": ("train", "letor", lambda path: path.write_text(LETOR)),
    "letor after comments": ("a.dat", "letor", lambda path: path.write_text("# one two three\n\n" + LETOR)),
    "letor compressed": ("a.txt.gz", "letor", lambda path: path.write_bytes(gzip.compress(LETOR.encode()))),
    "lightgbm": ("rank.train", "letor", lightgbm),
    "parquet": ("a.parquet", "table", lambda path: parquet.write_table(TABLE, path)),
    "feather": ("a.FEATHER", "table", lambda path: feather.write_feather(TABLE, str(path))),
    "csv": ("a.csv", "csv", lambda path: path.write_text(CSV)),
    "tsv compressed": (
        "a.tsv.gz",
        "csv",
        lambda path: path.write_bytes(gzip.compress(CSV.replace(",", "\t").encode())),
    ),
    "jsonl": ("a.jsonl", "jsonl", lambda path: path.write_text(JSON_LINES)),
    "npz": ("a.npz", "npz", lambda path: np.savez(path, **ARRAYS)),
    "binary": ("a.queries", "binary", lambda path: write_binary(path, Queries.from_arrays(**ARRAYS_))),
}
ARRAYS_ = {"X": np.array(ARRAYS["X"]), "y": ARRAYS["y"], "qid": ARRAYS["qid"]}


@pytest.mark.parametrize(
    ("kind", "option", "message"),
    [
        ("csv", "quid", "no option 'quid' to read a CSV or TSV file; did you mean 'qid'"),
        ("jsonl", "feature", "did you mean 'features'"),
        ("parquet", "regroup", "no option 'regroup' to read a table"),
        ("letor", "qid", "no option 'qid' to read text; known: dtype, missing, first_index"),
        ("binary", "missing", "no option 'missing' to read a binary query set; leave it out"),
    ],
)
def test_options_that_a_reader_does_not_have_are_refused(tmp_path: Path, kind: str, option: str, message: str) -> None:
    name, _, write = KINDS[kind]
    write(tmp_path / name)
    with pytest.raises(TypeError, match=message):
        read(tmp_path / name, **{option: "x"})


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_recognized_and_read(tmp_path: Path, kind: str) -> None:
    name, expected, write = KINDS[kind]
    write(tmp_path / name)
    assert recognize(tmp_path / name) == expected
    for path in (tmp_path / name, str(tmp_path / name), [tmp_path / name]):
        q = read(path)
        assert isinstance(q, Queries)
        np.testing.assert_array_equal(q.dense(), ARRAYS["X"])
        assert q.grades.tolist() == ARRAYS["y"]
        assert q.lengths.tolist() == [2, 1]
    assert isinstance(read_queries(tmp_path / name), Queries)


@pytest.mark.parametrize(
    ("text", "kind", "type_"),
    [
        (QRELS, "qrels", Qrels),
        (RUN, "run", Run),
        ("\n\n" + QRELS, "qrels", Qrels),
        (RUN.replace("\n", " more\n"), "run", Run),
        (QRELS.replace(" ", "\t"), "qrels", Qrels),
        ("2024-1 0 msmarco_v2.1_doc_00_0#0_0 1\n", "qrels", Qrels),
        ("2024-1 Q0 msmarco_v2.1_doc_00_0#0_0 1 2.5 mine\n", "run", Run),
    ],
    ids=["qrels", "run", "blank lines", "junk", "tabs", "qrels with # in names", "run with # in names"],
)
def test_judgements_and_runs_are_recognized(tmp_path: Path, text: str, kind: str, type_: type) -> None:
    path = tmp_path / "topics"
    path.write_text(text)
    assert recognize(path) == kind
    assert isinstance(read(path), type_)
    what = "judgements" if type_ is Qrels else "a run"
    with pytest.raises(DataError) as refused:
        read_queries(path)
    assert str(refused.value) == f"{path}: TREC {what} have no features; this needs judged documents with features"


def test_options_go_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:NULL\n")
    assert read_queries(tmp_path / "a.txt", missing="zero", dtype=np.float64).X.tolist() == [[0.0]]


def test_several_of_one_kind_are_put_together(tmp_path: Path) -> None:
    parts = [Queries.from_arrays([[1.0]], [1], qid=[1]), Queries.from_arrays([[2.0]], [0], qid=[2])]
    for k, part in enumerate(parts):
        write_binary(tmp_path / f"{k}.queries", part)
        np.savez(tmp_path / f"{k}.npz", X=part.X, y=part.grades, qid=part.query_ids)
    for suffix in ("queries", "npz"):
        q = read_queries([tmp_path / f"{k}.{suffix}" for k in range(2)])
        assert (q.query_ids.tolist(), q.X.ravel().tolist()) == ([1, 2], [1, 2])


@pytest.mark.parametrize(("first", "second"), [("letor", "parquet"), ("binary", "letor"), ("npz", "binary")])
def test_mixed_kinds_are_refused(tmp_path: Path, first: str, second: str) -> None:
    paths = []
    for kind in (first, second):
        name, _, write = KINDS[kind]
        write(tmp_path / name)
        paths.append(tmp_path / name)
    with pytest.raises(DataError) as refused:
        read(paths)
    kinds = [KINDS[kind][1] for kind in (first, second)]
    assert (
        str(refused.value) == f"{paths[1]}: this is {kinds[1]}, but {paths[0].name} is {kinds[0]}; read them separately"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# only this\n"])
def test_nothing_to_recognize(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError) as refused:
        read(tmp_path / "a.txt")
    assert str(refused.value) == f"{tmp_path / 'a.txt'}: no data in this file; it is empty or holds only comments"


def test_no_path_at_all() -> None:
    with pytest.raises(DataError, match=r"^no file to read: the list of paths is empty$"):
        read([])


def test_text_of_no_kind_is_refused_as_letor(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello world\n")
    with pytest.raises(DataError, match=r"a\.txt:1:1: 'hello' is not a grade"):
        read(tmp_path / "a.txt")


# --- converting


@pytest.mark.parametrize(
    "suffix", [".queries", ".txt", ".letor", ".svm", ".parquet", ".TXT", ".csv", ".tsv", ".jsonl", ".txt.gz", ".csv.xz"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_becomes_every_other(tmp_path: Path, kind: str, suffix: str) -> None:
    name, _, write = KINDS[kind]
    write(tmp_path / name)
    target = tmp_path / f"out{suffix}"
    returned = convert(tmp_path / name, str(target))
    again = read_queries(target)
    for q in (returned, again):
        np.testing.assert_array_equal(q.dense(), ARRAYS["X"])
        assert q.grades.tolist() == ARRAYS["y"]
        assert q.lengths.tolist() == [2, 1]
        assert q.query_ids.tolist() == returned.query_ids.tolist()


@pytest.mark.parametrize(
    ("name", "suffix"), [("out.xls", ".xls"), ("out", ""), ("out.queries.gz", ".gz"), ("out.npz", ".npz")]
)
def test_a_suffix_that_cannot_be_written(tmp_path: Path, name: str, suffix: str) -> None:
    """It is refused before the source is read."""
    target = tmp_path / name
    with pytest.raises(DataError) as refused:
        convert(tmp_path / "nowhere.txt", target)
    assert str(refused.value) == (
        f"{target}: unknown suffix {suffix!r}; write one of .csv, .jsonl, .letor, .ndjson, .parquet, .queries, .svm, "
        ".tsv, .txt"
    )


def test_converting_needs_features(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text(QRELS)
    with pytest.raises(DataError, match="TREC judgements have no features"):
        convert(tmp_path / "qrels", tmp_path / "out.queries")
    assert not (tmp_path / "out.queries").exists()


def test_converting_with_options(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:b 1:1\n0 qid:a 1:2\n2 qid:b 1:3\n")
    convert(tmp_path / "a.txt", tmp_path / "out.queries", regroup=True)
    assert read_binary(tmp_path / "out.queries").X.ravel().tolist() == [1, 2, 3]


# --- LETOR text comes back as it was


def assert_same(found: Queries, expected: Queries) -> None:
    np.testing.assert_array_equal(found.dense(), expected.dense())
    present = ~np.isnan(expected.dense())
    np.testing.assert_array_equal(np.signbit(found.dense()[present]), np.signbit(expected.dense()[present]))
    assert found.X.dtype == expected.X.dtype
    np.testing.assert_array_equal(found.grades, expected.grades)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.query_ids.astype(str), expected.query_ids.astype(str))


def letor_round_trip(path: Path, q: Queries) -> None:
    write_letor(path, q)
    again = read_letor(path, dtype=q.X.dtype, missing="nan", n_features=q.n_features, sparse=q.is_sparse)
    assert_same(again, q)
    names = None if q.document_ids is None or not any(q.document_ids.tolist()) else q.document_ids.astype(str).tolist()
    assert (None if again.document_ids is None else again.document_ids.tolist()) == names


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.float64]), sparse=st.booleans())
def test_letor_round_trip_is_exact(tmp_path: Path, data: st.DataObject, dtype: type, sparse: bool) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    n = sum(sizes)
    elements = st.floats(width=32 if dtype is np.float32 else 64, allow_infinity=False) | st.just(0.0)
    X = data.draw(hnp.arrays(dtype, (n, data.draw(st.integers(1, 4))), elements=elements))
    grades = data.draw(hnp.arrays(np.float64, n, elements=st.floats(0, 1e308) | st.integers(0, 5).map(float)))
    ids = data.draw(
        st.lists(st.integers(-5, 10**17), min_size=len(sizes), max_size=len(sizes), unique=True)
        | st.lists(st.text("ab0é漢:=", min_size=1, max_size=4), min_size=len(sizes), max_size=len(sizes), unique=True)
    )
    documents = data.draw(st.none() | st.lists(st.text("ab0é#:=", max_size=4), min_size=n, max_size=n))
    q = Queries.from_arrays(
        sp.csr_array(X) if sparse else X,
        grades,
        qid=np.repeat(ids, sizes),
        document_ids=documents,
        allow_nan=True,
    )
    letor_round_trip(tmp_path / "q.txt", q)


def test_any_float32_survives_as_text(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    bits[:6] = [0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x80000000, 0x3F800001]
    X = bits.view(np.float32)
    X = np.where(np.isfinite(X), X, np.float32(0.1))[:, None]
    letor_round_trip(tmp_path / "q.txt", Queries.from_arrays(X, np.zeros(20_000), group=[20_000]))


def test_a_float32_whose_shortest_form_is_next_to_a_double_halfway_between_two(tmp_path: Path) -> None:
    """7.038531e-26 names one float32 only, but the double nearest to it rounds to the next one."""
    X = np.array([[float.fromhex("0x1.5c87fap-84")]], dtype=np.float32)
    letor_round_trip(tmp_path / "q.txt", Queries.from_arrays(X, [0], group=[1]))
    letor_round_trip(tmp_path / "q.txt", Queries.from_arrays(sp.csr_array(X), [0], group=[1]))


def test_more_rows_than_are_written_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10_000, 3)).astype(np.float32)
    letor_round_trip(tmp_path / "q.txt", Queries.from_arrays(X, rng.integers(0, 5, 10_000), group=[4000, 1, 5999]))


def test_the_words_that_are_written(tmp_path: Path) -> None:
    q = Queries.from_arrays(
        [[1.0, 0.5], [np.nan, -0.0]], [2, 0.5], qid=["a", "b"], document_ids=["x", ""], allow_nan=True
    )
    write_letor(tmp_path / "q.txt", q)
    assert (tmp_path / "q.txt").read_text() == "2 qid:a 1:1 2:0.5 #docid = x\n0.5 qid:b 1:NaN 2:-0\n"


def test_sparse_features_are_written_as_stored(tmp_path: Path) -> None:
    X = sp.csr_array((np.array([0.0, 3.0], dtype=np.float32), np.array([1, 4]), np.array([0, 2, 2])), shape=(2, 9))
    write_letor(tmp_path / "q.txt", Queries.from_arrays(X, [1, 0], qid=["a", "a"]))
    assert (tmp_path / "q.txt").read_text() == "1 qid:a 2:0 5:3\n0 qid:a\n"


@pytest.mark.parametrize(
    "char", [" ", "\t", "\n", "\r", "\x00x", "#", "\x01", "\x0b", "\x0c", "\x1f", "\x7f", "\x85", "\xa0"]
)
@pytest.mark.parametrize("kind", ["query id", "document id"])
def test_a_name_is_refused_or_comes_back_as_it_was(tmp_path: Path, char: str, kind: str) -> None:
    name = f"a{char}b"
    q = Queries.from_arrays(
        [[1.0]], [0], qid=[name if kind == "query id" else "q"], document_ids=[name if kind == "document id" else "d"]
    )
    try:
        write_letor(tmp_path / "q.txt", q)
    except DataError as error:
        refusal = str(error)
    else:
        again = read_letor(tmp_path / "q.txt")
        assert again.query_ids.tolist() == q.query_ids.tolist()
        assert again.document_ids.tolist() == q.document_ids.tolist()
        return
    assert refusal.startswith(f"{kind} {name!r} cannot be in LETOR text")


@pytest.mark.parametrize("char", [" ", "\t", "\n", "\r"])
def test_names_with_blanks_are_refused(tmp_path: Path, char: str) -> None:
    with pytest.raises(
        DataError,
        match=r"^query id .* cannot be in LETOR text: it is empty, or holds a blank, a control character or '#'$",
    ):
        write_letor(tmp_path / "q.txt", Queries.from_arrays([[1.0]], [0], qid=[f"a{char}b"]))
    with pytest.raises(
        DataError, match=r"^document id .* cannot be in LETOR text: it holds a blank or a control character$"
    ):
        write_letor(tmp_path / "q.txt", Queries.from_arrays([[1.0]], [0], qid=[1], document_ids=[f"a{char}b"]))


def test_a_refused_document_id_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(LETOR)
    with pytest.raises(DataError):
        write_letor(tmp_path / "q.txt", Queries.from_arrays([[1.0]], [0], qid=[1], document_ids=["a b"]))
    assert (tmp_path / "q.txt").read_text() == LETOR


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            TABLE.select(["qid", "grade", "f2", "f1"]),
            r"b.csv: other features than in a.csv, .* features=\['f1', 'f2'\]",
        ),
        (TABLE.drop_columns(["grade"]), "b.csv: no grades, but a.csv has; give them to all files or to none"),
        (TABLE.append_column("document_id", [["x", "y", "z"]]), "b.csv: document ids, but a.csv has none"),
    ],
)
def test_files_that_do_not_go_together_are_named(tmp_path: Path, second: pa.Table, message: str) -> None:
    for name, table in (("a.csv", TABLE), ("b.csv", second)):
        table.to_pandas().assign(qid=[name] * 3).to_csv(tmp_path / name, index=False)
    with pytest.raises(DataError, match=message):
        read([tmp_path / "a.csv", tmp_path / "b.csv"])
