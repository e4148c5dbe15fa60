"""LETOR and SVMlight text: ``grade qid:Q index:value … #docid = D``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from marginrank.data.files import Paths, line_blocks, list_paths
from marginrank.data.group_sizes import file_beside, read_sizes
from marginrank.data.grouping import check_sizes, group_by_id, offsets_from_sizes
from marginrank.data.letor_block import EXTRA_QID, MISSING_QID, Block, Options, parse_block
from marginrank.data.letor_writer import write_letor
from marginrank.data.missing import Missing, fill_missing
from marginrank.data.places import text_blocks
from marginrank.data.queries import Queries
from marginrank.data.registry import Format
from marginrank.data.text import id_array, join_text
from marginrank.data.validation import check_queries, check_width
from marginrank.errors import DataError
from marginrank.mapped import Appended, room, settle, take_rows
from marginrank.memory import check_memory
from marginrank.memory import max_memory as memory_budget
from marginrank.sparse import sp
from marginrank.threads import in_order, thread_count
from marginrank.typing import AnyArray, Features, FloatArray, IntArray
from marginrank.words import query_named

#: Below this share of stored values, text is read into CSR unless told otherwise.
SPARSE_BELOW = 0.1


def read_letor(
    paths: Paths,
    *,
    dtype: npt.DTypeLike = np.float32,
    missing: Missing = "error",
    first_index: Literal[0, 1] = 1,
    n_features: int | None = None,
    regroup: bool = False,
    group: str | Path | npt.ArrayLike | None = None,
    sparse: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
    max_memory: int | str | None = None,
    on_disk: bool = False,
) -> Queries:
    """Read LETOR, SVMlight, LightGBM or XGBoost text, plain or compressed.

    Args:
        paths: One file or several, which are put one after the other.
        dtype: float32 or float64. Numbers are rounded correctly to float64, and from there to float32.
        missing: What NULL, NA and NaN become: ``"error"``, ``"nan"``, ``"zero"`` or ``"min"`` (the least value
            of that feature in the query; 0 where the query has none).
        first_index: The number of the first feature.
        n_features: Columns to make. Needed where files end in different features; an index beyond is an error.
        regroup: Accept a query id that comes back after another began, and put its documents together.
        group: For text without ``qid:``, the rows of each query: sizes, or a file of sizes, one per line. By
            default a file of the same name with ``.query`` or ``.group`` added.
        sparse: Make CSR features: True, False, or ``"auto"`` where less than a tenth of the values are stored.
        n_jobs: Threads; all cores by default.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.memory.max_memory`.
        on_disk: Keep features in a temporary file where they take more than a quarter of the budget.

    Raises:
        DataError: With file, line and column of the first thing that is wrong, and the way out.
    """
    files = list_paths(paths)
    options = Options(np.dtype(dtype), missing, first_index, n_features)
    text = _Text(options, memory_budget(max_memory), on_disk=on_disk)
    for path in files:
        _read_file(text, path, thread_count(n_jobs))
    _check_widths(text)
    ids, offsets, rows = _queries_of(text, regroup, group)
    columns: dict[str, Any] = {
        "X": text.features(sparse),
        "judgements": text.grades(),
        "document_ids": text.document_ids(),
    }
    if rows is not None:
        X: Any = columns["X"]
        columns = {name: None if column is None else column[rows] for name, column in columns.items() if name != "X"}
        columns["X"] = take_rows(X, rows) if isinstance(X, np.ndarray) else X[rows]
    columns["X"] = fill_missing(columns["X"], offsets, missing)
    columns |= {"offsets": offsets, "query_ids": ids, "rows": rows, "first_feature": first_index}
    return check_queries(Queries(**columns), files[0])


@dataclass
class _File:
    """What is known of one file; a path may be given twice."""

    path: Path
    n_rows: int = 0
    width: int = 0
    first_line: int = 0


@dataclass(frozen=True)
class _Start:
    """Where the rows of a query begin."""

    query: str
    row: int
    file: _File
    line: int


@dataclass
class _Text:
    """The blocks of all files, in order."""

    options: Options
    budget: int
    on_disk: bool = False
    file: Appended | None = None
    blocks: list[Block] = field(default_factory=list)
    starts: list[_Start] = field(default_factory=list)
    files: list[_File] = field(default_factory=list)
    has_qid: bool | None = None
    n_rows: int = 0
    n_bytes: int = 0

    def make_room(self) -> None:
        """Move the values of all blocks to disk, where they may be there and take much memory."""
        if self.on_disk and 4 * self.n_bytes > self.budget:
            self.file = self.file or Appended()
            for block in self.blocks:
                block.move(self.file)
            self.n_bytes = sum(block.n_bytes for block in self.blocks)

    def grades(self) -> FloatArray:
        return np.concatenate([block.grades for block in self.blocks])

    def features(self, sparse: bool | Literal["auto"]) -> Features:
        """Turn the blocks into one matrix; their values are given up on the way."""
        width = self.options.n_features or max(file.width for file in self.files)
        content = None
        if self.file is not None:
            for block in self.blocks:
                block.move(self.file)
            content = self.file.array()
            for block in self.blocks:
                block.restore(content)
        stored = sum(len(block.values) for block in self.blocks)
        if self.options.n_features is None:
            check_width(width, stored, self.files[0].path, f", or pass n_features={width}")
        if sparse == "auto":
            sparse = stored < SPARSE_BELOW * self.n_rows * width and self.options.missing != "min"
        if not sparse and content is not None and all(one.is_full and one.width == width for one in self.blocks):
            return content.view(self.options.dtype).reshape(self.n_rows, width)
        return self._csr(width) if sparse else self._dense(width)

    def check_memory(self, needed: int, what: str, remedy: str) -> None:
        """Refuse what does not fit into the budget."""
        check_memory(needed, what, self.budget, remedy=remedy, path=self.files[-1].path)

    def _dense(self, width: int) -> AnyArray:
        from marginrank.data.letor_kernel import scatter_rows  # noqa: PLC0415

        shape = self.n_rows, width
        if self.file is None:
            needed = self.n_bytes + self.n_rows * width * self.options.dtype.itemsize
            self.check_memory(needed, f"{self.n_rows:,} documents with {width:,} features", "pass sparse=True")
        X = np.zeros(shape, dtype=self.options.dtype) if self.file is None else room(shape, self.options.dtype)
        row = 0
        for block in self.blocks:
            end = row + len(block.grades)
            X[row:end] = 0.0
            if block.is_full:
                X[row:end, : block.width] = block.values.reshape(len(block.grades), block.width)
            else:
                scatter_rows(block.row_ends, block.columns, block.values, X[row:end])
            block.values, block.columns = block.values[:0], None
            settle(X, slice(row, end))
            row = end
        return X

    def _csr(self, width: int) -> sp.csr_array:
        stored = sum(len(block.values) for block in self.blocks) * (4 + self.options.dtype.itemsize)
        self.check_memory(2 * max(self.n_bytes, stored), f"{self.n_rows:,} documents", "read fewer files at once")
        counts = np.concatenate([np.diff(block.row_ends, prepend=0) for block in self.blocks])
        columns = np.concatenate([block.stored_columns() for block in self.blocks])
        values = np.concatenate([block.values for block in self.blocks])
        return sp.csr_array((values, columns, offsets_from_sizes(counts)), shape=(self.n_rows, width))

    def document_ids(self) -> AnyArray | None:
        if all(block.document_ids is None for block in self.blocks):
            return None
        columns = [
            np.zeros(len(block.grades), dtype="U1") if block.document_ids is None else block.document_ids
            for block in self.blocks
        ]
        return join_text(columns)


def _read_file(text: _Text, path: Path, n_threads: int) -> None:
    file, line = _File(path), 0
    text.files.append(file)
    for block in _parsed_blocks(path, text.options, n_threads, text.budget):
        if block.grades.size:
            _note_qid(text, block, file)
        for row, block_line, query in block.starts:
            if not (text.starts and text.starts[-1].file is file and text.starts[-1].query == query):
                text.starts.append(_Start(query, text.n_rows + row, file, line + block_line + 1))
        file.width = max(file.width, block.width)
        file.n_rows += len(block.grades)
        text.n_rows += len(block.grades)
        text.blocks.append(block)
        text.n_bytes += block.n_bytes
        text.make_room()
        text.check_memory(text.n_bytes, f"the first {text.n_rows:,} documents", "read fewer files at once")
        line += block.n_lines
    if file.n_rows == 0:
        raise DataError("no judged document in this file; it is empty or holds only comments", path=path)


def _note_qid(text: _Text, block: Block, file: _File) -> None:
    """Hold every block to the first one's habit of having query ids or not."""
    line, column = block.qid_place
    file.first_line = file.first_line or line
    if text.has_qid is None:
        text.has_qid = block.has_qid
    elif text.has_qid != block.has_qid:
        raise DataError(EXTRA_QID if block.has_qid else MISSING_QID, path=file.path, line=line, column=column)


def _parsed_blocks(path: Path, options: Options, n_threads: int, budget: int) -> Iterator[Block]:
    """Parse blocks on threads."""
    with closing(line_blocks(path, budget=budget)) as lines:
        yield from in_order(lambda block: parse_block(block, options), text_blocks(lines, path), n_threads)


def _check_widths(text: _Text) -> None:
    if text.options.n_features is not None:
        return
    first = text.files[0]
    for file in text.files:
        if file.width != first.width:
            raise DataError(
                f"{file.width} features, but {first.path.name} has {first.width}; "
                f"pass n_features={max(first.width, file.width)} if the missing ones are zero",
                path=file.path,
            )


def _queries_of(
    text: _Text, regroup: bool, group: str | Path | npt.ArrayLike | None
) -> tuple[AnyArray, IntArray, IntArray | None]:
    """Query ids, offsets and, where rows have to move, the row that each place takes."""
    if not text.has_qid:
        sizes = _sizes_of(text.files, group)
        return np.arange(len(sizes)), offsets_from_sizes(sizes), None
    if group is not None:
        raise DataError("the text has query ids, so group= has no use here; leave it out", path=text.files[0].path)
    ids = id_array([start.query for start in text.starts])
    sizes = np.diff([start.row for start in text.starts] + [text.n_rows])
    if len(np.unique(ids)) == len(ids):
        return ids, offsets_from_sizes(sizes), None
    if not regroup:
        raise _comes_back(text.starts)
    return group_by_id(np.repeat(ids, sizes))


def _sizes_of(files: Sequence[_File], group: str | Path | npt.ArrayLike | None) -> IntArray:
    if group is None:
        sizes = [read_sizes(file_beside(file.path, file.first_line), file.path, file.n_rows) for file in files]
        return np.concatenate(sizes)
    if len(files) > 1:
        raise DataError("group= goes with one file; name the size files like the data files, with .query added")
    if isinstance(group, str | Path):
        return read_sizes(Path(group), files[0].path, files[0].n_rows)
    try:
        return check_sizes(group, files[0].n_rows)
    except DataError as error:
        raise DataError(error.problem, path=files[0].path) from None


def _comes_back(starts: Sequence[_Start]) -> DataError:
    """Name the first query that begins twice."""
    first: dict[str, _Start] = {}
    start = next(start for start in starts if first.setdefault(start.query, start) is not start)
    before = first[start.query]
    between = f"line {before.line} and another query came between"
    if before.file is not start.file:
        between = f"{before.file.path.name}:{before.line}, in a file before this one"
    return DataError(
        f"{query_named(start.query)} appears again; it began at {between}; pass regroup=True to put its documents "
        "together",
        path=start.file.path,
        line=start.line,
    )


FORMATS = (
    Format(
        "letor",
        "text",
        read_letor,
        ("dtype", "missing", "first_index", "n_features", "regroup"),
        compressed=True,
        write=write_letor,
        writes=(".txt", ".letor", ".svm"),
        on_disk=True,
    ),
)
