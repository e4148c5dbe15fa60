"""The cutting-plane model of a risk."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.solvers.qp.plane_minimum import Planes, minimize_planes
from marginrank.solvers.qp.plane_program import GramMatrix
from marginrank.typing import FloatArray, IntArray

#: Share of active planes up to which dropping the others is worth a copy.
_ACTIVE: Final = 0.85
#: Number of planes from which programs take longer than evaluations of the risk, and the iterations after which
#: inactive planes are then dropped.
_MANY: Final = 512
_IDLE: Final = 2
#: Share of the largest multiplier below which a plane is inactive.
_NEGLIGIBLE: Final = 1e-5


class PlaneModel:
    """Planes offset + gradient·θ below the parts of a risk, and the sum of their maxima as a model of the risk.

    They do not depend on C, the regularizer or constraints, so a model that was built for one serves every other.
    """

    def __init__(self, n_parameters: int) -> None:
        self._storage = np.zeros((0, n_parameters))
        #: Number of planes that were added, dropped ones included.
        self.n_taken = 0
        self.offsets = np.zeros(0)
        self.owners = np.zeros(0, dtype=np.int64)
        self._products = GramMatrix(n_parameters)
        self._alpha = np.zeros(0)
        self._idle = np.zeros(0, dtype=np.int64)

    @property
    def _n_parts(self) -> int:
        return int(self.owners.max(initial=-1)) + 1

    @property
    def gradients(self) -> FloatArray:
        """One row per plane."""
        return self._storage[: len(self.offsets)]

    def add(self, theta: FloatArray, values: FloatArray, gradients: FloatArray) -> None:
        """Add the tangent planes of the parts of the risk at θ, in the order of the parts."""
        if not len(self.offsets):
            # No part of the risk is negative, so 0 is a plane of each.
            self._append(np.zeros(len(values)), np.zeros_like(gradients))
        self._append(values - gradients @ theta, gradients)
        self.n_taken += len(values)

    def _append(self, offsets: FloatArray, gradients: FloatArray) -> None:
        n, added = len(self.offsets), len(offsets)
        if n + added > len(self._storage):
            storage = np.empty((max(2 * len(self._storage), 8 * added), gradients.shape[1]))
            storage[:n] = self.gradients
            self._storage = storage
        self._storage[n : n + added] = gradients
        self.offsets = np.concatenate([self.offsets, offsets])
        self.owners = np.concatenate([self.owners, np.arange(added)])
        self._alpha = np.concatenate([self._alpha, np.zeros(added)])
        self._idle = np.concatenate([self._idle, np.zeros(added, dtype=np.int64)])

    def minimize(
        self,
        C: float,
        center: FloatArray | None = None,
        signs: IntArray | None = None,
        max_gap: float = 0.0,
        precision: float = 1e-13,
        deadline: float = np.inf,
        offsets: FloatArray | None = None,
    ) -> tuple[FloatArray, float]:
        """Return the minimizer of ½‖θ − center‖² + C·model(θ), and a lower bound of the minimum.

        The bound is exact to ``precision``, or below the value at that point by at most ``max_gap``. After the
        deadline, on the clock of `time.perf_counter`, the best so far is returned. ``offsets`` replace those of the
        planes.
        """
        offsets = self.offsets if offsets is None else offsets
        planes = Planes(self.gradients, offsets, self.owners, self._products, self._alpha)
        theta, bound, alpha = minimize_planes(
            planes, C, center=center, signs=signs, max_gap=max_gap, precision=precision, deadline=deadline
        )
        self._alpha = alpha
        # Not as a share of C: if the risk is nearly 0, so are the multipliers of all planes but the first, which are 0.
        largest = float(alpha[self._n_parts :].max(initial=0.0))
        self._idle = np.where(alpha > _NEGLIGIBLE * largest, 0, self._idle + 1)
        return theta, bound

    def values(self, theta: FloatArray) -> FloatArray:
        """Return the values of the planes at θ."""
        return np.asarray(self.offsets + self.gradients @ theta)

    def maxima(self, theta: FloatArray, offsets: FloatArray) -> FloatArray:
        """Return the maximum of each part at θ, with other offsets."""
        maxima = np.full(self._n_parts, -np.inf)
        np.maximum.at(maxima, self.owners, offsets + self.gradients @ theta)
        return maxima

    def prune(self, idle: int) -> None:
        """Drop planes that were inactive for ``idle`` iterations, once there are many of them."""
        keep = self._idle < (idle if len(self._idle) < _MANY else min(idle, _IDLE))
        keep[: self._n_parts] = True
        if np.count_nonzero(keep) <= _ACTIVE * len(keep):
            self._storage[: np.count_nonzero(keep)] = self.gradients[keep]
            self.offsets, self.owners = self.offsets[keep], self.owners[keep]
            self._idle, self._alpha = self._idle[keep], self._alpha[keep]
            self._products.keep(keep)
