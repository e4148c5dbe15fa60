"""Rows of features times weights, and sums of rows times slopes.

A compiler ends a plain loop over features with up to fifteen of them one by one, and sums in an order of its own. Here
the last ones take one masked instruction, and equal rows have equal products wherever they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numba import types
from numba.core import cgutils

from marginrank.runtime.simd import DOUBLE, LONG, Vectors, arrays, contiguous, for_kernels, row_of, size

#: Numbers of a vector.
_LANES: Final = 8
#: Vectors that a product is gathered in, so that an addition need not wait for the one before.
_SUMS: Final = 2
#: Bytes ahead of those being multiplied that are asked for: some processors do not look far enough ahead themselves.
_AHEAD: Final = 4096
_SLOT: Final[Any] = cgutils.alloca_once_value


def _check_types(X: Any, *others: Any) -> None:
    """Refuse numbers that the code would take for others; those of 16 bits are float16."""
    if X.dtype not in (types.uint16, types.float32, types.float64) or any(one.dtype != types.float64 for one in others):
        raise TypeError(f"products take features in float16, float32 or float64 and other numbers in float64, not {X}")


def _row_product(typing_context, X, row, weights):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the product of a row and weights."""
    contiguous(X, weights)
    _check_types(X, weights)

    def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
        vectors = Vectors(builder, _LANES)
        features, w = arrays(context, builder, (signature.args[0], signature.args[2]), (values[0], values[2]))
        begin = row_of(builder, features, values[1])
        sums = [_SLOT(builder, vectors.zeros(DOUBLE)) for _ in range(_SUMS)]

        def add(column: Any, which: int, mask: Any) -> None:
            there = builder.gep(begin, [column])
            if which == 0 and mask is None:
                vectors.fetch(there, LONG(_AHEAD))
            own, weight = vectors.load(there, mask), vectors.load(builder.gep(w.data, [column]), mask)
            builder.store(vectors.fma(vectors.wide(own), weight, builder.load(sums[which])), sums[which])

        vectors.each(size(builder, features, 1), add, _SUMS)
        return vectors.total(builder.fadd(*map(builder.load, sums)))

    return types.float64(X, types.int64, weights), code


def _adding(n_rows: int) -> Callable[..., Any]:
    """Return what adds some rows times their slopes."""

    def define(typing_context, X, row, slopes, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
        contiguous(X, slopes, out)
        _check_types(X, slopes, out)

        def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
            vectors = Vectors(builder, _LANES)
            kinds = (signature.args[0], *signature.args[2:])
            features, given, total = arrays(context, builder, kinds, (values[0], *values[2:]))
            numbers = [builder.add(values[1], LONG(number)) for number in range(n_rows)]
            begins = [row_of(builder, features, number) for number in numbers]
            own = [builder.load(builder.gep(given.data, [number])) for number in numbers]
            each = [vectors.splat(slope) for slope in own]

            def add(column: Any, _: int, mask: Any) -> None:
                there = builder.gep(total.data, [column])
                total_part = vectors.load(there, mask)
                for slope, begin in zip(each, begins, strict=True):
                    row_part = vectors.wide(vectors.load(builder.gep(begin, [column]), mask))
                    total_part = vectors.fma(slope, row_part, total_part)
                vectors.store(total_part, there, mask)

            vectors.each(size(builder, features, 1), add)
            return context.get_dummy_value()

        return types.void(X, types.int64, slopes, out), code

    return define


def _numbers(rows: Any) -> Any:
    return rows.view(np.float16) if rows.dtype == np.uint16 else rows


def _product_in_python(X: Any, row: int, weights: Any) -> float:
    return float(_numbers(X[row]) @ weights)


def _adding_in_python(n_rows: int) -> Callable[..., None]:
    def add(X: Any, row: int, slopes: Any, out: Any) -> None:
        out += slopes[row : row + n_rows] @ _numbers(X[row : row + n_rows])

    return add


row_product: Final = for_kernels(_row_product, _product_in_python)
add_row: Final = for_kernels(_adding(1), _adding_in_python(1))
add_four_rows: Final = for_kernels(_adding(4), _adding_in_python(4))
