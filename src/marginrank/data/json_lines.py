"""JSON Lines: one object per document, with a name for each value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank.data.assembling import Assembly
from marginrank.data.files import Paths, create_text, line_blocks
from marginrank.data.joining import join
from marginrank.data.json_block import check_unicode as check_names
from marginrank.data.json_block import parse_json
from marginrank.data.places import text_blocks
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.data.row_text import check_unicode, written_rows
from marginrank.data.table_columns import (
    DOCUMENT_COLUMNS,
    QUERY_COLUMNS,
    TABLE_OPTIONS,
    Columns,
    check_pyarrow,
    choose_read_columns,
)
from marginrank.data.table_reading import How, Reading, read_files
from marginrank.data.tables import feature_columns, label_columns
from marginrank.data.text import as_text
from marginrank.errors import DataError
from marginrank.threads import in_order
from marginrank.typing import AnyArray

#: Options that name columns of ids.
_ID_OPTIONS: Final = ("qid", "document_id", "document_group")
_BLOCK_BYTES: Final = 2 << 20


def read_json_lines(
    paths: Paths,
    *,
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    on_disk: bool = False,
    **options: Any,
) -> Queries:
    """Read JSON Lines, plain or compressed: on each line an object such as ``{"qid": "a", "grade": 2, "bm25": 7.1}``.

    Ids are text or numbers as they are written. Names that are absent from an object, null and NaN are missing values.

    Args:
        paths: One file or several, which are put one after the other.
        n_jobs: Threads; all cores by default.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        on_disk: Keep features in a temporary file where they take more than a quarter of the budget.
        options: Those of `from_frame`.
    """
    return read_files(paths, _read_file, _join, Reading(n_jobs, max_memory, on_disk), options)


def _join(ids: Sequence[AnyArray]) -> AnyArray:
    """Put ids one after the other: Python numbers of both kinds are decimal numbers, unless other ids are text."""
    numbers = all(part.dtype.kind in "ifO" for part in ids)
    return join([part.astype(np.float64) if numbers and part.dtype == object else part for part in ids])


def _read_file(path: Path, how: How, assembly: Assembly) -> None:
    check_pyarrow(path)
    names: dict[str, None] = {}
    while not _read_all(path, how, assembly, names):
        # Names that came up late changed what the columns are for.
        assembly.clear()


def _read_all(path: Path, how: How, assembly: Assembly, names: dict[str, None]) -> bool:
    """Add all rows, and the names that come up; return whether all rows were read by the names that are known now."""
    parse = partial(parse_json, id_names=_id_names(how.named))
    chosen, n_rows = _chosen(names, how), 0
    with closing(line_blocks(path, _BLOCK_BYTES, how.budget)) as lines:
        for block in in_order(parse, text_blocks(lines, path), how.n_threads):
            if block.columns.keys() - names.keys():
                names.update(dict.fromkeys(block.columns))
                check_names("".join(names))
                before, chosen = chosen, _chosen(names, how)
                if assembly.n_rows and (chosen is None or before is None or chosen.roles != before.roles):
                    assembly.clear()
            if chosen is not None and assembly.n_rows == n_rows and block.n_rows:
                assembly.add(block.part(chosen, how))
            n_rows += block.n_rows
    if n_rows == 0:
        raise DataError("no data in this file; it is empty", path=path)
    if chosen is None:
        choose_read_columns(list(names), how.named)
    return assembly.n_rows == n_rows


def _chosen(names: Mapping[str, None], how: How) -> Columns | None:
    """Choose columns among the names that are known; None where they are too few."""
    try:
        return choose_read_columns(list(names), how.named)
    except DataError:
        return None


def _id_names(named: Mapping[str, Any]) -> frozenset[str]:
    """Name the columns that may hold ids."""
    features = named.get("features")
    numbers = () if features is None else [features] if isinstance(features, str) else features
    return frozenset(
        {*QUERY_COLUMNS, *DOCUMENT_COLUMNS, *(named[name] for name in _ID_OPTIONS if named.get(name))} - set(numbers)
    )


def write_json_lines(path: str | Path, queries: Queries) -> None:
    """Write queries as JSON Lines: names as in `write_parquet`, missing values as null.

    Every number is written with the fewest digits that are read back as the same number. Weights and document groups
    are left out.
    """
    labels, names = label_columns(queries), feature_columns(queries)
    check_unicode(queries, "JSON")
    ids = queries.query_ids if queries.query_ids.dtype.kind in "iu" else as_text(queries.query_ids)
    spelled = [json.dumps(query, ensure_ascii=False) for query in ids.tolist()]
    keys = [f"{json.dumps(name, ensure_ascii=False)}: " for name in (*labels, *names)]
    with create_text(path) as file:
        for row in written_rows(queries):
            document = None if row.document is None else json.dumps(row.document, ensure_ascii=False)
            head = [word for word in (spelled[row.query], row.grade, document) if word is not None]
            values = [*head, *(word or "null" for word in row.features)]
            file.write("{" + ", ".join(map("".join, zip(keys, values, strict=True))) + "}\n")


def _is_json(words: Sequence[bytes]) -> bool:
    return words[0].startswith((b"{", b"["))


FORMATS = (
    Format(
        "jsonl",
        "a JSON Lines file",
        read_json_lines,
        TABLE_OPTIONS,
        (".jsonl", ".ndjson"),
        compressed=True,
        matches=_is_json,
        write=write_json_lines,
        writes=(".jsonl", ".ndjson"),
        on_disk=True,
    ),
)
