"""A risk as seen from below: the planes that touch it."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.solvers.qp.plane_minimum import Planes, minimize_planes
from marginrank.solvers.qp.plane_program import GramMatrix
from marginrank.typing import FloatArray, IntArray

#: Share of the planes that are kept where dropping the others is worth a copy.
_FEWER: Final = 0.85
#: Number of planes from which programs take longer than evaluations, and after how many iterations idle ones go then.
_MANY: Final = 512
_SOON: Final = 2


class PlaneModel:
    """Planes offset + slope·θ that the parts of a risk are never below, and the sum of their maxima as a model of it.

    They say nothing of C, of the regulariser or of constraints, so a model that was built for one serves every other.
    """

    def __init__(self, n_parameters: int) -> None:
        self._room = np.zeros((0, n_parameters))
        self.offsets = np.zeros(0)
        self.owners = np.zeros(0, dtype=np.int64)
        self._products = GramMatrix(n_parameters)
        self._alpha = np.zeros(0)
        self._idle = np.zeros(0, dtype=np.int64)

    @property
    def slopes(self) -> FloatArray:
        """One row per plane."""
        return self._room[: len(self.offsets)]

    def add(self, theta: FloatArray, values: FloatArray, slopes: FloatArray) -> None:
        """Add the planes that touch the parts of the risk at θ, one part after the other."""
        if not len(self.offsets):
            # No part of the risk is negative, which is a plane to begin with.
            self._append(np.zeros(len(values)), np.zeros_like(slopes))
        self._append(values - slopes @ theta, slopes)

    def _append(self, offsets: FloatArray, slopes: FloatArray) -> None:
        n, added = len(self.offsets), len(offsets)
        if n + added > len(self._room):
            room = np.empty((max(2 * len(self._room), 8 * added), slopes.shape[1]))
            room[:n] = self.slopes
            self._room = room
        self._room[n : n + added] = slopes
        self.offsets = np.concatenate([self.offsets, offsets])
        self.owners = np.concatenate([self.owners, np.arange(added)])
        self._alpha = np.concatenate([self._alpha, np.zeros(added)])
        self._idle = np.concatenate([self._idle, np.zeros(added, dtype=np.int64)])

    def minimize(
        self,
        C: float,
        center: FloatArray | None = None,
        signs: IntArray | None = None,
        enough: float = 0.0,
        precision: float = 1e-13,
        deadline: float = np.inf,
        offsets: FloatArray | None = None,
    ) -> tuple[FloatArray, float]:
        """Find where ½‖θ − center‖² + C·model(θ) is least, and a lower bound of it.

        The bound is exact to ``precision``, or below the value at that point by no more than ``enough``. By the
        deadline, on the clock of `time.perf_counter`, the search ends with what it has. Other offsets may take the
        place of those of the planes.
        """
        offsets = self.offsets if offsets is None else offsets
        planes = Planes(self.slopes, offsets, self.owners, self._products, self._alpha)
        theta, bound, alpha = minimize_planes(
            planes, C, center=center, signs=signs, enough=enough, precision=precision, deadline=deadline
        )
        self._alpha = alpha
        self._idle = np.where(alpha > 1e-5 * C, 0, self._idle + 1)
        return theta, bound

    def heights(self, theta: FloatArray) -> FloatArray:
        """Return the planes at θ."""
        return np.asarray(self.offsets + self.slopes @ theta)

    def tops(self, theta: FloatArray, offsets: FloatArray) -> FloatArray:
        """Return the highest plane of each part at θ, with other offsets."""
        tops = np.full(int(self.owners.max()) + 1, -np.inf)
        np.maximum.at(tops, self.owners, offsets + self.slopes @ theta)
        return tops

    def prune(self, idle: int) -> None:
        """Drop planes that have not held anything up for so many iterations, once there are many of them."""
        keep = self._idle < (idle if len(self._idle) < _MANY else min(idle, _SOON))
        keep[: int(self.owners.max(initial=-1)) + 1] = True
        if np.count_nonzero(keep) <= _FEWER * len(keep):
            self._room[: np.count_nonzero(keep)] = self.slopes[keep]
            self.offsets, self.owners = self.offsets[keep], self.owners[keep]
            self._idle, self._alpha = self._idle[keep], self._alpha[keep]
            self._products.keep(keep)
