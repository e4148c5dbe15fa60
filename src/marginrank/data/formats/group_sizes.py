"""Sizes of queries in a file beside text that has no query ids, in the manner of LightGBM and XGBoost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marginrank.data.formats.text_files import COMPRESSIONS, line_blocks, quoted
from marginrank.errors import DataError
from marginrank.runtime.memory import check_memory, max_memory
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
        "add qid:Q after each grade",
        path=path,
        line=first_line,
    )


def read_sizes(side: Path, path: Path, n_rows: int) -> IntArray:
    """Read one size per line and hold their sum to the rows of the data file."""
    parts, line, total = [np.zeros(0, dtype=np.int64)], 0, 0
    for block in line_blocks(side):
        lines = enumerate(block.splitlines(), start=line + 1)
        sizes = [_size(text, side, number) for number, text in lines if text.strip()]
        parts.append(np.array(sizes, dtype=np.int64))
        total += sum(sizes)
        line += block.count(b"\n")
        check_memory(16 * line, f"{line:,} sizes", max_memory(), path=side)
    if total != n_rows:
        raise DataError(
            f"its {sum(map(len, parts)):,} sizes sum to {total:,}, but {path.name} has {n_rows:,} documents; "
            "use the size file that belongs to it",
            path=side,
        )
    return np.concatenate(parts)


def _size(text: bytes, side: Path, line: int) -> int:
    word = text.strip()
    if word.isdigit() and len(word) <= _MAX_DIGITS:
        return int(word)
    column = len(text) - len(text.lstrip()) + 1
    raise DataError(f"{quoted(word)} is not a number of documents", path=side, line=line, column=column)
