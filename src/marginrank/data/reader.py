"""`read` and `convert`, for files of any format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marginrank.data.formats.base import Format, all_formats
from marginrank.data.formats.text_files import Paths, line_blocks, list_paths
from marginrank.data.formats.trec import Qrels, Run
from marginrank.data.queries import Queries
from marginrank.data.validation import check_queries
from marginrank.errors import DataError
from marginrank.runtime.files import atomic_path, no_such_file, open_input, rereadable_pipes

#: Text that matches no other format.
_DEFAULT = "letor"
#: Suffixes of spreadsheets, which are not read.
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")


def read(paths: Paths, **options: Any) -> Queries | Qrels | Run:
    """Read judged data, TREC judgements or a run; the format is recognized.

    Recognized are LETOR/SVMlight text with ``qid:``, LightGBM/XGBoost text with a file of group sizes beside it,
    TREC qrels and runs, CSV, TSV and JSON Lines (all of these also as .gz, .xz, .bz2 or .zst), Parquet, Arrow and
    Feather tables, ``.npz`` archives, and the binary form that `convert` writes. Several paths of one kind are
    concatenated.

    Options go to the reader of that kind: `read_letor`, `read_qrels`, `read_run`, `read_delimited`,
    `read_json_lines`, `read_table`, `read_npz`, `read_binary`.
    """
    files = list_paths(paths)
    with rereadable_pipes():
        kinds = [recognize(path) for path in files]
        for path, kind in zip(files, kinds, strict=True):
            if kind != kinds[0]:
                raise DataError(f"this is {kind}, but {files[0].name} is {kinds[0]}; read them separately", path=path)
        form = all_formats()[kinds[0]]
        form.check_options(options)
        content: Queries | Qrels | Run = form.read(files, **options)
    return check_queries(content, files[0]) if isinstance(content, Queries) else content


def read_queries(paths: Paths, **options: Any) -> Queries:
    """Read data with features; TREC judgements and runs are refused."""
    content = read(paths, **options)
    if isinstance(content, Queries):
        return content
    kind = "judgements" if isinstance(content, Qrels) else "a run"
    path = paths if isinstance(paths, str | Path) else paths[0]
    raise DataError(f"TREC {kind} have no features; this needs judged documents with features", path=path)


def recognize(path: Path) -> str:
    """Return the name of the format of a file: letor, qrels, run, table, npz, binary, or any other registered one."""
    formats = all_formats().values()
    if not path.exists():
        raise FileNotFoundError(f"{path}: {no_such_file(path)}")
    if path.is_dir():
        raise DataError("this is a folder; give the name of a file", path=path)
    if path.suffix.lower() in _SPREADSHEETS:
        raise DataError("this is a spreadsheet; save it as CSV", path=path)
    by_suffix = next((one for one in formats if one.suffix_of(path) in one.suffixes), None)
    if by_suffix is not None and (by_suffix.gives_way is None or not by_suffix.gives_way(_first_line(path).split())):
        return by_suffix.name
    with open_input(path) as file:
        start = file.read(256)
    by_start = [one.name for one in formats if one.begins is not None and one.begins(start)]
    if by_start:
        return by_start[0]
    words = _first_line(path).split()
    return next((one.name for one in formats if one.matches is not None and one.matches(words)), _DEFAULT)


def _first_line(path: Path) -> bytes:
    for block in line_blocks(path, size=1 << 16):
        for line in block.splitlines():
            text = line.strip()
            if text and not text.startswith(b"#"):
                return text
    raise DataError("no data in this file; it is empty or holds only comments", path=path)


def convert(source: Paths, target: str | Path, **options: Any) -> Queries:
    """Read data, write it in the format given by the suffix of the target, and return it.

    ``.queries`` is the binary form, which memory-maps back at once; ``.txt``, ``.letor`` and ``.svm`` are LETOR text,
    ``.csv``, ``.tsv``, ``.jsonl`` and ``.parquet`` have a column for each feature. Text may be compressed, as in
    ``.csv.gz``. Options are those of `read`; from LETOR text to text or to a table, numbers are read as float64 unless
    told otherwise, so that none is rounded.

    Text, tables and JSON Lines are converted in little memory, whatever their size: features that take more than a
    quarter of the budget (see `marginrank.runtime.memory.max_memory`) go through a temporary file.
    """
    path = Path(target)
    written, files = _written_format(path), list_paths(source)
    with rereadable_pipes():
        queries = _read_for(written, files, path, options)
    with atomic_path(path) as place:
        write_queries(place, queries)
    return queries


def write_queries(path: Path, queries: Queries) -> None:
    """Write queries in the format given by the suffix of a path, as `convert` does."""
    written = _written_format(path)
    assert written.write is not None
    written.write(path, queries)


def _written_format(path: Path) -> Format:
    writers = {suffix: one for one in all_formats().values() if one.write is not None for suffix in one.writes}
    written = next((one for suffix, one in writers.items() if one.suffix_of(path) == suffix), None)
    if written is None:
        raise DataError(f"unknown suffix {path.suffix!r}; write one of {', '.join(sorted(writers))}", path=path)
    return written


def _read_for(written: Format, files: list[Path], target: Path, options: dict[str, Any]) -> Queries:
    if any(file.exists() and target.exists() and file.samefile(target) for file in files):
        raise DataError("this is both source and target; choose another target", path=target)
    source = all_formats()[recognize(files[0])]
    if source.on_disk:
        options.setdefault("on_disk", True)
    if source.name == "letor" and written.name != "binary":
        options.setdefault("dtype", "float64")
    return read_queries(files, **options)
