"""Files with one score per line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np

from marginrank.data.files import line_blocks
from marginrank.data.places import DECIMAL, quoted
from marginrank.errors import DataError
from marginrank.typing import FloatArray

_INFINITE: Final = re.compile(rb"[+-]?inf(inity)?", re.IGNORECASE)
_USUAL: Final = re.compile(rb"[-+.0-9eE \t\n]*")


def read_scores(path: str | Path) -> FloatArray:
    """Read one number per line, also ``-inf``; NaN is none, nor is a number too large for a double."""
    text = b"".join(line_blocks(Path(path))).rstrip(b" \t\n")
    lines = text.split(b"\n")
    try:
        scores = np.array(lines, dtype=np.float64)
    except ValueError:
        scores = np.full(len(lines), np.nan)
    # NumPy also takes underscores and control characters.
    doubtful = np.flatnonzero(~np.isfinite(scores)).tolist() if _USUAL.fullmatch(text) else range(len(lines))
    for at in doubtful:
        word = lines[at].strip(b" \t")
        problem = _problem(word)
        if problem:
            raise DataError(f"{quoted(word)} {problem}", path=path, line=at + 1)
    return scores


def _problem(word: bytes) -> str:
    if _INFINITE.fullmatch(word):
        return ""
    if not DECIMAL.fullmatch(word):
        return "is not a score; give one number per line, and -inf for documents to rank last"
    return "is too large for a double; give -inf or inf if that is meant" if np.isinf(float(word)) else ""
