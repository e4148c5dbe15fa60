"""The primal-dual interior point method for programs with few parameters."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.solvers.qp.plane_program import PlaneProgram
from marginrank.typing import FloatArray

#: Share of the multipliers that is spread evenly over the planes of a part at the start.
_SPREAD: Final = 0.02
#: Minimum slack at the start, in units where the values of the planes are near 1.
_MIN_SLACK: Final = 1e-12
#: Work between two looks at the clock, as steps × planes × the square of the number of parameters, and most steps.
_WORK: Final = 100_000_000
_MAX_STEPS: Final = 50


class InteriorPoint:
    """A strictly feasible point with multipliers, and steps towards the minimum in compiled code.

    In units where the entries are near 1: min ½‖v‖² + Σ_b ξ_b with slacks s = ξ_owner − value − G·v ≥ 0 of the planes
    and s = sign·v + origin ≥ 0 of the signed entries. The point meets v = −Gᵀz + sign·z and Σ z = 1 in every part from
    the start on, so only the products of slacks s and multipliers z have to fall to 0.

    Args:
        program: The program.
        alpha: Feasible multipliers of the planes, to start from.

    Attributes:
        n_steps: Most steps of a call of `iterate`.
    """

    def __init__(self, program: PlaneProgram, alpha: FloatArray) -> None:
        self.program = program
        C, self._signed = program.C, np.flatnonzero(program.signs)
        self._sign = program.signs[self._signed].astype(np.float64)
        self._order, starts = program.by_part
        self._starts = np.append(starts, len(self._order))
        sizes = np.diff(self._starts)
        distance = float(np.abs(program.center[self._signed]).max(initial=0.0)) / C
        largest = float(program.norms.max(initial=0.0))
        unit = max(float(np.ptp(program.values)) / C, largest**2, distance**2, 1e-300)
        self._length, self._gap_unit = np.sqrt(unit), unit * C**2
        self._G = program.gradients[self._order] / self._length
        m, d = self._G.shape
        self.n_steps = min(_MAX_STEPS, 1 + _WORK // max(1, m * d * d))
        values = program.values[self._order] / (C * unit)
        z = (1.0 - _SPREAD) * alpha[self._order] / C + _SPREAD / np.repeat(sizes, sizes)
        self._v = -(z @ self._G)
        projected = program.project(C * self._length * self._v) / (C * self._length)
        mu, sign_slack = self._sign_multipliers(self._gap(z, values + self._G @ projected) / len(z))
        self._v[self._signed] += self._sign * mu
        values += self._G @ self._v
        slack = max(self._gap(z, values) / len(sizes), _MIN_SLACK)
        plane_slack = np.repeat(np.maximum.reduceat(values, starts) + slack, sizes) - values
        self._s, self._z = np.concatenate([plane_slack, sign_slack]), np.concatenate([z, mu])

    def _gap(self, z: FloatArray, values: FloatArray) -> float:
        return float(np.maximum.reduceat(values, self._starts[:-1]).sum() - z @ values)

    def _sign_multipliers(self, product: float) -> tuple[FloatArray, FloatArray]:
        """Return μ and the slacks of the signed entries at v + sign·μ, such that μ·slack is about ``product``."""
        center = self.program.center[self._signed] / (self.program.C * self._length)
        slack, product = self._sign * (self._v[self._signed] + center), max(product, _MIN_SLACK)
        # The larger of the two first: nothing cancels.
        larger = 0.5 * (np.abs(slack) + np.sqrt(slack**2 + 4.0 * product))
        smaller = product / larger
        return np.where(slack > 0.0, smaller, larger), np.where(slack > 0.0, larger, smaller)

    @property
    def gap(self) -> float:
        """Slacks times multipliers, in the units of the program."""
        return self._gap_unit * float(self._s @ self._z)

    def iterate(self, target: float) -> bool:
        """Take steps until the gap is at most ``target`` or it is time to look at the clock; False if none is left."""
        from marginrank.solvers.qp.interior_point_kernel import interior_steps  # noqa: PLC0415

        signs, end = (self._signed, self._sign), target / self._gap_unit
        try:
            return bool(interior_steps(self._G, self._starts, signs, self._v, self._s, self._z, end, self.n_steps))
        except np.linalg.LinAlgError:  # by rounding errors; the point is still the last one
            return False

    @property
    def v(self) -> FloatArray:
        """The point in the units of the program."""
        return np.asarray(self.program.C * self._length * self._v)

    @property
    def v_with_zeros(self) -> FloatArray:
        """The point, with θ exactly 0 at the active sign constraints: those whose multiplier exceeds the slack."""
        v, m = self.v, len(self._order)
        active = self._signed[self._z[m:] > self._s[m:]]
        v[active] = -self.program.center[active]
        return v

    def multipliers(self, active: float | None = None) -> FloatArray:
        """Return the multipliers of the planes in the units of the program.

        With ``active``, those of planes whose multiplier exceeds this share of C and the slack, in equal units.
        """
        m = len(self._order)
        z, alpha = self._z[:m], np.empty(m)
        alpha[self._order] = z if active is None else np.where(z > np.maximum(self._s[:m], active), z, 0.0)
        return self.program.feasible(self.program.C * alpha)
