"""The minimum among points where planes and signs hold with equality, by an active set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from marginrank.solvers.qp.plane_program import PlaneProgram
from marginrank.typing import BoolArray, FloatArray, IntArray

_MOST_STEPS: Final = 200
_RANK: Final = 1e-12
_ROUNDING: Final = 1e-14


class _Direction(NamedTuple):
    """Where the multipliers go, how far at most, and the point that goes with the end."""

    alpha: FloatArray
    mu: FloatArray
    longest: float
    away: FloatArray


@dataclass
class ActiveSet:
    """Planes that touch the maximum of their part, entries of θ that are 0, and multipliers of both.

    The dual is maximised over the multipliers of the set. Where one of them would become negative, the way ends there
    and the plane or the zero is dropped; at the maximum, what is violated most is added. The dual never falls, so no
    set comes twice. Nonnegative least squares are solved in the same way (Lawson and Hanson, 1974).
    """

    program: PlaneProgram
    planes: BoolArray
    zeros: BoolArray
    alpha: FloatArray
    mu: FloatArray

    def __post_init__(self) -> None:
        self.planes[self._kept()] = True
        self.alpha = self.program.balanced(np.where(self.planes, self.alpha, 0.0))
        self.mu = np.where(self.zeros, self.mu, 0.0)

    def vertices(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the points and the multipliers of one maximum after the other."""
        for _ in range(_MOST_STEPS):
            way = self._direction()
            if self._move(way):
                yield way.away, self.alpha
                if not self._add_most_violated(way.away):
                    break

    def _kept(self) -> IntArray:
        """Return the plane of every part with the largest multiplier."""
        order = np.argsort(np.where(self.planes, self.alpha, -1.0), kind="stable")
        kept = np.zeros(self.program.n_parts, dtype=np.int64)
        kept[self.program.owners[order]] = order
        return kept

    def _direction(self) -> _Direction:
        """Solve for the maximum of the dual over the set, or find a way along which it rises for ever.

        One plane of every part is kept, and D·v = −h makes the others as high, with D and h their differences from it
        in slope and height. The solution nearest to −C·Σ(slopes kept) is the point. Errors along D would count C times,
        and others only squared, so it is these equations that are solved to full precision.
        """
        from scipy.linalg import qr, solve_triangular  # noqa: PLC0415

        program, kept = self.program, self._kept()
        away = np.where(self.zeros, -program.middle, 0.0)
        slopes, heights = program.slopes[:, ~self.zeros], program.heights + program.slopes @ away
        partner = kept[program.owners]
        others = np.flatnonzero(self.planes & (partner != np.arange(len(partner))))
        differences = slopes[others] - slopes[partner[others]]
        Q, R, order = qr(differences.T, mode="economic", pivoting=True, check_finite=False)
        sizes = np.abs(np.diag(R))
        rank = int((sizes > _RANK * sizes.max(initial=0.0)).sum())
        others = others[order]
        drops = heights[others] - heights[partner[others]]
        alpha = np.zeros(len(partner))
        if rank < len(others):
            alpha[others[:rank]] = -solve_triangular(R[:rank, :rank], R[:rank, rank], check_finite=False)
            alpha[others[rank]] = 1.0
            alpha *= -1.0 if drops @ alpha[others] < 0 else 1.0
            np.subtract.at(alpha, partner[others], alpha[others])
            return _Direction(alpha, self._pull(alpha @ program.slopes), np.inf, away)
        Q, R = Q[:, :rank], R[:rank]
        level = -solve_triangular(R, drops, trans="T", check_finite=False)
        aim = -program.C * slopes[kept].sum(axis=0)
        along = Q.T @ aim
        across = aim - Q @ along
        away[~self.zeros] = across - Q @ (Q.T @ across) + Q @ level
        alpha[kept] = program.C
        alpha[others] = solve_triangular(R, along - level, check_finite=False)
        np.subtract.at(alpha, partner[others], alpha[others])
        mu = self._pull(away + alpha @ program.slopes)
        return _Direction(alpha - self.alpha, mu - self.mu, 1.0, away)

    def _pull(self, slope: FloatArray) -> FloatArray:
        return np.where(self.zeros, self.program.signs * slope, 0.0)

    def _move(self, way: _Direction) -> bool:
        """Go along; True if the end was reached, else what stood in the way is dropped."""
        now, change = np.concatenate([self.alpha, self.mu]), np.concatenate([way.alpha, way.mu])
        falling = np.flatnonzero(change < 0)
        with np.errstate(over="ignore"):
            lengths = now[falling] / -change[falling]
        length = min(way.longest, float(lengths.min(initial=np.inf)))
        if not np.isfinite(length):
            length = 0.0
        now = np.maximum(now + length * change, 0.0)
        self.alpha, self.mu = np.split(now, [len(self.alpha)])
        if length == 1.0 == way.longest:
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

    def _add_most_violated(self, away: FloatArray) -> bool:
        """Add the plane or the zero that the point violates most; False where none is beyond rounding error."""
        program = self.program
        heights = program.heights + program.slopes @ away
        norms = np.sqrt(np.einsum("ij,ij->i", program.slopes, program.slopes))
        errors = _ROUNDING * (np.abs(program.heights) + norms * np.sqrt(away @ away))
        over = heights - heights[self._kept()][program.owners]
        over = np.where(self.planes | (over <= errors), 0.0, over / np.maximum(norms, norms.max() * _ROUNDING))
        short = np.where(self.zeros, 0.0, np.maximum(-program.signs * (program.middle + away), 0.0))
        worst = int(np.concatenate([over, short]).argmax())
        if max(over.max(initial=0.0), short.max(initial=0.0)) <= 0:
            return False
        if worst < len(over):
            self.planes[worst] = True
        else:
            self.zeros[worst - len(over)] = True
        return True
