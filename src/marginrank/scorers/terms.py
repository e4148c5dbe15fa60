"""Scoring functions in plain numbers: terms that add up to the score, scored with NumPy alone.

A form says what its terms are, with `marginrank.scorers.form.Form.terms`. Light scoring runs them, and exports write
them down in other languages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from marginrank.typing import BoolArray, FloatArray, IntArray

#: Parts of the way between two knots that scores of lines tell apart.
_UNITS: Final = 2.0**24


class Term(ABC):
    """One of the terms that add up to the score of a document."""

    #: What it is called in messages.
    kind: ClassVar[str]

    @abstractmethod
    def score(self, X: FloatArray) -> FloatArray:
        """Return the term of each row; equal rows have equal terms, wherever they are."""

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the contribution of each feature, relative to the mean of the references, for each row."""
        raise TypeError(f"the scores of a {self.kind} model are not made of features, so they cannot be explained")


@dataclass(frozen=True, eq=False)
class LinearTerm(Term):
    """Weights of features, as in `marginrank.scorers.linear.form.LinearForm`; ``raw_fill`` replaces NaN before scaling.

    >>> term = LinearTerm(np.array([2.0, -1.0]), None, np.array([0.5, 0.0]), np.array([0]), np.array([7.0]))
    >>> term.score(np.array([[1.0, 3.0], [np.nan, 3.0]])).tolist()            # 2 − 3, and 1 − 3 + 7
    [-1.0, 5.0]
    """

    kind: ClassVar[str] = "linear"
    weights: FloatArray
    raw_fill: FloatArray | None
    fill: FloatArray | None
    flagged: IntArray
    flag_weights: FloatArray

    def score(self, X: FloatArray) -> FloatArray:
        """Return X·w, with the fill and the weight of missing values where they are missing."""
        # Not a product of BLAS, which rounds equal rows differently in different places.
        if self.fill is None:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray((X * self.weights).sum(axis=1))
        absent = np.isnan(X)
        scores = (np.where(absent, self.fill, X) * self.weights).sum(axis=1)
        return np.asarray(scores + (absent[:, self.flagged] * self.flag_weights).sum(axis=1))

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return weight times the difference to the mean of the references; flags count with their features."""
        return np.asarray(self._parts(X) - self._parts(references).mean(axis=0))

    def _parts(self, X: FloatArray) -> FloatArray:
        if self.fill is None:
            return np.asarray(X * self.weights)
        absent = np.isnan(X)
        parts = np.where(absent, self.fill, X) * self.weights
        parts[:, self.flagged] += absent[:, self.flagged] * self.flag_weights
        return np.asarray(parts)


@dataclass(frozen=True, eq=False)
class Curve:
    """The curve of one feature, as `marginrank.scorers.additive.form.Shape` describes it.

    Args:
        thresholds: Increasing thresholds.
        values: Values of the steps, or at the start and the thresholds of lines.
        missing: The value of NaN.
        start: Where lines begin; None for steps.
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
        cells = np.searchsorted(self.thresholds, x, side="left")
        below = self.values[cells]
        if self.start is not None and len(self.thresholds):
            knots = np.r_[self.start, self.thresholds]
            above = np.minimum(cells + 1, len(self.thresholds))
            low, high = knots[cells], knots[above]
            # In halves, since the difference of two numbers can be beyond float64; beyond the last knot, 0 / 1.
            width = np.where(above > cells, 0.5 * high - 0.5 * low, 1.0)
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                halved = (0.5 * x - 0.5 * low) / width
                part = np.where(width > 1e-300, halved, (x - low) / (high - low))
            inside = (x > low) & (above > cells)
            part = np.where(inside, np.rint(np.where(inside, part, 0.0) * _UNITS) / _UNITS, 0.0)
            below = below + part * (self.values[above] - below)
        return np.where(np.isnan(x), self.missing, below)


@dataclass(frozen=True, eq=False)
class CurvesTerm(Term):
    """One curve per feature."""

    kind: ClassVar[str] = "additive"
    curves: tuple[Curve, ...]

    @property
    def steps(self) -> bool:
        """Whether all curves are step functions."""
        return all(curve.start is None for curve in self.curves)

    def score(self, X: FloatArray) -> FloatArray:
        """Return the sum of the values of the curves, one feature after the other."""
        scores = np.zeros(len(X))
        for curve, column in zip(self.curves, X.T, strict=True):
            if len(curve.thresholds) or curve.missing:
                scores += curve.at(column)
        return scores

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return the value of the curve of each feature, minus its mean over the references."""
        return np.asarray(self._parts(X) - self._parts(references).mean(axis=0))

    def _parts(self, X: FloatArray) -> FloatArray:
        return np.stack([curve.at(column) for curve, column in zip(self.curves, X.T, strict=True)], axis=1)


@dataclass(frozen=True, eq=False)
class TreesTerm(Term):
    """Trees, as in `marginrank.scorers.boosted.form.BoostedForm`; ``left`` of a leaf is its number in ``values``."""

    kind: ClassVar[str] = "trees"
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
        """Return the sum of the leaves that each row comes to or, with grades, the expected grade."""
        rows = X.astype(np.float32).astype(np.float64) if self.single else X
        places = np.arange(len(rows))
        raw = np.zeros((len(rows), max(1, len(self.grades))))
        for root, output in zip(self.roots.tolist(), self.outputs.tolist(), strict=True):
            raw[:, output] += self.values[self.left[self._leaves(rows, places, root)]]
        if not len(self.grades):
            return raw[:, 0]
        shares = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray((shares / shares.sum(axis=1, keepdims=True) * self.grades).sum(axis=1))

    def contributions(self, X: FloatArray, references: FloatArray) -> FloatArray:
        """Return Shapley values, as `marginrank.scorers.boosted.form.BoostedForm.contributions` does."""
        from marginrank.scorers.boosted.form import BoostedForm  # noqa: PLC0415

        form = BoostedForm(
            X.shape[1], self.feature, self.threshold, self.left, self.right, self.roots, self.outputs, self.grades,
            self.single, self.missing_left,
        )  # fmt: skip
        return form.contributions(self.values, X, references)

    def _leaves(self, rows: FloatArray, places: IntArray, root: int) -> IntArray:
        """Return the leaf of one tree that each row comes to."""
        nodes = np.full(len(rows), root)
        while (inner := self.feature[nodes] >= 0).any():
            at = nodes[inner]
            values = rows[places[inner], self.feature[at]]
            leftward = values <= self.threshold[at]
            if len(self.missing_left):
                leftward = np.where(np.isnan(values), self.missing_left[at], leftward)
            nodes[inner] = np.where(leftward, self.left[at], self.right[at])
        return nodes


@dataclass(frozen=True, eq=False)
class NetworkTerm(Term):
    """Layers of a feed-forward network, as in `marginrank.scorers.neural.form.NeuralForm`.

    Args:
        layers: Weights (outputs × inputs) and biases of each layer.
        activation: What lies between two layers.
        function: The score of rows.
    """

    kind: ClassVar[str] = "neural"
    layers: tuple[tuple[FloatArray, FloatArray], ...]
    activation: str
    function: Callable[[FloatArray], FloatArray]

    def score(self, X: FloatArray) -> FloatArray:
        """Return the output of the last layer."""
        return self.function(X)


@dataclass(frozen=True, eq=False)
class KernelTerm(Term):
    """A sum over stored documents, as in `marginrank.scorers.kernel.form.KernelForm`.

    Args:
        documents: The stored documents z.
        coefficients: β, one for each.
        kernel: ``rbf`` or ``poly``; any other name is a function that only Python has.
        parameters: γ, or γ, degree and c.
        function: k of rows and stored documents.
    """

    kind: ClassVar[str] = "kernel"
    documents: FloatArray
    coefficients: FloatArray
    kernel: str
    parameters: tuple[float, ...]
    function: Callable[[FloatArray, FloatArray], FloatArray]

    def score(self, X: FloatArray) -> FloatArray:
        """Return Σ_z β_z k(x, z)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((self.function(X, self.documents) * self.coefficients).sum(axis=1))
