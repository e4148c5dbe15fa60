"""Assignment of rows to columns under limits on sums of weights: an integer program."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginrank.runtime.lazy_imports import sp
from marginrank.typing import FloatArray


def assign_within_limits(
    values: FloatArray, weights: FloatArray, limit: float, *, whole: bool = True, fill: bool = False
) -> tuple[FloatArray, float]:
    """Assign each row to at most one column, and each column to one row at most, for the largest sum of values.

    For every column s of the weights, Σ w_is over the assigned rows i is at most the limit. Solved by HiGHS.

    Args:
        values: Rows × columns.
        weights: Rows × limited sums, from 0 up.
        limit: Largest sum.
        whole: Solve the integer program; otherwise its linear relaxation.
        fill: Assign a row to every column; there has to be a way.

    Returns:
        How much of each row is assigned to each column, and the largest sum of values.

    >>> chosen, value = assign_within_limits(np.array([[3.0], [2.0]]), np.array([[2.0], [1.0]]), 1.0)
    >>> chosen.tolist(), value
    ([[0.0], [1.0]], 2.0)
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

    n, columns = values.shape
    rows = sp.vstack(
        [
            sp.kron(sp.eye_array(n), np.ones((1, columns))),
            sp.kron(np.ones((1, n)), sp.eye_array(columns)),
            sp.kron(weights.T, np.ones((1, columns))),
        ]
    )
    upper = np.concatenate([np.ones(n + columns), np.full(weights.shape[1], limit)])
    lower = np.full(len(upper), -np.inf)
    lower[n : n + columns] = 1.0 if fill else -np.inf
    result: Any = milp(
        -values.ravel(),
        integrality=np.full(values.size, int(whole)),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(sp.csr_array(rows), lower, upper),
        options={"mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise RuntimeError(f"HiGHS did not solve the program of {n} rows and {columns} columns: {result.message}")
    placed = result.x.reshape(n, columns)
    return (np.round(placed) if whole else placed) + 0.0, -float(result.fun)


def most_within_limits(weights: FloatArray, limit: float, most: int) -> int:
    """Return how many rows can be chosen, up to ``most``, with sums of weights of at most the limit.

    >>> most_within_limits(np.array([[0.9], [0.5], [0.4]]), 1.0, 3)
    2
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

    n = len(weights)
    if not n:
        return 0
    limits = LinearConstraint(np.vstack([weights.T, np.ones((1, n))]), -np.inf, [*[limit] * weights.shape[1], most])
    result: Any = milp(-np.ones(n), integrality=np.ones(n, dtype=np.int64), bounds=Bounds(0.0, 1.0), constraints=limits)
    return round(-float(result.fun))
