"""File formats: every module of this folder with a tuple ``FORMATS`` declares some, and nothing else lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

from marginrank.data.formats.text_files import plain_suffix
from marginrank.runtime.option_objects import load_modules
from marginrank.runtime.text import suggest


@dataclass(frozen=True)
class Format:
    """A file format.

    Args:
        name: The name that `marginrank.data.reader.recognize` returns.
        title: What to call such a file in messages.
        read: Reads a list of files; returns `Queries`, `Qrels` or a `Run`.
        options: Options of ``read`` that the command line offers.
        suffixes: Files with these suffixes have this format.
        compressed: Whether the suffix may be followed by that of a compression.
        gives_way: Of files with one of the suffixes, whether the words of the first line show another format.
        matches: Of other text, whether the words of its first line are in this format.
        begins: Of files with any other suffix, whether the first 256 bytes are in this format.
        write: Writes `Queries`; None for a format that is only read.
        writes: Suffixes of the files that ``write`` writes.
        on_disk: Whether ``read`` takes ``on_disk``, and then keeps in temporary files what takes much memory.
    """

    name: str
    title: str
    read: Callable[..., Any]
    options: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    compressed: bool = False
    gives_way: Callable[[Sequence[bytes]], bool] | None = None
    matches: Callable[[Sequence[bytes]], bool] | None = None
    begins: Callable[[bytes], bool] | None = None
    write: Callable[[Path, Any], None] | None = None
    writes: tuple[str, ...] = ()
    on_disk: bool = False

    def suffix_of(self, path: Path) -> str:
        """Return the suffix that tells the format of a file, in lower case."""
        return plain_suffix(path) if self.compressed else path.suffix.lower()

    def check_options(self, given: Iterable[str]) -> None:
        """Refuse options that ``read`` does not have."""
        parameters = list(signature(self.read).parameters.values())[1:]
        known = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
        known += [name for name in self.options if name not in known]
        for name in given:
            if name not in known:
                advice = suggest(name, known) if known else "leave it out"
                raise TypeError(f"there is no option {name!r} to read {self.title}; {advice}")


@cache
def all_formats() -> dict[str, Format]:
    """Return all formats by name."""
    modules = load_modules(__name__.rpartition(".")[0])
    return {one.name: one for module in modules for one in getattr(module, "FORMATS", ())}
