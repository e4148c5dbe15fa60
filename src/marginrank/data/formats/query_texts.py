"""Files with the text of each query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from marginrank.data.formats.csv import csv_records
from marginrank.data.formats.text_files import COMPRESSIONS, NOT_UTF8, line_blocks
from marginrank.errors import DataError

#: Names of the columns, first match first; ``query`` is an id beside another column of texts, as in judged data.
ID_COLUMNS: Final = ("_id", "id", "qid", "query_id", "topic", "query")
TEXT_COLUMNS: Final = ("query_text", "text", "query", "title")
_JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")


def read_query_texts(path: str | Path) -> dict[str, str]:
    """Read the text of each query, by query id.

    A file with the suffix ``.jsonl`` has one JSON object per line, with the id as ``_id``, ``id``, ``qid``,
    ``query_id``, ``topic`` or ``query`` and the text as ``query_text``, ``text``, ``query`` or ``title``. This may be
    judged data, where a text is repeated on every row of a query. A ``.csv`` file has comma-separated
    columns, any other file tab-separated ones: the id and the text, or columns with these names in the first line. The
    file may be compressed.
    """
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSIONS]
    kind = suffixes[-1] if suffixes else ""
    texts: dict[str, str] = {}
    for line, query, text in _objects(path) if kind in _JSON_SUFFIXES else _rows(path, kind == ".csv"):
        if texts.setdefault(query, text) != text:
            raise DataError(f"query {query} has two texts; keep one", path=path, line=line)
    if not texts:
        raise DataError("no query texts in this file; give an id and a text per line", path=path)
    return texts


def _lines(path: Path) -> Iterator[str]:
    for block in line_blocks(path):
        yield from block.decode("utf-8", NOT_UTF8).replace("\r\n", "\n").removesuffix("\n").split("\n")


def _objects(path: Path) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            raise DataError("not JSON; give one object per line", path=path, line=number) from None
        names = list(record) if isinstance(record, dict) else []
        chosen = _id_and_text(names)
        if chosen is None:
            raise DataError('no id and text; give objects such as {"id": "q1", "text": "..."}', path=path, line=number)
        yield number, str(record[chosen[0]]), str(record[chosen[1]])


def _rows(path: Path, commas: bool) -> Iterator[tuple[int, str, str]]:
    columns = (0, 1)
    for at, (line, row) in enumerate(csv_records(path, ",") if commas else _fields_between_tabs(path)):
        named = _named_columns(row) if at == 0 else None
        if named is not None:
            columns = named
        elif len(row) <= max(columns):
            what = "commas" if commas else "tabs"
            raise DataError(f"no text; separate id and text by {what}", path=path, line=line)
        else:
            yield line, row[columns[0]], row[columns[1]]


def _fields_between_tabs(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that are not empty, and their fields; a quote is a character as any other."""
    return ((number, line.split("\t")) for number, line in enumerate(_lines(path), 1) if line)


def _named_columns(row: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of id and text in a line of column names; None for a line of data.

    >>> _named_columns(["text", "qid"]), _named_columns(["q1", "convert an index"])
    ((1, 0), None)
    """
    names = [name.strip().lower() for name in row]
    chosen = _id_and_text(names)
    return None if chosen is None else (names.index(chosen[0]), names.index(chosen[1]))


def _id_and_text(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of the columns of ids and texts, if there are two.

    >>> _id_and_text(["query", "qid"]), _id_and_text(["query", "text", "bm25"]), _id_and_text(["query", "bm25"])
    (('qid', 'query'), ('query', 'text'), None)
    """
    id_name = next((name for name in ID_COLUMNS if name in names), None)
    text_name = next((name for name in TEXT_COLUMNS if name in names and name != id_name), None)
    return None if id_name is None or text_name is None else (id_name, text_name)
