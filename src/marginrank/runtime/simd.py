"""Vector instructions for kernels, where what a compiler makes of a plain loop is not good enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from llvmlite import ir
from numba import config
from numba.core import cgutils
from numba.extending import intrinsic

DOUBLE: Final = ir.DoubleType()
FLOAT: Final = ir.FloatType()
_HALF: Final = ir.HalfType()
BYTE, SHORT, INT, LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_NAMES: Final = {DOUBLE: "f64", FLOAT: "f32", SHORT: "i16"}
_SIZES: Final = {DOUBLE: 8, FLOAT: 4, SHORT: 2, INT: 4}
#: Level of the cache that `Vectors.fetch` brings memory to: the second.
_LEVEL: Final = 2
_CONFIG: Final[Any] = config
_INTRINSIC: Final[Any] = intrinsic
_FUNCTION: Final[Any] = cgutils.get_or_insert_function
_FOR: Final[Any] = cgutils.for_range_slice
_PARTS: Final[Any] = cgutils.unpack_tuple


def for_kernels(define: Callable[..., Any], in_python: Callable[..., Any]) -> Any:
    """Return a function that kernels can call: what Numba calls an intrinsic, or its twin where Numba is disabled."""
    return in_python if _CONFIG.DISABLE_JIT else _INTRINSIC(define)


def contiguous(*kinds: Any) -> None:
    """Refuse arrays whose numbers are not one after the other."""
    for kind in kinds:
        if kind.layout != "C":
            raise TypeError(f"{kind} is not contiguous")


def arrays(context: Any, builder: Any, kinds: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return arrays as Numba keeps them, with their ``data``, ``shape`` and ``strides``."""
    return [context.make_array(kind)(context, builder, value) for kind, value in zip(kinds, values, strict=True)]


def size(builder: Any, array: Any, axis: int = 0) -> Any:
    """Return the length of an axis."""
    return _PARTS(builder, array.shape)[axis]


def row_of(builder: Any, array: Any, number: Any) -> Any:
    """Return the pointer to a row of a matrix."""
    stride, first = _PARTS(builder, array.strides)[0], builder.bitcast(array.data, BYTE.as_pointer())
    return builder.bitcast(builder.gep(first, [builder.mul(number, stride)]), array.data.type)


class Vectors:
    """Code for vectors of so many numbers. Sums are in the order of the code, whatever the processor is."""

    def __init__(self, builder: Any, n: int) -> None:
        self.builder, self.n = builder, n

    def kind(self, of: Any) -> Any:
        """Return the type of a vector."""
        return ir.VectorType(of, self.n)

    def zeros(self, of: Any) -> Any:
        """Return a vector of zeros."""
        return ir.Constant(self.kind(of), [0 if isinstance(of, ir.IntType) else 0.0] * self.n)

    def call(self, name: str, returned: Any, *arguments: Any) -> Any:
        """Call a function of LLVM."""
        kind = ir.FunctionType(returned, [argument.type for argument in arguments])
        return self.builder.call(_FUNCTION(self.builder.module, kind, f"llvm.{name}"), arguments)

    def load(self, pointer: Any, mask: Any = None) -> Any:
        """Load numbers from a pointer on, 0 where they are masked; those of 16 bits are float16, and become float32."""
        of, builder = pointer.type.pointee, self.builder
        there = builder.bitcast(pointer, self.kind(of).as_pointer())
        if mask is None:
            loaded = builder.load(there, align=_SIZES[of])
        else:
            name = f"masked.load.v{self.n}{_NAMES[of]}.p0"
            loaded = self.call(name, self.kind(of), there, INT(_SIZES[of]), mask, self.zeros(of))
        if of is not SHORT:
            return loaded
        return builder.fpext(builder.bitcast(loaded, self.kind(_HALF)), self.kind(FLOAT))

    def store(self, numbers: Any, pointer: Any, mask: Any = None) -> None:
        """Store numbers from a pointer on, except those that are masked."""
        of, there = pointer.type.pointee, self.builder.bitcast(pointer, numbers.type.as_pointer())
        if mask is None:
            self.builder.store(numbers, there, align=_SIZES[of])
        else:
            name = f"masked.store.v{self.n}{_NAMES[of]}.p0"
            self.call(name, ir.VoidType(), numbers, there, INT(_SIZES[of]), mask)

    def wide(self, numbers: Any) -> Any:
        """Return numbers in float64."""
        return numbers if numbers.type.element is DOUBLE else self.builder.fpext(numbers, self.kind(DOUBLE))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a·b + c, rounded once."""
        return self.call(f"fma.v{self.n}{_NAMES[a.type.element]}", a.type, a, b, c)

    def splat(self, number: Any) -> Any:
        """Return a number as often as a vector has room for it."""
        empty = ir.Constant(self.kind(number.type), ir.Undefined)
        first = self.builder.insert_element(empty, number, INT(0))
        return self.pick(first, empty, *[0] * self.n)

    def pick(self, a: Any, b: Any, *places: int) -> Any:
        """Return the numbers at some places of two vectors, one after the other."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(places)), places))

    def total(self, numbers: Any) -> Any:
        """Return the sum of a vector, by halves."""
        width = self.n // 2
        while width:
            low, high = (self.pick(numbers, numbers, *range(first, first + width)) for first in (0, width))
            numbers, width = self.builder.fadd(low, high), width // 2
        return self.builder.extract_element(numbers, INT(0))

    def fetch(self, pointer: Any, ahead: Any) -> None:
        """Prefetch the memory this many bytes past a pointer; the address need not be valid."""
        there = self.builder.gep(self.builder.bitcast(pointer, BYTE.as_pointer()), [ahead])
        self.call("prefetch.p0", ir.VoidType(), there, INT(0), INT(_LEVEL), INT(1))

    @contextmanager
    def every(self, step: int, start: Any, stop: Any) -> Iterator[Any]:
        """Repeat what is made for each ``step``-th number from start to stop."""
        with _FOR(self.builder, start, stop, LONG(step), LONG) as (number, _):
            yield number

    def each(self, n: Any, body: Callable[[Any, int, Any], None], at_a_time: int = 1) -> None:
        """Make ``body(first, which, mask)`` for n numbers, a vector of them at a time, the last of them masked.

        Args:
            n: How many there are.
            body: Makes the code for the vector that begins at a number, and is the ``which``-th of several.
            at_a_time: How many vectors come together, as long as there are enough.
        """
        builder, done = self.builder, LONG(0)
        for width in sorted({self.n, self.n * at_a_time}, reverse=True):
            stop = builder.and_(n, LONG(-width))
            with self.every(width, done, stop) as first:
                for which in range(width // self.n):
                    body(builder.add(first, LONG(which * self.n)), which, None)
            done = stop
        left = builder.sub(n, done)
        with builder.if_then(builder.icmp_signed(">", left, LONG(0))):
            places = ir.Constant(self.kind(INT), list(range(self.n)))
            body(done, 0, builder.icmp_unsigned("<", places, self.splat(builder.trunc(left, INT))))
