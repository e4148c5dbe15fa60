"""How the queries of a risk are cut into parts for solvers, and into runs for threads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from marginrank.scorers.base import Prepared, PreparedScorer
from marginrank.solvers.progress import FEW_PARAMETERS
from marginrank.threads import chunk_bounds
from marginrank.typing import IntArray

#: Queries one after the other: the first of each run, and the one after its last.
Runs: TypeAlias = Sequence[tuple[int, int]]
#: Most parts that the risk is given in, for solvers that make use of them. With signs, a program is a sequence of
#: programs; on tiny data, a program takes longer than a pass.
PARTS: Final = 64
_PARTS_OF_FEW: Final = 32
_PARTS_OF_SIGNED: Final = 16
_TINY_BYTES: Final = 1 << 18
_PARTS_OF_TINY: Final = 16
#: Most parts with few parameters where rows are at hand, and bytes that are read in the time that a program takes for
#: each part and for the square of each parameter. Passes fall with the root of the parts, so both should take as long.
_MANY_PARTS: Final = 128
_PROGRAM_BYTES: Final = 150
#: Bytes that planes may take, whatever the features take.
_PLANE_BYTES: Final = 1 << 26


def count_parts(scorer: Prepared) -> int:
    """Parts that the risk is given in: a solver keeps some twenty planes of each, in no more room than the features."""
    n = max(1, scorer.n_parameters)
    signed = scorer.signs is not None and bool(scorer.signs.any())
    at_hand = isinstance(scorer, PreparedScorer) and scorer.rows is None
    if n > FEW_PARAMETERS:
        most = _PARTS_OF_SIGNED if signed else PARTS
    else:
        balanced = scorer.n_bytes // (_PROGRAM_BYTES * n * n) if at_hand and not signed else 0
        most = min(_MANY_PARTS, max(_PARTS_OF_FEW, balanced))
    if scorer.n_bytes <= _TINY_BYTES:
        most = min(most, _PARTS_OF_TINY)
    room = max(_PLANE_BYTES, scorer.n_bytes // 4)
    return max(1, min(most, room // (20 * 8 * n)))


def cut(scorer: PreparedScorer) -> tuple[list[tuple[int, int]], IntArray]:
    """Runs of queries that have cells of their own, and the first run of each part."""
    queries, cell_bytes = scorer.queries, 8 * max(1, scorer.n_parameters)
    n_parts = count_parts(scorer)
    # Each run has cells of its own until the end of an evaluation, when they are added up.
    most = max(8, scorer.n_bytes // (16 * cell_bytes))
    n_runs = max(n_parts, min(scorer.n_bytes // scorer.run_bytes, most))
    bounds, starts = [0], []
    part_bounds = chunk_bounds(queries.offsets, n_parts)
    for first, end in pairwise(part_bounds.tolist()):
        starts.append(len(bounds) - 1)
        inside = chunk_bounds(queries.offsets[first : end + 1], -(-n_runs // n_parts))
        bounds.extend((first + inside[1:]).tolist())
    return list(pairwise(bounds)), np.array(starts, dtype=np.int64)


def join(runs: Runs, offsets: IntArray, scorer: PreparedScorer) -> list[tuple[int, int]]:
    """Numbers of the runs that are worked on together: as many as a core has room for in its cache."""
    bytes_per_row, most = scorer.n_bytes / max(1, int(offsets[-1])), max(PreparedScorer.run_bytes, scorer.run_bytes)
    tasks, first = [], 0
    for number in range(1, len(runs) + 1):
        together = number < len(runs) and offsets[runs[number][1]] - offsets[runs[first][0]]
        if number == len(runs) or together * bytes_per_row > most:
            tasks.append((first, number))
            first = number
    return tasks
