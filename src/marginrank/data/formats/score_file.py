"""Files with one score per line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np

from marginrank.data.formats.text_files import DECIMAL, line_blocks, quoted
from marginrank.errors import DataError
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.typing import FloatArray

_INFINITE: Final = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
_USUAL: Final = re.compile(rb"[-+.0-9eE \t\r\n]*")


def read_scores(path: str | Path) -> FloatArray:
    """Read one number per line, also ``-inf``; NaN is none, nor is a number too large for a double."""
    parts: list[FloatArray] = []
    line = blank = 0
    for block in line_blocks(Path(path)):
        text = block.rstrip(b" \t\r\n")
        if text:
            # Blank lines are left out at the end of the file only.
            parts.append(_parse(b"\n" * blank + text, path, line - blank))
            blank = 0
        n_lines = block.count(b"\n")
        line += n_lines
        blank += n_lines - (text.count(b"\n") + 1 if text else 0)
        check_memory(16 * line, f"{line:,} scores", max_memory(), path=path)
    return np.concatenate(parts) if parts else _parse(b"", path, 0)


def _parse(text: bytes, path: str | Path, lines_before: int) -> FloatArray:
    lines = text.split(b"\n")
    try:
        scores = np.array(lines, dtype=np.float64)
    except ValueError:
        scores = np.full(len(lines), np.nan)
    # NumPy also takes underscores and control characters.
    doubtful = np.flatnonzero(~np.isfinite(scores)).tolist() if _USUAL.fullmatch(text) else range(len(lines))
    for at in doubtful:
        word = lines[at].strip(b" \t\r")
        problem = _problem(word)
        if problem:
            raise DataError(f"{quoted(word)} {problem}", path=path, line=lines_before + at + 1)
    return scores


def _problem(word: bytes) -> str:
    if _INFINITE.fullmatch(word):
        return ""
    if not DECIMAL.fullmatch(word):
        return "is not a score; give one number per line, and -inf for documents to rank last"
    return "is too large for a double; give -inf or inf if that is meant" if np.isinf(float(word)) else ""
