"""One function that reads any of the formats, and one that turns one into another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from marginrank.data.files import Paths, line_blocks, list_paths
from marginrank.data.letor import read_letor
from marginrank.data.letor_writer import write_letor
from marginrank.data.queries import Queries
from marginrank.data.storage import HEADER, read_binary, read_npz, write_binary
from marginrank.data.tables import read_table, write_parquet
from marginrank.data.trec import Qrels, Run, read_qrels, read_run
from marginrank.errors import DataError

_AFTER_A_GRADE = re.compile(rb"qid:|[0-9]+:|#", re.IGNORECASE)
_BY_SUFFIX = {
    ".parquet": "table", ".pq": "table", ".arrow": "table", ".feather": "table", ".ipc": "table", ".npz": "npz",
}  # fmt: skip


def read(paths: Paths, **options: Any) -> Queries | Qrels | Run:
    """Read judged data, judgements or a run, whichever the file holds.

    Recognised are LETOR/SVMlight text with ``qid:``, LightGBM/XGBoost text with a file of group sizes beside it,
    TREC qrels and runs (all of these also as .gz, .xz, .bz2 or .zst), Parquet, Arrow and Feather tables, ``.npz``
    archives, and the binary form that `convert` writes. Several paths of one kind are put one after the other.

    Options go to the reader of that kind: `read_letor`, `read_qrels`, `read_run`, `read_table`, `read_npz`,
    `read_binary`.
    """
    files = list_paths(paths)
    kinds = [recognize(path) for path in files]
    for path, kind in zip(files, kinds, strict=True):
        if kind != kinds[0]:
            raise DataError(f"this is {kind}, but {files[0].name} is {kinds[0]}; read them apart", path=path)
    return _READERS[kinds[0]](files, **options)


def read_queries(paths: Paths, **options: Any) -> Queries:
    """Read judged data with features; TREC qrels and runs are refused."""
    content = read(paths, **options)
    if isinstance(content, Queries):
        return content
    kind = "judgements" if isinstance(content, Qrels) else "a run"
    path = paths if isinstance(paths, str | Path) else paths[0]
    raise DataError(f"TREC {kind} have no features; this needs judged documents with features", path=path)


def recognize(path: Path) -> str:
    """Name the kind of a file: letor, qrels, run, table, npz or binary."""
    if path.is_dir():
        if (path / HEADER).is_file():
            return "binary"
        raise DataError("a folder without header.json; name a file, or a folder that convert wrote", path=path)
    suffix = _BY_SUFFIX.get(path.suffix.lower())
    return suffix or _kind_of_text(_first_line(path))


def _first_line(path: Path) -> bytes:
    for block in line_blocks(path, size=1 << 16):
        for line in block.splitlines():
            text = line.strip()
            if text and not text.startswith(b"#"):
                return text
    raise DataError("no data in this file; it is empty or holds only comments", path=path)


def _kind_of_text(line: bytes) -> str:
    """Tell the kinds of text apart by the columns of their first line; LETOR where in doubt."""
    words = line.split()
    if len(words) < 2 or _AFTER_A_GRADE.match(words[1]):
        return "letor"
    return {4: "qrels"}.get(len(words), "run" if len(words) >= 6 else "letor")


def _each(read_one: Callable[..., Queries]) -> Callable[..., Queries]:
    return lambda files, **options: Queries.concatenate([read_one(path, **options) for path in files])


_READERS: Mapping[str, Callable[..., Queries | Qrels | Run]] = {
    "letor": read_letor,
    "qrels": read_qrels,
    "run": read_run,
    "table": read_table,
    "npz": _each(read_npz),
    "binary": _each(read_binary),
}

_WRITERS: Mapping[str, Callable[[Path, Queries], None]] = {
    ".queries": write_binary,
    ".txt": write_letor,
    ".letor": write_letor,
    ".svm": write_letor,
    ".parquet": write_parquet,
}


def convert(source: Paths, target: str | Path, **options: Any) -> Queries:
    """Read judged data and write it in the form that the target's suffix names, and return it.

    ``.queries`` is the binary form, which memory-maps back at once; ``.txt``, ``.letor`` and ``.svm`` are LETOR text,
    ``.parquet`` a table. Options are those of `read`; from text to text or to a table, numbers are read as float64
    unless told otherwise, so that none is rounded.
    """
    path = Path(target)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise DataError(f"unknown suffix {path.suffix!r}; write one of {', '.join(_WRITERS)}", path=path)
    files = list_paths(source)
    if any(file.exists() and path.exists() and file.samefile(path) for file in files):
        raise DataError("this is source and target at once; choose another target", path=path)
    if write is not write_binary and recognize(files[0]) == "letor":
        options.setdefault("dtype", "float64")
    queries = read_queries(files, **options)
    write(path, queries)
    return queries
