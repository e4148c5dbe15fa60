"""One block of LETOR text to arrays, and what is wrong in it to words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import feature_dtype
from marginrank.data.missing import MISSING_ADVICE, Missing, check_missing
from marginrank.data.places import TextBlock
from marginrank.data.text import text_bytes
from marginrank.errors import DataError
from marginrank.mapped import Appended
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Said inside a block by the kernel's error, and where blocks or files meet.
MISSING_QID = "missing qid: the lines before have one; give every line one, or none"
EXTRA_QID = "a qid, but the lines before have none; give every line one, or none"


#: What is kept of the start of a query, about.
_START_BYTES = 400


@dataclass(frozen=True)
class Options:
    """How text is to be read."""

    dtype: np.dtype[Any]
    missing: Missing
    first_index: int
    n_features: int | None

    def __post_init__(self) -> None:
        feature_dtype(self.dtype)
        check_missing(self.missing)
        if self.first_index not in (0, 1):
            raise ValueError(f"first_index is {self.first_index}; features are numbered from 1 or from 0")


@dataclass
class Block:
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
    #: Line and column of the first row's query id, or of where it is missing.
    qid_place: tuple[int, int]
    #: Where values and columns are in a file, if they are no longer here; no columns where every row has all.
    places: list[tuple[int, int]] | None = None

    def move(self, file: Appended) -> None:
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
        arrays = (self.grades, self.row_ends, self.values, *(() if self.columns is None else (self.columns,)))
        ids = 0 if self.document_ids is None else text_bytes(self.document_ids)
        return int(sum(array.nbytes for array in arrays)) + ids + _START_BYTES * len(self.starts)

    def stored_columns(self) -> npt.NDArray[np.int32]:
        """Return the column of each value."""
        if self.columns is not None:
            return self.columns
        return np.tile(np.arange(self.width, dtype=np.int32), len(self.grades))


def parse_block(block: TextBlock, options: Options) -> Block:
    """Read whole lines, or raise the first thing that is wrong in them."""
    from marginrank.data import letor_kernel as kernel  # noqa: PLC0415

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
        starts=[
            (row, line, block.decode(start, end, "query id"))
            for row, line, start, end in starts[: parsed.n_starts].tolist()
        ],
        document_ids=block.words(spans, "document id") if parsed.has_documents else None,
        n_lines=n_lines,
        width=int(parsed.max_column) + 1,
        has_qid=bool(parsed.has_qid),
        qid_place=(block.line(int(parsed.first_qid_at)), block.column(int(parsed.first_qid_at))),
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


def _error_at(code: int, block: TextBlock, at: int, options: Options) -> DataError:
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
        kernel.MISSING_VALUE: f"missing value {word}; {MISSING_ADVICE}",
        kernel.INFINITE_VALUE: f"infinite value {word}; features must be finite, so replace it",
        kernel.TOO_LARGE: _too_large(word, options.dtype),
        kernel.LOST_QID: MISSING_QID,
        kernel.EXTRA_QID: EXTRA_QID,
    }
    return block.error(at, problems[code])


def _beyond_width(block: TextBlock, columns: npt.NDArray[np.int32], row_ends: IntArray, options: Options) -> DataError:
    token = int(np.argmax(columns >= cast("int", options.n_features)))
    row = int(np.searchsorted(row_ends, token, side="right"))
    judged = [k for k, text in enumerate(block.data.split(b"\n")) if text.split(b"#")[0].strip()]
    feature = int(columns[token]) + options.first_index
    return DataError(
        f"feature {feature} is beyond n_features={options.n_features}; raise n_features or drop the feature",
        path=block.path,
        line=block.lines_before + judged[row] + 1,
    )
