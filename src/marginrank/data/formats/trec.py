"""TREC judgements (qrels) and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marginrank.data.formats.base import Format
from marginrank.data.formats.text_files import DECIMAL, Paths, Tokens, create_text, line_blocks, list_paths
from marginrank.data.grouping import group_by_id, offsets_from_sizes
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, join_text, text_array, text_bytes
from marginrank.data.validation import distinct_names, repeated_document
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.runtime.memory import check_memory
from marginrank.runtime.memory import max_memory as memory_budget
from marginrank.typing import AnyArray, FloatArray, IntArray

#: What stands after the grade in LETOR text, and after the topic in none of these files.
_AFTER_A_GRADE = re.compile(rb"qid:|[0-9]+:|#", re.IGNORECASE)
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\s\ud800-\udc7f\udd00-\udfff]")


@dataclass(frozen=True, eq=False, repr=False)
class Qrels:
    """Judged documents of topics: ``topic iteration document grade`` lines.

    Documents of topic ``t`` are ``offsets[t]:offsets[t + 1]``. A negative grade is kept as NaN: as trec_eval has it,
    the document was in the pool, but nobody judged it.
    """

    topics: AnyArray
    offsets: IntArray
    document_ids: AnyArray
    grades: FloatArray

    def __len__(self) -> int:
        """Count the topics."""
        return len(self.topics)

    @classmethod
    def from_dict(cls, judgements: Mapping[Any, Mapping[Any, float]]) -> Qrels:
        """Make judgements of ``{topic: {document: grade}}``, as ranx and ir-measures have them.

        >>> Qrels.from_dict({"q1": {"d1": 2, "d7": 0}, "q2": {"d3": 1}})
        Qrels(2 topics, 3 judgements)
        """
        topics, offsets, documents, grades = _flat(judgements, "grade")
        return cls(topics, offsets, documents, _pooled(grades))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return ``{topic: {document: grade}}``, as ranx and ir-measures take them.

        Whole grades are ints. Unjudged documents are left out, and so are topics that have no others.

        >>> Qrels.from_dict({"q1": {"d1": 2, "d7": 0.5, "d8": -1}, "q2": {"d3": -1}}).to_dict()
        {'q1': {'d1': 2, 'd7': 0.5}}
        """
        grades = (
            {name: int(grade) if grade.is_integer() else grade for name, grade in of_topic.items() if not isnan(grade)}
            for of_topic in _nested(self.offsets, self.document_ids, self.grades)
        )
        return {topic: judged for topic, judged in zip(self.topics.tolist(), grades, strict=True) if judged}

    def __repr__(self) -> str:
        n_unjudged = int(np.isnan(self.grades).sum())
        unjudged = f", {n_unjudged:,} unjudged documents" if n_unjudged else ""
        return f"Qrels({len(self):,} topics, {len(self.grades) - n_unjudged:,} judgements{unjudged})"


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """Retrieved documents of topics: ``topic Q0 document rank score tag`` lines.

    The rank column is not used: like trec_eval, documents are ranked by score, equal scores by document id in
    descending order.
    """

    topics: AnyArray
    offsets: IntArray
    document_ids: AnyArray
    scores: FloatArray
    tag: str = "marginrank"

    def __len__(self) -> int:
        """Count the topics."""
        return len(self.topics)

    @classmethod
    def from_dict(cls, scores: Mapping[Any, Mapping[Any, float]], tag: str = "marginrank") -> Run:
        """Make a run of ``{topic: {document: score}}``, as ranx and ir-measures have them; higher is better.

        >>> Run.from_dict({"q1": {"d1": 7.1, "d2": 3.0}}, tag="bm25")
        Run('bm25', 1 topics, 2 documents)
        """
        return cls(*_flat(scores, "score"), tag)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return ``{topic: {document: score}}``, as ranx and ir-measures take them.

        >>> Run.from_dict({"q1": {"d1": 7.1, "d2": 3}}).to_dict()
        {'q1': {'d1': 7.1, 'd2': 3.0}}
        """
        lists = _nested(self.offsets, self.document_ids, self.scores)
        return dict(zip(self.topics.tolist(), lists, strict=True))

    def __repr__(self) -> str:
        return f"Run({self.tag!r}, {len(self):,} topics, {len(self.scores):,} documents)"

    @classmethod
    def from_scores(cls, queries: Queries, scores: npt.ArrayLike, tag: str = "marginrank") -> Run:
        """Make a run of one score per row; documents without ids are named by their rows."""
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != (queries.n_documents,):
            raise DataError(f"scores have shape {values.shape} for {queries.n_documents} documents; give one for each")
        names, values = queries.to_grouped(distinct_names(queries)), queries.to_grouped(values)
        return cls(as_text(queries.query_ids), queries.query_offsets, names, values, tag)

    def ranked(self, depth: int | None = None) -> Run:
        """Sort each topic as trec_eval does, and keep the first ``depth`` documents."""
        order = trec_order(self.offsets, self.scores, self.document_ids)
        rank = np.arange(len(order)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        kept = order[rank < depth] if depth is not None else order
        sizes = np.diff(self.offsets) if depth is None else np.minimum(np.diff(self.offsets), depth)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Run(self.topics, offsets, self.document_ids[kept], self.scores[kept], self.tag)


def _nested(offsets: IntArray, document_ids: AnyArray, numbers: FloatArray) -> Iterator[dict[str, float]]:
    """Yield the numbers of each topic by document."""
    for start, stop in pairwise(offsets.tolist()):
        yield dict(zip(document_ids[start:stop].tolist(), numbers[start:stop].tolist(), strict=True))


def _flat(lists: Mapping[Any, Mapping[Any, float]], what: str) -> tuple[AnyArray, IntArray, AnyArray, FloatArray]:
    """Topics, offsets, documents and numbers of a dict of dicts; mistakes are named with the topic."""
    shape = f"{{query: {{document: {what}}}}}"
    if not isinstance(lists, Mapping):
        raise TypeError(f"this is a {type(lists).__name__}, not a dict; give {shape}")
    if not lists:
        raise DataError(f"there are no queries in this dict; give {shape}")
    documents: list[str] = []
    numbers: list[float] = []
    for query, of_query in lists.items():
        if not isinstance(of_query, Mapping):
            raise DataError(f"query {query!r} has a {type(of_query).__name__}, not a dict; give {shape}")
        for document, number in of_query.items():
            numbers.append(_dict_number(query, document, number, what))
        names = list(map(str, of_query))
        if len(set(names)) < len(names):
            raise DataError(f"query {query!r} has two documents of the same name, as text and as a number; keep one")
        documents += names
    topics = list(map(str, lists))
    if len(set(topics)) < len(topics):
        raise DataError("two queries have the same name, as text and as a number; keep one")
    offsets = offsets_from_sizes([len(of_query) for of_query in lists.values()])
    return text_array(topics), offsets, text_array(documents), np.array(numbers, dtype=np.float64)


def _dict_number(query: Any, document: Any, number: Any, what: str) -> float:
    place = f"query {query!r}, document {document!r}: the {what} is"
    if what == "grade" and (number is None or str(number) == "nan"):
        return float("nan")
    if not isinstance(number, int | float | np.number | np.bool_):
        raise DataError(f"{place} {number!r}; give a number")
    if not np.isfinite(number):
        raise DataError(f"{place} {number}; leave the document out, or give a finite number")
    return float(number)


def trec_order(offsets: IntArray, scores: FloatArray, document_ids: AnyArray) -> IntArray:
    """Rank documents inside each topic by score, equal scores by document id, both descending.

    >>> trec_order(np.array([0, 3]), np.array([1.0, 2.0, 1.0]), np.array(["a", "b", "c"])).tolist()
    [1, 2, 0]
    """
    topic = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((document_ids, scores, -topic))[::-1]


def read_qrels(paths: Paths, *, max_memory: int | str | None = None) -> Qrels:
    """Read TREC judgements; several files are concatenated."""
    table = _read_table(paths, memory_budget(max_memory), columns=4, number=3, what="topic iteration document grade")
    return Qrels(table.topics, table.offsets, table.document_ids, _pooled(table.numbers))


def _pooled(grades: FloatArray) -> FloatArray:
    """Return grades with NaN for negative ones."""
    return np.where(grades < 0, np.nan, grades)


def read_run(paths: Paths, *, max_memory: int | str | None = None) -> Run:
    """Read a TREC run; several files are concatenated."""
    table = _read_table(paths, memory_budget(max_memory), columns=6, number=4, what="topic Q0 document rank score tag")
    return Run(table.topics, table.offsets, table.document_ids, table.numbers, table.tag)


def write_run(
    path: str | Path,
    run: Run | Queries,
    scores: npt.ArrayLike | None = None,
    *,
    depth: int | None = None,
    tag: str | None = None,
) -> None:
    """Write a TREC run, best documents first: a `Run`, or `Queries` with one score per document.

    Scores are written so that reading them back gives the same numbers and the same order.
    """
    if isinstance(run, Queries):
        if scores is None:
            raise TypeError("write_run(path, queries, scores): the scores are missing")
        run = Run.from_scores(run, scores)
    elif scores is not None:
        raise TypeError("a Run has its own scores; pass scores only with Queries")
    if depth is not None and depth < 1:
        raise ParameterError(Parameter("depth"), f" is {depth}; write at least one document")
    name = tag or run.tag
    ranked = run.ranked(depth)
    _check_words(name, ranked)
    _check_scores(ranked)
    lengths = np.diff(ranked.offsets)
    topics = np.repeat(ranked.topics, lengths).tolist()
    ranks = (np.arange(len(topics)) - np.repeat(ranked.offsets[:-1], lengths) + 1).tolist()
    columns = zip(topics, ranked.document_ids.tolist(), ranks, ranked.scores.tolist(), strict=True)
    with create_text(path) as file:
        file.writelines(f"{t} Q0 {d} {r} {s!r} {name}\n" for t, d, r, s in columns)


def _check_words(tag: str, run: Run) -> None:
    """Columns are parted by blanks, so no name may be empty or hold one; a document stands once per topic."""
    for name, words in (
        ("tag", [tag]),
        ("topic", run.topics.tolist()),
        ("document id", run.document_ids.tolist()),
    ):
        for word in words:
            if not word or _BLANK_OR_CONTROL.search(word):
                raise DataError(
                    f"{name} {word!r} cannot be in a TREC run: it is empty, or holds a blank or a control character"
                )
    _refuse_repeated(run.topics, run.offsets, run.document_ids, None)


def _check_scores(run: Run) -> None:
    bad = np.flatnonzero(~np.isfinite(run.scores))
    if bad.size:
        document, score = run.document_ids[bad[0]], run.scores[bad[0]]
        raise DataError(f"document {document} has the score {score:g}; the scores of a TREC run must be finite")


@dataclass(frozen=True)
class _Table:
    topics: AnyArray
    offsets: IntArray
    document_ids: AnyArray
    numbers: FloatArray
    tag: str


def _read_table(paths: Paths, budget: int, *, columns: int, number: int, what: str) -> _Table:
    topics: list[AnyArray] = []
    documents: list[AnyArray] = []
    numbers: list[FloatArray] = []
    places: list[tuple[Path, IntArray]] = []
    tag = "marginrank"
    n_bytes = 0
    for path in list_paths(paths):
        line = n_rows = 0
        for data in line_blocks(path, budget=budget):
            block = Tokens(data, path, line)
            spans, lines = _split(block, columns, what)
            topics.append(block.words(spans[:, 0], "topic"))
            documents.append(block.words(spans[:, 2], "document id"))
            numbers.append(_numbers(block, spans[:, number]))
            places.append((path, lines + line + 1))
            n_bytes += sum(map(text_bytes, (topics[-1], documents[-1], numbers[-1], places[-1][1])))
            # Grouping by topic takes them once more.
            check_memory(2 * n_bytes, "the lines of this file", budget, remedy="read fewer topics", path=path)
            if columns == 6 and n_rows == 0 and len(spans):
                tag = block.decode(int(spans[0, 5, 0]), int(spans[0, 5, 1]), "tag")
            line += block.n_lines
            n_rows += len(spans)
        if n_rows == 0:
            raise DataError(f"empty file; it should hold lines: {what}", path=path)
    ids, offsets, rows = group_by_id(join_text(topics))
    names, values = join_text(documents), np.concatenate(numbers)
    if rows is not None:
        names, values = names[rows], values[rows]
    _refuse_repeated(ids, offsets, names, (places, rows))
    return _Table(ids, offsets, names, values, tag)


def _split(block: Tokens, columns: int, what: str) -> tuple[IntArray, IntArray]:
    from marginrank.data.formats.text_kernel import split_lines  # noqa: PLC0415

    spans = np.empty((block.n_lines, columns, 2), dtype=np.int64)
    lines = np.empty(block.n_lines, dtype=np.int64)
    n_rows, bad_at = split_lines(block.bytes, spans, lines)
    if bad_at < 0:
        return spans[:n_rows], lines[:n_rows]
    line_start = block.data.rfind(b"\n", 0, bad_at) + 1
    n_columns = len(block.data[line_start:bad_at].split())
    raise block.error(bad_at, f"{n_columns} columns instead of {columns}; a line reads: {what}")


def _numbers(block: Tokens, spans: IntArray) -> FloatArray:
    from marginrank.data.formats.text_kernel import parse_numbers  # noqa: PLC0415

    values = np.empty(len(spans))
    ok = np.empty(len(spans), dtype=np.bool_)
    parse_numbers(block.bytes, spans, values, ok)
    for row in np.flatnonzero(~ok).tolist():
        values[row] = _python_number(block, *spans[row].tolist())
    return values


def _python_number(block: Tokens, start: int, end: int) -> float:
    """Read what the kernel left over, or refuse what is not a number."""
    word = block.data[start:end]
    value = float(word) if DECIMAL.fullmatch(word) else np.nan
    if not np.isfinite(value):
        raise block.error(start, f"{block.word(start)} is not a finite number; is this the right kind of file?")
    return value


def _refuse_repeated(
    topics: AnyArray,
    offsets: IntArray,
    document_ids: AnyArray,
    source: tuple[list[tuple[Path, IntArray]], IntArray | None] | None,
) -> None:
    """Refuse a document that appears twice for a topic: every measure would count it twice."""
    repeated = repeated_document(np.repeat(np.arange(len(topics)), np.diff(offsets)), document_ids)
    if repeated is None:
        return
    at, topic = repeated
    problem = f"document {document_ids[at]} twice for topic {topics[topic]}; keep one line"
    if source is None:
        raise DataError(problem)
    places, rows = source
    row = at if rows is None else int(rows[at])
    for path, lines in places:
        if row < len(lines):
            raise DataError(problem, path=path, line=int(lines[row]))
        row -= len(lines)


def _is_qrels(words: Sequence[bytes]) -> bool:
    return len(words) == 4 and not _AFTER_A_GRADE.match(words[1])


def _is_run(words: Sequence[bytes]) -> bool:
    return len(words) >= 6 and not _AFTER_A_GRADE.match(words[1])


FORMATS = (
    Format("qrels", "TREC judgements", read_qrels, matches=_is_qrels),
    Format("run", "a TREC run", read_run, matches=_is_run),
)
