"""Bytes of plain and compressed files, in blocks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from marginrank.errors import DataError

BLOCK_BYTES = 4 << 20
COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")
_UTF8_MARK = b"\xef\xbb\xbf"


def plain_suffix(path: Path) -> str:
    """Read the last suffix, in lower case, that does not name a compression.

    >>> plain_suffix(Path("train.TXT.gz"))
    '.txt'
    """
    suffix = path.suffix.lower()
    return plain_suffix(path.with_suffix("")) if suffix in COMPRESSIONS else suffix


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed by its suffix."""
    with _opener(path) as file:
        yield file


def _opener(path: Path) -> IO[bytes]:
    match path.suffix.lower():
        case ".gz":
            return cast("IO[bytes]", gzip.open(path))
        case ".xz":
            return lzma.open(path)
        case ".bz2":
            return bz2.open(path)
        case ".zst":
            return cast("IO[bytes]", io.BufferedReader(_ZstdFile(path)))
        case _:
            return path.open("rb")


class _ZstdFile(io.RawIOBase):
    """Decompress Zstandard frames, refusing a file that ends inside one."""

    def __init__(self, path: Path) -> None:
        try:
            import zstandard  # noqa: PLC0415
        except ImportError:
            raise ImportError(f"{path}: reading .zst needs zstandard: pip install 'marginrank[zstd]'") from None
        self._new_frame: Any = zstandard.ZstdDecompressor().decompressobj
        self._broken = zstandard.ZstdError
        self._file = path.open("rb")
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

    def close(self) -> None:
        self._file.close()
        super().close()


def line_blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the text of a file in blocks of whole lines; the last line gets its line feed if it has none.

    Raises:
        DataError: The compressed data is damaged or cut short. What was complete has been yielded before.
    """
    rest = b""
    line = 0
    with open_binary(path) as file:
        first = True
        while True:
            try:
                data = file.read(max(size, len(rest)))
            except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
                kept = "" if line == 0 else f" after {line:,} good lines"
                raise DataError(
                    f"the compressed data is damaged or cut short{kept} ({error}); copy or download the file again",
                    path=path,
                    line=line + 1,
                ) from None
            if first:
                data, first = data.removeprefix(_UTF8_MARK), False
            if not data:
                break
            cut = data.rfind(b"\n") + 1
            if not cut:
                rest += data
                continue
            block = rest + data[:cut]
            rest = data[cut:]
            line += block.count(b"\n")
            yield block
    if rest:
        yield rest + b"\n"
