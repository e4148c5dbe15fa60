"""Sizes of queries in a file beside text that has no query ids, in the manner of LightGBM and XGBoost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marginrank.data.files import COMPRESSIONS, line_blocks
from marginrank.data.places import quoted
from marginrank.errors import DataError
from marginrank.typing import IntArray

_SUFFIXES = (".query", ".group")
_MAX_DIGITS = 18


def file_beside(path: Path, first_line: int) -> Path:
    """Find the file of sizes that belongs to a data file, whose first document stands in the given line."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    names = [f"{plain.name}{suffix}" for suffix in _SUFFIXES]
    for name in names:
        for compression in ("", *COMPRESSIONS):
            side = path.with_name(name + compression)
            if side.exists():
                return side
    raise DataError(
        f"no qid: in this line, and no file {' or '.join(names)} with the sizes of the queries beside it; "
        "add qid:Q after each grade, or pass group=",
        path=path,
        line=first_line,
    )


def read_sizes(side: Path, path: Path, n_rows: int) -> IntArray:
    """Read one size per line and hold their sum to the rows of the data file."""
    lines = (text for block in line_blocks(side) for text in block.splitlines())
    sizes = [_size(text, side, line) for line, text in enumerate(lines, start=1) if text.strip()]
    if sum(sizes) != n_rows:
        raise DataError(
            f"its {len(sizes):,} sizes sum to {sum(sizes):,}, but {path.name} has {n_rows:,} documents; "
            "use the size file that belongs to it",
            path=side,
        )
    return np.array(sizes, dtype=np.int64)


def _size(text: bytes, side: Path, line: int) -> int:
    word = text.strip()
    if word.isdigit() and len(word) <= _MAX_DIGITS:
        return int(word)
    column = len(text) - len(text.lstrip()) + 1
    raise DataError(f"{quoted(word)} is not a number of documents", path=side, line=line, column=column)
