"""The two products of a pass in float64, as they are, and in float32, as they could be.

    python benchmarks/single.py

1.2 million documents with 136 float32 features, in blocks that stay in the cache of a core: X·w, then Xᵀ·slopes. Sums
of slopes in float32 are added to float64 every 32 rows. Medians of ten runs, in turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from marginrank.runtime.simd import FLOAT, LONG, Vectors, arrays, row_of, size
from marginrank.scorers.linear.linear_simd import add_four_rows, row_product

N_DOCUMENTS, N_FEATURES, BLOCK, SUMMED = 1_200_000, 136, 960, 32
LANES, ACCUMULATORS, AHEAD = 16, 2, 4096
_SLOT: Any = cgutils.alloca_once_value


def _row_product(typing_context, X, row, weights):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return the product of a row and weights in float32."""

    def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
        vectors = Vectors(builder, LANES)
        features, w = arrays(context, builder, (signature.args[0], signature.args[2]), (values[0], values[2]))
        begin = row_of(builder, features, values[1])
        sums = [_SLOT(builder, vectors.zeros(FLOAT)) for _ in range(ACCUMULATORS)]

        def add(column: Any, which: int, mask: Any) -> None:
            if mask is None:
                vectors.fetch(builder.gep(begin, [column]), LONG(AHEAD))
            own, weight = (vectors.load(builder.gep(first, [column]), mask) for first in (begin, w.data))
            builder.store(vectors.fma(own, weight, builder.load(sums[which])), sums[which])

        vectors.each(size(builder, features, 1), add, ACCUMULATORS)
        return vectors.total(builder.fadd(*map(builder.load, sums)))

    return types.float32(X, types.int64, weights), code


def _add_four_rows(typing_context, X, row, slopes, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add four rows times their slopes in float32."""

    def code(context, builder, signature, values):  # type: ignore[no-untyped-def]
        vectors, kinds = Vectors(builder, LANES), (signature.args[0], *signature.args[2:])
        features, given, total = arrays(context, builder, kinds, (values[0], *values[2:]))
        numbers = [builder.add(values[1], values[1].type(number)) for number in range(4)]
        begins = [row_of(builder, features, number) for number in numbers]
        each = [vectors.splat(builder.load(builder.gep(given.data, [number]))) for number in numbers]

        def add(column: Any, _: int, mask: Any) -> None:
            there = builder.gep(total.data, [column])
            summed = vectors.load(there, mask)
            for slope, begin in zip(each, begins, strict=True):
                summed = vectors.fma(slope, vectors.load(builder.gep(begin, [column]), mask), summed)
            vectors.store(summed, there, mask)

        vectors.each(size(builder, features, 1), add)
        return context.get_dummy_value()

    return types.void(X, types.int64, slopes, out), code


_INTRINSIC: Any = intrinsic
single_product, add_four_singles = _INTRINSIC(_row_product), _INTRINSIC(_add_four_rows)


def with_double_sums(product: Any) -> Any:
    """Return a pass with scores by a product of rows and weights, and sums in float64."""

    @njit(nogil=True)
    def work(X, w, slopes, out, scores, start, stop):  # type: ignore[no-untyped-def]
        for first in range(start, stop, BLOCK):
            for row in range(first, first + BLOCK):
                scores[row] = product(X, row, w)
            for row in range(first, first + BLOCK, 4):
                add_four_rows(X, row, slopes, out)

    return work


@njit(nogil=True)
def in_single(X, w, slopes, out, scores, start, stop):  # type: ignore[no-untyped-def]
    """All in float32."""
    few = np.zeros(X.shape[1], np.float32)
    for first in range(start, stop, BLOCK):
        for row in range(first, first + BLOCK):
            scores[row] = single_product(X, row, w)
        for begin in range(first, first + BLOCK, SUMMED):
            for row in range(begin, begin + SUMMED, 4):
                add_four_singles(X, row, slopes, few)
            for column in range(len(few)):
                out[column] += few[column]
                few[column] = 0.0


def seconds(work: Callable[..., None], given: Sequence[Any], n_threads: int) -> float:
    """Return how long threads take for all rows."""
    scores, bounds = np.zeros(N_DOCUMENTS), N_DOCUMENTS // BLOCK * np.arange(n_threads + 1) // n_threads * BLOCK
    threads = [
        threading.Thread(target=work, args=(*given, np.zeros(N_FEATURES), scores, *bounds[number : number + 2]))
        for number in range(n_threads)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    w, slopes = rng.standard_normal(N_FEATURES), rng.standard_normal(N_DOCUMENTS)
    single_w, single_slopes = w.astype(np.float32), slopes.astype(np.float32)
    ways: list[tuple[Any, Any]] = [
        (with_double_sums(row_product), (X, w, slopes)),
        (with_double_sums(single_product), (X, single_w, slopes)),
        (in_single, (X, single_w, single_slopes)),
    ]
    print("| two products, ms | float64 | scores in float32 | all in float32 |\n| --- | --- | --- | --- |")
    for n_threads in (1, 2):
        times = np.array([[seconds(*way, n_threads) for way in ways] for _ in range(12)])
        medians = " | ".join(f"{1e3 * median:.1f}" for median in np.median(times[2:], axis=0))
        print(f"| {n_threads} thread{'s' * (n_threads > 1)} | {medians} |", flush=True)


if __name__ == "__main__":
    main()
