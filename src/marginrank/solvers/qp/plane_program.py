"""The quadratic program of cutting planes: its primal, its dual and the Gram matrix of its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from marginrank.typing import BoolArray, FloatArray, IntArray

#: Bisections in the line search of the dual.
_BISECTIONS: Final = 6


@dataclass(frozen=True)
class PlaneProgram:
    """Minimize ½‖v‖² + C·Σ_b max_{k of b} (value_k + gradient_k·v) over v = θ − center, with signs of θ.

    Args:
        gradients: One row per plane.
        values: The values of the planes at the center.
        owners: The part of each plane.
        C: Weight of the maxima.
        center: The minimizer of the regularizer.
        signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
    """

    gradients: FloatArray
    values: FloatArray
    owners: IntArray
    C: float
    center: FloatArray
    signs: IntArray

    @classmethod
    def of(
        cls,
        gradients: FloatArray,
        offsets: FloatArray,
        owners: IntArray,
        C: float,
        center: FloatArray | None,
        signs: IntArray | None,
    ) -> PlaneProgram:
        """Build the program of planes offset + gradient·θ; without a center it is 0, without signs θ is free."""
        d = gradients.shape[1]
        values = offsets if center is None else offsets + gradients @ center
        center = np.zeros(d) if center is None else center
        return cls(gradients, values, owners, C, center, np.zeros(d, dtype=np.int64) if signs is None else signs)

    @cached_property
    def n_parts(self) -> int:
        """Return the number of parts."""
        return int(self.owners.max()) + 1

    @cached_property
    def by_part(self) -> tuple[IntArray, IntArray]:
        """The planes sorted by part, and where each part begins."""
        order = np.argsort(self.owners, kind="stable")
        return order, np.searchsorted(self.owners[order], np.arange(self.n_parts))

    @cached_property
    def free(self) -> BoolArray:
        """Entries of θ without a sign constraint."""
        return np.asarray(self.signs == 0)

    @cached_property
    def all_free(self) -> bool:
        """Whether θ has no sign constraints."""
        return bool(self.free.all())

    @cached_property
    def norms(self) -> FloatArray:
        """The norms of the gradients."""
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.gradients, self.gradients)))

    def theta(self, v: FloatArray) -> FloatArray:
        """Return θ, exactly 0 where a sign constraint is active."""
        theta = self.center + v
        return np.where((self.signs != 0) & (v == -self.center) | (self.signs * theta < 0), 0.0, theta)

    def project(self, v: FloatArray) -> FloatArray:
        """Project a point onto the sign constraints."""
        if self.all_free:
            return v
        return np.where(self.signs * (self.center + v) < 0, -self.center, v)

    def values_at(self, v: FloatArray) -> FloatArray:
        """Return the values of the planes at a point."""
        return np.asarray(self.values + self.gradients @ v)

    def maxima(self, values: FloatArray) -> FloatArray:
        """Return the maximum over the planes of each part."""
        order, starts = self.by_part
        return np.asarray(np.maximum.reduceat(values[order], starts))

    def primal(self, v: FloatArray, values: FloatArray | None = None) -> float:
        """Return the objective at a point; ``values`` are those of the planes there, if they are known."""
        values = self.values_at(v) if values is None else values
        return 0.5 * float(v @ v) + self.C * float(self.maxima(values).sum())

    def dual(self, alpha: FloatArray, gradient: FloatArray | None = None) -> tuple[FloatArray, float]:
        """Return the minimizer and the minimum of the Lagrangian: a lower bound for all feasible multipliers.

        ``gradient`` is Σ α_k·gradient_k, if it is known.
        """
        gradient = alpha @ self.gradients if gradient is None else gradient
        v = self.project(-gradient)
        return v, float(self.values @ alpha) + 0.5 * float(v @ v) + float(gradient @ v)

    def step_size(self, gradient: FloatArray, change: FloatArray, linear: float) -> float:
        """Return the step size in [0, 1] that about maximizes the dual along a direction.

        Args:
            gradient: Σ α_k·gradient_k at the multipliers.
            change: The same sum for the direction.
            linear: Σ direction_k·value_k.
        """

        def derivative(t: float) -> float:
            return linear + float(change @ self.project(-(gradient + t * change)))

        low, high = 0.0, 1.0
        if derivative(high) >= 0.0:
            return high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if derivative(middle) > 0.0 else (low, middle)
        return low

    def feasible(self, alpha: FloatArray) -> FloatArray:
        """Make multipliers feasible: none negative, and the sum C in every part."""
        alpha = np.maximum(alpha, 0.0)
        totals = np.bincount(self.owners, alpha, minlength=self.n_parts)[self.owners]
        if totals.all():
            return np.asarray(alpha * (self.C / totals))
        sizes = np.bincount(self.owners)[self.owners]
        return np.where(totals > 0, alpha * (self.C / np.where(totals > 0, totals, 1.0)), self.C / sizes)


class GramMatrix:
    """Inner products of gradients over the free entries of θ, updated as planes and entries come and go.

    Products of new planes are computed when they are first needed; programs of few parameters never need them.

    >>> GramMatrix(2).over(np.array([True, False]), np.array([[1.0, 2.0]])).tolist()
    [[1.0]]
    """

    def __init__(self, n_parameters: int) -> None:
        self._free = np.ones(n_parameters, dtype=np.bool_)
        self._matrix = np.zeros((0, 0))

    def keep(self, planes: BoolArray) -> None:
        """Drop all other planes."""
        kept = np.flatnonzero(planes[: len(self._matrix)])
        # Rows and then columns: several times as fast as both at once.
        self._matrix = self._matrix.take(kept, axis=0).take(kept, axis=1)

    def over(self, free: BoolArray, gradients: FloatArray) -> FloatArray:
        """Return the inner products of all gradients over the free entries."""
        changed = np.flatnonzero(free != self._free)
        known = len(self._matrix)
        if 2 * len(changed) >= np.count_nonzero(free):
            columns = gradients[:, free]
            self._matrix = columns @ columns.T
        elif len(changed):
            columns = gradients[:known, changed]
            self._matrix = self._matrix + (columns * np.where(free[changed], 1.0, -1.0)) @ columns.T
        self._free = free
        if len(self._matrix) < len(gradients):
            self._append(gradients[known:], gradients[:known])
        return self._matrix

    def _append(self, added: FloatArray, gradients: FloatArray) -> None:
        n, end = len(gradients), len(gradients) + len(added)
        masked = added if self._free.all() else added * self._free
        matrix = np.empty((end, end))
        matrix[:n, :n] = self._matrix
        matrix[n:, :n] = masked @ gradients.T
        matrix[:n, n:] = matrix[n:, :n].T
        matrix[n:, n:] = masked @ added.T
        self._matrix = matrix
