"""The active-set method: the exact minimum, from multipliers near it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.qp.plane_program import PlaneProgram
from marginrank.typing import FloatArray, IntArray

_MAX_STEPS: Final = 200
#: Entries on the diagonal of a triangular factor, relative to the largest, below which the rank ends.
_RANK: Final = 1e-12
_ROUNDING: Final = 1e-14


class _Direction(NamedTuple):
    """Changes of the multipliers, the largest step size, and the point at the end."""

    alpha: FloatArray
    mu: FloatArray
    max_step: float
    v: FloatArray


class ActiveSet:
    """Planes that attain the maximum of their part, entries of θ that are 0, and the multipliers of both.

    The dual is maximized over the multipliers of the set. If one of them would become negative, the step ends there and
    its plane or zero is dropped; at the maximum, the most violated constraint is added. The dual never decreases, so no
    set appears twice. Nonnegative least squares are solved in the same way (Lawson and Hanson, 1974).

    Args:
        program: The program.
        alpha: Feasible multipliers; the set starts with the planes where they are positive.
    """

    def __init__(self, program: PlaneProgram, alpha: FloatArray) -> None:
        self.program, self.alpha = program, alpha.copy()
        self.planes = alpha > 0.0
        gradient = alpha @ program.gradients
        self.zeros = ~program.free & (program.project(-gradient) == -program.center)
        self.mu = np.maximum(self._sign_multipliers(gradient - program.center), 0.0)

    def vertices(self, deadline: float = np.inf) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the point and the multipliers of the maximum over each set, until the deadline."""
        for _ in range(_MAX_STEPS):
            if time.perf_counter() > deadline:
                break
            direction = self._direction()
            if self._move(direction):
                yield direction.v, self.alpha
                if not self._add_most_violated(direction.v):
                    break

    def _leading(self) -> IntArray:
        """Return the plane with the largest multiplier of every part."""
        order = np.argsort(np.where(self.planes, self.alpha, -1.0), kind="stable")
        leading = np.zeros(self.program.n_parts, dtype=np.int64)
        leading[self.program.owners[order]] = order
        return leading

    def _direction(self) -> _Direction:
        """Return the direction to the maximum of the dual over the set, or one along which it increases for ever.

        D·v = −h makes the planes of each part as large as its leading plane, with D and h their differences from it in
        gradient and value. The solution nearest to −C·Σ(leading gradients) is the point. Errors along D would count C
        times, and others only squared, so it is these equations that are solved to full precision.
        """
        from scipy.linalg import qr, solve_triangular  # noqa: PLC0415

        program, leading = self.program, self._leading()
        v = np.where(self.zeros, -program.center, 0.0)
        gradients, values = program.gradients[:, ~self.zeros], program.values_at(v)
        partner = leading[program.owners]
        others = np.flatnonzero(self.planes & (partner != np.arange(len(partner))))
        differences = gradients[others] - gradients[partner[others]]
        Q, R, order = qr(differences.T, mode="economic", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(R))
        rank = int((diagonal > _RANK * diagonal.max(initial=0.0)).sum())
        others = others[order]
        drops = values[others] - values[partner[others]]
        alpha = np.zeros(len(partner))
        if rank < len(others):
            alpha[others[:rank]] = -solve_triangular(R[:rank, :rank], R[:rank, rank], check_finite=False)
            alpha[others[rank]] = 1.0
            alpha *= -1.0 if drops @ alpha[others] < 0 else 1.0
            np.subtract.at(alpha, partner[others], alpha[others])
            return _Direction(alpha, self._sign_multipliers(alpha @ program.gradients), np.inf, v)
        Q, R = Q[:, :rank], R[:rank]
        level = -solve_triangular(R, drops, trans="T", check_finite=False)
        unconstrained = -program.C * gradients[leading].sum(axis=0)
        along = Q.T @ unconstrained
        across = unconstrained - Q @ along
        v[~self.zeros] = across - Q @ (Q.T @ across) + Q @ level
        alpha[leading] = program.C
        alpha[others] = solve_triangular(R, along - level, check_finite=False)
        np.subtract.at(alpha, partner[others], alpha[others])
        mu = self._sign_multipliers(v + alpha @ program.gradients)
        return _Direction(alpha - self.alpha, mu - self.mu, 1.0, v)

    def _sign_multipliers(self, gradient: FloatArray) -> FloatArray:
        """Return the multipliers of the zeros that make up for the gradient of the Lagrangian."""
        return np.where(self.zeros, self.program.signs * gradient, 0.0)

    def _move(self, direction: _Direction) -> bool:
        """Step along; return True at the end of the direction, otherwise drop the constraint that ended the step."""
        now, change = np.concatenate([self.alpha, self.mu]), np.concatenate([direction.alpha, direction.mu])
        falling = np.flatnonzero(change < 0)
        with np.errstate(over="ignore"):
            lengths = now[falling] / -change[falling]
        step = min(direction.max_step, float(lengths.min(initial=np.inf)))
        if not np.isfinite(step):
            step = 0.0
        now = np.maximum(now + step * change, 0.0)
        self.alpha, self.mu = np.split(now, [len(self.alpha)])
        if step == 1.0 == direction.max_step:
            return True
        if len(falling):
            self._drop(int(falling[lengths.argmin()]))
        return False

    def _drop(self, index: int) -> None:
        m = len(self.alpha)
        if index < m:
            self.planes[index], self.alpha[index] = False, 0.0
        else:
            self.zeros[index - m], self.mu[index - m] = False, 0.0

    def _add_most_violated(self, v: FloatArray) -> bool:
        """Add the plane or the sign that the point violates most; return False if there is none."""
        program = self.program
        values, norms = program.values_at(v), program.norms
        errors = _ROUNDING * (np.abs(program.values) + norms * np.sqrt(v @ v))
        excess = values - values[self._leading()][program.owners]
        excess = np.where(self.planes | (excess <= errors), 0.0, excess / np.maximum(norms, norms.max() * _ROUNDING))
        wrong_sign = np.where(self.zeros, 0.0, np.maximum(-program.signs * (program.center + v), 0.0))
        violations = np.concatenate([excess, wrong_sign])
        worst = int(violations.argmax())
        if violations[worst] <= 0.0:
            return False
        if worst < len(excess):
            self.planes[worst] = True
        else:
            self.zeros[worst - len(excess)] = True
        return True
