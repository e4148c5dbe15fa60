"""LETOR and SVMlight text: ``grade qid:Q index:value … #docid = D``."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from marginrank.data.files import COMPRESSIONS, line_blocks
from marginrank.data.grouping import group_by_id, offsets_from_sizes
from marginrank.data.missing import Missing, check_missing, fill_missing
from marginrank.data.places import TextBlock
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.threads import thread_count
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

#: Below this share of stored values, text is read into CSR unless told otherwise.
SPARSE_BELOW = 0.1
_GROUP_SUFFIXES = (".query", ".group")
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")


def read_letor(
    paths: str | Path | Sequence[str | Path],
    *,
    dtype: npt.DTypeLike = np.float32,
    missing: Missing = "error",
    first_index: Literal[0, 1] = 1,
    n_features: int | None = None,
    regroup: bool = False,
    group: str | Path | npt.ArrayLike | None = None,
    sparse: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
) -> Queries:
    """Read LETOR, SVMlight, LightGBM or XGBoost text, plain or compressed.

    Args:
        paths: One file or several, which are put one after the other.
        dtype: float32 or float64. Numbers are rounded correctly to float64, and from there to float32.
        missing: What NULL, NA and NaN become: ``"error"``, ``"nan"``, ``"zero"`` or ``"min"`` (the least value
            of that feature in the query, as LETOR's own *min* files have it; 0 where the query has none).
        first_index: The number of the first feature.
        n_features: Columns to make. Needed where files end in different features; an index beyond is an error.
        regroup: Accept a query id that comes back after another began, and put its documents together.
        group: For text without ``qid:``, the rows of each query: sizes, or a file of sizes, one per line. By
            default a file of the same name with ``.query`` or ``.group`` added.
        sparse: Make CSR features: True, False, or ``"auto"`` where less than a tenth of the values are stored.
        n_jobs: Threads; all cores by default.

    Raises:
        DataError: With file, line and column of the first thing that is wrong, and the way out.
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not files:
        raise DataError("no file to read: the list of paths is empty")
    options = _Options(np.dtype(dtype), missing, first_index, n_features)
    text = _Text(options)
    for path in files:
        _read_file(text, path, thread_count(n_jobs))
    _check_widths(text, n_features)
    ids, offsets, rows = _queries_of(text, files, regroup, group)
    columns: dict[str, Any] = {
        "X": text.features(sparse),
        "grades": text.grades(),
        "document_ids": text.document_ids(),
    }
    if rows is not None:
        columns = {name: None if column is None else column[rows] for name, column in columns.items()}
    columns["X"] = fill_missing(columns["X"], offsets, missing)
    return Queries(offsets=offsets, query_ids=ids, rows=rows, **columns)


@dataclass(frozen=True)
class _Options:
    dtype: np.dtype[Any]
    missing: Missing
    first_index: int
    n_features: int | None

    def __post_init__(self) -> None:
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype is {self.dtype}; features are float32 or float64")
        check_missing(self.missing)
        if self.first_index not in (0, 1):
            raise ValueError(f"first_index is {self.first_index}; features are numbered from 1 or from 0")


@dataclass(frozen=True)
class _Start:
    """Where the rows of a query begin."""

    query: str
    row: int
    path: Path
    line: int


@dataclass
class _Block:
    """The arrays of one block of text."""

    grades: FloatArray
    row_ends: IntArray
    columns: npt.NDArray[np.int32] | None
    values: AnyArray
    starts: list[tuple[int, int, str]]
    document_ids: AnyArray | None
    n_lines: int
    width: int
    has_qid: bool

    @property
    def is_full(self) -> bool:
        """Whether every row has every column, so that the values alone tell all."""
        return self.columns is None


@dataclass
class _Text:
    """The blocks of all files, in order."""

    options: _Options
    blocks: list[_Block] = field(default_factory=list)
    starts: list[_Start] = field(default_factory=list)
    widths: dict[Path, int] = field(default_factory=dict)
    rows_of: dict[Path, int] = field(default_factory=dict)
    has_qid: bool | None = None
    n_rows: int = 0

    def grades(self) -> FloatArray:
        return np.concatenate([block.grades for block in self.blocks])

    def features(self, sparse: bool | Literal["auto"]) -> Features:
        """Turn the blocks into one matrix; their values are given up on the way."""
        width = self.options.n_features or max(self.widths.values())
        stored = sum(len(block.values) for block in self.blocks)
        if sparse == "auto":
            sparse = stored < SPARSE_BELOW * self.n_rows * width and self.options.missing != "min"
        return self._csr(width) if sparse else self._dense(width)

    def _dense(self, width: int) -> AnyArray:
        from marginrank.data.letor_kernel import scatter_rows  # noqa: PLC0415

        X = np.zeros((self.n_rows, width), dtype=self.options.dtype)
        row = 0
        for block in self.blocks:
            end = row + len(block.grades)
            if block.is_full:
                X[row:end, : block.width] = block.values.reshape(len(block.grades), block.width)
            else:
                scatter_rows(block.row_ends, block.columns, block.values, X[row:end])
            block.values, block.columns = block.values[:0], None
            row = end
        return X

    def _csr(self, width: int) -> sp.csr_array:
        counts = np.concatenate([np.diff(block.row_ends, prepend=0) for block in self.blocks])
        columns = np.concatenate([_columns_of(block) for block in self.blocks])
        values = np.concatenate([block.values for block in self.blocks])
        return sp.csr_array((values, columns, offsets_from_sizes(counts)), shape=(self.n_rows, width))

    def document_ids(self) -> AnyArray | None:
        if all(block.document_ids is None for block in self.blocks):
            return None
        columns = [
            np.zeros(len(block.grades), dtype="U1") if block.document_ids is None else block.document_ids
            for block in self.blocks
        ]
        return np.concatenate(columns)


def _columns_of(block: _Block) -> npt.NDArray[np.int32]:
    if block.columns is not None:
        return block.columns
    return np.tile(np.arange(block.width, dtype=np.int32), len(block.grades))


def _read_file(text: _Text, path: Path, n_threads: int) -> None:
    n_before, width, line = text.n_rows, 0, 0
    for block in _parsed_blocks(path, text.options, n_threads):
        if block.grades.size:
            _note_qid(text, block, path, line)
        for row, block_line, query in block.starts:
            if not (text.starts and text.starts[-1].path == path and text.starts[-1].query == query):
                text.starts.append(_Start(query, text.n_rows + row, path, line + block_line + 1))
        width = max(width, block.width)
        line += block.n_lines
        text.n_rows += len(block.grades)
        text.blocks.append(block)
    if text.n_rows == n_before:
        raise DataError("no judged document in this file; it is empty or holds only comments", path=path)
    text.widths[path] = width
    text.rows_of[path] = text.n_rows - n_before


def _note_qid(text: _Text, block: _Block, path: Path, line: int) -> None:
    """Hold every block to the first one's habit of having query ids or not."""
    if text.has_qid is None:
        text.has_qid = block.has_qid
    elif text.has_qid != block.has_qid:
        habit = "have a qid" if text.has_qid else "have no qid"
        raise DataError(
            f"the lines before {habit}, those from here on do not agree; give every line one, or none",
            path=path,
            line=line + 1,
        )


def _parsed_blocks(path: Path, options: _Options, n_threads: int) -> Iterator[_Block]:
    """Parse blocks on threads, a few ahead, and hand them out in order."""
    with ThreadPoolExecutor(n_threads, thread_name_prefix="marginrank-read") as pool:
        ahead: deque[Future[_Block]] = deque()
        line = 0
        broken: DataError | None = None
        blocks = line_blocks(path)
        while True:
            try:
                block = next(blocks, None)
            except DataError as error:
                block, broken = None, error
            if block is not None:
                ahead.append(pool.submit(_parse_block, TextBlock(block, path, line), options))
                line += block.count(b"\n")
            if block is None and not ahead:
                break
            if block is None or len(ahead) > n_threads:
                yield ahead.popleft().result()
        if broken is not None:
            raise broken


def _parse_block(block: TextBlock, options: _Options) -> _Block:
    from marginrank.data import letor_kernel as kernel  # noqa: PLC0415

    n_lines, n_colons = block.n_lines, block.data.count(b":")
    grades, row_ends = np.empty(n_lines), np.empty(n_lines, dtype=np.int64)
    columns, values = np.empty(n_colons, dtype=np.int32), np.empty(n_colons, dtype=options.dtype)
    starts, documents = np.empty((n_lines, 4), dtype=np.int64), np.empty((n_lines, 2), dtype=np.int64)
    allowed, stand_in = options.missing != "error", 0.0 if options.missing == "zero" else np.nan
    room = 256
    while True:
        left = np.empty((room, 3), dtype=np.int64)
        found = kernel.parse_block(
            block.bytes, options.first_index, allowed, stand_in,
            grades, row_ends, columns, values, starts, left, documents,
        )  # fmt: skip
        if found.error != kernel.NO_ROOM:
            break
        room *= 16
    if found.error != kernel.FINE:
        raise _error_at(int(found.error), block, int(found.error_at), options)
    _read_left_over(left[: found.n_left], block, grades, values)
    if options.n_features is not None and found.max_column >= options.n_features:
        raise _beyond_width(block, columns[: found.n_values], row_ends[: found.n_rows], options)
    spans = documents[: found.n_rows]
    return _Block(
        grades=grades[: found.n_rows].copy(),
        row_ends=row_ends[: found.n_rows].copy(),
        columns=None if found.rectangular else columns[: found.n_values].copy(),
        values=values[: found.n_values].copy(),
        starts=[
            (row, line, block.decode(start, end, "query id"))
            for row, line, start, end in starts[: found.n_starts].tolist()
        ],
        document_ids=block.words(spans, "document id") if found.has_documents else None,
        n_lines=n_lines,
        width=int(found.max_column) + 1,
        has_qid=bool(found.has_qid),
    )


def _read_left_over(left: IntArray, block: TextBlock, grades: FloatArray, values: AnyArray) -> None:
    """Read with Python the few numbers whose nearest double the kernel could not settle."""
    for at, start, end in left.tolist():
        number = float(block.data[start:end])
        target, place = (values, at) if at >= 0 else (grades, -1 - at)
        with np.errstate(over="ignore"):
            target[place] = number
        if np.isinf(target[place]):
            raise block.error(start, _too_large(block.word(start), target.dtype))
        if at < 0 and number < 0:
            raise block.error(start, _negative_grade(block.word(start)))


def _too_large(word: str, dtype: np.dtype[Any]) -> str:
    way_out = "pass dtype='float64' or rescale" if dtype == np.float32 else "rescale"
    return f"{word} is too large for {dtype}; {way_out}"


def _negative_grade(word: str) -> str:
    return f"negative grade {word}; grades start at 0, so shift them"


def _error_at(code: int, block: TextBlock, at: int, options: _Options) -> DataError:
    from marginrank.data import letor_kernel as kernel  # noqa: PLC0415

    word = block.word(at)
    feature = word.strip("'").split(":")[0]
    problems = {
        kernel.BAD_GRADE: f"{word} is not a grade; a line reads: grade qid:Q index:value ... # comment",
        kernel.NEGATIVE_GRADE: _negative_grade(word),
        kernel.EMPTY_QID: "qid: without a query id",
        kernel.LATE_QID: "qid: must stand right after the grade",
        kernel.BAD_TOKEN: f"{word} is not index:value",
        kernel.LOW_INDEX: f"feature index {feature}: indices start at 1; pass first_index=0 if yours start at 0",
        kernel.HIGH_INDEX: f"feature index {feature} is beyond the largest possible, {kernel.MAX_INDEX:,}",
        kernel.REPEATED_INDEX: f"feature {feature} twice in one line; keep one",
        kernel.UNSORTED_INDEX: f"feature {feature} after a higher one; sort each line by feature index",
        kernel.BAD_VALUE: f"{word} is not a number",
        kernel.MISSING_VALUE: f"missing value {word}; choose what it becomes: missing='nan', 'zero' or 'min'",
        kernel.INFINITE_VALUE: f"infinite value {word}; features must be finite, so replace it",
        kernel.TOO_LARGE: _too_large(word, options.dtype),
        kernel.NUL_BYTE: "a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst",
        kernel.LOST_QID: "missing qid: the lines before have one; a line reads: grade qid:Q index:value ...",
        kernel.EXTRA_QID: "a qid, but the lines before have none; give every line one, or none",
    }
    return block.error(at, problems[code])


def _beyond_width(block: TextBlock, columns: npt.NDArray[np.int32], row_ends: IntArray, options: _Options) -> DataError:
    token = int(np.argmax(columns >= cast("int", options.n_features)))
    row = int(np.searchsorted(row_ends, token, side="right"))
    judged = [k for k, text in enumerate(block.data.split(b"\n")) if text.split(b"#")[0].strip()]
    feature = int(columns[token]) + options.first_index
    return DataError(
        f"feature {feature} is beyond n_features={options.n_features}; raise n_features or drop the feature",
        path=block.path,
        line=block.lines_before + judged[row] + 1,
    )


def _check_widths(text: _Text, n_features: int | None) -> None:
    if n_features is not None:
        return
    (first, width), *others = text.widths.items()
    for path, other in others:
        if other != width:
            raise DataError(
                f"{other} features, but {first.name} has {width}; "
                f"pass n_features={max(width, other)} if the missing ones are zero",
                path=path,
            )


def _queries_of(
    text: _Text, files: list[Path], regroup: bool, group: str | Path | npt.ArrayLike | None
) -> tuple[AnyArray, IntArray, IntArray | None]:
    """Query ids, offsets and, where rows have to move, the row that each place takes."""
    if not text.has_qid:
        sizes = np.concatenate([_sizes_of(text, path, group, len(files)) for path in files])
        return np.arange(len(sizes)), offsets_from_sizes(sizes), None
    if group is not None:
        raise DataError("the text has query ids, so group= has no use here; leave it out", path=files[0])
    ids = _as_ids([start.query for start in text.starts])
    sizes = np.diff([start.row for start in text.starts] + [text.n_rows])
    if len(np.unique(ids)) == len(ids):
        return ids, offsets_from_sizes(sizes), None
    if regroup:
        return group_by_id(np.repeat(ids, sizes))
    first: dict[str, _Start] = {}
    for start in text.starts:
        before = first.setdefault(start.query, start)
        if before is not start:
            place = f"line {before.line}" if before.path == start.path else f"{before.path.name}:{before.line}"
            raise DataError(
                f"query {start.query} comes back; it began at {place} and another query came between; "
                "pass regroup=True to put its documents together",
                path=start.path,
                line=start.line,
            )
    raise AssertionError("unreachable: ids differ as text and agree as numbers")


def _as_ids(names: Iterable[str]) -> AnyArray:
    """Whole numbers where every id is one, text otherwise."""
    words = list(names)
    return np.array([int(word) for word in words] if all(map(_WHOLE_NUMBER.match, words)) else words)


def _sizes_of(text: _Text, path: Path, group: str | Path | npt.ArrayLike | None, n_files: int) -> IntArray:
    if group is None:
        return _read_sizes(_side_file(path), path, text.rows_of[path])
    if n_files > 1:
        raise DataError("group= goes with one file; name the size files like the data files, with .query added")
    if isinstance(group, str | Path):
        return _read_sizes(Path(group), path, text.rows_of[path])
    sizes = np.asarray(group, dtype=np.int64)
    if sizes.sum() != text.n_rows:
        raise DataError(f"group sums to {sizes.sum():,}, but the file has {text.n_rows:,} documents", path=path)
    return sizes


def _side_file(path: Path) -> Path:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    names = [f"{plain.name}{suffix}" for suffix in _GROUP_SUFFIXES]
    for name in names:
        for compression in ("", *COMPRESSIONS):
            side = path.with_name(name + compression)
            if side.exists():
                return side
    raise DataError(
        f"no qid: in this line, and no file {' or '.join(names)} with the sizes of the queries beside it; "
        "add qid:Q after each grade, or pass group=",
        path=path,
        line=1,
    )


def _read_sizes(side: Path, path: Path, n_rows: int) -> IntArray:
    sizes: list[int] = []
    line = 0
    for block in line_blocks(side):
        for text in block.splitlines():
            line += 1
            word = text.strip()
            if word and not word.isdigit():
                raise DataError(
                    f"{word.decode(errors='backslashreplace')!r} is not a number of documents",
                    path=side,
                    line=line,
                    column=1,
                )
            if word:
                sizes.append(int(word))
    if sum(sizes) != n_rows:
        raise DataError(
            f"its {len(sizes):,} sizes sum to {sum(sizes):,}, but {path.name} has {n_rows:,} documents; "
            "use the size file that belongs to it",
            path=side,
        )
    return np.array(sizes, dtype=np.int64)
