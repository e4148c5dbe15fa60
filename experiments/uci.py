"""Four sets of the UCI repository as ranking problems: rows are dealt to queries, and classes become grades."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from marginrank.data.queries import Queries
from marginrank.typing import FloatArray, IntArray

#: How a class becomes a grade: ``class`` counts classes from 0, ``one`` takes the class of the highest number for 1.
Definition: TypeAlias = Literal["class", "one"]
DOCUMENTS: Final = 100


@dataclass(frozen=True)
class UciSet:
    """Path of a set, format of its rows, and how many queries Le and Smola (2008) §6.1 make of it."""

    title: str
    files: tuple[str, ...]
    n_queries: int = 50
    separator: str | None = ","
    header: bool = False


SETS: Final[Mapping[str, UciSet]] = {
    "page-blocks": UciSet("PageBlocks", ("uci-page-blocks/page-blocks.data.xz",), separator=None),
    "pendigits": UciSet("PenDigits", ("uci-pendigits/pendigits.tra.xz", "uci-pendigits/pendigits.tes.xz")),
    "optdigits": UciSet("OptDigits", ("uci-optdigits/optdigits.tra.xz", "uci-optdigits/optdigits.tes.xz")),
    "covertype": UciSet("Covertype", ("uci-covertype/covtype.csv.xz",), 500, header=True),
}


def grades_of(classes: IntArray, definition: Definition, lowest: int, highest: int) -> FloatArray:
    """Make grades of classes.

    >>> grades_of(np.array([1, 3, 2]), "class", 1, 3).tolist(), grades_of(np.array([1, 3, 2]), "one", 1, 3).tolist()
    ([0.0, 2.0, 1.0], [0.0, 1.0, 0.0])
    """
    return np.asarray(classes - lowest if definition == "class" else classes == highest, dtype=np.float64)


def deal(data: Path, name: str, definition: Definition, most: int | None = None) -> Queries:
    """Permute the rows of a set and cut them into queries of 100, as Le and Smola (2008) §6.2; no row is used twice.

    Args:
        data: The folder of the data.
        name: One of `SETS`.
        definition: How classes become grades.
        most: Most queries; as many as the paper has by default, or as there are rows for.
    """
    features, classes = _rows(data, name, most)
    grades = grades_of(classes, definition, int(classes.min()), int(classes.max()))
    return Queries.from_arrays(features, grades, group=np.full(len(grades) // DOCUMENTS, DOCUMENTS))


@cache
def _rows(data: Path, name: str, most: int | None) -> tuple[FloatArray, IntArray]:
    """Features and classes of the rows that are dealt; only these are parsed."""
    uci_set = SETS[name]
    texts = [lzma.decompress((data / file).read_bytes()).decode() for file in uci_set.files]
    lines = [line for text in texts for line in text.splitlines()[uci_set.header :]]
    n_queries = min(uci_set.n_queries if most is None else most, len(lines) // DOCUMENTS)
    dealt = np.random.default_rng(0).permutation(len(lines))[: n_queries * DOCUMENTS]
    table = np.loadtxt([lines[row] for row in dealt], delimiter=uci_set.separator)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
