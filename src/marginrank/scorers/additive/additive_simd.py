"""Values between neighbouring cells of a curve, for many documents at a time.

A compiler takes the numbers of a plain loop from tables by gathering instructions, which take longer than one load for
each document. Here both numbers of a cell, which stand side by side, come by one load.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from marginrank.runtime.simd import BYTE, DOUBLE, INT, LONG, Vectors, arrays, contiguous, for_kernels, size

#: Documents of a vector, and of a line of a cache.
_DOCUMENTS: Final = 4
_LINE: Final = 16
#: Numbers of a table of cells: 256 cells of two numbers each.
_TABLE: Final = 512
#: A position has its cell in the highest of four bytes, and the part of the way to the next cell in the others.
_CELL: Final = 3
_PART: Final = (1 << 24) - 1


class _Positions(Vectors):
    """Code for the positions of so many documents."""

    def __init__(self, builder: Any, positions: Any, n: int) -> None:
        super().__init__(builder, n)
        self._positions = positions

    def parts(self, row: Any) -> Any:
        """Return the parts of the way to the next cell, in float64."""
        loaded = self.load(self.builder.gep(self._positions.data, [row]))
        own = self.builder.and_(loaded, ir.Constant(self.kind(INT), [_PART] * self.n))
        return self.builder.sitofp(own, self.kind(DOUBLE))

    def cell(self, table: Any, row: Any, number: int, first: int = 0) -> Any:
        """Return the pointer to both numbers of the cell of a document, in the table that begins at a number."""
        builder = self.builder
        highest = builder.add(builder.mul(row, LONG(4)), LONG(4 * number + _CELL))
        code = builder.load(builder.gep(builder.bitcast(self._positions.data, BYTE.as_pointer()), [highest]))
        at = builder.add(builder.mul(builder.zext(code, LONG), LONG(2)), LONG(first))
        return builder.bitcast(builder.gep(table.data, [at]), ir.VectorType(DOUBLE, 2).as_pointer())

    def add_values(self, row: Any, table: Any, out: Any) -> None:
        """Add the values at the positions to the scores."""
        pairs = [self.builder.load(self.cell(table, row, number), align=8) for number in range(self.n)]
        if self.n == 1:
            value, rise = (self.pick(pairs[0], pairs[0], at) for at in (0, 1))
        else:
            # Of documents 0 and 2, and 1 and 3, one instruction each brings values and rises in order.
            even, odd = (self.pick(pairs[first], pairs[first + 2], 0, 1, 2, 3) for first in (0, 1))
            value, rise = (self.pick(even, odd, at, 4 + at, 2 + at, 6 + at) for at in (0, 1))
        there = self.builder.gep(out.data, [row])
        self.store(self.builder.fadd(self.load(there), self.fma(self.parts(row), rise, value)), there)

    def add_slopes(self, row: Any, slopes: Any, tables: Any) -> None:
        """Add slopes, and their products with the parts of the way, each document to a table of its own."""
        slope = self.load(self.builder.gep(slopes.data, [row]))
        moved = self.builder.fmul(slope, self.parts(row))
        if self.n == 1:
            pairs = [self.pick(slope, moved, 0, 1)]
        else:
            both = [self.pick(slope, moved, at, 4 + at, 2 + at, 6 + at) for at in (0, 1)]
            pairs = [self.pick(both[n % 2], both[n % 2], n // 2 * 2, n // 2 * 2 + 1) for n in range(self.n)]
        for number, pair in enumerate(pairs):
            there = self.cell(tables, row, number, number * _TABLE)
            self.builder.store(self.builder.fadd(self.builder.load(there, align=8), pair), there, align=8)


def _score_lines(typing_context, positions, ahead, values, scores):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add to each score the value at a position, and ask for positions so many bytes ahead.

    ``values`` has the value of each cell, and its rise for a unit of the way to the next.
    """
    contiguous(positions, values, scores)

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kinds = (signature.args[0], *signature.args[2:])
        given, table, out = arrays(context, builder, kinds, (arguments[0], *arguments[2:]))
        four, one = (_Positions(builder, given, n) for n in (_DOCUMENTS, 1))
        n = size(builder, given)
        line, full = (builder.and_(n, LONG(-width)) for width in (_LINE, _DOCUMENTS))
        with four.every(_LINE, LONG(0), line) as row:
            four.fetch(builder.gep(given.data, [row]), arguments[1])
            for first in range(0, _LINE, _DOCUMENTS):
                four.add_values(builder.add(row, LONG(first)), table, out)
        with four.every(_DOCUMENTS, line, full) as row:
            four.add_values(row, table, out)
        with one.every(1, full, n) as row:
            one.add_values(row, table, out)
        return context.get_dummy_value()

    return types.void(positions, types.int64, values, scores), code


def _add_to_lines(typing_context, positions, slopes, sums):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add each slope, and its product with the part of the way, to the cell of a document in one of four tables.

    Neighbours have tables of their own: most documents can share a cell, and one addition to it waits for the one
    before.
    """
    contiguous(positions, slopes, sums)

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        given, own, tables = arrays(context, builder, signature.args, arguments)
        four, one = (_Positions(builder, given, n) for n in (_DOCUMENTS, 1))
        n = size(builder, given)
        full = builder.and_(n, LONG(-_DOCUMENTS))
        with four.every(_DOCUMENTS, LONG(0), full) as row:
            four.add_slopes(row, own, tables)
        with one.every(1, full, n) as row:
            one.add_slopes(row, own, tables)
        return context.get_dummy_value()

    return types.void(positions, slopes, sums), code


def _score_in_python(positions: Any, ahead: int, values: Any, scores: Any) -> None:  # noqa: ARG001
    cells = values[positions >> 24]
    scores += cells[:, 0] + (positions & _PART) * cells[:, 1]


def _add_in_python(positions: Any, slopes: Any, sums: Any) -> None:
    np.add.at(sums[0], positions >> 24, np.column_stack([slopes, slopes * (positions & _PART)]))


score_lines: Final = for_kernels(_score_lines, _score_in_python)
add_to_lines: Final = for_kernels(_add_to_lines, _add_in_python)
