"""Arrays on disk, for data larger than memory: read in order, a block of rows at a time, and written there.

The system could page mapped arrays in and out. Reading blocks of rows into a small buffer instead is as fast as reading
the file sequentially, and uses only the memory of that buffer.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import IO, Any, Final, cast

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.memory import VARIABLE, max_memory, size_text
from marginrank.runtime.threads import PerThread, for_each
from marginrank.typing import AnyArray

#: Default size of a block of rows.
BLOCK_BYTES: Final = 1 << 23
#: Bytes that are written to disk at once.
_WRITE_BYTES: Final = 1 << 24
#: Fraction of the memory budget for copies of features; larger arrays on disk are read block by block.
_BUDGET_FRACTION: Final = 0.5

_lock = threading.Lock()
_allocated = 0
#: The file of each mapping.
_files: weakref.WeakKeyDictionary[mmap.mmap, Descriptor] = weakref.WeakKeyDictionary()


class Descriptor:
    """A second descriptor of an open file, closed on garbage collection.

    Args:
        file: The file.
        temporary: Whether it contains an array that did not fit in memory.
    """

    def __init__(self, file: IO[bytes], temporary: bool) -> None:
        self.number, self.temporary = os.dup(file.fileno()), temporary

    def __del__(self) -> None:
        os.close(self.number)


def map_file(file: IO[bytes], dtype: Any, mode: str, shape: tuple[int, ...] | None = None) -> np.memmap[Any, Any]:
    """Map a file into memory, such that `RowReader` can read it too; the file may be closed or removed afterwards."""
    array: np.memmap[Any, Any] = np.memmap(file, dtype=dtype, mode=mode, shape=shape)  # type: ignore[call-overload]
    _files[array._mmap] = Descriptor(file, mode == "r+")  # type: ignore[attr-defined]
    return array


def is_large(array: AnyArray) -> bool:
    """Return whether an array takes more memory than allowed for copies of features."""
    return array.nbytes > BLOCK_BYTES and int(array.nbytes) > _BUDGET_FRACTION * max_memory()


def allocate(shape: tuple[int, ...], dtype: Any) -> AnyArray:
    """Return an empty array: in memory if all of these fit in half of the budget, otherwise on disk.

    On disk it is an unnamed file in the folder of temporary files (``TMPDIR``), which disappears with the array
    or the process. Fill it in order, and call `flush_rows` for finished rows.

    Raises:
        DataError: It does not fit on the disk either.

    >>> allocate((2, 3), np.float32).shape
    (2, 3)
    """
    needed = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not fits_in_memory(needed):
        return _on_disk(shape, dtype, needed)
    array = np.empty(shape, dtype=dtype)
    if needed <= BLOCK_BYTES:
        return array
    _count(needed)
    weakref.finalize(array, _count, -needed)
    return array


def fits_in_memory(n_bytes: int) -> bool:
    """Return whether `allocate` returns an array of this size in memory."""
    with _lock:
        return n_bytes <= BLOCK_BYTES or n_bytes + _allocated <= _BUDGET_FRACTION * max_memory()


def _count(n_bytes: int) -> None:
    global _allocated  # noqa: PLW0603
    with _lock:
        _allocated += n_bytes


def _on_disk(shape: tuple[int, ...], dtype: Any, needed: int) -> AnyArray:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    try:
        if needed > free:
            raise OSError("too little room")
        with tempfile.TemporaryFile(dir=folder) as file:
            # Writing to a hole of a sparse file on a full disk would kill the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, needed)
            else:
                file.truncate(needed)
            return map_file(file, dtype, "r+", shape)
    except OSError:
        raise DataError(
            f"a copy of the features needs {size_text(needed)}, more than half of max_memory, "
            f"{size_text(max_memory())}, and {folder} has {size_text(free)} free; set TMPDIR to a folder with more, or "
            f"{VARIABLE} higher"
        ) from None


class SpillFile:
    """Consecutive arrays in an unnamed file, in the folder of temporary files."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._end = self._synced = 0

    def append(self, array: AnyArray) -> tuple[int, int]:
        """Write an array, and return the start and end of its bytes."""
        gap = -self._end % array.itemsize
        start = self._end + gap
        try:
            self._file.write(bytes(gap))
            self._file.write(np.ascontiguousarray(array).view(np.uint8).data)
            self._end = start + array.nbytes
            if self._end > self._synced + _WRITE_BYTES:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._synced = self._end
        except OSError as error:
            folder = tempfile.gettempdir()
            raise DataError(f"cannot write to {folder}: {error.strerror}; set TMPDIR to a folder with room") from None
        return start, self._end

    def array(self) -> AnyArray:
        """Return all bytes that were written, and close the file."""
        with self._file as file:
            if self._end == 0:
                return np.empty(0, dtype=np.uint8)
            file.flush()
            return map_file(cast("IO[bytes]", file), np.uint8, "r+", (self._end,))


def flush_rows(array: AnyArray, rows: slice) -> None:
    """Write filled rows of an array on disk, many at a time; do nothing for an array in memory.

    Args:
        array: An array from `allocate`, which is filled in order.
        rows: The rows that were filled last.
    """
    location = _mapping(array)
    if location is None:
        return
    mapping, first = location
    width = array.strides[0]
    step = max(1, _WRITE_BYTES // width)
    if rows.stop // step > rows.start // step or rows.stop == len(array):
        begin = (first + rows.start // step * step * width) // mmap.PAGESIZE * mmap.PAGESIZE
        length = first + rows.stop * width - begin
        mapping.flush(begin, length)
        if hasattr(mapping, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED, begin, length)


def blocks(array: AnyArray, n_rows: int | None = None) -> Iterator[tuple[slice, AnyArray]]:
    """Yield the rows of an array in order, in blocks, which are valid until the next one and read-only.

    Args:
        array: The array.
        n_rows: Number of rows of a block; 8 MB by default.
    """
    step = n_rows or max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    reader = reader_of(array)
    for start in range(0, len(array), step):
        stop = min(start + step, len(array))
        yield slice(start, stop), np.asarray(array[start:stop]) if reader is None else reader.rows(start, stop)


def for_each_block(
    array: AnyArray,
    work: Callable[[int, slice, AnyArray], None],
    n_rows: int | None = None,
    n_jobs: int | None = None,
    out: AnyArray | None = None,
) -> None:
    """Call ``work(number, rows, block)`` for the rows of an array, a block at a time.

    Args:
        array: The array.
        work: Function that processes a block, which is valid during the call only and read-only.
        n_rows: Number of rows of a block; 8 MB by default.
        n_jobs: Number of threads, all cores by default; one thread, in order, if one of the arrays is on disk.
        out: Array whose rows ``work`` writes.
    """
    step = n_rows or max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    if reader_of(array) is not None or (out is not None and reader_of(out) is not None):
        for number, (rows, block) in enumerate(blocks(array, step)):
            work(number, rows, block)
            if out is not None:
                flush_rows(out, rows)
    else:
        for_each(
            lambda start: work(start // step, slice(start, start + step), np.asarray(array[start : start + step])),
            [(start,) for start in range(0, len(array), step)],
            n_jobs,
        )


def take_rows(array: AnyArray, rows: AnyArray) -> AnyArray:
    """Return a copy of some rows, on disk if it does not fit in memory.

    If the array is on disk and the rows are not in order, they are sorted on disk: the array is read once,
    sequentially, and its rows are distributed to blocks of the copy, each of which fits in memory.
    """
    out = allocate((len(rows), *array.shape[1:]), array.dtype)
    if reader_of(array) is not None and np.any(rows[1:] < rows[:-1]):
        _distribute_rows(array, rows, out)
        return out
    step = max(1, BLOCK_BYTES // max(1, array.strides[0]))
    for start in range(0, len(rows), step):
        block = slice(start, min(start + step, len(rows)))
        out[block] = array[rows[block]]
        flush_rows(out, block)
    return out


def _distribute_rows(array: AnyArray, rows: AnyArray, out: AnyArray) -> None:
    """Fill an array with rows of another, which is read in order."""
    block_rows = max(1, max(_WRITE_BYTES, max_memory() // 16) // array.strides[0])
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    spill = SpillFile()
    spilled: list[list[tuple[tuple[int, int], tuple[int, int]]]] = [[] for _ in range(0, len(rows), block_rows)]
    for source, block in blocks(array):
        first, end = np.searchsorted(sorted_rows, [source.start, source.stop])
        targets = order[first:end]
        by_block = np.argsort(targets // block_rows, kind="stable")
        targets, values = targets[by_block], block[sorted_rows[first:end][by_block] - source.start]
        cuts = np.searchsorted(targets // block_rows, np.arange(len(spilled) + 1))
        for entries, (start, stop) in zip(spilled, pairwise(cuts.tolist()), strict=True):
            if start < stop:
                entries.append((spill.append(targets[start:stop]), spill.append(values[start:stop])))
    content = spill.array()
    for number, entries in enumerate(spilled):
        for target_bytes, value_bytes in entries:
            targets = bytes_between(content, *target_bytes).view(order.dtype)
            values = bytes_between(content, *value_bytes).view(array.dtype)
            out[targets] = values.reshape(len(targets), *array.shape[1:])
        flush_rows(out, slice(number * block_rows, min((number + 1) * block_rows, len(rows))))


def bytes_between(content: AnyArray, start: int, end: int) -> AnyArray:
    """Return some bytes of a `SpillFile`: read into a buffer if it is large, otherwise mapped."""
    reader = reader_of(content)
    return content[start:end] if reader is None else reader.rows(start, end)


class RowReader:
    """Reads rows of a mapped array from its file, into one buffer for each thread.

    Args:
        file: The file.
        first: Offset of the array in the file.
        array: The array.
    """

    def __init__(self, file: Descriptor, first: int, array: AnyArray) -> None:
        self._file, self._first, self._width = file, first, array.strides[0]
        self._shape, self._dtype = array.shape[1:], array.dtype
        self._buffer = PerThread(_Buffer)
        if hasattr(os, "posix_fadvise"):
            # The system then reads further ahead.
            os.posix_fadvise(file.number, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def rows(self, start: int, stop: int) -> AnyArray:
        """Return rows, valid until the same thread asks for others; the last rows are not read again."""
        buffer, n_bytes = self._buffer(), (stop - start) * self._width
        if buffer.rows != (start, stop):
            buffer.rows = None
            if len(buffer.data) < n_bytes:
                buffer.data = np.empty(n_bytes, dtype=np.uint8)
            self._fill(buffer.data[:n_bytes], self._first + start * self._width)
            buffer.rows = start, stop
        return buffer.data[:n_bytes].view(self._dtype).reshape(stop - start, *self._shape)

    def _fill(self, data: Any, offset: int) -> None:
        while len(data):
            n_read = os.preadv(self._file.number, [data], offset)
            if n_read == 0:
                raise DataError("a file of features was truncated while it was read; convert the source again")
            data, offset = data[n_read:], offset + n_read


class _Buffer:
    """The buffer of a thread, and the rows in it."""

    def __init__(self) -> None:
        self.data: AnyArray = np.empty(0, dtype=np.uint8)
        self.rows: tuple[int, int] | None = None


def reader_of(array: AnyArray) -> RowReader | None:
    """Return the reader of an array on disk; None if it is in memory, or small enough for the system to cache."""
    if not isinstance(array, np.ndarray) or array.nbytes <= BLOCK_BYTES or not hasattr(os, "preadv"):
        return None
    if not array.flags.c_contiguous:
        return None
    location = _mapping(array)
    file = None if location is None else _files.get(location[0])
    if location is None or file is None or not (file.temporary or is_large(array)):
        return None
    return RowReader(file, location[1], array)


def _mapping(array: AnyArray) -> tuple[mmap.mmap, int] | None:
    """Return the mapping that contains an array, and its offset there; None if it is in memory."""
    owner: Any = array
    while owner is not None:
        mapping = getattr(owner, "_mmap", None)
        if isinstance(mapping, mmap.mmap):
            base = np.frombuffer(mapping, dtype=np.uint8, count=1).__array_interface__["data"][0]
            return mapping, int(array.__array_interface__["data"][0] - base)
        owner = getattr(owner, "base", None)
    return None
