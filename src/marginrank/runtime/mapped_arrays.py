"""Arrays on disk: read in order, a few rows at a time, and made there where memory has no room for them.

An array that is mapped into memory and larger than it could be left to the system, which brings in what is touched and
lets it go when memory runs short. Reading the rows into a small buffer instead is as fast as reading the file from
beginning to end, holds no more than that buffer, and leaves the memory to others.
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

#: Bytes of a block of rows, where nothing else decides.
BLOCK_BYTES: Final = 1 << 23
#: Bytes that are written to disk at a time.
_WRITE_BYTES: Final = 1 << 24
#: Share of the budget that copies of features may take, and above which an array on disk is not left to the system.
_SHARE: Final = 0.5

_lock = threading.Lock()
_taken = 0
#: The file that a mapping is of.
_files: weakref.WeakKeyDictionary[mmap.mmap, Descriptor] = weakref.WeakKeyDictionary()


class Descriptor:
    """A second descriptor of an open file, which is closed when nobody has it any more.

    Args:
        file: The file.
        temporary: Whether it is there because memory has no room for what it holds.
    """

    def __init__(self, file: IO[bytes], temporary: bool) -> None:
        self.number, self.temporary = os.dup(file.fileno()), temporary

    def __del__(self) -> None:
        os.close(self.number)


def map_file(file: IO[bytes], dtype: Any, mode: str, shape: tuple[int, ...] | None = None) -> np.memmap[Any, Any]:
    """Map a file into memory, so that it can be read in order too; it may be closed or removed then."""
    array: np.memmap[Any, Any] = np.memmap(file, dtype=dtype, mode=mode, shape=shape)  # type: ignore[call-overload]
    _files[array._mmap] = Descriptor(file, mode == "r+")  # type: ignore[attr-defined]
    return array


def is_large(array: AnyArray) -> bool:
    """Whether an array takes more memory than copies of features may."""
    return array.nbytes > BLOCK_BYTES and int(array.nbytes) > _SHARE * max_memory()


def allocate(shape: tuple[int, ...], dtype: Any) -> AnyArray:
    """Return an array to be filled: in memory as long as all of these fit in half of the budget, otherwise on disk.

    On disk it is a file without a name in the folder of temporary files (``TMPDIR``), which is gone with the array or
    with the process. Fill it in order, and `flush_rows` what is done.

    Raises:
        DataError: The disk has no room for it either.

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
    """Return whether `allocate` of so many bytes is in memory."""
    with _lock:
        return n_bytes <= BLOCK_BYTES or n_bytes + _taken <= _SHARE * max_memory()


def _count(n_bytes: int) -> None:
    global _taken  # noqa: PLW0603
    with _lock:
        _taken += n_bytes


def _on_disk(shape: tuple[int, ...], dtype: Any, needed: int) -> AnyArray:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    try:
        if needed > free:
            raise OSError("too little room")
        with tempfile.TemporaryFile(dir=folder) as file:
            # A hole in a file on a full disk would end the process when it is written to.
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


class Appended:
    """Arrays one after the other in a file without a name, in the folder of temporary files."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._end = self._synced = 0

    def append(self, array: AnyArray) -> tuple[int, int]:
        """Write an array, and return where its bytes begin and end."""
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
        """Return all bytes that were written, and end the writing."""
        with self._file as file:
            if self._end == 0:
                return np.empty(0, dtype=np.uint8)
            file.flush()
            return map_file(cast("IO[bytes]", file), np.uint8, "r+", (self._end,))


def flush_rows(array: AnyArray, rows: slice) -> None:
    """Write rows of an array on disk that are filled, many at a time; of one in memory, do nothing.

    Args:
        array: An array from `allocate`, which is filled in order.
        rows: The rows that were filled last.
    """
    found = _mapping(array)
    if found is None:
        return
    mapping, first = found
    width = array.strides[0]
    step = max(1, _WRITE_BYTES // width)
    if rows.stop // step > rows.start // step or rows.stop == len(array):
        begin = (first + rows.start // step * step * width) // mmap.PAGESIZE * mmap.PAGESIZE
        length = first + rows.stop * width - begin
        mapping.flush(begin, length)
        if hasattr(mapping, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED, begin, length)


def blocks(array: AnyArray, n_rows: int | None = None) -> Iterator[tuple[slice, AnyArray]]:
    """Yield the rows of an array in order, a block at a time; a block is not to be kept or written to.

    Args:
        array: The array.
        n_rows: Number of rows of a block; a few megabytes by default.
    """
    step = n_rows or max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    reader = reader_of(array)
    for start in range(0, len(array), step):
        stop = min(start + step, len(array))
        yield slice(start, stop), array[start:stop] if reader is None else reader.rows(start, stop)


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
        work: What is done to a block, which is not to be kept or written to.
        n_rows: Number of rows of a block; a few megabytes by default.
        n_jobs: Number of threads, all cores by default; one that goes in order if one of the arrays is on disk.
        out: An array whose rows are written.
    """
    step = n_rows or max(1, BLOCK_BYTES * len(array) // max(1, array.nbytes))
    if any(reader_of(one) is not None for one in (array, out) if one is not None):
        for number, (rows, block) in enumerate(blocks(array, step)):
            work(number, rows, block)
            if out is not None:
                flush_rows(out, rows)
    else:
        for_each(
            lambda start: work(start // step, slice(start, start + step), array[start : start + step]),
            [(start,) for start in range(0, len(array), step)],
            n_jobs,
        )


def take_rows(array: AnyArray, rows: AnyArray) -> AnyArray:
    """Return a copy of some rows, on disk where memory has no room for them.

    Rows of an array on disk that are not in order are sorted there: the array is read once, from beginning to end, and
    its rows are dealt out to the parts of the copy that they belong to, each of which fits in memory.
    """
    out = allocate((len(rows), *array.shape[1:]), array.dtype)
    if reader_of(array) is not None and np.any(rows[1:] < rows[:-1]):
        _deal_rows(array, rows, out)
        return out
    step = max(1, BLOCK_BYTES // max(1, array.strides[0]))
    for start in range(0, len(rows), step):
        part = slice(start, min(start + step, len(rows)))
        out[part] = array[rows[part]]
        flush_rows(out, part)
    return out


def _deal_rows(array: AnyArray, rows: AnyArray, out: AnyArray) -> None:
    """Fill an array with rows of another, which is read in order."""
    per_part = max(1, max(_WRITE_BYTES, max_memory() // 16) // array.strides[0])
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    dealt = Appended()
    hands: list[list[tuple[tuple[int, int], tuple[int, int]]]] = [[] for _ in range(0, len(rows), per_part)]
    for part, block in blocks(array):
        first, end = np.searchsorted(sorted_rows, [part.start, part.stop])
        places = order[first:end]
        by_part = np.argsort(places // per_part, kind="stable")
        places, taken = places[by_part], block[sorted_rows[first:end][by_part] - part.start]
        cuts = np.searchsorted(places // per_part, np.arange(len(hands) + 1))
        for hand, (start, stop) in zip(hands, pairwise(cuts.tolist()), strict=True):
            if start < stop:
                hand.append((dealt.append(places[start:stop]), dealt.append(taken[start:stop])))
    content = dealt.array()
    for number, hand in enumerate(hands):
        for place, values in hand:
            at = bytes_between(content, *place).view(order.dtype)
            out[at] = bytes_between(content, *values).view(array.dtype).reshape(len(at), *array.shape[1:])
        flush_rows(out, slice(number * per_part, min((number + 1) * per_part, len(rows))))


def bytes_between(content: AnyArray, start: int, end: int) -> AnyArray:
    """Return some of the bytes of a file from `Appended`: read, and not left mapped, where it is large."""
    reader = reader_of(content)
    return content[start:end] if reader is None else reader.rows(start, end)


class RowReader:
    """Reads rows of a mapped array from its file, into one buffer for each thread.

    Args:
        file: The file.
        first: Where the array begins in it.
        array: The array.
    """

    def __init__(self, file: Descriptor, first: int, array: AnyArray) -> None:
        self._file, self._first, self._width = file, first, array.strides[0]
        self._shape, self._dtype = array.shape[1:], array.dtype
        self._held = PerThread(_Held)
        if hasattr(os, "posix_fadvise"):
            # The system reads further ahead then.
            os.posix_fadvise(file.number, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def rows(self, start: int, stop: int) -> AnyArray:
        """Return rows, valid until the same thread asks for others; those that it asked for last are not read again."""
        held, n_bytes = self._held(), (stop - start) * self._width
        if held.rows != (start, stop):
            held.rows = None
            if len(held.data) < n_bytes:
                held.data = np.empty(n_bytes, dtype=np.uint8)
            self._fill(held.data[:n_bytes], self._first + start * self._width)
            held.rows = start, stop
        return held.data[:n_bytes].view(self._dtype).reshape(stop - start, *self._shape)

    def _fill(self, data: Any, offset: int) -> None:
        while len(data):
            n_read = os.preadv(self._file.number, [data], offset)
            if n_read == 0:
                raise DataError("a file of features was cut while it was read; convert the source again")
            data, offset = data[n_read:], offset + n_read


class _Held:
    """What a thread works on."""

    def __init__(self) -> None:
        self.data: AnyArray = np.empty(0, dtype=np.uint8)
        self.rows: tuple[int, int] | None = None


def reader_of(array: AnyArray) -> RowReader | None:
    """Return what reads an array from its file; None where it is in memory, or small enough for the system to keep."""
    if array.nbytes <= BLOCK_BYTES or not array.flags.c_contiguous or not hasattr(os, "preadv"):
        return None
    found = _mapping(array)
    file = None if found is None else _files.get(found[0])
    if found is None or file is None or not (file.temporary or is_large(array)):
        return None
    return RowReader(file, found[1], array)


def _mapping(array: AnyArray) -> tuple[mmap.mmap, int] | None:
    """Return the mapping that an array lies in, and where it begins there."""
    part: Any = array
    while part is not None:
        mapping = getattr(part, "_mmap", None)
        if isinstance(mapping, mmap.mmap):
            base = np.frombuffer(mapping, dtype=np.uint8, count=1).__array_interface__["data"][0]
            return mapping, int(array.__array_interface__["data"][0] - base)
        part = getattr(part, "base", None)
    return None
