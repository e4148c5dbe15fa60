"""Cholesky factorization with SciPy's LAPACK, without holding Python's global lock.

The functions of `scipy.linalg.lapack` hold the lock while they run, so fits in several threads wait for each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from marginrank.typing import AnyArray

_LETTERS: Final = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}
_LOWER: Final = b"L"


class Cholesky:
    """The factorization A = LLᵀ of a symmetric matrix; `LinAlgError` if it is not positive definite.

    Args:
        matrix: The matrix, of float32 or float64 in C order. Its memory is used for L.

    >>> factors = Cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> factors.solve_lower(np.array([4.0, 6.0])).tolist(), factors.solve_upper(np.array([2.0, 2.0])).tolist()
    ([2.0, 2.0], [0.5, 1.0])
    >>> factors.solve(np.array([4.0, 6.0])).tolist()
    [0.5, 1.0]
    """

    def __init__(self, matrix: AnyArray) -> None:
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
        if not (square and matrix.flags.carray and matrix.dtype in _LETTERS):
            raise ValueError("expected a square, writeable matrix of float32 or float64 in C order")
        self.dtype, self._letter = matrix.dtype, _LETTERS[matrix.dtype]
        self._factor, self._n = matrix, len(matrix)
        # LAPACK goes by columns, so this is the transposed matrix to it: the same.
        _call(f"{self._letter}potrf", _LOWER, self._n, matrix, max(1, self._n))

    def solve_lower(self, right: AnyArray) -> AnyArray:
        """Return L⁻¹·right, in the type of the matrix."""
        return self._solve_triangular(right, b"N")

    def solve_upper(self, right: AnyArray) -> AnyArray:
        """Return L⁻ᵀ·right."""
        return self._solve_triangular(right, b"T")

    def solve(self, right: AnyArray) -> AnyArray:
        """Return A⁻¹·right."""
        return self.solve_upper(self.solve_lower(right))

    def _solve_triangular(self, right: AnyArray, transposed: bytes) -> AnyArray:
        if len(right) != self._n:
            raise ValueError(f"{len(right)} rows for a matrix of {self._n}")
        out, width, n = np.array(right, dtype=self.dtype, order="F"), right[:1].size, self._n
        if out.size:
            _call(f"{self._letter}trtrs", _LOWER, transposed, b"N", n, width, self._factor, n, out, n)
        return out


def _call(name: str, *arguments: bytes | int | AnyArray) -> None:
    """Call a function of LAPACK, all of whose arguments are pointers; the last is its ``info``."""
    info = ctypes.c_int64(0)
    pointers = [*map(_pointer, arguments), ctypes.byref(info)]
    _function(name, len(pointers))(*pointers)
    if info.value:
        raise np.linalg.LinAlgError("the matrix is not positive definite")


def _pointer(argument: bytes | int | AnyArray) -> Any:
    match argument:
        case bytes():
            return ctypes.byref(ctypes.c_char(argument))
        case int():
            # Builds of SciPy with integers of 64 bits read all of it, others the lower half.
            return ctypes.byref(ctypes.c_int64(argument))
        case _:
            return ctypes.c_void_p(argument.ctypes.data)


@cache
def _function(name: str, n_arguments: int) -> Callable[..., None]:
    from numba.extending import get_cython_function_address  # noqa: PLC0415

    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)
    return kind(get_cython_function_address("scipy.linalg.cython_lapack", name))
