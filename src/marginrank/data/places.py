"""Words at known places of a block of text, and errors that name the place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marginrank.data.text import fits_fixed_width, text_array
from marginrank.errors import DataError
from marginrank.typing import AnyArray, ByteArray, IntArray

#: A decimal number, whole.
DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_CONTROL = re.compile(rb"[\x00-\x1f]")


def quoted(word: bytes) -> str:
    """Quote a word for a message, shortened."""
    text = word.decode(errors="backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True)
class TextBlock:
    """Whole lines of a file, and how many lines come before them."""

    data: bytes
    path: Path
    lines_before: int

    @property
    def bytes(self) -> ByteArray:
        """The text as an array."""
        return np.frombuffer(self.data, dtype=np.uint8)

    @property
    def n_lines(self) -> int:
        """Count the lines."""
        return self.data.count(b"\n")

    def word(self, at: int) -> str:
        """Quote the word at a place, shortened."""
        return quoted(re.split(rb"[ \t\r\n#]", self.data[at : at + 200], maxsplit=1)[0])

    def error(self, at: int, problem: str) -> DataError:
        """Say what is wrong at a place."""
        return DataError(problem, path=self.path, line=self.line(at), column=self.column(at))

    def line(self, at: int) -> int:
        """Count the lines of the file up to a place."""
        return self.lines_before + self.data.count(b"\n", 0, at) + 1

    def column(self, at: int) -> int:
        """Count the bytes of the line up to a place."""
        return at - self.data.rfind(b"\n", 0, at)

    def words(self, spans: IntArray, what: str) -> AnyArray:
        """Cut out the text between each pair of places."""
        from marginrank.data.text_kernel import SPACE, gather_words  # noqa: PLC0415

        lengths = spans[:, 1] - spans[:, 0]
        if fits_fixed_width(lengths):
            width = int(lengths.max(initial=1))
            cells = np.empty((len(spans), width), dtype=np.uint8)
            gather_words(self.bytes, spans, cells)
            # Zeros, which fill the cells up, wrap around to 255.
            if cells.max(initial=0) < 128 and (cells - np.uint8(1)).min(initial=SPACE) >= SPACE - 1:
                return cells.view(f"S{width}")[:, 0].astype(f"U{width}")
        return text_array([self.decode(start, end, what) for start, end in spans.tolist()])

    def decode(self, start: int, end: int, what: str) -> str:
        """Read UTF-8 between two places; bytes that are none become surrogates, which are written as they were."""
        word = self.data[start:end]
        control = _CONTROL.search(word)
        if control is not None:
            raise self.error(start + control.start(), f"control character in this {what}; remove it")
        return word.decode(errors="surrogateescape")


def text_blocks(blocks: Iterable[bytes], path: Path, lines_before: int = 0) -> Iterator[TextBlock]:
    """Count the lines before each block of a file."""
    for data in blocks:
        block = TextBlock(data, path, lines_before)
        lines_before += block.n_lines
        yield block
