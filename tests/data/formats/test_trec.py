"""TREC judgements and runs."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marginrank.data.formats import trec
from marginrank.data.formats.text_files import line_blocks
from marginrank.data.formats.trec import Run, read_qrels, read_run, trec_order, write_run
from marginrank.data.queries import Queries
from marginrank.errors import DataError

QRELS = "401 0 FR-1 1\n402 0 FT-2 0\n401 0 FR-3 2\n402 0 FT-1 0.5\n"
RUN = "402 Q0 FT-2 1 1.5 mine\n401 Q0 FR-3 1 0.25 mine\n402 Q0 FT-1 2 -1e-3 mine\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(data: str | bytes, name: str = "topics.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


# --- reading


def test_judgements_in_any_order_of_topics(write: Callable[..., Path]) -> None:
    qrels = read_qrels(write(QRELS))
    assert qrels.topics.tolist() == ["401", "402"]
    assert qrels.offsets.tolist() == [0, 2, 4]
    assert qrels.document_ids.tolist() == ["FR-1", "FR-3", "FT-2", "FT-1"]
    assert qrels.grades.tolist() == [1, 2, 0, 0.5]
    assert len(qrels) == 2
    assert repr(qrels) == "Qrels(2 topics, 4 judgements)"


def test_runs_in_any_order_of_topics(write: Callable[..., Path]) -> None:
    run = read_run(write(RUN))
    assert run.topics.tolist() == ["402", "401"]
    assert run.offsets.tolist() == [0, 2, 3]
    assert run.document_ids.tolist() == ["FT-2", "FT-1", "FR-3"]
    assert run.scores.tolist() == [1.5, -1e-3, 0.25]
    assert run.tag == "mine"
    assert len(run) == 2
    assert repr(run) == "Run('mine', 2 topics, 3 documents)"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(12)))
def test_the_order_of_lines_does_not_change_a_topic(write: Callable[..., Path], order: list[int]) -> None:
    lines = [f"{k % 3} 0 d{k} {k}\n" for k in range(12)]
    qrels = read_qrels(write("".join(lines[k] for k in order)))
    found = {
        (topic, document): grade
        for t, topic in enumerate(qrels.topics.tolist())
        for document, grade in zip(
            qrels.document_ids[qrels.offsets[t] : qrels.offsets[t + 1]].tolist(),
            qrels.grades[qrels.offsets[t] : qrels.offsets[t + 1]].tolist(),
            strict=True,
        )
    }
    assert found == {(str(k % 3), f"d{k}"): k for k in range(12)}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace(" ", "   "),
        lambda text: "\n\n" + text.replace("\n", "\n \n"),
        lambda text: text.rstrip("\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", " and more columns\n"),
    ],
    ids=["CRLF", "tabs", "many blanks", "blank lines", "no last line feed", "BOM", "junk at the end"],
)
def test_the_same_lines_in_other_words(write: Callable[..., Path], change: Callable[[str], str]) -> None:
    qrels, run = read_qrels(write(change(QRELS))), read_run(write(change(RUN), "run"))
    assert qrels.document_ids.tolist() == ["FR-1", "FR-3", "FT-2", "FT-1"]
    assert qrels.grades.tolist() == [1, 2, 0, 0.5]
    assert run.document_ids.tolist() == ["FT-2", "FT-1", "FR-3"]
    assert run.scores.tolist() == [1.5, -1e-3, 0.25]
    assert run.tag == "mine"


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".xz", lzma.compress),
        (".bz2", bz2.compress),
        (".zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_compressed(write: Callable[..., Path], suffix: str, compress: Callable[[bytes], bytes]) -> None:
    assert read_qrels(write(compress(QRELS.encode()), f"qrels{suffix}")).grades.tolist() == [1, 2, 0, 0.5]
    assert read_run(write(compress(RUN.encode()), f"run{suffix}")).scores.tolist() == [1.5, -1e-3, 0.25]
    path = write(compress(RUN.encode())[:-9], f"cut{suffix}")
    with pytest.raises(DataError, match="the compressed data is damaged or cut short"):
        read_run(path)


def test_negative_grades_are_unjudged(write: Callable[..., Path]) -> None:
    qrels = read_qrels(write("1 0 a -1\n1 0 b -2\n1 0 c 3\n"))
    np.testing.assert_array_equal(qrels.grades, [np.nan, np.nan, 3])
    assert repr(qrels) == "Qrels(1 topics, 1 judgements, 2 unjudged documents)"


def test_names_that_are_not_ascii(write: Callable[..., Path]) -> None:
    qrels = read_qrels(write("läufer 0 漢字#1 1\nx 0 plain 1\n"))
    assert qrels.topics.tolist() == ["läufer", "x"]
    assert qrels.document_ids.tolist() == ["漢字#1", "plain"]


def test_hard_numbers_are_read_exactly(write: Callable[..., Path]) -> None:
    words = [
        "9007199254740993",
        "4.9e-324",
        "1e-400",
        "-0.30000000000000004",
        "1.7976931348623157e308",
        "1e23",
        "+5",
        ".5",
    ]
    run = read_run(write("".join(f"1 Q0 d{k} 1 {word} x\n" for k, word in enumerate(words))))
    assert run.scores.tolist() == [float(word) for word in words]


def test_several_files_are_put_together(write: Callable[..., Path]) -> None:
    paths = [write("1 0 a 1\n2 0 a 2\n", "one"), write("2 0 b 3\n1 0 b 4\n", "two")]
    qrels = read_qrels([str(path) for path in paths])
    assert qrels.topics.tolist() == ["1", "2"]
    assert qrels.document_ids.tolist() == ["a", "b", "a", "b"]
    assert qrels.grades.tolist() == [1, 4, 2, 3]


@pytest.mark.parametrize("size", [4, 30])
def test_blocks_change_nothing(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    text = "".join(f"{k % 7} Q0 doc-{'x' * (k % 5)}{k} 1 {k / 7!r} é\n" for k in range(100))
    whole = read_run(write(text))
    monkeypatch.setattr(trec, "line_blocks", partial(line_blocks, size=size))
    cut = read_run(write(text))
    assert cut.tag == whole.tag == "é"
    for name in ("topics", "offsets", "document_ids", "scores"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name), err_msg=name)


BAD: dict[str, tuple[Any, str | bytes, str]] = {
    "empty qrels": (read_qrels, "", ": empty file; it should hold lines: topic iteration document grade"),
    "blank run": (read_run, " \n\n", ": empty file; it should hold lines: topic Q0 document rank score tag"),
    "too few columns": (
        read_qrels,
        "1 0 a 1\n\n1 0 b\n",
        ":3:6: 3 columns instead of 4; a line reads: topic iteration document grade",
    ),
    "qrels as run": (
        read_run,
        "1 0 a 1\n",
        ":1:8: 4 columns instead of 6; a line reads: topic Q0 document rank score tag",
    ),
    "run without a tag": (
        read_run,
        "1 Q0 a 1 0.5 \r\n",
        ":1:15: 5 columns instead of 6; a line reads: topic Q0 document rank score tag",
    ),
    "word for a grade": (
        read_qrels,
        "1 0 a 1\n1 0 b yes\n",
        ":2:7: 'yes' is not a finite number; is this the right kind of file?",
    ),
    "word for a score": (
        read_run,
        "1 Q0 a 1 high x\n",
        ":1:10: 'high' is not a finite number; is this the right kind of file?",
    ),
    "NaN score": (read_run, "1 Q0 a 1 nan x\n", ":1:10: 'nan' is not a finite number; is this the right kind of file?"),
    "infinite score": (
        read_run,
        "1 Q0 a 1 -inf x\n",
        ":1:10: '-inf' is not a finite number; is this the right kind of file?",
    ),
    "too large": (
        read_run,
        "1 Q0 a 1 1e999 x\n",
        ":1:10: '1e999' is not a finite number; is this the right kind of file?",
    ),
    "underscore": (
        read_run,
        "1 Q0 a 1 1_0 x\n",
        ":1:10: '1_0' is not a finite number; is this the right kind of file?",
    ),
    "number with a tail": (
        read_run,
        "1 Q0 a 1 1.5x x\n",
        ":1:10: '1.5x' is not a finite number; is this the right kind of file?",
    ),
    "document twice": (
        read_qrels,
        "1 0 a 1\n2 0 a 1\n\n1 0 b 1\n1 0 a 0\n",
        ":5: document a twice for topic 1; keep one line",
    ),
    "retrieved twice": (
        read_run,
        "7 Q0 a 1 2.5 x\n7 Q0 a 2 1.5 x\n",
        ":2: document a twice for topic 7; keep one line",
    ),
    "NUL": (
        read_run,
        b"1 Q0 a 1 2 x\0y\n",
        ":1:13: a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst",
    ),
    "control character in a grade": (
        read_qrels,
        b"t 0 d 1\x0e5\n",
        ":1:7: '1\\x0e5' is not a finite number; is this the right kind of file?",
    ),
    "control character after a grade": (
        read_qrels,
        b"t 0 d 1\x0b\n",
        ":1:7: '1\\x0b' is not a finite number; is this the right kind of file?",
    ),
    "control character in a score": (
        read_run,
        b"1 Q0 a 1 2\x1f9 x\n",
        ":1:10: '2\\x1f9' is not a finite number; is this the right kind of file?",
    ),
    "control character in a document": (
        read_qrels,
        b"1 0 a 1\n1 0 b\x1bc 1\n",
        ":2:6: control character in this document id; remove it",
    ),
    "control character in a topic": (read_qrels, b"\x011 0 a 1\n", ":1:1: control character in this topic; remove it"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_with_its_place(write: Callable[..., Path], case: str) -> None:
    reader, text, message = BAD[case]
    path = write(text)
    with pytest.raises(DataError) as refused:
        reader(path)
    assert str(refused.value) == f"{path}{message}"


def test_a_document_twice_in_two_files_is_named_in_the_second(write: Callable[..., Path]) -> None:
    first, second = write("1 0 a 1\n2 0 a 1\n", "one"), write("\n2 0 b 1\n1 0 a 1\n", "two")
    with pytest.raises(DataError) as refused:
        read_qrels([first, second])
    assert str(refused.value) == f"{second}:3: document a twice for topic 1; keep one line"


@pytest.mark.parametrize("reader", [read_qrels, read_run])
def test_no_file_at_all(reader: Any) -> None:
    with pytest.raises(DataError, match=r"^no file to read: the list of paths is empty$"):
        reader([])


# --- order


def brute_order(offsets: list[int], scores: list[float], names: list[str]) -> list[int]:
    """Score, then document id in bytes, both descending."""
    order: list[int] = []
    for start, end in pairwise(offsets):
        order += sorted(range(start, end), key=lambda k: (scores[k], names[k].encode()), reverse=True)
    return order


@given(
    st.lists(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1.0, -2.5]), st.text("aBé漢😀1", max_size=3)), max_size=6))
)
def test_ties_are_broken_by_document_id_descending(topics: list[list[tuple[float, str]]]) -> None:
    topics = [list({name: (score, name) for score, name in topic}.values()) for topic in topics]
    offsets = np.cumsum([0, *map(len, topics)])
    scores = [score for topic in topics for score, _ in topic]
    names = [name for topic in topics for _, name in topic]
    found = trec_order(offsets, np.array(scores), np.array(names, dtype="U4"))
    assert found.tolist() == brute_order(offsets.tolist(), scores, names)


def test_ranked_keeps_the_first_documents_of_each_topic() -> None:
    run = Run(np.array(["b", "a"]), np.array([0, 3, 4]), np.array(["x", "y", "z", "w"]), np.array([1.0, 3.0, 2.0, 5.0]))
    assert run.ranked().document_ids.tolist() == ["y", "z", "x", "w"]
    best = run.ranked(2)
    assert best.topics.tolist() == ["b", "a"]
    assert best.offsets.tolist() == [0, 2, 3]
    assert best.document_ids.tolist() == ["y", "z", "w"]
    assert best.scores.tolist() == [3, 2, 5]


# --- writing

names = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), min_size=1, max_size=5)
plain_names = st.text("abcXYZ019-_./#é漢", min_size=1, max_size=6)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def runs(draw: st.DrawFn, words: st.SearchStrategy[str]) -> Run:
    topics = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    documents = [draw(st.lists(words, min_size=1, max_size=5, unique=True)) for _ in topics]
    ids = [name for topic in documents for name in topic]
    scores = draw(st.lists(finite | st.sampled_from([0.0, 1.0]), min_size=len(ids), max_size=len(ids)))
    return Run(np.array(topics), np.cumsum([0, *map(len, documents)]), np.array(ids), np.array(scores), draw(words))


def assert_round_trip(path: Path, run: Run) -> None:
    write_run(path, run)
    again, ranked = read_run(path), run.ranked()
    assert again.topics.tolist() == ranked.topics.tolist()
    assert again.offsets.tolist() == ranked.offsets.tolist()
    assert again.document_ids.tolist() == ranked.document_ids.tolist()
    assert again.scores.tobytes() == ranked.scores.tobytes()
    assert again.tag == run.tag


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=runs(plain_names))
def test_a_run_is_read_back_as_it_was(tmp_path: Path, run: Run) -> None:
    assert_round_trip(tmp_path / "run", run)
    ranks = [int(line.split()[3]) for line in (tmp_path / "run").read_text(encoding="utf-8").splitlines()]
    assert ranks == [rank + 1 for size in np.diff(run.offsets).tolist() for rank in range(size)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=runs(names))
def test_a_run_with_any_names_is_refused_or_read_back_as_it_was(tmp_path: Path, run: Run) -> None:
    try:
        write_run(tmp_path / "run", run)
    except DataError:
        words = [run.tag, *run.topics.tolist(), *run.document_ids.tolist()]
        assert any(char <= " " or char.isspace() for word in words for char in word)
    else:
        assert_round_trip(tmp_path / "run", run)


@pytest.mark.parametrize(
    ("topic", "document", "tag", "message"),
    [
        (
            "1",
            "a b",
            "t",
            "document id 'a b' cannot be in a TREC run: it is empty, or holds a blank or a control character",
        ),
        (
            "1",
            "a\t",
            "t",
            "document id 'a\\t' cannot be in a TREC run: it is empty, or holds a blank or a control character",
        ),
        (
            "1",
            "",
            "t",
            "document id '' cannot be in a TREC run: it is empty, or holds a blank or a control character",
        ),
        (
            "new topic",
            "a",
            "t",
            "topic 'new topic' cannot be in a TREC run: it is empty, or holds a blank or a control character",
        ),
        (
            "1",
            "a",
            "my run",
            "tag 'my run' cannot be in a TREC run: it is empty, or holds a blank or a control character",
        ),
        (
            "1",
            "a\n1",
            "t",
            "document id 'a\\n1' cannot be in a TREC run: it is empty, or holds a blank or a control character",
        ),
    ],
)
def test_names_with_blanks_are_refused_before_anything_is_written(
    tmp_path: Path, topic: str, document: str, tag: str, message: str
) -> None:
    run = Run(np.array([topic]), np.array([0, 1]), np.array([document]), np.array([1.0]), tag)
    with pytest.raises(DataError) as refused:
        write_run(tmp_path / "run", run)
    assert str(refused.value) == message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_could_not_be_read_back_are_refused(tmp_path: Path, score: float) -> None:
    queries = Queries.from_arrays(np.zeros((2, 1)), [0, 1], qid=[1, 1])
    with pytest.raises(DataError, match="finite"):
        write_run(tmp_path / "run", queries, [1.0, score])


def test_a_document_twice_is_refused(tmp_path: Path) -> None:
    run = Run(np.array(["7"]), np.array([0, 2]), np.array(["a", "a"]), np.array([1.0, 2.0]))
    with pytest.raises(DataError, match=r"^document a twice for topic 7; keep one line$"):
        write_run(tmp_path / "run", run)


def test_scores_are_in_the_order_of_the_rows(tmp_path: Path) -> None:
    queries = Queries.from_arrays(np.zeros((4, 1)), [0, 1, 2, 3], qid=[5, 9, 5, 9], document_ids=["a", "b", "c", "d"])
    write_run(tmp_path / "run", queries, [1.0, 2.0, 3.0, 2.0], tag="mine")
    assert (tmp_path / "run").read_text() == (
        "5 Q0 c 1 3.0 mine\n5 Q0 a 2 1.0 mine\n9 Q0 d 1 2.0 mine\n9 Q0 b 2 2.0 mine\n"
    )


def test_documents_without_a_name_are_their_row(tmp_path: Path) -> None:
    queries = Queries.from_arrays(np.zeros((3, 1)), [0, 1, 2], qid=[5, 9, 5])
    write_run(tmp_path / "run", queries, [1, 2, 3], depth=1)
    assert (tmp_path / "run").read_text() == "5 Q0 2 1 3.0 marginrank\n9 Q0 1 1 2.0 marginrank\n"


def test_scores_are_needed_and_must_fit(tmp_path: Path) -> None:
    queries = Queries.from_arrays(np.zeros((2, 1)), [0, 1], qid=[1, 1])
    with pytest.raises(TypeError, match=r"the scores are missing"):
        write_run(tmp_path / "run", queries)
    with pytest.raises(DataError, match=r"^scores have shape \(3,\) for 2 documents; give one for each$"):
        write_run(tmp_path / "run", queries, [1.0, 2.0, 3.0])


# --- trec_eval's own files


def test_the_files_of_trec_eval(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("trec_eval-test")
    qrels, run = read_qrels(folder / "qrels.test.xz"), read_run(folder / "results.test.xz")
    assert repr(qrels) == "Qrels(3 topics, 3,681 judgements)"
    assert (len(run), len(run.scores)) == (3, 1500)
    graded = read_qrels(folder / "qrels.rel_level.xz")
    assert len(graded) == 3
    assert np.nanmax(graded.grades) > 1
    assert np.isnan(graded.grades).sum() == 304


def test_names_in_another_encoding_come_back_byte_for_byte(write: Callable[..., Path], tmp_path: Path) -> None:
    text = b"M\xfcller Q0 caf\xe9 1 2.0 t\xe4g\nM\xfcller Q0 \xc3\xa9\xff 2 1.0 t\xe4g\n"
    run = read_run(write(text))
    assert run.document_ids.tolist() == ["caf\udce9", "é\udcff"]
    write_run(tmp_path / "copy.run", run)
    assert (tmp_path / "copy.run").read_bytes() == text
