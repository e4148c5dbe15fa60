"""The best of many places of a document, eight at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from marginrank.runtime.simd import DOUBLE, LONG, Vectors, arrays, contiguous, for_kernels, row_of

#: Places of a vector.
_LANES: Final = 8
_SLOT: Final[Any] = cgutils.alloca_once_value


def _best_place(typing_context, tables, sums, price, rise, first, last, passed):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the i from ``first`` to ``last`` where share_i·D(i + j) − rise·S(i + j) + worth_i − price·i is largest.

    Of several it is the last. ``tables`` has shares and worths, by i, ``sums`` has discounts D and their sums S, and j
    is how many documents ``passed``. Both have numbers beyond those that count.
    """
    contiguous(tables, sums)

    def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
        vectors = Vectors(builder, _LANES)
        by_place, by_rank = arrays(context, builder, signature.args[:2], values[:2])
        each_price, each_rise = vectors.splat(values[2]), vectors.splat(builder.fneg(values[3]))
        first, last, passed = values[4:]
        (shares, worths), (discounts, totals) = (
            [row_of(builder, table, LONG(number)) for number in (0, 1)] for table in (by_place, by_rank)
        )
        lanes = ir.Constant(vectors.kind(LONG), list(range(_LANES)))
        limit = vectors.splat(last)
        largest = _SLOT(builder, ir.Constant(vectors.kind(DOUBLE), [float("-inf")] * _LANES))
        best = _SLOT(builder, vectors.zeros(LONG))
        with vectors.every(_LANES, first, builder.add(last, LONG(1))) as i:
            place, at = builder.add(vectors.splat(i), lanes), builder.add(i, passed)
            share, worth = (vectors.load(builder.gep(part, [i])) for part in (shares, worths))
            value = vectors.fma(share, vectors.load(builder.gep(discounts, [at])), worth)
            value = vectors.fma(each_rise, vectors.load(builder.gep(totals, [at])), value)
            paid = builder.fmul(each_price, builder.sitofp(place, vectors.kind(DOUBLE)))
            value = builder.fsub(value, paid)
            so_far = builder.load(largest)
            better = builder.and_(builder.fcmp_ordered(">=", value, so_far), builder.icmp_signed("<=", place, limit))
            builder.store(builder.select(better, value, so_far), largest)
            builder.store(builder.select(better, place, builder.load(best)), best)
        most = builder.load(largest)
        top = vectors.call(f"vector.reduce.fmax.v{_LANES}f64", DOUBLE, most)
        chosen = builder.select(
            builder.fcmp_ordered("==", most, vectors.splat(top)), builder.load(best), vectors.splat(first)
        )
        return vectors.call(f"vector.reduce.smax.v{_LANES}i64", LONG, chosen)

    numbers = (types.float64, types.float64, types.int64, types.int64, types.int64)
    return types.int64(tables, sums, *numbers), code


def _in_python(tables: Any, sums: Any, price: float, rise: float, first: int, last: int, passed: int) -> int:
    i = np.arange(first, last + 1)
    values = tables[0, i] * sums[0, i + passed] - rise * sums[1, i + passed] + tables[1, i] - price * i
    return int(last - np.argmax(values[::-1]))


best_place: Final = for_kernels(_best_place, _in_python)
