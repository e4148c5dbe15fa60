"""LETOR and SVMlight text: ``grade qid:Q index:value … #docid = D``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import MISSING_ADVICE, Missing, check_missing, feature_dtype, fill_missing
from marginrank.data.formats.base import Format
from marginrank.data.formats.group_sizes import file_beside, read_sizes
from marginrank.data.formats.row_writer import feature_rows, number_words, row_slices, short_number
from marginrank.data.formats.text_files import Paths, Tokens, create_text, line_blocks, list_paths, text_blocks
from marginrank.data.grouping import are_distinct, check_sizes, group_by_id, offsets_from_sizes
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, id_array, join_text, text_bytes
from marginrank.data.unjudged import UNJUDGED
from marginrank.data.validation import check_queries, check_width, warn_if_repeated
from marginrank.errors import DataError, Message, Parameter, ParameterError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.mapped_arrays import SpillFile, allocate, flush_rows
from marginrank.runtime.memory import check_memory
from marginrank.runtime.memory import max_memory as memory_budget
from marginrank.runtime.text import query_named
from marginrank.runtime.threads import in_order, thread_count
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: Said inside a block by the kernel's error, and where blocks or files meet.
MISSING_QID = "missing qid: the lines before have one; give every line one, or none"
EXTRA_QID = "a qid, but the lines before have none; give every line one, or none"


@dataclass(frozen=True)
class Options:
    """Options of parsing text."""

    dtype: np.dtype[Any]
    missing: Missing
    first_index: int
    n_features: int | None

    def __post_init__(self) -> None:
        feature_dtype(self.dtype)
        check_missing(self.missing)
        if self.first_index not in (0, 1):
            raise ParameterError(
                Parameter("first_index"), f" is {self.first_index}; features are numbered from 1 or from 0"
            )


@dataclass
class Block:
    """The arrays of one block of text."""

    grades: FloatArray
    row_ends: IntArray
    columns: npt.NDArray[np.int32] | None
    values: AnyArray
    #: Query id, row, and line of the first row of each query.
    query_ids: AnyArray
    start_rows: IntArray
    start_lines: IntArray
    document_ids: AnyArray | None
    n_lines: int
    width: int
    has_qid: bool
    #: Line and column of the first row's query id, or of where it is missing.
    qid_place: tuple[int, int]
    #: Where values and columns are in a file, if they are no longer here; no columns where every row has all.
    places: list[tuple[int, int]] | None = None

    def move(self, file: SpillFile) -> None:
        """Write values and columns to a file, to free their memory."""
        if self.places is None:
            self.places = [file.append(part) for part in (self.values, self.columns) if part is not None]
            self.values = self.values[:0].copy()
            self.columns = None if self.columns is None else self.columns[:0].copy()

    def restore(self, content: AnyArray) -> None:
        """Take values and columns from what the file holds."""
        if self.places is not None:
            values, *columns = (content[start:end] for start, end in self.places)
            self.values = values.view(self.values.dtype)
            self.columns = columns[0].view(np.int32) if columns else None

    @property
    def is_full(self) -> bool:
        """Whether every row has every column, so that the values alone tell all."""
        return self.columns is None

    @property
    def n_bytes(self) -> int:
        """Bytes that the arrays and names take."""
        arrays = [self.grades, self.row_ends, self.values, self.columns, self.start_rows, self.start_lines]
        texts = [self.query_ids, self.document_ids]
        numbers = sum(array.nbytes for array in arrays if array is not None)
        return int(numbers + sum(text_bytes(array) for array in texts if array is not None))

    def stored_columns(self) -> npt.NDArray[np.int32]:
        """Return the column of each value."""
        if self.columns is not None:
            return self.columns
        return np.tile(np.arange(self.width, dtype=np.int32), len(self.grades))


def parse_block(block: Tokens, options: Options) -> Block:
    """Read whole lines, or raise the first thing that is wrong in them."""
    from marginrank.data.formats import letor_kernel as kernel  # noqa: PLC0415

    n_lines, n_colons = block.n_lines, block.data.count(b":")
    grades, row_ends = np.empty(n_lines), np.empty(n_lines, dtype=np.int64)
    columns, values = np.empty(n_colons, dtype=np.int32), np.empty(n_colons, dtype=options.dtype)
    starts, documents = np.empty((n_lines, 4), dtype=np.int64), np.empty((n_lines, 2), dtype=np.int64)
    allowed, stand_in = options.missing != "error", 0.0 if options.missing == "zero" else np.nan
    room = 256
    while True:
        left = np.empty((room, 3), dtype=np.int64)
        parsed = kernel.parse_block(
            block.bytes, options.first_index, allowed, stand_in,
            grades, row_ends, columns, values, starts, left, documents,
        )  # fmt: skip
        if parsed.error != kernel.NO_ROOM:
            break
        room *= 16
    if parsed.error != kernel.FINE:
        raise _error_at(int(parsed.error), block, int(parsed.error_at), options)
    _read_left_over(left[: parsed.n_left], block, grades, values)
    if options.n_features is not None and parsed.max_column >= options.n_features:
        raise _beyond_width(block, columns[: parsed.n_values], row_ends[: parsed.n_rows], options)
    spans = documents[: parsed.n_rows]
    return Block(
        grades=grades[: parsed.n_rows].copy(),
        row_ends=row_ends[: parsed.n_rows].copy(),
        columns=None if parsed.rectangular else columns[: parsed.n_values].copy(),
        values=values[: parsed.n_values].copy(),
        query_ids=block.words(starts[: parsed.n_starts, 2:], "query id"),
        start_rows=starts[: parsed.n_starts, 0].copy(),
        start_lines=starts[: parsed.n_starts, 1].copy(),
        document_ids=block.words(spans, "document id") if parsed.has_documents else None,
        n_lines=n_lines,
        width=int(parsed.max_column) + 1,
        has_qid=bool(parsed.has_qid),
        qid_place=(block.line(int(parsed.first_qid_at)), block.column(int(parsed.first_qid_at))),
    )


def _read_left_over(left: IntArray, block: Tokens, grades: FloatArray, values: AnyArray) -> None:
    """Read with Python the few numbers whose nearest double the kernel could not settle."""
    for at, start, end in left.tolist():
        number = float(block.data[start:end])
        target, place = (values, at) if at >= 0 else (grades, -1 - at)
        with np.errstate(over="ignore"):
            target[place] = number
        if np.isinf(target[place]):
            raise block.error(start, _too_large(block.word(start), target.dtype))
        if at < 0 and number < 0:
            if number != UNJUDGED:
                raise block.error(start, _negative_grade(block.word(start)))
            target[place] = np.nan


def _too_large(word: str, dtype: np.dtype[Any]) -> Message:
    wider: Message = ("pass ", Parameter("dtype", "float64"), " or ") if dtype == np.float32 else ""
    return f"{word} is too large for {dtype}; ", wider, "rescale"


def _negative_grade(word: str) -> str:
    return f"negative grade {word}; grades start at 0, and -1 means unjudged, so shift them"


def _error_at(code: int, block: Tokens, at: int, options: Options) -> DataError:
    from marginrank.data.formats import letor_kernel as kernel  # noqa: PLC0415

    word = block.word(at)
    feature = word.strip("'").split(":")[0]
    problems: dict[int, Message] = {
        kernel.BAD_GRADE: f"{word} is not a grade; a line reads: grade qid:Q index:value ... # comment",
        kernel.NEGATIVE_GRADE: _negative_grade(word),
        kernel.EMPTY_QID: "qid: without a query id",
        kernel.LATE_QID: "qid: must stand right after the grade",
        kernel.BAD_TOKEN: f"{word} is not index:value",
        kernel.LOW_INDEX: (
            f"feature index {feature}: indices start at 1; pass ",
            Parameter("first_index", 0),
            " if yours start at 0",
        ),
        kernel.HIGH_INDEX: f"feature index {feature} is beyond the largest possible, {kernel.MAX_INDEX:,}",
        kernel.REPEATED_INDEX: f"feature {feature} twice in one line; keep one",
        kernel.UNSORTED_INDEX: f"feature {feature} after a higher one; sort each line by feature index",
        kernel.BAD_VALUE: f"{word} is not a number",
        kernel.MISSING_VALUE: (f"missing value {word}; ", MISSING_ADVICE),
        kernel.INFINITE_VALUE: f"infinite value {word}; features must be finite, so replace it",
        kernel.TOO_LARGE: _too_large(word, options.dtype),
        kernel.LOST_QID: MISSING_QID,
        kernel.EXTRA_QID: EXTRA_QID,
    }
    return block.error(at, problems[code])


def _beyond_width(block: Tokens, columns: npt.NDArray[np.int32], row_ends: IntArray, options: Options) -> DataError:
    token = int(np.argmax(columns >= cast("int", options.n_features)))
    row = int(np.searchsorted(row_ends, token, side="right"))
    judged = [k for k, text in enumerate(block.data.split(b"\n")) if text.split(b"#")[0].strip()]
    feature = int(columns[token]) + options.first_index
    return DataError(
        f"feature {feature} is beyond ",
        Parameter("n_features", options.n_features),
        "; raise ",
        Parameter("n_features"),
        " or drop the feature",
        path=block.path,
        line=block.lines_before + judged[row] + 1,
    )


_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\ud800-\udc7f\udd00-\udfff]")


def write_letor(path: str | Path, queries: Queries) -> None:
    """Write LETOR text, query after query; numbers have enough digits to be read back exactly.

    Dense features are all written; of sparse ones, those that are stored. Unjudged documents have grade
    −1. Weights, document groups and feature names are left out: the text has no place for them.
    """
    queries = queries.grouped
    _check_names(queries)
    if not queries.has_grades:
        raise DataError(
            "text has a grade on every line, and these queries have none; write .queries, .parquet, .csv or .jsonl"
        )
    names = as_text(queries.query_ids).tolist()
    query_of_row = queries.query_of_row
    written_grades = np.where(np.isnan(queries.grades), UNJUDGED, queries.grades)
    with create_text(path) as file:
        for rows, X in feature_rows(queries):
            heads = (
                f"{short_number(g)} qid:{names[q]}"
                for g, q in zip(written_grades[rows].tolist(), query_of_row[rows].tolist(), strict=True)
            )
            lines = (
                f"{head}{body}{tail}\n"
                for head, body, tail in zip(heads, _bodies(X), _tails(queries, rows), strict=True)
            )
            file.writelines(lines)


def _check_names(queries: Queries) -> None:
    for name in as_text(queries.query_ids).tolist():
        if not name or "#" in name or _BLANK_OR_CONTROL.search(name):
            raise DataError(
                f"query id {name!r} cannot be in LETOR text: it is empty, or holds a blank, a control character or '#'"
            )
    if queries.document_ids is None:
        return
    for rows in row_slices(queries.n_documents):
        for name in as_text(queries.document_ids[rows]).tolist():
            if _BLANK_OR_CONTROL.search(name):
                raise DataError(
                    f"document id {name!r} cannot be in LETOR text: it holds a blank or a control character"
                )


def _bodies(X: Features) -> list[str]:
    if sp.issparse(X):
        pairs = [f" {index + 1}:{word}" for index, word in zip(X.indices.tolist(), number_words(X.data), strict=True)]
        return ["".join(pairs[start:end]) for start, end in pairwise(X.indptr.tolist())]
    words, width = number_words(X.ravel()), X.shape[1]
    labels = [f" {k + 1}:" for k in range(width)]
    return [
        "".join([part for pair in zip(labels, words[r * width : (r + 1) * width], strict=True) for part in pair])
        for r in range(X.shape[0])
    ]


def _tails(queries: Queries, rows: slice) -> list[str]:
    if queries.document_ids is None:
        return [""] * (rows.stop - rows.start)
    names = as_text(queries.document_ids[rows]).tolist()
    return [f" #docid = {name}" if name else "" for name in names]


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
        regroup: Accept a query id that comes back after another began.
        group: For text without ``qid:``, the rows of each query: sizes, or a file of sizes, one per line. By
            default a file of the same name with ``.query`` or ``.group`` added.
        sparse: Make CSR features: True, False, or ``"auto"`` where less than a tenth of the values are stored.
        n_jobs: Threads; all cores by default.
        max_memory: Budget of memory, in bytes or as ``"8GB"``; see `marginrank.runtime.memory.max_memory`.
        on_disk: Keep features in a temporary file where they take more than a quarter of the budget.

    Raises:
        DataError: With file, line and column of the first error, and a fix.
    """
    files = list_paths(paths)
    options = Options(np.dtype(dtype), missing, first_index, n_features)
    text = _Text(options, memory_budget(max_memory), on_disk=on_disk)
    for path in files:
        _read_file(text, path, thread_count(n_jobs))
    _check_widths(text)
    ids, offsets, order = _queries_of(text, regroup, group)
    queries = Queries(
        X=fill_missing(text.features(sparse), offsets, missing, order),
        judgements=text.grades(),
        query_offsets=offsets,
        query_ids=ids,
        document_ids=text.document_ids(),
        first_feature=first_index,
        order=order,
    )
    return warn_if_repeated(check_queries(queries, files[0]), files[0])


@dataclass
class _File:
    """Position and counts of one file; a path may be given twice."""

    path: Path
    n_rows: int = 0
    width: int = 0
    first_line: int = 0


class _Starts(NamedTuple):
    """Queries of a file: their ids, and the row and line that each begins at."""

    query_ids: AnyArray
    rows: IntArray
    lines: IntArray
    file: _File


@dataclass
class _Text:
    """The blocks of all files, in order."""

    options: Options
    budget: int
    on_disk: bool = False
    file: SpillFile | None = None
    blocks: list[Block] = field(default_factory=list)
    starts: list[_Starts] = field(default_factory=list)
    files: list[_File] = field(default_factory=list)
    has_qid: bool | None = None
    n_rows: int = 0
    n_bytes: int = 0

    def make_room(self) -> None:
        """Move the values of all blocks to disk, where they may be there and take much memory."""
        if self.on_disk and 4 * self.n_bytes > self.budget:
            self.file = self.file or SpillFile()
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
            check_width(width, stored, self.files[0].path, (", or pass ", Parameter("n_features", width)))
        if sparse == "auto":
            sparse = stored < SPARSE_BELOW * self.n_rows * width and self.options.missing != "min"
        if not sparse and content is not None and all(one.is_full and one.width == width for one in self.blocks):
            return content.view(self.options.dtype).reshape(self.n_rows, width)
        return self._csr(width) if sparse else self._dense(width)

    def check_memory(self, needed: int, what: str, remedy: str) -> None:
        """Refuse what does not fit into the budget."""
        check_memory(needed, what, self.budget, remedy=remedy, path=self.files[-1].path)

    def _dense(self, width: int) -> AnyArray:
        from marginrank.data.formats.letor_kernel import scatter_rows  # noqa: PLC0415

        shape = self.n_rows, width
        if self.file is None:
            needed = self.n_bytes + self.n_rows * width * self.options.dtype.itemsize
            self.check_memory(needed, f"{self.n_rows:,} documents with {width:,} features", "pass sparse=True")
        X = np.zeros(shape, dtype=self.options.dtype) if self.file is None else allocate(shape, self.options.dtype)
        row = 0
        for block in self.blocks:
            end = row + len(block.grades)
            X[row:end] = 0.0
            if block.is_full:
                X[row:end, : block.width] = block.values.reshape(len(block.grades), block.width)
            else:
                scatter_rows(block.row_ends, block.columns, block.values, X[row:end])
            block.values, block.columns = block.values[:0], None
            flush_rows(X, slice(row, end))
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
        _add_starts(text, block, file, line)
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


def _add_starts(text: _Text, block: Block, file: _File, lines_before: int) -> None:
    """Add the starts of queries in a block; its first query may have begun in the block before."""
    ids, last = block.query_ids, text.starts[-1] if text.starts else None
    goes_on = last is not None and last.file is file and len(ids) > 0 and last.query_ids[-1] == ids[0]
    new = slice(int(goes_on), None)
    if len(ids[new]):
        rows, lines = text.n_rows + block.start_rows[new], lines_before + block.start_lines[new] + 1
        text.starts.append(_Starts(ids[new], rows, lines, file))


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
                f"{file.width} features, but {first.path.name} has {first.width}; pass ",
                Parameter("n_features", max(first.width, file.width)),
                " if the missing ones are zero",
                path=file.path,
            )


def _queries_of(
    text: _Text, regroup: bool, group: str | Path | npt.ArrayLike | None
) -> tuple[AnyArray, IntArray, IntArray | None]:
    """Return query ids, offsets and, if the rows of a query are not together, the order that groups them."""
    if not text.has_qid:
        sizes = _sizes_of(text.files, group)
        return np.arange(len(sizes)), offsets_from_sizes(sizes), None
    if group is not None:
        raise DataError("the text has query ids, so group= has no use here; leave it out", path=text.files[0].path)
    ids = id_array(join_text([part.query_ids for part in text.starts]).tolist())
    sizes = np.diff(np.concatenate([*(part.rows for part in text.starts), [text.n_rows]]))
    if are_distinct(ids):
        return ids, offsets_from_sizes(sizes), None
    if not regroup:
        raise _comes_back(text.starts)
    return group_by_id(np.repeat(ids, sizes))


def _sizes_of(files: Sequence[_File], group: str | Path | npt.ArrayLike | None) -> IntArray:
    if group is None:
        sizes = [read_sizes(file_beside(file.path, file.first_line), file.path, file.n_rows) for file in files]
        return np.concatenate(sizes)
    if len(files) > 1:
        raise DataError("group= is for a single file; name the size files like the data files, with .query added")
    if isinstance(group, str | Path):
        return read_sizes(Path(group), files[0].path, files[0].n_rows)
    try:
        return check_sizes(group, files[0].n_rows)
    except DataError as error:
        raise error.at(files[0].path) from None


def _comes_back(starts: Sequence[_Starts]) -> DataError:
    """Name the first query that begins twice."""
    first: dict[str, tuple[_File, int]] = {}
    begins = (
        (query, (part.file, line))
        for part in starts
        for query, line in zip(part.query_ids.tolist(), part.lines.tolist(), strict=True)
    )
    query, (file, line) = next(begin for begin in begins if first.setdefault(*begin) is not begin[1])
    before, before_line = first[query]
    between = f"line {before_line} and another query came between"
    if before is not file:
        between = f"{before.path.name}:{before_line}, in a file before this one"
    return DataError(
        f"{query_named(query)} appears again; it began at {between}; pass ",
        Parameter("regroup", True),
        " to put its documents together",
        path=file.path,
        line=line,
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
