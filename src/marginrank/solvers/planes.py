"""A risk as seen from below: the planes that touch it."""

from __future__ import annotations

import numpy as np

from marginrank.solvers.plane_qp import Planes, least_of_planes
from marginrank.typing import FloatArray, IntArray


class PlaneModel:
    """Planes offset + slope·θ that the parts of a risk are never below, and the sum of their maxima as a model of it.

    They say nothing of C, of the regulariser or of constraints, so a model that was built for one serves every other.
    """

    def __init__(self, n_parameters: int) -> None:
        self.slopes = np.zeros((0, n_parameters))
        self.offsets = np.zeros(0)
        self.owners = np.zeros(0, dtype=np.int64)
        self._gram = np.zeros((0, 0))
        self._idle = np.zeros(0, dtype=np.int64)

    def add(self, theta: FloatArray, values: FloatArray, slopes: FloatArray) -> None:
        """Add the planes that touch the parts of the risk at θ, one part after the other."""
        if not len(self.offsets):
            # No part of the risk is negative, which is a plane to begin with.
            self._append(np.zeros(len(values)), np.zeros_like(slopes))
        self._append(values - slopes @ theta, slopes)

    def _append(self, offsets: FloatArray, slopes: FloatArray) -> None:
        n, added = len(self.offsets), len(offsets)
        gram = np.empty((n + added, n + added))
        gram[:n, :n] = self._gram
        gram[n:, :n] = slopes @ self.slopes.T
        gram[:n, n:] = gram[n:, :n].T
        gram[n:, n:] = slopes @ slopes.T
        self._gram = gram
        self.slopes = np.vstack([self.slopes, slopes])
        self.offsets = np.concatenate([self.offsets, offsets])
        self.owners = np.concatenate([self.owners, np.arange(added)])
        self._idle = np.concatenate([self._idle, np.zeros(added, dtype=np.int64)])

    def minimize(
        self,
        C: float,
        center: FloatArray | None = None,
        signs: IntArray | None = None,
        precision: float = 1e-13,
        deadline: float = np.inf,
    ) -> tuple[FloatArray, float]:
        """Find where ½‖θ − center‖² + C·model(θ) is least, and a lower bound of it that is exact to ``precision``.

        By the deadline, on the clock of `time.perf_counter`, the search ends with what it has.
        """
        planes = Planes(self.slopes, self.offsets, self.owners, self._gram)
        theta, bound, alpha = least_of_planes(
            planes, C, center=center, signs=signs, precision=precision, deadline=deadline
        )
        self._idle = np.where(alpha > 1e-5 * C, 0, self._idle + 1)
        return theta, bound

    def prune(self, idle: int) -> None:
        """Drop planes that have not held anything up for so many iterations."""
        keep = self._idle < idle
        keep[: int(self.owners.max(initial=-1)) + 1] = True
        if not keep.all():
            self.slopes, self.offsets, self.owners = self.slopes[keep], self.offsets[keep], self.owners[keep]
            self._idle, self._gram = self._idle[keep], self._gram[np.ix_(keep, keep)]
