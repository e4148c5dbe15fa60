"""Integer programs, such as assignment of rows to columns under limits on sums of weights."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from marginrank.runtime.lazy_imports import sp
from marginrank.typing import AnyArray, FloatArray

#: Largest value in the unit that programs are solved in. HiGHS stops within 1e-6 of the optimum, in whatever unit.
LARGEST: Final = 1000.0


def solve_program(
    values: FloatArray, whole: AnyArray, rows: Any, lower: FloatArray | float, upper: FloatArray
) -> tuple[FloatArray, float]:
    """Return the x in [0, 1] of largest values·x, and that sum, with rows·x from ``lower`` to ``upper``.

    Args:
        values: By variable.
        whole: Which variables are whole numbers.
        rows: Constraints × variables, sparse.
        lower: By constraint.
        upper: By constraint.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    result: Any = milp(
        -(values / largest) * LARGEST,
        integrality=np.asarray(whole, dtype=np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(sp.csr_array(rows), lower, upper),
        options={"mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise RuntimeError(f"HiGHS did not solve the program of {len(values)} variables: {result.message}")
    return result.x, -float(result.fun) / LARGEST * largest


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
    n, columns = values.shape
    rows = sp.vstack(
        [
            sp.kron(sp.eye_array(n), np.ones((1, columns))),
            sp.kron(np.ones((1, n)), sp.eye_array(columns)),
            sp.kron(weights.T / limit, np.ones((1, columns))),
        ]
    )
    upper = np.ones(n + columns + weights.shape[1])
    lower = np.full(len(upper), -np.inf)
    lower[n : n + columns] = 1.0 if fill else -np.inf
    x, value = solve_program(values.ravel(), np.full(values.size, whole), rows, lower, upper)
    placed = x.reshape(n, columns)
    return (np.round(placed) if whole else placed) + 0.0, value


def most_within_limits(weights: FloatArray, limit: float, most: int) -> int:
    """Return how many rows can be chosen, up to ``most``, with sums of weights of at most the limit.

    >>> most_within_limits(np.array([[0.9], [0.5], [0.4]]), 1.0, 3)
    2
    """
    n = len(weights)
    if not n:
        return 0
    rows, upper = np.vstack([weights.T / limit, np.ones((1, n))]), np.append(np.ones(weights.shape[1]), most)
    return round(solve_program(np.ones(n), np.full(n, True), rows, -np.inf, upper)[1])
