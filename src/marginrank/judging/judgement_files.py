"""Files of judgements, as this and other tools write them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from marginrank.data.column_roles import GRADE_COLUMNS
from marginrank.data.formats.text_files import open_binary, plain_suffix
from marginrank.data.reader import recognize
from marginrank.errors import DataError, Parameter
from marginrank.judging.documents_to_judge import DOCUMENT_ID, QUERY_ID
from marginrank.judging.judgement_store import JudgementStore
from marginrank.judging.judgements import RATER_COLUMNS, Judgements
from marginrank.judging.text_tables import TABLE_SUFFIXES, TextTable, as_cell, read_text_table, text_lines
from marginrank.runtime.files import no_such_file
from marginrank.runtime.text import count

_GRADE: Final = tuple(name for tier in GRADE_COLUMNS for name in tier)
_RATER: Final = tuple(name.replace("_", "") for name in RATER_COLUMNS)
#: How an SQLite database begins.
_DATABASE: Final = b"SQLite format 3\0"
#: Who made judgements that name nobody, in Quepid.
_ANONYMOUS: Final = "Anonymous"


class _Grade(NamedTuple):
    """One judgement; NaN means unjudged."""

    query: str
    document: str
    rater: str
    grade: float


def read_judgements(
    path: str | Path,
    *,
    qid: str | None = None,
    document_id: str | None = None,
    rater: str | None = None,
    grade: str | None = None,
    raters: Sequence[str] | None = None,
    rater_name: str | None = None,
) -> Judgements:
    """Read judgements from a file of any known kind; empty grades, NaN and −1 mean unjudged.

    - a table ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``, as spreadsheets and Quepid export them, with one judgement
      per row, or with one document per row and a column for each rater;
    - the JSON of a case or a book of Quepid, or of a judgement list of OpenSearch's search relevance plugin;
    - TREC judgements, where grades below −1, which mark junk, count as 0;
    - the database of ``marginrank judge``.

    Text may be compressed.

    Args:
        path: The file.
        qid: Column of query ids; this and the others are recognized by usual names, such as ``query`` and ``docid``.
        document_id: Column of document ids.
        rater: Column of raters.
        grade: Column of grades.
        raters: Columns with the grades of one rater each; by default all others of a table without column of grades.
        rater_name: The rater of a file that names none; by default its name without suffix, or that of the list.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: {no_such_file(path)}")
    name = rater_name or path.name.lstrip(".").partition(".")[0]
    try:
        with open_binary(path) as file:
            start = file.read(64)
        if start.startswith(_DATABASE):
            with JudgementStore(path) as store:
                return store.judgements()
        if plain_suffix(path) == ".json":
            return _collected(_json_grades(_json(path), name, rater_name))
        if plain_suffix(path) not in TABLE_SUFFIXES and recognize(path) == "qrels":
            return _collected(_trec_grades(path, name))
        table = read_text_table(path)
        return _collected(_table_grades(table, _Columns.of(table, qid, document_id, rater, grade, raters), name))
    except DataError as error:
        raise error.at(path) from None


def _collected(grades: Iterator[_Grade]) -> Judgements:
    columns: list[list[Any]] = [list(column) for column in zip(*grades, strict=True)] or [[], [], [], []]
    return Judgements.of(*columns)


class _Columns(NamedTuple):
    """Places of columns; either one has grades, with or without another for raters, or each rater has one."""

    query: int
    document: int
    rater: int | None
    grade: int | None
    raters: list[int]

    @classmethod
    def of(
        cls,
        table: TextTable,
        qid: str | None,
        document_id: str | None,
        rater: str | None,
        grade: str | None,
        raters: Sequence[str] | None,
    ) -> _Columns:
        query = table.need("query ids", "qid", QUERY_ID, qid)
        document = table.need("document ids", "document_id", DOCUMENT_ID, document_id)
        if raters is not None:
            places = [place for name in raters if (place := table.find((), name)) is not None]
            return cls(query, document, None, None, places)
        who = table.find(_RATER, rater)
        column = table.find(_GRADE, grade)
        others = [place for place in range(len(table.columns)) if place not in (query, document)]
        if column is None and (who is not None or not others):
            table.need("grades", "grade", _GRADE, grade)
        if column is None and "Snapshot Name" in table.columns:
            raise DataError("this snapshot has no grades; export it from Quepid in the basic format")
        return cls(query, document, who, column, others if column is None else [])


def _table_grades(table: TextTable, columns: _Columns, name: str) -> Iterator[_Grade]:
    for line, row in zip(table.lines, table.rows, strict=True):
        query, document = row[columns.query].strip(), row[columns.document].strip()
        if columns.grade is not None:
            who = name if columns.rater is None else row[columns.rater].strip()
            given = [(who, row[columns.grade])]
        else:
            given = [(table.columns[place], row[place]) for place in columns.raters]
        for rater, cell in given:
            grade = _number(cell, line, None if columns.grade is not None else rater)
            if not math.isnan(grade):
                _check_present(line, query=query, document=document, rater=rater)
                yield _Grade(query, document, rater, grade)


def _check_present(line: int, **ids: str) -> None:
    for what, value in ids.items():
        if not value:
            raise DataError(f"this judgement has no {what}; every judgement needs one", line=line)


def _number(cell: str, line: int, column: str | None = None) -> float:
    try:
        return float(cell) if cell.strip() else math.nan
    except ValueError:
        if column is None:
            raise DataError(f"the grade is {cell!r}, which is not a number", line=line) from None
        raise DataError(
            f"column {column!r} holds {cell!r}, which is not a grade; name the column of grades with ",
            Parameter("grade", ...),
            ", or those of raters with ",
            Parameter("raters", ...),
            line=line,
        ) from None


def _trec_grades(path: Path, name: str) -> Iterator[_Grade]:
    for line, text in text_lines(path):
        words = text.split()
        if len(words) != 4:
            raise DataError(f"{count(len(words), 'column')}; give topic, iteration, document and grade", line=line)
        grade = _number(words[3], line)
        yield _Grade(words[0], words[2], name, grade if grade >= -1.0 else 0.0)


def _json(path: Path) -> Any:
    with open_binary(path) as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError) as error:
            raise DataError(f"this is not JSON ({error}); a file with one object per line is .jsonl") from None


def _json_grades(record: Any, name: str, rater_name: str | None) -> Iterator[_Grade]:
    """Yield the judgements of an exported file, by the names in it."""
    readers: dict[str, Callable[[Any, str], Iterator[_Grade]]] = {
        "judgmentRatings": _opensearch_grades,
        "query_doc_pairs": _book_grades,
        "queries": _case_grades,
    }
    if isinstance(record, dict):
        if isinstance(record.get("hits"), dict):  # what OpenSearch answers if asked for a list
            for hit in record["hits"].get("hits", ()):
                yield from _json_grades(hit.get("_source"), name, rater_name)
            return
        for key, read in readers.items():
            if key in record:
                try:
                    title = record.get("name") or record.get("case_name") or name
                    yield from read(record, rater_name or as_cell(title))
                except DataError:
                    raise
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    raise DataError(f"{key} is not as expected ({error!r}); export it again") from None
                return
    raise DataError("this is neither a case nor a book of Quepid nor a judgement list of OpenSearch; save it as CSV")


def _opensearch_grades(record: Any, name: str) -> Iterator[_Grade]:
    for query in record["judgmentRatings"]:
        for one in query["ratings"]:
            yield _Grade(as_cell(query["query"]), as_cell(one["docId"]), name, float(one["rating"]))


def _book_grades(record: Any, _: str) -> Iterator[_Grade]:
    """Yield the judgements of a book of Quepid; what a rater could not rate is unjudged."""
    for pair in record["query_doc_pairs"]:
        for one in pair.get("judgements", ()):
            grade = math.nan if one["rating"] is None or one.get("unrateable") else float(one["rating"])
            rater = as_cell(one.get("user_email")) or _ANONYMOUS
            yield _Grade(as_cell(pair["query_text"]), as_cell(pair["doc_id"]), rater, grade)


def _case_grades(record: Any, name: str) -> Iterator[_Grade]:
    """Yield the ratings of a case of Quepid, which are those of all raters combined."""
    for query in record["queries"]:
        for one in query.get("ratings", ()):
            grade = math.nan if one["rating"] is None else float(one["rating"])
            yield _Grade(as_cell(query["query_text"]), as_cell(one["doc_id"]), name, grade)


#: Kinds of files that judgements are written as.
JudgementFormat = Literal["csv", "trec", "quepid"]


def write_judgements(path: str | Path, judgements: Judgements, format: JudgementFormat = "csv") -> None:  # noqa: A002
    """Write judgements for this or another tool.

    Args:
        path: The file to write.
        judgements: What raters gave.
        format: ``"csv"``, one judgement per row: query_id, document_id, rater, grade; ``"trec"``, the judgements of a
            single rater as trec_eval reads them; ``"quepid"``, CSV as cases of Quepid import it (query, docid, rating)
            for a single rater, and as books export it, with a column for each, for several.

    Raises:
        DataError: The format cannot hold the ids, the grades or several raters.
    """
    rows = {"csv": _csv_rows, "trec": _trec_rows, "quepid": _quepid_rows}[format](judgements)
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        if format == "trec":
            file.writelines(f"{' '.join(row)}\n" for row in rows)
        else:
            csv.writer(file, lineterminator="\n").writerows(rows)


def _csv_rows(judgements: Judgements) -> Iterator[Sequence[str]]:
    yield ["query_id", "document_id", "rater", "grade"]
    for query, document, rater, grade in judgements.rows():
        yield [query, document, rater, _shortest(grade)]


def _trec_rows(judgements: Judgements) -> Iterator[Sequence[str]]:
    if len(judgements.raters) > 1:
        raise DataError(
            f"TREC judgements have one grade per document, and here are those of {', '.join(judgements.raters)}; "
            "choose a rater, or merge their grades first"
        )
    for query, document, _, grade in judgements.rows():
        for word in (query, document):
            if not word.isprintable() or len(word.split()) != 1:
                raise DataError(f"{word!r} has blanks, which TREC files cannot hold; write CSV, or use other ids")
        if not grade.is_integer():
            raise DataError(f"the grade {grade:g} is fractional, which TREC files cannot hold; write CSV")
        yield [query, "0", document, _shortest(grade)]


def _quepid_rows(judgements: Judgements) -> Iterator[Sequence[str]]:
    single = len(judgements.raters) == 1
    yield ["query", "docid", *(["rating"] if single else judgements.raters)]
    rows = zip(judgements.query_ids.tolist(), judgements.document_ids.tolist(), judgements.grades.tolist(), strict=True)
    for query, document, grades in rows:
        yield [query, document, *("" if math.isnan(grade) else _shortest(grade) for grade in grades)]


def _shortest(grade: float) -> str:
    """Write a grade with the fewest digits that are read back as the same number.

    >>> _shortest(2.0), _shortest(0.5)
    ('2', '0.5')
    """
    return repr(int(grade)) if grade.is_integer() else repr(grade)


__all__ = ["JudgementFormat", "read_judgements", "write_judgements"]
