"""The terms of a score, which compute scores and contributions with NumPy for every kind of model.

`marginrank.scorers.form.Form.terms` returns the terms of a model. Training, trained models, light scoring and the
service add them up with `score_blocks`; exports write them down in other languages.

A document has the same score, bit for bit, alone or among others: each term adds in one order, and products of matrices
have one shape. Compiled functions add in the same order.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import numpy as np

from marginrank.runtime.mapped_arrays import reader_of
from marginrank.runtime.threads import for_each
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from marginrank.scorers.kernel.form import KernelFunction

#: Computes the scores of some rows.
RowScores: TypeAlias = Callable[[AnyArray], FloatArray]

#: Number of steps between two knots that scores of lines are rounded to.
_UNITS: Final = 2.0**24
#: Values of a block of rows.
_BLOCK_VALUES: Final = 1 << 19
#: Minimum number of values for loading Numba, which takes longer than scoring fewer with NumPy.
_COMPILED_VALUES: Final = 1 << 16
#: Rows of a matrix for BLAS: a multiple of its block size on any processor.
_ROWS: Final = 48
#: Largest product of the three dimensions that OpenBLAS multiplies on one thread, however many it may use.
_ONE_THREAD: Final = 1 << 18
#: Maximum number of columns of such factors: a deeper product would be narrow, and half as fast.
_DEPTH: Final = 1 << 7


class Term(ABC):
    """One of the terms that add up to the score of a document."""

    #: Name in messages.
    kind: ClassVar[str]
    #: Whether compiled code is faster for a few rows too.
    slow_in_numpy: ClassVar[bool] = False

    @abstractmethod
    def score(self, X: FloatArray) -> FloatArray:
        """Return the term of each row; equal rows have equal terms."""

    def compiled(self) -> RowScores:
        """Return a function that equals `score` bit for bit and is faster on many rows, of float32 or float64."""
        return lambda X: self.score(np.asarray(X, dtype=np.float64))

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the contribution of each feature, relative to the mean of the references, for each row."""
        raise TypeError(f"the scores of a {self.kind} model are not made of features, so they cannot be explained")


def add_terms(terms: Iterable[Term], X: AnyArray, *, compiled: bool) -> RowScores:
    """Return a function that adds up the terms of rows of X, compiled if that is allowed and pays."""
    functions = [term.compiled() if compiled and _pays(term, X) else Term.compiled(term) for term in terms]
    return lambda rows: reduce(np.add, (function(rows) for function in functions))


def _pays(term: Term, X: AnyArray) -> bool:
    """Return whether compiled code pays: for many values or, if Numba is loaded, for terms that are slow in NumPy."""
    return int(X.size) >= _COMPILED_VALUES or (term.slow_in_numpy and "numba" in sys.modules)


def score_blocks(
    score: Callable[[int, AnyArray], FloatArray],
    X: AnyArray,
    n_jobs: int | None = None,
    offsets: IntArray | None = None,
) -> FloatArray:
    """Return the scores of rows, computed by blocks; the caller checks that they are finite.

    >>> score_blocks(lambda start, rows: rows.sum(axis=1) + start, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]

    Args:
        score: Returns the scores of rows, given the number of the first and the rows, contiguous in float32 or float64.
        X: The rows, in memory or on disk.
        n_jobs: Number of threads; all cores by default.
        offsets: Rows between which `X` may be cut; by default, between any two.
    """
    scores, reader = np.empty(len(X)), reader_of(X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)

    def work(start: int, stop: int) -> None:
        rows = X[start:stop] if reader is None else reader.rows(start, stop)
        with np.errstate(over="ignore", invalid="ignore"):
            scores[start:stop] = score(start, np.ascontiguousarray(rows, dtype=dtype))

    for_each(work, list(pairwise(_cuts(X, offsets))), n_jobs)
    return scores


def _cuts(X: AnyArray, offsets: IntArray | None) -> list[int]:
    """Return the first row of each block, and the number of rows."""
    step = max(1, _BLOCK_VALUES // (_ROWS * max(1, X.shape[1]))) * _ROWS
    targets = [*range(0, len(X), step), len(X)]
    return targets if offsets is None else np.unique(offsets[np.searchsorted(offsets, targets)]).tolist()


def weighted_sums(X: FloatArray, origin: FloatArray | None, weights: FloatArray) -> FloatArray:
    """Return Σ (x − origin)·weight of each row, added in the order of the features.

    >>> weighted_sums(np.array([[1.0, 2.0], [0.5, 4.0]]), None, np.array([2.0, 3.0])).tolist()
    [8.0, 13.0]
    """
    if origin is None:
        return sum_in_order(np.multiply(X.T, weights[:, None], order="C"))
    centered = np.subtract(X.T, origin[:, None], order="C")
    centered *= weights[:, None]
    return sum_in_order(centered)


def sum_in_order(columns: FloatArray) -> FloatArray:
    """Return the sums of a contiguous matrix over its rows, from the first to the last.

    >>> sum_in_order(np.array([[1.0, 2.0], [0.5, 4.0]])).tolist()
    [1.5, 6.0]
    """
    # NumPy adds one row to the next, but the numbers of a single column in pairs.
    if columns.shape[1] == 1:
        return np.asarray(np.add.reduce(np.repeat(columns, 2, axis=1), axis=0, initial=0.0)[:1])
    return np.asarray(np.add.reduce(columns, axis=0, initial=0.0))


def _compiled_sums(X: AnyArray, origin: FloatArray | None, weights: FloatArray) -> FloatArray:
    """Return `weighted_sums` from compiled code."""
    from marginrank.scorers.linear.linear_kernel import add_products  # noqa: PLC0415

    scores = np.empty(len(X))
    add_products(X, np.zeros(X.shape[1]) if origin is None else origin, np.ascontiguousarray(weights), scores)
    return scores


@dataclass(frozen=True, eq=False)
class LinearTerm(Term):
    """Weights of features, as in `marginrank.scorers.linear.form.LinearForm`.

    >>> term = LinearTerm(np.array([2.0, -1.0]), None, np.array([0.5, 0.0]), np.array([0]), np.array([7.0]))
    >>> term.score(np.array([[1.0, 3.0], [np.nan, 3.0]])).tolist()            # 2 − 3, and 1 − 3 + 7
    [-1.0, 5.0]

    Args:
        weights: The weight of each feature.
        raw_fill: Value of each feature that replaces NaN before scaling; None to keep NaN.
        fill: Value of each feature that replaces NaN after scaling; None to keep NaN.
        flagged: Features with a second weight, which is added if they are NaN.
        flag_weights: The second weights.
        origin: Value that is subtracted from each feature; None for 0.
    """

    kind: ClassVar[str] = "linear"
    weights: FloatArray
    raw_fill: FloatArray | None
    fill: FloatArray | None
    flagged: IntArray
    flag_weights: FloatArray
    origin: FloatArray | None = None

    def with_origin(self, origin: FloatArray, weights: FloatArray) -> LinearTerm:
        """Return the term of features before a scaling, given its weights there; fills become second weights."""
        if self.fill is None:
            return replace(self, origin=origin, weights=weights)
        flag_weights = self.fill * self.weights
        flag_weights[self.flagged] += self.flag_weights
        return LinearTerm(weights, self.raw_fill, origin, np.arange(len(weights)), flag_weights, origin)

    def score(self, X: FloatArray) -> FloatArray:
        """Return X·w, with fills and second weights for missing values."""
        return self._score(X, weighted_sums)

    def compiled(self) -> RowScores:
        """Return `score` from compiled code."""
        return lambda X: self._score(X, _compiled_sums)

    def _score(self, X: AnyArray, add: Callable[..., FloatArray]) -> FloatArray:
        if self.fill is None or not (absent := np.isnan(X)).any():
            return add(X, self.origin, self.weights)
        scores = add(np.where(absent, self.fill, X), self.origin, self.weights)
        if not len(self.flagged):
            return scores
        return scores + add(absent[:, self.flagged].astype(np.float64), None, self.flag_weights)

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return weight times the difference to the mean of the references; second weights count with their features.

        >>> term = LinearTerm(np.array([2.0, -1.0]), None, None, np.zeros(0, dtype=np.int64), np.zeros(0))
        >>> term.contributions(np.array([[3.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 5.0]])).tolist()
        [[3.0, 2.0]]
        """
        absent, missing = np.isnan(X), np.isnan(references)
        if self.fill is not None:
            X, references = np.where(absent, self.fill, X), np.where(missing, self.fill, references)
        contributions = np.asarray((X - references.mean(axis=0)) * self.weights)
        share = missing[:, self.flagged].mean(axis=0)
        contributions[:, self.flagged] += (absent[:, self.flagged] - share) * self.flag_weights
        return contributions


def unit_context(z: AnyArray, low: FloatArray, width: FloatArray) -> FloatArray:
    """Scale context columns to [0, 1]; columns without a width become 0.

    >>> unit_context(np.array([[1.0, 5.0], [9.0, 5.0]]), np.array([0.0, 5.0]), np.array([4.0, 0.0])).tolist()
    [[0.25, 0.0], [1.0, 0.0]]
    """
    scaled = (np.asarray(z, dtype=np.float64) - low) / np.where(width > 0.0, width, 1.0)
    return np.where(width > 0.0, np.clip(scaled, 0.0, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class AdaptiveTerm(Term):
    """Weights that depend on context columns, as in `marginrank.scorers.adaptive.form.AdaptiveForm`.

    >>> term = AdaptiveTerm(np.array([3.0, 0.0]), np.array([[4.0], [0.0]]), np.array([1]), np.zeros(1), np.ones(1))
    >>> term.score(np.array([[2.0, 0.0], [2.0, 0.5]])).tolist()               # 3·2, and (3 + 4·½)·2
    [6.0, 10.0]

    Args:
        weights: The weight of each feature where all context is 0; 0 for context columns.
        changes: What 1 of each context column adds to each weight (features × context).
        context: The context columns.
        low: Value of each context column that counts as 0.
        width: Distance from there to the value that counts as 1; 0 for columns without effect.
    """

    kind: ClassVar[str] = "adaptive"
    weights: FloatArray
    changes: FloatArray
    context: IntArray
    low: FloatArray
    width: FloatArray

    def effective_weights(self, X: FloatArray) -> FloatArray:
        """Return the weight of each feature for each row, as features × documents."""
        t = np.ascontiguousarray(unit_context(X[:, self.context], self.low, self.width).T)
        return self.weights[:, None] + np.stack([sum_in_order(change[:, None] * t) for change in self.changes])

    def score(self, X: FloatArray) -> FloatArray:
        """Return the sum of weight times feature."""
        return sum_in_order(np.multiply(self.effective_weights(X), X.T, order="C"))

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return weight times feature, minus the mean of that over the references.

        >>> term = AdaptiveTerm(np.array([3.0, 0.0]), np.array([[4.0], [0.0]]), np.array([1]), np.zeros(1), np.ones(1))
        >>> term.contributions(np.array([[2.0, 1.0]]), np.array([[2.0, 1.0], [0.0, 1.0]])).tolist()
        [[7.0, 0.0]]
        """
        mean = (self.effective_weights(references) * references.T).mean(axis=1)
        return np.asarray((self.effective_weights(X) * X.T).T - mean)


@dataclass(frozen=True, eq=False)
class Curve:
    """The curve of one feature.

    Steps have no ``start``: the curve is ``values[k]`` if exactly k of the thresholds are exceeded. Lines join the
    values at the start and the thresholds, and are constant beyond the first and the last.

    Args:
        thresholds: Increasing thresholds.
        values: Values of the steps, or at the start and the thresholds of lines.
        missing: The value of NaN.
        start: First knot of lines; None for steps.
    """

    thresholds: FloatArray
    values: FloatArray
    missing: float
    start: float | None

    def at(self, x: FloatArray) -> FloatArray:
        """Return the value of the curve, rounded as training rounds it.

        >>> lines = Curve(np.array([1.0, 3.0]), np.array([0.0, 0.5, 2.5]), 9.0, 0.0)
        >>> lines.at(np.array([-1.0, 0.5, 2.0, 8.0, np.nan])).tolist()
        [0.0, 0.25, 1.5, 2.5, 9.0]
        """
        return np.asarray(CurvesTerm((self,)).values(np.reshape(x, (-1, 1)))[0])


def threshold_grid(thresholds: Sequence[AnyArray]) -> FloatArray:
    """Return the thresholds of each feature, padded with inf, which no value exceeds, to a power of two.

    >>> threshold_grid([np.array([1.0, 2.0]), np.array([5.0])]).tolist()
    [[1.0, 2.0, inf, inf], [5.0, inf, inf, inf]]
    """
    longest = max(map(len, thresholds), default=0)
    grid = np.full((len(thresholds), 1 << longest.bit_length()), np.inf)
    for row, cuts in zip(grid, thresholds, strict=True):
        row[: len(cuts)] = cuts
    return grid


@dataclass(frozen=True, eq=False)
class CurvesTerm(Term):
    """One curve per feature, all of them steps or all of them lines."""

    kind: ClassVar[str] = "additive"
    slow_in_numpy: ClassVar[bool] = True
    curves: tuple[Curve, ...]

    @property
    def steps(self) -> bool:
        """Whether all curves are step functions."""
        return all(curve.start is None for curve in self.curves)

    def score(self, X: FloatArray) -> FloatArray:
        """Return the sum of the values of the curves, one feature after the other."""
        return sum_in_order(self.values(X))

    def values(self, X: FloatArray) -> FloatArray:
        """Return the values of the curves, as features × documents."""
        exceeded = np.empty(X.shape[::-1], dtype=np.int64)
        for curve, column, row in zip(self.curves, X.T, exceeded, strict=True):
            row[:] = np.searchsorted(curve.thresholds, column, side="left")
        firsts, heights = self._layout
        absent, exceeded = np.isnan(X.T), exceeded + firsts[:, None]
        values = heights[exceeded]
        if not self.steps:
            fractions = self._fractions(X.T, exceeded)
            following = heights[np.where(fractions > 0.0, exceeded + 1, exceeded)]
            # At a knot the value is that of the knot, to the last bit.
            values = np.where(fractions == 1.0, following, values + fractions * (following - values))
        missing = np.array([curve.missing for curve in self.curves])
        return np.where(absent, missing[:, None], values)

    def _fractions(self, x: FloatArray, exceeded: IntArray) -> FloatArray:
        """Return the fraction of the way from the knot below each value to the next knot, in steps of 2⁻²⁴."""
        knots = np.concatenate([np.zeros(0), *(np.r_[curve.start, curve.thresholds, np.inf] for curve in self.curves)])
        low, high = knots[exceeded], knots[exceeded + 1]
        inside = (x > low) & (high < np.inf)
        low, high = np.where(inside, low, 0.0), np.where(inside, high, 1.0)
        # In halves, since the difference of two numbers can overflow.
        width = 0.5 * high - 0.5 * low
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            fractions = np.where(width > 1e-300, (0.5 * x - 0.5 * low) / width, (x - low) / (high - low))
        return np.asarray(np.where(inside, np.rint(np.where(inside, fractions, 0.0) * _UNITS) / _UNITS, 0.0))

    @property
    def _layout(self) -> tuple[IntArray, FloatArray]:
        """The first index of each curve in the values of all curves, and these, with NaN's last and a 0 at the end."""
        sizes = np.array([len(curve.values) + 1 for curve in self.curves], dtype=np.int64)
        heights = [np.append(curve.values, curve.missing) for curve in self.curves]
        return np.cumsum(sizes) - sizes, np.concatenate([*heights, [0.0]])

    def compiled(self) -> RowScores:
        """Return `score` from compiled code, which finds the bins of all values and then adds up their values."""
        from marginrank.scorers.additive import additive_kernel as kernel  # noqa: PLC0415

        (firsts, values), grid = self._layout, threshold_grid([curve.thresholds for curve in self.curves])
        missing_codes = np.array([len(curve.values) for curve in self.curves], dtype=np.int64)
        starts = None if self.steps else np.array([curve.start for curve in self.curves], dtype=np.float64)

        def score(X: AnyArray) -> FloatArray:
            scores, codes = np.empty(len(X)), np.empty(X.shape, dtype=np.uint8 if starts is None else np.uint32)
            if starts is None:
                kernel.encode_rows(X, grid, missing_codes, codes)
                kernel.score_codes(codes, firsts, values, scores)
            else:
                kernel.locate_rows(X, grid, starts, missing_codes, codes)
                kernel.score_positions(codes, firsts, values, scores)
            return scores

        return score

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return the value of the curve of each feature, minus its mean over the references.

        >>> curves = Curve(np.array([1.0]), np.array([0.0, 2.0]), 0.0, None), Curve(np.zeros(0), np.zeros(1), 3.0, None)
        >>> CurvesTerm(curves).contributions(np.array([[1.5, 0.0]]), np.array([[0.0, np.nan], [1.5, 0.0]])).tolist()
        [[1.0, -1.5]]
        """
        means = self.values(references).mean(axis=1)
        return np.asarray((self.values(X) - means[:, None]).T)


@dataclass(frozen=True, eq=False)
class TreesTerm(Term):
    """Trees, as in `marginrank.scorers.boosted.form.BoostedForm`; ``left`` of a leaf is its number in ``values``."""

    kind: ClassVar[str] = "trees"
    slow_in_numpy: ClassVar[bool] = True
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    roots: IntArray
    outputs: IntArray
    grades: FloatArray
    single: bool
    missing_left: BoolArray
    values: FloatArray

    def score(self, X: FloatArray) -> FloatArray:
        """Return the sum of the leaves that each row reaches or, with grades, the expected grade."""
        rows = X.astype(np.float32).astype(np.float64) if self.single else X
        numbers = np.arange(len(rows))
        sums = np.zeros((len(rows), max(1, len(self.grades))))
        for root, output in zip(self.roots.tolist(), self.outputs.tolist(), strict=True):
            sums[:, output] += self.values[self.left[self._leaves(rows, numbers, root)]]
        return self._combine(sums)

    def compiled(self) -> RowScores:
        """Return `score` from compiled code."""
        return lambda X: self._combine(self.output_sums(X))

    def output_sums(self, X: AnyArray) -> FloatArray:
        """Return the sum of the leaves for each output, from compiled code."""
        from marginrank.scorers.boosted.trees_kernel import add_trees  # noqa: PLC0415

        nodes = self.feature, self.threshold, self.left, self.right, self.roots, self.outputs, self.missing_left
        sums = np.zeros((len(X), max(1, len(self.grades))))
        add_trees(X, *nodes, self.values, self.single, sums)
        return sums

    def _combine(self, sums: FloatArray) -> FloatArray:
        return sums[:, 0] if not len(self.grades) else np.asarray((softmax(sums) * self.grades).sum(axis=1))

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return Shapley values; see `marginrank.scorers.boosted.shapley_values`."""
        from marginrank.scorers.boosted.shapley_values import shapley_values  # noqa: PLC0415

        return shapley_values(self, X, references)

    def _leaves(self, rows: FloatArray, numbers: IntArray, root: int) -> IntArray:
        """Return the leaf that each row reaches in one tree."""
        nodes = np.full(len(rows), root)
        while (inner := self.feature[nodes] >= 0).any():
            parents = nodes[inner]
            values = rows[numbers[inner], self.feature[parents]]
            leftward = values <= self.threshold[parents]
            if len(self.missing_left):
                leftward = np.where(np.isnan(values), self.missing_left[parents], leftward)
            nodes[inner] = np.where(leftward, self.left[parents], self.right[parents])
        return nodes


def softmax(values: FloatArray) -> FloatArray:
    """Return the softmax of each row.

    >>> softmax(np.array([[0.0, np.log(3.0)]])).round(10).tolist()
    [[0.25, 0.75]]
    """
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def in_equal_blocks(score: Callable[[FloatArray], FloatArray], X: AnyArray) -> FloatArray:
    """Return the scores of rows in blocks of equal height, the last one padded with copies of its first row.

    In a product of another height, or one that is not a multiple of the block size of BLAS, a row is rounded
    differently, and equal documents would no longer be tied.

    >>> in_equal_blocks(lambda rows: rows.sum(axis=1), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]
    """
    scores = np.empty(len(X))
    block = np.empty((_ROWS, X.shape[1]))
    for start in range(0, len(X), _ROWS):
        rows = X[start : start + _ROWS]
        block[: len(rows)], block[len(rows) :] = rows, rows[0]
        scores[start : start + len(rows)] = score(block)[: len(rows)]
    return scores


def small_products(right: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function that multiplies a block of rows by the rows of a matrix: ``left @ right.T``.

    Products are too small for BLAS to use several threads, since their number would change the rounding.

    >>> small_products(np.array([[3.0, 4.0], [5.0, 6.0]]))(np.array([[1.0, 2.0]])).tolist()
    [[11.0, 17.0]]
    """
    n, depth = right.shape
    if n == 1:  # BLAS uses several threads for smaller products with a vector
        return lambda left: np.asarray((left * right).sum(axis=1, keepdims=True))
    n_panels = -(-n // (_ONE_THREAD // (_ROWS * max(1, min(depth, _DEPTH)))))
    width = -(-n // n_panels)
    padded = np.zeros((n_panels * width, depth))
    padded[:n] = right
    stacked = padded.reshape(-1, width, depth).transpose(0, 2, 1)
    slices = [slice(first, first + _DEPTH) for first in range(0, max(1, depth), _DEPTH)]

    def multiply(left: FloatArray) -> FloatArray:
        products = reduce(np.add, (left[:, columns] @ stacked[:, columns] for columns in slices))
        return np.asarray(products.transpose(1, 0, 2).reshape(len(left), len(padded))[:, :n])

    return multiply


def _sigmoid(x: FloatArray) -> FloatArray:
    # Written with tanh, as exp(-x) overflows.
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


#: Activations between the layers of a network, by name in PyTorch.
ACTIVATIONS: Final[Mapping[str, Callable[[FloatArray], FloatArray]]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": lambda x: x * _sigmoid(x),
}


@dataclass(frozen=True, eq=False)
class NetworkTerm(Term):
    """Layers of a feed-forward network, as in `marginrank.scorers.neural.form.NeuralForm`.

    Args:
        layers: Weights (outputs × inputs) and biases of each layer.
        activation: Activation between two layers; one of `ACTIVATIONS`.
    """

    kind: ClassVar[str] = "neural"
    layers: tuple[tuple[FloatArray, FloatArray], ...]
    activation: str

    def score(self, X: FloatArray) -> FloatArray:
        """Return the output of the last layer."""
        layers = [(small_products(weights), biases) for weights, biases in self.layers]
        activate = ACTIVATIONS[self.activation]

        def outputs(values: FloatArray) -> FloatArray:
            for number, (multiply, biases) in enumerate(layers):
                values = multiply(values if number == 0 else activate(values)) + biases
            return values[:, 0]

        return in_equal_blocks(outputs, X)


@dataclass(frozen=True, eq=False)
class KernelTerm(Term):
    """A sum over stored documents, as in `marginrank.scorers.kernel.form.KernelForm`.

    Args:
        documents: The stored documents z.
        coefficients: β, one for each.
        kernel: ``rbf`` or ``poly``; any other name is a Python function.
        parameters: γ, or γ, degree and c.
        function: k of rows and stored documents.
    """

    kind: ClassVar[str] = "kernel"
    documents: FloatArray
    coefficients: FloatArray
    kernel: str
    parameters: tuple[float, ...]
    function: KernelFunction

    def score(self, X: FloatArray) -> FloatArray:
        """Return Σ_z β_z k(x, z)."""
        values = self.function.against(self.documents, small_products)
        return in_equal_blocks(lambda rows: np.einsum("ij,j->i", values(rows), self.coefficients), X)
