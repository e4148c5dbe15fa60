"""Scoring with matrix products, so that the score of a document depends on nothing beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from marginrank.threads import for_each
from marginrank.typing import AnyArray, FloatArray

#: Rows that are multiplied together; a multiple of what BLAS works on at a time, on any processor.
ROWS: Final = 384
#: The least number of rows that is such a multiple.
LEAST_ROWS: Final = 48


def score_in_blocks(
    score: Callable[[FloatArray], FloatArray], X: AnyArray, n_jobs: int | None = None, n_rows: int = ROWS
) -> FloatArray:
    """Score rows in blocks of one height, the last of them padded with copies of its first row.

    In a product of another height, or one that is not a multiple of what BLAS works on at a time, a row is rounded
    differently, and equal documents would no longer be tied.

    >>> score_in_blocks(lambda rows: rows.sum(axis=1), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]

    Args:
        score: What returns the scores of a block.
        X: The rows.
        n_jobs: Number of threads; all cores by default.
        n_rows: Number of rows of a block.
    """
    scores = np.empty(len(X))

    def work(start: int) -> None:
        rows = X[start : start + n_rows]
        block = np.empty((n_rows, X.shape[1]))
        block[: len(rows)], block[len(rows) :] = rows, rows[0]
        scores[start : start + len(rows)] = score(block)[: len(rows)]

    for_each(work, [(start,) for start in range(0, len(scores), n_rows)], n_jobs)
    return scores
