"""Bytes of plain and compressed files, in blocks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO, TypeAlias, cast

import numpy as np

from marginrank.data.text_arrays import fits_fixed_width, text_array
from marginrank.errors import DataError, Message
from marginrank.runtime.files import is_stream, open_input
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.tuned_constants import TEXT_BLOCK_BYTES
from marginrank.typing import AnyArray, ByteArray, IntArray

#: A decimal number, whole.
DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_CONTROL = re.compile(rb"[\x00-\x1f]")


def quoted(word: bytes) -> str:
    """Quote a word for a message, shortened."""
    text = word.decode(errors="backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


@dataclass(frozen=True)
class Tokens:
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

    def error(self, at: int, problem: Message) -> DataError:
        """Return the error at a place."""
        return DataError(problem, path=self.path, line=self.line(at), column=self.column(at))

    def line(self, at: int) -> int:
        """Count the lines of the file up to a place."""
        return self.lines_before + self.data.count(b"\n", 0, at) + 1

    def column(self, at: int) -> int:
        """Count the bytes of the line up to a place."""
        return at - self.data.rfind(b"\n", 0, at)

    def words(self, spans: IntArray, what: str) -> AnyArray:
        """Cut out the text between each pair of places."""
        from marginrank.data.formats.text_kernel import SPACE, gather_words  # noqa: PLC0415

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


def text_blocks(blocks: Iterable[bytes], path: Path, lines_before: int = 0) -> Iterator[Tokens]:
    """Count the lines before each block of a file."""
    for data in blocks:
        block = Tokens(data, path, lines_before)
        lines_before += block.n_lines
        yield block


Paths: TypeAlias = str | Path | Sequence[str | Path]

COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")
_COMPRESSED = re.compile(rb"(?P<gz>\x1f\x8b)|(?P<xz>\xfd7zXZ\x00)|(?P<bz2>BZh[1-9]1AY&SY)|(?P<zst>\x28\xb5\x2f\xfd)")
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
#: How bytes that are not UTF-8 are read, and written again as they were.
NOT_UTF8 = "surrogateescape"
_LONG_LINE = 1 << 26
_LONE_RETURN = re.compile(rb"\r(?!\n)")


def list_paths(paths: Paths) -> list[Path]:
    """Make a list of one path or several, and refuse none.

    >>> [path.name for path in list_paths("train.txt")]
    ['train.txt']
    """
    if not isinstance(paths, str | Path) and hasattr(paths, "columns"):
        raise TypeError(f"this is a {type(paths).__name__}, not a path; build queries from it with from_frame")
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not files:
        raise DataError("no file to read: the list of paths is empty")
    return files


def plain_suffix(path: Path) -> str:
    """Return the suffix of a file, in lower case; of a compressed one that before it.

    >>> plain_suffix(Path("a.CSV.gz")), plain_suffix(Path("a.tsv"))
    ('.csv', '.tsv')
    """
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file or a pipe for reading, decompressed by its suffix."""
    with open_input(path) as raw, _decompressed(raw, path) as file:
        yield file


def _decompressed(raw: IO[bytes], path: Path) -> IO[bytes]:
    match path.suffix.lower():
        case ".gz":
            return cast("IO[bytes]", gzip.open(raw))
        case ".xz":
            return lzma.open(raw)
        case ".bz2":
            return bz2.open(raw)
        case ".zst":
            return cast("IO[bytes]", io.BufferedReader(_ZstdFile(raw, path)))
        case _:
            return _plain(raw, path)


def _plain(raw: IO[bytes], path: Path) -> IO[bytes]:
    compressed = _COMPRESSED.match(raw.read(16))
    raw.seek(0)
    if compressed is None:
        return raw
    way_out = "decompress it into the pipe" if is_stream(path) else f"its name lacks .{compressed.lastgroup}"
    raise DataError(f"this is compressed data; {way_out}", path=path)


def _zstandard(path: Path) -> Any:
    try:
        import zstandard  # noqa: PLC0415
    except ImportError:
        raise ImportError(f"{path}: .zst needs zstandard: pip install 'marginrank[zstd]'") from None
    return zstandard


class _ZstdFile(io.RawIOBase):
    """Decompress Zstandard frames, refusing a file that ends inside one."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        zstandard = _zstandard(path)
        self._new_frame: Any = zstandard.ZstdDecompressor().decompressobj
        self._broken = zstandard.ZstdError
        self._file = file
        self._frame: Any = None
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            data = self._file.read(1 << 17)
            if not data:
                if self._frame is not None:
                    raise EOFError("the compressed data ends inside a frame")
                return 0
            self._ready = self._decompress(data)
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

    def _decompress(self, data: bytes) -> bytes:
        out = b""
        while data:
            self._frame = self._frame or self._new_frame()
            try:
                out += self._frame.decompress(data)
            except self._broken as error:
                raise OSError(str(error)) from None
            data = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        return out


def create_text(path: str | Path) -> TextIO:
    """Open a file for writing text with line feeds, compressed by its suffix."""
    target = Path(path)
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    suffix = target.suffix.lower()
    if suffix == ".zst":
        openers[suffix] = _zstandard(target).open
    if suffix in openers:
        return cast("TextIO", openers[suffix](target, "wt", encoding="utf-8", errors=NOT_UTF8, newline="\n"))
    return target.open("w", encoding="utf-8", errors=NOT_UTF8, newline="\n")


def line_blocks(path: Path, size: int = TEXT_BLOCK_BYTES, budget: int | None = None) -> Generator[bytes]:
    """Yield the text of a file in blocks of whole lines; the last line gets its line feed if it has none.

    Lines may end in a line feed, a carriage return or both; in the blocks all end in a line feed, some with a carriage
    return before it.

    Raises:
        DataError: The data is not text, or it is compressed and damaged or cut short. The lines of the blocks before
            have been yielded.
    """
    rest = b""
    returned = False
    line = 0
    with open_binary(path) as file:
        first = True
        while True:
            try:
                data = file.read(max(size, len(rest), len(_UTF8_MARK)))
            except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
                kept = "" if line == 0 else f" after {line:,} good lines"
                raise DataError(
                    f"the compressed data is damaged or cut short{kept} ({error}); copy or download the file again",
                    path=path,
                    line=line + 1,
                ) from None
            if not data:
                break
            if first:
                data, first = data.removeprefix(_UTF8_MARK), False
            data, returned = _with_line_feeds(data, returned)
            if b"\0" in data:
                raise _not_text(Tokens(rest + data, path, line))
            cut = data.rfind(b"\n") + 1
            if not cut:
                rest += data
                if len(rest) > _LONG_LINE:
                    check_memory(3 * len(rest), f"line {line + 1:,} of this file", max_memory(budget), path=path)
                continue
            block = rest + data[:cut]
            rest = data[cut:]
            line += block.count(b"\n")
            yield block
    if rest or returned:
        yield rest + b"\n"


def _with_line_feeds(data: bytes, returned: bool) -> tuple[bytes, bool]:
    """Make line feeds of carriage returns without one; one at the end is left for the next data, which may have it."""
    if returned:
        data = b"\r" + data
    elif b"\r" not in data:
        return data, False
    returned = data.endswith(b"\r")
    data = data.removesuffix(b"\r")
    return (_LONE_RETURN.sub(b"\n", data) if _LONE_RETURN.search(data) else data), returned


def _not_text(block: Tokens) -> DataError:
    problem = "a NUL byte; this is not a text file, or its name lacks .gz, .xz, .bz2 or .zst"
    if block.lines_before == 0 and block.data.startswith(_UTF16_MARKS):
        return DataError("this is UTF-16; save the file as UTF-8", path=block.path)
    return block.error(block.data.index(b"\0"), problem)
