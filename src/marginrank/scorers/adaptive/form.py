"""Weights that depend on the query: the form of the adaptive scorer after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from marginrank.scorers.form import Form, stored
from marginrank.scorers.terms import AdaptiveTerm, unit_context
from marginrank.typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class AdaptiveForm(Form):
    """Weights of features that depend on the query: s = Σ_r (w_r + Σ_c v_rc t_c) x_r.

    The context t_c is column c on the scale of the training queries: 0 up to ``low``, 1 from ``low + width`` on, and
    linear between. θ has w and then one v for each feature and context column, feature by feature, for the columns of
    `columns`; with ``mirrored``, as many follow for 1 − t_c.

    >>> form = AdaptiveForm(2, np.array([1]), np.array([0.0]), np.array([2.0]), np.array([0.5]), 1.0, False)
    >>> form.score(np.array([3.0, 4.0]), [[1.0, 2.0], [1.0, 1.0]]).tolist()       # 3 + 4·(1 − ½), and t = ½
    [5.0, 3.0]

    Args:
        n_features: Number of features, with those that are context.
        context: The columns that are context.
        low: Value of each context column that becomes 0.
        width: Distance from there to the value that becomes 1; 0 for columns that did not vary in training.
        center: Mean of each t in training, so that w is the weight in a typical query.
        factor: 1/√shrinkage, which multiplies t in training.
        mirrored: Whether 1 − t_c has weights too, so that nonnegative parameters give nonnegative weights.
    """

    kind: ClassVar[str] = "adaptive"
    sized_by: ClassVar[str] = "weight"
    nan_advice: ClassVar[str] = "fill it, as weights that depend on the query take no missing values"
    n_features: int
    context: IntArray
    low: FloatArray
    width: FloatArray
    center: FloatArray
    factor: float
    mirrored: bool

    def __post_init__(self) -> None:
        numbers = np.array([-1, *self.context.tolist(), self.n_features])
        if len(self.context) in (0, self.n_features) or (np.diff(numbers) <= 0).any():
            raise ValueError("the context columns are not some of the features, in increasing order")
        arrays = (self.low, self.width, self.center)
        if any(array.shape != self.context.shape or not np.isfinite(array).all() for array in arrays):
            raise ValueError("the scale of the context is not one finite number for each column")
        if (self.width < 0).any() or not (np.isfinite(self.factor) and self.factor > 0):
            raise ValueError("the scale of the context is negative")

    @property
    def weighted(self) -> IntArray:
        """The columns that have weights: all but the context."""
        return np.setdiff1d(np.arange(self.n_features), self.context)

    @property
    def typical_context(self) -> FloatArray:
        """Each t in a typical query."""
        return np.full(len(self.context), 0.5) if self.mirrored else self.center

    @property
    def n_parameters(self) -> int:
        """One for each weighted feature, and one or two for each with each context column."""
        return len(self.weighted) * (1 + (1 + self.mirrored) * len(self.context))

    def columns(self, X: AnyArray) -> FloatArray:
        """Return the columns that θ weights."""
        x = np.asarray(X[:, self.weighted], dtype=np.float64)
        t = unit_context(X[:, self.context], self.low, self.width)
        blocks = [t - self.center, *([1.0 - t] if self.mirrored else [])]
        products = [(x[:, :, None] * (self.factor * block)[:, None, :]).reshape(len(x), -1) for block in blocks]
        # Indexing columns makes them contiguous, and kernels take rows; they would copy them in every iteration.
        return np.ascontiguousarray(np.hstack([x, *products]))

    def weights(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weight of each feature at t = 0, and its change with each t (features × context)."""
        n, n_context = len(self.weighted), len(self.context)
        w, *changes = np.split(theta, [n, n + n * n_context])
        v, mirrored = (self.factor * change.reshape(-1, n_context) for change in changes)
        base = w - v @ self.center
        return (base + mirrored.sum(axis=1), v - mirrored) if self.mirrored else (base, v)

    def terms(self, theta: FloatArray) -> tuple[AdaptiveTerm, ...]:
        """Return the only term."""
        base, changes = self.weights(theta)
        weights = np.zeros(self.n_features)
        weights[self.weighted] = base
        all_changes = np.zeros((self.n_features, len(self.context)))
        all_changes[self.weighted] = changes
        return (AdaptiveTerm(weights, all_changes, self.context, self.low, self.width),)

    def sizes(self, theta: FloatArray) -> FloatArray:
        """Return the weight of each feature in a typical query, and 0 for the context."""
        base, changes = self.weights(theta)
        sizes = np.zeros(self.n_features)
        sizes[self.weighted] = base + changes @ self.typical_context
        return sizes

    def arrays(self) -> dict[str, AnyArray]:
        """Return the context columns and their scale."""
        return {
            "adaptive.context": self.context,
            "adaptive.scale": np.stack([self.low, self.width, self.center]),
            "adaptive.options": np.array([self.factor, float(self.mirrored)]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the form from what `arrays` returned."""
        scale, options = (
            stored(arrays, f"adaptive.{name}", np.float64, n) for name, n in (("scale", 2), ("options", 1))
        )
        if len(scale) != 3 or len(options) != 2 or options[1] not in (0.0, 1.0):
            raise ValueError("the arrays of the adaptive weights do not fit")
        context = stored(arrays, "adaptive.context", np.int64)
        low, width, center = scale
        return cls(n_features, context, low, width, center, float(options[0]), bool(options[1]))
