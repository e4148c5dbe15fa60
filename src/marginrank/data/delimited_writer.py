"""Queries to CSV and TSV."""

from __future__ import annotations

from pathlib import Path

from marginrank.data.files import create_text, plain_suffix
from marginrank.data.queries import Queries
from marginrank.data.row_text import check_unicode, written_rows
from marginrank.data.tables import feature_columns, label_columns
from marginrank.data.text import as_text
from marginrank.errors import DataError


def write_delimited(path: str | Path, queries: Queries) -> None:
    """Write queries as CSV, or as TSV where the suffix is ``.tsv``: columns as in `write_parquet`.

    Every number is written with the fewest digits that are read back as the same number, a missing one as nothing.
    Weights and document groups are left out.
    """
    separator = "\t" if plain_suffix(Path(path)) in (".tsv", ".tab") else ","
    labels, names = label_columns(queries), feature_columns(queries)
    for name in names:
        if not name or name != name.strip():
            raise DataError(f"feature name {name!r} is empty, or begins or ends with a blank; rename it")
    check_unicode(queries, "a CSV file")
    ids = as_text(queries.query_ids).tolist()
    if "" in ids:
        raise DataError("a query id is empty, which CSV cannot tell from a missing one; write .parquet or .jsonl")
    quoted_ids = [_field(query, separator) for query in ids]
    with create_text(path) as file:
        file.write(separator.join(_field(name, separator) for name in (*labels, *names)) + "\n")
        for row in written_rows(queries):
            head = [quoted_ids[row.query]]
            if row.grade is not None:
                head.append(row.grade)
            if row.document is not None:
                head.append(_field(row.document, separator))
            file.write(separator.join([*head, *row.features]) + "\n")


def _field(word: str, separator: str) -> str:
    """Put quotes around a word that holds a separator, a quote or a line end.

    >>> _field("d7", ","), _field('2" pipe, steel', ",")
    ('d7', '"2"" pipe, steel"')
    """
    if "\r" in word or "\0" in word:
        raise DataError(f"{word!r} holds a carriage return or a NUL, which CSV cannot hold; write .parquet or .jsonl")
    if separator in word or '"' in word or "\n" in word:
        return '"' + word.replace('"', '""') + '"'
    return word
