"""Cholesky factors, against NumPy's inverse."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.runtime.cholesky import Cholesky


@pytest.mark.parametrize(("dtype", "near"), [(np.float64, 1e-10), (np.float32, 1e-3)])
@pytest.mark.parametrize("n", [1, 2, 7, 130])
def test_factors_solve_systems(n, dtype, near):
    rng = np.random.default_rng(n)
    root = rng.standard_normal((n, n + 3))
    matrix = root @ root.T + np.eye(n)
    factors = Cholesky(matrix.astype(dtype))
    for right in (rng.standard_normal(n), rng.standard_normal((n, 3)), rng.standard_normal((3, n)).T):
        before = right.copy()
        solved = factors.solve(right)
        assert solved.dtype == dtype
        assert solved == pytest.approx(np.linalg.inv(matrix) @ right, abs=near)
        # (L⁻¹b)·(L⁻¹b) = bᵀA⁻¹b, and L⁻ᵀ is the other half.
        half = factors.solve_lower(right)
        assert half.T @ half == pytest.approx(right.T @ np.linalg.inv(matrix) @ right, abs=50 * near)
        assert np.array_equal(factors.solve_upper(half), solved)
        assert np.array_equal(right, before)


def test_the_memory_of_the_matrix_is_used():
    matrix = np.array([[4.0, 2.0], [2.0, 5.0]])
    Cholesky(matrix)
    assert matrix.tolist() == [[2.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize("matrix", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[0.0]])])
def test_what_is_not_positive_definite_is_refused(matrix):
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        Cholesky(matrix)


def test_an_empty_matrix_has_factors():
    assert Cholesky(np.zeros((0, 0))).solve(np.zeros(0)).shape == (0,)
    assert Cholesky(np.eye(2)).solve(np.zeros((2, 0))).shape == (2, 0)


def test_arrays_that_lapack_would_misread_are_refused():
    fixed = np.eye(2)
    fixed.flags.writeable = False
    others = [np.zeros((2, 3)), np.zeros(4), np.asfortranarray(np.eye(3))[:, :2], np.eye(4)[::2, ::2], fixed]
    for matrix in [*others, np.eye(2, dtype=">f8"), np.eye(2, dtype=np.int64)]:
        with pytest.raises(ValueError, match="square, writeable matrix of float32 or float64 in C order"):
            Cholesky(matrix)
    with pytest.raises(ValueError, match="3 rows for a matrix of 2"):
        Cholesky(np.eye(2)).solve_lower(np.zeros(3))
