"""Cholesky factors by SciPy's LAPACK, without Python's global lock.

`scipy.linalg.lapack` keeps the lock while its functions run, so that fits in several threads would wait for each other.
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
    """The factors of a symmetric matrix A = LLᵀ in float32 or float64. `LinAlgError` if it is not positive definite.

    Args:
        matrix: The matrix, in C order, whose memory is used for L.

    >>> factors = Cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> factors.half(np.array([4.0, 6.0])).tolist(), factors.other_half(np.array([2.0, 2.0])).tolist()
    ([2.0, 2.0], [0.5, 1.0])
    >>> factors.solve(np.array([4.0, 6.0])).tolist()
    [0.5, 1.0]
    """

    def __init__(self, matrix: AnyArray) -> None:
        if not (matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.flags.c_contiguous):
            raise ValueError("factors are made of a square matrix in C order")
        self.dtype, self._letter = matrix.dtype, _LETTERS[matrix.dtype]
        self._factor, self._n = matrix, len(matrix)
        # To LAPACK, which goes by columns, this is the transposed matrix: the same.
        failed = _call(f"{self._letter}potrf", _LOWER, self._n, matrix, max(1, self._n))
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite")

    def half(self, right: AnyArray) -> AnyArray:
        """Return L⁻¹·right, in the type of the matrix."""
        return self._halve(right, b"N")

    def other_half(self, right: AnyArray) -> AnyArray:
        """Return L⁻ᵀ·right."""
        return self._halve(right, b"T")

    def solve(self, right: AnyArray) -> AnyArray:
        """Return A⁻¹·right."""
        return self.other_half(self.half(right))

    def _halve(self, right: AnyArray, transposed: bytes) -> AnyArray:
        if len(right) != self._n:
            raise ValueError(f"{len(right)} rows for a matrix of {self._n}")
        out, width, n = np.array(right, dtype=self.dtype, order="F"), right[:1].size, self._n
        if out.size:
            _call(f"{self._letter}trtrs", _LOWER, transposed, b"N", n, width, self._factor, n, out, n)
        return out


def _call(name: str, *arguments: bytes | int | AnyArray) -> int:
    """Call a function of LAPACK, which takes pointers alone, and return what it says about its success."""
    said = ctypes.c_int(0)
    pointers = [*map(_pointer, arguments), ctypes.byref(said)]
    _function(name, len(pointers))(*pointers)
    return said.value


def _pointer(argument: bytes | int | AnyArray) -> Any:
    match argument:
        case bytes():
            return ctypes.byref(ctypes.c_char(argument))
        case int():
            return ctypes.byref(ctypes.c_int(argument))
        case _:
            return ctypes.c_void_p(argument.ctypes.data)


@cache
def _function(name: str, n_arguments: int) -> Callable[..., None]:
    from numba.extending import get_cython_function_address  # noqa: PLC0415

    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)
    return kind(get_cython_function_address("scipy.linalg.cython_lapack", name))
