"""Arrays that are kept until all of them are there: in memory, or in files where they take much of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.data.text import text_bytes
from marginrank.mapped import Appended, bytes_between
from marginrank.memory import check_memory
from marginrank.typing import AnyArray

#: What is kept of a row beside its features and its name: a grade, the number of its query, and copies of both.
_PER_ROW: Final = 24


class _Place(NamedTuple):
    """Where an array is in a file."""

    start: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Pieces:
    """Arrays in order, all in memory or all but Python objects in one file."""

    def __init__(self) -> None:
        self._pieces: list[AnyArray | _Place] = []
        self._n_moved = 0
        self._file: Appended | None = None
        self._content: AnyArray | None = None

    def __len__(self) -> int:
        """Count the arrays."""
        return len(self._pieces)

    @property
    def are_moved(self) -> bool:
        """Whether arrays are in a file."""
        return self._file is not None

    def append(self, array: AnyArray) -> None:
        """Keep an array."""
        self._pieces.append(array)

    def move(self) -> None:
        """Write what is in memory to the file."""
        self._file = self._file or Appended()
        for at, piece in enumerate(self._pieces[self._n_moved :], self._n_moved):
            if isinstance(piece, np.ndarray) and piece.dtype != object:
                self._pieces[at] = _Place(*self._file.append(piece), piece.dtype, piece.shape)
        self._n_moved = len(self._pieces)

    def close(self) -> None:
        """End the writing, if there was any; then the arrays can be read."""
        if self._file is not None and self._content is None:
            self.move()
            self._content = self._file.array()

    def read(self, first: int, end: int) -> Iterator[AnyArray]:
        """Yield some of the arrays, by their numbers."""
        for piece in self._pieces[first:end]:
            if isinstance(piece, _Place):
                assert self._content is not None
                yield bytes_between(self._content, piece.start, piece.end).view(piece.dtype).reshape(piece.shape)
            else:
                yield piece

    def rows(self, first: int, end: int) -> AnyArray | None:
        """Return arrays of equal type and width as one, without a copy; None where they are in memory."""
        places = [piece for piece in self._pieces[first:end] if isinstance(piece, _Place)]
        if self._content is None or len(places) < end - first or not places:
            return None
        dtype, shape = places[0].dtype, places[0].shape[1:]
        if 0 in shape:
            return np.empty((sum(place.shape[0] for place in places), *shape), dtype=dtype)
        return self._content[places[0].start : places[-1].end].view(dtype).reshape(-1, *shape)


def gather(parts: Iterable[AnyArray], on_disk: bool) -> AnyArray:
    """Put labels of equal type one after the other, in memory or in a temporary file."""
    if not on_disk:
        return np.concatenate(list(parts))
    file = Appended()
    dtypes = {part.dtype for part in parts if file.append(part)}
    return file.array().view(*dtypes)


class Store:
    """What is kept of tables while they are read.

    Args:
        budget: Bytes of memory there are.
        on_disk: Whether features and names of documents move to temporary files once they take a quarter of that.
    """

    def __init__(self, budget: int, on_disk: bool) -> None:
        self.features, self.names = Pieces(), Pieces()
        self._budget, self._on_disk = budget, on_disk
        self._n_rows = self._in_memory = 0

    def keep(self, X: AnyArray, names: AnyArray | None, path: Path) -> None:
        """Keep features of documents, and their names, and hold all that is kept to the budget."""
        self.features.append(X)
        self._n_rows += len(X)
        self._in_memory += X.nbytes
        if names is not None:
            self.names.append(names)
            self._in_memory += text_bytes(names)
        if self._on_disk and 4 * self._in_memory > self._budget:
            self.features.move()
            self.names.move()
            self._in_memory = 0
        rows = _PER_ROW * self._n_rows
        if self._on_disk:
            remedy = "convert fewer files at once"
            check_memory(
                rows + self._in_memory, f"the first {self._n_rows:,} documents", self._budget, remedy=remedy, path=path
            )
        else:
            check_memory(2 * self._in_memory + rows, "the columns of this table", self._budget, path=path)

    def close(self) -> None:
        """End the writing."""
        self.features.close()
        self.names.close()
