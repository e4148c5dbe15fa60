"""CSV, TSV and JSON Lines: columns by name, as in any other table."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from marginrank.data import Queries, convert, from_frame, read, read_queries
from marginrank.data.formats.csv import read_delimited, write_delimited
from marginrank.data.formats.json_lines import read_json_lines, write_json_lines
from marginrank.data.reader import recognize
from marginrank.errors import ColumnsLeftOutWarning, DataError

#: Drawn ids repeat.
pytestmark = pytest.mark.filterwarnings("ignore::marginrank.errors.RepeatedDocumentsWarning")

COLUMNS: dict[str, list[Any]] = {
    "qid": ["b", "a", "b", "a"],
    "label": [2, 0, 1, 3],
    "docid": ["007", 'x "y", z', "é\nü", ""],
    "bm25": [0.5, 1.5, 2.5, 1e-300],
    "clicks": [7, 8, 9, -1],
}
FRAME = pd.DataFrame(COLUMNS)
#: How another program writes the frame.
WRITERS: dict[str, tuple[str, Callable[[pd.DataFrame, Path], Any]]] = {
    "csv": ("t.csv", lambda frame, path: frame.to_csv(path, index=False)),
    "csv quoted": ("t.csv", lambda frame, path: frame.to_csv(path, index=False, quoting=1)),
    "csv of Windows": ("t.CSV", partial(pd.DataFrame.to_csv, index=False, lineterminator="\r\n", encoding="utf-8-sig")),
    "csv with semicolons": ("t.csv", lambda frame, path: frame.to_csv(path, index=False, sep=";")),
    "csv with tabs": ("t.csv", lambda frame, path: frame.to_csv(path, index=False, sep="\t")),
    "tsv": ("t.tsv", lambda frame, path: frame.to_csv(path, index=False, sep="\t")),
    "tsv with commas": ("t.tsv", lambda frame, path: frame.to_csv(path, index=False)),
    "jsonl": ("t.jsonl", lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15)),
    "ndjson": ("t.ndjson", lambda frame, path: path.write_text("\n".join(map(json.dumps, frame.to_dict("records"))))),
}  # fmt: skip
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def assert_equal(found: Queries, expected: Queries) -> None:
    assert found.feature_names == expected.feature_names
    assert found.has_grades == expected.has_grades
    np.testing.assert_array_equal(found.X, expected.X)
    for name in ("judgements", "query_offsets", "query_ids", "document_ids", "order"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as refused:
        read(path, **options)
    assert refused.value.path == str(path)
    return str(refused.value).removeprefix(str(path))


# --- as the frame


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_is_read_as_the_frame_it_was_written_from(tmp_path: Path, kind: str) -> None:
    """Rows of queries interleaved; ids of digits, quotes, separators and line ends."""
    name, to_file = WRITERS[kind]
    to_file(FRAME, tmp_path / name)
    assert_equal(read_queries(tmp_path / name), from_frame(pa.table(COLUMNS)))
    shuffled = FRAME.sample(frac=1, random_state=0)
    to_file(shuffled, tmp_path / name)
    assert_equal(read_queries(tmp_path / name), from_frame(pa.Table.from_pandas(shuffled, preserve_index=False)))


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("suffix", PACK)
def test_compressed_files_are_recognized_by_the_suffix_before(tmp_path: Path, kind: str, suffix: str) -> None:
    name, to_file = WRITERS[kind]
    to_file(FRAME, tmp_path / name)
    packed = write(tmp_path / f"{name}{suffix}", PACK[suffix]((tmp_path / name).read_bytes()))
    assert recognize(packed) == recognize(tmp_path / name)
    assert_equal(read_queries(packed), read_queries(tmp_path / name))
    cut = write(tmp_path / f"cut.{name}{suffix}", packed.read_bytes()[:-9])
    assert "the compressed data is damaged or cut short" in refusal(cut)


@pytest.mark.parametrize("kind", ["csv", "csv with semicolons", "tsv", "jsonl"])
@pytest.mark.parametrize("suffix", ["", ".txt", ".gz"])
def test_files_of_other_names_are_recognized_by_their_first_line(tmp_path: Path, kind: str, suffix: str) -> None:
    name, to_file = WRITERS[kind]
    to_file(FRAME, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    other = write(tmp_path / f"data{suffix}", gzip.compress(data) if suffix == ".gz" else data)
    assert_equal(read_queries(other), read_queries(tmp_path / name))


def test_judgements_and_runs_may_be_called_tsv(tmp_path: Path) -> None:
    assert recognize(write(tmp_path / "qrels.tsv", "1\t0\td7\t1\n")) == "qrels"
    assert recognize(write(tmp_path / "run.tsv", "1\tQ0\td7\t1\t2.5\tmine\n")) == "run"
    assert recognize(write(tmp_path / "table.tsv", "who\tgood\tbm25\tclicks\n1\t0\t0.5\t3\n")) == "csv"
    assert recognize(write(tmp_path / "numbered.tsv", "qid\tgrade\t0\t1\n1\t0\t0.5\t3\n")) == "csv"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_pipes_are_read(tmp_path: Path, kind: str) -> None:
    name, to_file = WRITERS[kind]
    to_file(FRAME, tmp_path / name)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = (tmp_path / name).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=[data])
    writer.start()
    found = read_queries(pipe)
    writer.join()
    assert_equal(found, read_queries(tmp_path / name))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_columns_are_named_as_in_tables(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(
        {"who": ["x", "x"], "good": [1, 0], "host": ["h", "i"], "title": ["Red", "Blue"], "a": [1, 2], "b": [3, 4]}
    )
    WRITERS[name.partition(".")[2]][1](frame, tmp_path / name)
    names = {"qid": "who", "grade": "good", "document_id": "title", "document_group": "host"}
    found = read_queries(tmp_path / name, features=["b", "a"], dtype="float32", **names)
    assert (found.query_ids.tolist(), found.feature_names, found.X.dtype) == (["x"], ("b", "a"), np.float32)
    assert found.document_ids is not None
    assert found.document_groups is not None
    assert (found.document_ids.tolist(), found.document_groups.tolist()) == (["Red", "Blue"], ["h", "i"])
    one = read_queries(tmp_path / name, qid="who", features="a")
    assert (one.X.tolist(), one.has_grades) == ([[1.0], [2.0]], False)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [(["7", "12"], [7, 12]), (["007", "12"], ["007", "12"]), (["7", "b"], ["7", "b"]), (["1.0", "2"], ["1.0", "2"])],
)
def test_query_ids_are_numbers_where_all_of_them_are(tmp_path: Path, ids: list[str], expected: list[Any]) -> None:
    path = write(tmp_path / "a.csv", "qid,x\n" + "".join(f"{one},1\n" for one in ids))
    assert read_queries(path).query_ids.tolist() == expected


def test_ids_of_json_are_what_they_are(tmp_path: Path) -> None:
    def ids(*values: Any) -> list[Any]:
        lines = "".join(json.dumps({"qid": value, "x": 1}) + "\n" for value in values)
        found: list[Any] = read_queries(write(tmp_path / "a.jsonl", lines)).query_ids.tolist()
        return found

    assert ids("7", "12") == ["7", "12"]
    assert ids(7, 2**53 + 1) == [7, 2**53 + 1]
    assert ids(10**30, 1) == [str(10**30), "1"]
    assert ids(7, "b") == ["7", "b"]


@pytest.mark.parametrize("word", ["", "NA", "NULL", "NaN", "null", "None", " nan "])
@pytest.mark.parametrize(("missing", "expected"), [("nan", np.nan), ("zero", 0.0), ("min", 2.0)])
def test_missing_numbers(tmp_path: Path, word: str, missing: str, expected: float) -> None:
    path = write(tmp_path / "a.csv", f"qid,grade,x,y2\n1,0,{word},1\n1,1,2,1\n1,1,3,1\n")
    np.testing.assert_array_equal(read_queries(path, missing=missing).X[:, 0], [expected, 2, 3])
    assert refusal(path) == ":2: column 'x' has no value; choose what it becomes: missing='nan', 'zero' or 'min'"
    assert read_queries(write(path, "qid,x,docid\nNA,1,NULL\n")).query_ids.tolist() == ["NA"]


def test_missing_values_of_json(tmp_path: Path) -> None:
    lines = [
        '{"qid": 1, "grade": 1, "x": 1}',
        "",
        '{"qid": 1, "grade": 0, "y2": null}',
        '{"y2": NaN, "x": 3, "qid": 1, "grade": 2}',
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    np.testing.assert_array_equal(read_queries(path, missing="nan").X, [[1, np.nan], [np.nan, np.nan], [3, np.nan]])
    assert refusal(path) == ":3: column 'x' has no value; choose what it becomes: missing='nan', 'zero' or 'min'"


def test_numbers_of_any_form(tmp_path: Path) -> None:
    """What Arrow does not take is read by line, with the same outcome."""
    words = ["1", "+2.5", ".5", "1.", "-1e-3", " 7 ", '"8"', "true", "False"]
    path = write(tmp_path / "a.csv", "qid,x\n" + "".join(f"1,{word}\n" for word in words))
    assert read_queries(path).X.ravel().tolist() == [1, 2.5, 0.5, 1, -1e-3, 7, 8, 1, 0]
    assert read_queries(write(path, "qid,x\n1,True\n1,False\n")).X.ravel().tolist() == [1, 0]


# --- mistakes

FEATURES = "; name the feature columns with features=['bm25']"
NO_FEATURE = "; name the feature columns with features="
GRADES = "; grades are numbers such as 0, 1 and 2"
QUOTE = "; put quotes around fields that hold a comma or a line end"
NAME_THEM = "; name them with features="
NAME_QID = "; name it with qid='qid'"
KNOWN = "; name it with qid= (recognized: qid, query_id, search_id, query, topic)"
LINES = "; write one object per line, as frames do with lines=True"
OBJECT = "; write one object per line"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("qid,label,size,bm25\n1,2,7,7\n1,2,XL,7\n", ":3: column 'size' holds 'XL', not a number" + FEATURES),
        ("qid,label,title\n1,2,Red\n", ": no feature columns are left but 'title', which hold text or ids" + NAME_THEM),
        ("qid,query_id,bm25\n1,2,7\n", ": 'qid' and 'query_id' may both be the column of query ids" + NAME_QID),
        ("qid,label,bm25\n1,2,7\n\n1,good,7\n", ":4: column 'label' holds 'good', not a number" + GRADES),
        ('qid,label,d,bm25\n1,2,"3\n",7\n1,-2,4,7\n', ":2: column 'd' holds '3\\n', not a number" + FEATURES),
        (
            'qid,label,docid,bm25\n1,2,"3\n",7\n1,-2,4,7\n',
            ":4: column 'label' is -2; grades must not be negative, and only -1 means unjudged; shift them",
        ),
        (
            "qid;label;bm25\n1;2;0,5\n",
            ":2: column 'bm25' holds '0,5', not a number; write decimal points instead of commas",
        ),
        ("qid,label,bm25\n1,2,7\n1,2\n", ":3: 2 fields instead of 3" + QUOTE),
        ("qid,label,bm25\n1,2,7,8\n", ":2: 4 fields instead of 3" + QUOTE),
        (
            'qid,docid,bm25\n1,a,7\n1,"b,8\n2,c,9\n',
            ":3: a quote is never closed; close it, or put the field in quotes and write the quote twice",
        ),
        (
            'qid,bm25,docid\n1,7,a\n1,8,"b\n2,9,c\n',
            ":3: a quote is never closed; close it, or put the field in quotes and write the quote twice",
        ),
        ("qid,label,bm25\n1,2,7\n,1,7\n", ":3: this row has no query id; every row needs one"),
        ("qid,label,bm25\n1,2,inf\n", ":2: column 'bm25' is inf; replace it"),
        (
            "qid,label,,bm25\n0,1,2,7\n",
            ":1: column 3 has no name; give it one, or name the feature columns with features=",
        ),
        ("qid,label,bm25,bm25\n1,2,7,7\n", ":1: two columns are called 'bm25'; rename one"),
        ("1,2,7\n1,0,5\n", ":1: numbers where the names of the columns should be; add a line of names"),
        ("topics,label,bm25\n1,2,7\n", ": no column of query ids among 'topics', 'label', 'bm25'" + KNOWN),
        ("qid,label\n1,2\n", ": no feature columns are left; name them with features="),
        ("qid,label,bm25\n", ": there are no rows below the names of the columns"),
        ("", ": no data in this file; it is empty or holds only comments"),
        (b"qid,label,bm25\n1,2,7\ncaf\xe9,1,7\n", ":3: byte '\\\\xe9' is not UTF-8; save the file as UTF-8"),
        ("qid,label,bm25\n1,2,7\n".encode("utf-16"), ": this is UTF-16; save the file as UTF-8"),
    ],
)
def test_mistakes_are_named_with_line_column_and_way_out(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert refusal(write(tmp_path / "a.csv", text)) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"qid": 1, "x": 1}\n{"qid": 1, "x": "7"}\n', ":2: column 'x' holds '7', not a number" + NO_FEATURE),
        ('{"qid": 1, "label": "good", "x": 1}\n', ":1: column 'label' holds 'good', not a number" + GRADES),
        ('{"qid": 1, "x": 1}\n{"qid": 1, "x": [1]}\n', ":2: column 'x' holds a list, not a number" + NO_FEATURE),
        ('{"qid": {}, "x": 1}\n', ":1: column 'qid' holds an object, which is not an id; give text or a number"),
        ('{"qid": 1, "x": 1}\n\n{"x": 1}\n', ":3: this row has no query id; every row needs one"),
        ('{"qid": 1, "x": 1}\n{"qid": 1, "x": }\n', ':2:17: this is not JSON: \'{"qid": 1, "x": }\'' + OBJECT),
        ('{\n  "qid": 1\n}\n', ":1:2: JSON over several lines" + LINES),
        ('[{"qid": 1, "x": 1}]\n', ':1: \'[{"qid": 1, "x": 1}]\' is not an object' + LINES),
        ('{"qid": 1, "x": 1' + "0" * 400 + "}\n", ":1: column 'x' is inf; replace it"),
        (
            '{"qid": "\\ud800", "x": 1}\n',
            ": a name or an id is not valid Unicode (half of a surrogate pair); rename it",
        ),
        (b'{"qid": "\xe9", "x": 1}\n', ":1: this line is not UTF-8; save the file as UTF-8"),
        ("\n", ": no data in this file; it is empty"),
        ('{"x": 1}\n', ": no column of query ids among 'x'" + KNOWN),
        ("[" * 100_000, ":1: this is not JSON: '" + "[" * 37 + "...'" + OBJECT),
    ],
)
def test_mistakes_in_json_are_named_too(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert refusal(write(tmp_path / "a.jsonl", text)) == said


def test_long_fields_are_read(tmp_path: Path) -> None:
    """Longer than a block, and than Python's csv takes by default."""
    long = "word " * 300_000
    path = write(tmp_path / "a.csv", f'qid,docid,body,x\n1,{long},"{long}",2\n1,b,,3\n')
    assert read_queries(path, features="x").document_ids.tolist() == [long, "b"]
    assert refusal(path, features="body,x")[:60] == ":2: column 'body' holds 'word word word word word word word "
    with pytest.warns(ColumnsLeftOutWarning, match=r"^columns left out because they hold text or ids: 'body'$"):
        assert read_queries(path).feature_names == ("x",)


@pytest.mark.parametrize("text", ["qid,x\n1,2\n", 'qid,x\n1,"2\n', "qid,x\n1,a\n"])
def test_the_longest_field_of_the_process_stays_what_it_was(tmp_path: Path, text: str) -> None:
    before = csv.field_size_limit(1234)
    try:
        with suppress(DataError):
            read_queries(write(tmp_path / "a.csv", text))
        assert csv.field_size_limit() == 1234
    finally:
        csv.field_size_limit(before)


def test_a_column_is_an_id_or_a_number(tmp_path: Path) -> None:
    said = ": column 'qid' is requested both as an id and as numbers; choose one"
    assert refusal(write(tmp_path / "a.csv", "qid,x\n1,2\n"), features=["qid", "x"]) == said
    assert refusal(write(tmp_path / "a.jsonl", '{"qid": 1, "x": 2}\n'), features=["qid", "x"]) == said


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_the_budget_of_memory_is_kept(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"qid": np.arange(20_000) // 10, "x": np.arange(20_000) / 7, "z": 1.5})
    WRITERS[name.partition(".")[2]][1](frame, tmp_path / name)
    packed = write(tmp_path / f"{name}.gz", gzip.compress((tmp_path / name).read_bytes()))
    for path in (tmp_path / name, packed):
        assert "max_memory is 100.0 KB" in refusal(path, max_memory="100KB")
        assert read_queries(path).n_documents == 20_000


def test_several_files_are_put_together(tmp_path: Path) -> None:
    first, second = (
        write(tmp_path / "a.csv", "qid,x\n1,2\n"),
        write(tmp_path / "b.tsv.gz", gzip.compress(b"qid\tx\n2\t3\n")),
    )
    assert read_queries([first, second]).X.ravel().tolist() == [2, 3]
    write(tmp_path / "c.csv", "qid,x,z\n3,2,2\n")
    with pytest.raises(
        DataError, match=r"c\.csv: 2 features, but a\.csv has 1; name the columns to use with features="
    ):
        read([first, tmp_path / "c.csv"])


# --- writing


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.xz", ".jsonl.bz2", ".csv.zst"])
def test_letor_text_comes_back_as_it_was(tmp_path: Path, suffix: str) -> None:
    text = (
        '2 qid:007 1:0.1 2:-3 #docid = GX,1\n0 qid:007 1:0.30000000000000004 2:1e-300 #docid = a"b\n1 qid:b 1:4 2:0\n'
    )
    source = write(tmp_path / "a.letor", text)
    convert(source, tmp_path / f"b{suffix}")
    convert(tmp_path / f"b{suffix}", tmp_path / "c.letor")
    assert (tmp_path / "c.letor").read_text() == text
    without = Queries.from_arrays([[1.0], [2.0]], qid=["x", "y"])
    (write_json_lines if "jsonl" in suffix else write_delimited)(tmp_path / f"d{suffix}", without)
    assert not read_queries(tmp_path / f"d{suffix}").has_grades


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    data=st.data(),
    dtype=st.sampled_from([np.float32, np.float64]),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
)
@pytest.mark.parametrize("name", ["q.csv", "q.tsv", "q.jsonl"])
def test_what_is_written_is_read_again(
    tmp_path: Path, name: str, data: st.DataObject, dtype: type, sizes: list[int]
) -> None:
    n = sum(sizes)
    words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=6)
    ids = data.draw(st.one_of(st.just([*range(7)]), st.lists(words, min_size=7, max_size=7, unique=True)))
    if isinstance(ids[0], str) and all(one.isdigit() for one in ids[: len(sizes)]):  # read as numbers
        return
    finite = st.floats(width=32 if dtype is np.float32 else 64, allow_infinity=False)
    q = Queries.from_arrays(
        data.draw(hnp.arrays(dtype, (n, 2), elements=finite)),
        data.draw(hnp.arrays(np.float64, n, elements=st.floats(0, 1e300))),
        qid=np.repeat(np.array(ids[: len(sizes)], dtype=None if isinstance(ids[0], int) else object), sizes),
        document_ids=data.draw(st.lists(words | st.just(""), min_size=n, max_size=n)),
        feature_names=["f1", 'two, "words"'],
        allow_nan=True,
    )
    path = tmp_path / name
    if name == "q.jsonl":
        write_json_lines(path, q)
        assert_equal(read_json_lines(path, dtype=dtype, missing="nan"), q)
    else:
        write_delimited(path, q)
        assert_equal(read_delimited(path, dtype=dtype, missing="nan"), q)


@pytest.mark.parametrize("write_file", [write_delimited, write_json_lines])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["x", "x"], "feature name 'x' appears more than once"),
        (["qid", "x"], r"feature names \['qid'\] are taken"),
        (["label", "x"], r"feature names \['label'\] are taken"),
        (["docno", "x"], r"feature names \['docno'\] are taken"),
    ],
)
def test_names_that_would_be_read_as_something_else_are_refused(
    tmp_path: Path, write_file: Any, names: list[str], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        write_file(tmp_path / "a.csv", Queries.from_arrays([[1.0, 2.0]], qid=["a"], feature_names=names))


@pytest.mark.parametrize("odd", ["a\rb", "a\0b", "\udce9"])
def test_ids_that_csv_cannot_hold_are_refused(tmp_path: Path, odd: str) -> None:
    for ids in ({"qid": [odd]}, {"qid": ["a"], "document_ids": [odd]}):
        with pytest.raises(DataError, match="CSV"):
            write_delimited(tmp_path / "a.csv", Queries.from_arrays([[1.0]], **ids))
    with pytest.raises(DataError, match="a query id is empty"):
        write_delimited(tmp_path / "a.csv", Queries.from_arrays([[1.0]], qid=[""]))
    with pytest.raises(DataError, match="begins or ends with a blank"):
        write_delimited(tmp_path / "a.csv", Queries.from_arrays([[1.0]], qid=["a"], feature_names=[" x"]))


def test_sparse_features_are_written_in_full(tmp_path: Path) -> None:
    import scipy.sparse as sp

    q = Queries.from_arrays(sp.csr_array([[0.0, 1.0], [2.0, 0.0]]), [1, 0], qid=["a", "b"])
    write_delimited(tmp_path / "a.csv", q)
    assert (tmp_path / "a.csv").read_text() == "qid,grade,0,1\na,1,0,1\nb,0,2,0\n"
    write_json_lines(tmp_path / "a.jsonl", q)
    assert (tmp_path / "a.jsonl").read_text().startswith('{"qid": "a", "grade": 1, "0": 0, "1": 1}\n')


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "qid,grade,x\n1,1,2\n1,0,bad\n"),
        ("b.csv", 'qid,grade,x\n1,1,"2\n'),
        ("a.jsonl", '{"qid": 1, "x": 1}\n{"qid": 1, "x": }\n'),
        ("a.txt", "1 qid:1 1:0.5\n0 qid:1 1:bad\n"),
    ],
)
def test_a_file_is_closed_as_soon_as_it_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(DataError) as held:
        read_queries(path)
    left = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and fd.readlink() == path]
    assert held.value is not None
    assert not left
