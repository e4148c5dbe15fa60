"""Documents to judge: what raters see of each document and of its query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from marginrank.data.column_roles import DOCUMENT_COLUMNS, GRADE_COLUMNS, spelling
from marginrank.data.formats.text_files import plain_suffix
from marginrank.data.formats.trec import read_run
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Parameter, warn
from marginrank.judging.text_tables import TABLE_SUFFIXES, TextTable, read_text_table
from marginrank.runtime.text import count, listed

#: Usual names of columns, in lower case without blanks, hyphens and underscores; first match first.
QUERY_ID: Final = ("qid", "queryid", "searchid", "topicid", "topic", "query", "querytext")
QUERY_TEXT: Final = ("querytext", "query", "topic")
DOCUMENT_ID: Final = tuple(name for tier in DOCUMENT_COLUMNS for name in tier)
#: Columns of a table of queries.
_QUERIES_ID: Final = ("id", *QUERY_ID)
_QUERIES_TEXT: Final = ("querytext", "text", "query", "title")
_TITLE: Final = ("title", "name", "producttitle", "productname", "headline")
_RANK: Final = ("rank", "docposition", "position")
#: What raters must not see: grades, and how systems rank.
_BLIND: Final = (
    *(name for tier in GRADE_COLUMNS for name in tier),
    *("rater", "annotator", "assessor", "judge", *_RANK, "score", "run", "system", "note"),
)


class ShownField(NamedTuple):
    """A field of a document or of a query, as raters see it."""

    name: str
    value: str


@dataclass(frozen=True)
class DocumentToJudge:
    """One document of one query, with what raters see of both."""

    query_id: str
    document_id: str
    query: str
    #: What a table of queries says of the query, such as the information need.
    query_fields: tuple[ShownField, ...]
    title: str
    fields: tuple[ShownField, ...]


def read_documents(
    path: str | Path,
    *,
    pairs: Sequence[str | Path] = (),
    depth: int | None = None,
    queries: str | Path | None = None,
    qid: str | None = None,
    document_id: str | None = None,
    fields: Sequence[str] = (),
    unjudged: bool = False,
) -> list[DocumentToJudge]:
    """Read the documents to judge.

    Args:
        path: A table ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` with the ids of queries and documents and what
            raters should see. Without a column of queries, it describes documents, and ``pairs`` says for which queries
            they are judged.
        pairs: Which documents of which queries to judge: TREC runs, or tables with columns of queries and documents.
        depth: Only the first so many documents of each query in each of ``pairs``, by score, by a column of ranks, or
            in the order of the table.
        queries: A table with the id and the text of each query, and anything else that raters should know about it.
        qid: Column of query ids.
        document_id: Column of document ids.
        fields: Columns to show, in this order; by default all that hold text, but no grades, ranks and scores.
        unjudged: Leave out documents that have a grade in the table.

    Raises:
        DataError: A document of ``pairs`` is not in the table, or nothing is left to judge.
    """
    path = Path(path)
    table = read_text_table(path)
    try:
        source = _Source.of(table, qid, document_id, fields)
        described = _descriptions(Path(queries)) if queries is not None else {}
        if pairs:
            documents = source.paired((pair for one in pairs for pair in _pairs(Path(one), depth)), described)
        elif source.query is None:
            listing = ", ".join(map(repr, table.columns[:8]))
            raise DataError(
                f"no column of query ids among {listing}; name it with ",
                Parameter("qid", ...),
                ", or say which documents of which queries to judge with ",
                Parameter("pairs", ...),
            )
        elif depth is not None:
            raise DataError("a depth is that of the runs that are judged; name them with ", Parameter("pairs", ...))
        else:
            documents = source.all(described)
        return _without_judged(table, source, documents) if unjudged else documents
    except DataError as error:
        raise error.at(path) from None


@dataclass(frozen=True)
class _Source:
    """The table of documents, and which of its columns are what."""

    table: TextTable
    query: int | None
    query_text: int | None
    document: int
    title: int | None
    fields: tuple[int, ...]

    @classmethod
    def of(cls, table: TextTable, qid: str | None, document_id: str | None, fields: Sequence[str]) -> _Source:
        query = table.find(QUERY_ID, qid)
        document = table.need("document ids", "document_id", DOCUMENT_ID, document_id)
        text = None if query is None else table.find(QUERY_TEXT)
        ids = {query, document, text}
        if fields:
            names = [name.strip() for words in fields for name in words.split(",")]
            chosen = [place for name in names if (place := table.find((), name)) is not None]
            title: int | None = chosen[0]
        else:
            chosen = [place for place in range(len(table.columns)) if place not in ids and _is_shown(table, place)]
            spelled = {spelling(table.columns[place]): place for place in reversed(chosen)}
            title = next((spelled[name] for name in _TITLE if name in spelled), None)
        return cls(table, query, text, document, title, tuple(place for place in chosen if place != title))

    def shown(self, row: Sequence[str], query_id: str, described: Mapping[str, _Described]) -> DocumentToJudge:
        """Return what raters see of a row."""
        said = described.get(query_id)
        text = said.text if said else row[self.query_text] if self.query_text is not None else query_id
        fields = [ShownField(self.table.columns[place], row[place]) for place in self.fields if row[place].strip()]
        title = row[self.title] if self.title is not None else ""
        return DocumentToJudge(
            query_id, row[self.document], text or query_id, said.fields if said else (), title, tuple(fields)
        )

    def all(self, described: Mapping[str, _Described]) -> list[DocumentToJudge]:
        """Return every row as a document to judge."""
        assert self.query is not None
        documents: dict[tuple[str, str], DocumentToJudge] = {}
        for line, row in zip(self.table.lines, self.table.rows, strict=True):
            ids = (row[self.query].strip(), row[self.document].strip())
            if not ids[0]:
                raise DataError("this row has no query id; every document needs one", line=line)
            if ids[1]:  # a query without documents, as Quepid writes it
                documents.setdefault(ids, self.shown(row, ids[0], described))
        return _some(list(documents.values()))

    def paired(self, pairs: Iterable[tuple[str, str]], described: Mapping[str, _Described]) -> list[DocumentToJudge]:
        """Return the given pairs; a row is looked up by query and document, or by document alone."""
        rows: dict[tuple[str, str], list[str]] = {}
        for row in self.table.rows:
            of_query = "" if self.query is None else row[self.query].strip()
            rows.setdefault((of_query, row[self.document].strip()), row)
            rows.setdefault(("", row[self.document].strip()), row)
        documents, missing = [], []
        for query, document in dict.fromkeys(pairs):
            found = rows.get((query, document)) or rows.get(("", document))
            if found is None:
                missing.append(document)
                continue
            has_row = (query, document) in rows
            documents.append(self.shown(found if has_row else self._without_query(found), query, described))
        if missing:
            n_pairs = count(len(missing) + len(documents), "document")
            named = listed(sorted(set(missing)), most=5)
            warn(f"{len(missing):,} of {n_pairs} to judge are not in the table: {named}")
        return _some(documents)

    def _without_query(self, row: Sequence[str]) -> list[str]:
        """Return the row of a document without the text of the query that it was found for."""
        return ["" if place == self.query_text else cell for place, cell in enumerate(row)]


def _some(documents: list[DocumentToJudge]) -> list[DocumentToJudge]:
    if not documents:
        raise DataError("there is no document to judge")
    return documents


def _is_shown(table: TextTable, place: int) -> bool:
    """Return whether raters see a column: text, unless it says what others or systems think of the document."""
    if spelling(table.columns[place]) in _BLIND:
        return False
    return any(not _is_number(row[place]) for row in table.rows if row[place].strip())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


class _Described(NamedTuple):
    text: str
    fields: tuple[ShownField, ...]


def _descriptions(path: Path) -> dict[str, _Described]:
    """Read a table of queries: the text by id, and the other columns."""
    table = read_text_table(path)
    try:
        query = table.need("query ids", "queries", _QUERIES_ID)
        text = table.find(_QUERIES_TEXT)
        others = [place for place in range(len(table.columns)) if place not in (query, text)]
        return {
            row[query].strip(): _Described(
                row[query if text is None else text],
                tuple(ShownField(table.columns[place], row[place]) for place in others if row[place].strip()),
            )
            for row in table.rows
        }
    except DataError as error:
        raise error.at(path) from None


def _pairs(path: Path, depth: int | None) -> Iterator[tuple[str, str]]:
    """Read the pairs of query and document that are to be judged."""
    if plain_suffix(path) not in TABLE_SUFFIXES:
        run = read_run(path).ranked(depth)
        topics = np.repeat(as_text(run.topics), np.diff(run.offsets))
        yield from zip(topics.tolist(), as_text(run.document_ids).tolist(), strict=True)
        return
    table = read_text_table(path)
    try:
        query = table.need("query ids", "pairs", QUERY_ID)
        document = table.need("document ids", "pairs", DOCUMENT_ID)
    except DataError as error:
        raise error.at(path) from None
    rank = table.find(_RANK)
    taken: Counter[str] = Counter()
    for row in table.rows:
        pair = (row[query].strip(), row[document].strip())
        taken[pair[0]] += 1
        place = float(row[rank]) if rank is not None and _is_number(row[rank]) else taken[pair[0]]
        if pair[1] and (depth is None or place <= depth):
            yield pair


def _without_judged(table: TextTable, source: _Source, documents: list[DocumentToJudge]) -> list[DocumentToJudge]:
    """Leave out documents with a grade; empty, NaN and −1 mean unjudged."""
    grade = table.need("grades", "grade", [name for tier in GRADE_COLUMNS for name in tier])
    judged = {
        ("" if source.query is None else row[source.query].strip(), row[source.document].strip())
        for row in table.rows
        if row[grade].strip().lower() not in ("", "nan", "-1", "-1.0")
    }
    return _some([one for one in documents if (one.query_id, one.document_id) not in judged])


__all__ = ["DocumentToJudge", "ShownField", "read_documents"]
