"""The minimiser where planes and signs hold with equality, by orthogonal elimination."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.optimize import nnls

from marginrank.solvers.plane_program import PlaneProgram
from marginrank.typing import BoolArray, FloatArray, IntArray

_RANK: Final = 1e-12
_CLOSE: Final = 1e-13


class Guess(NamedTuple):
    """What holds with equality: planes that touch the maximum of their part, and entries of θ that are 0."""

    planes: BoolArray
    zeros: BoolArray

    def key(self) -> tuple[bytes, bytes]:
        """Return what tells one guess from another."""
        return self.planes.tobytes(), self.zeros.tobytes()


def vertex(program: PlaneProgram, guess: Guess, alpha: FloatArray) -> tuple[FloatArray, FloatArray, Guess]:
    """Solve the equations of a guess; return the point, its multipliers and a corrected guess.

    One plane of every part is kept, and D·v = −h makes the others as high, with D and h their differences from it in
    slope and height. The solution nearest to −C·Σ(slopes kept) is the minimiser. Errors along D would count C times,
    and others only squared, so it is the equations that are solved to full precision.
    """
    free = ~guess.zeros
    away = np.where(guess.zeros, -program.middle, 0.0)
    slopes, heights = program.slopes[:, free], program.heights + program.slopes @ away
    kept = _highest(program, np.where(guess.planes, alpha, -1.0))
    guess.planes[kept] = True
    owner = kept[program.owners]
    others = np.flatnonzero(guess.planes & (owner != np.arange(len(owner))))
    aim = -program.C * slopes[kept].sum(axis=0)
    Q, R, order = qr((slopes[others] - slopes[owner[others]]).T, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(np.diag(R))
    rank = int((sizes > _RANK * sizes.max(initial=0.0)).sum())
    Q, R, used = Q[:, :rank], R[:rank, :rank], others[order[:rank]]
    level = -solve_triangular(R, heights[used] - heights[owner[used]], trans="T", check_finite=False)
    along = Q.T @ aim
    across = aim - Q @ along
    away[free] = across - Q @ (Q.T @ across) + Q @ level
    multipliers = np.zeros(len(owner))
    multipliers[kept] = program.C
    if rank == len(others):
        multipliers[used] = solve_triangular(R, along - level, check_finite=False)
        np.subtract.at(multipliers, owner[used], multipliers[used])
    else:
        multipliers[guess.planes] = _nonnegative(program, guess, away)
    return away, multipliers, _corrected(program, guess, kept, away, multipliers)


def _nonnegative(program: PlaneProgram, guess: Guess, away: FloatArray) -> FloatArray:
    """Find multipliers that hold the point up, of planes that are not independent."""
    slopes, free = program.slopes[guess.planes], ~guess.zeros
    members = program.owners[guess.planes] == np.arange(program.n_parts)[:, None]
    unit = float(np.abs(slopes).max(initial=0.0)) or 1.0
    left = np.vstack([slopes[:, free].T / unit, members])
    right = np.concatenate([-away[free] / (unit * program.C), np.ones(program.n_parts)])
    try:
        return np.asarray(nnls(left, right)[0] * program.C)
    except RuntimeError:
        return np.asarray(members.T @ (program.C / members.sum(axis=1)))


def _corrected(program: PlaneProgram, guess: Guess, kept: IntArray, away: FloatArray, multipliers: FloatArray) -> Guess:
    """Drop planes and zeros that pull the wrong way, and add planes and zeros that the point violates."""
    heights = program.heights + program.slopes @ away
    size = _CLOSE * float(np.abs(program.heights).max(initial=0.0) + np.abs(heights).max(initial=0.0))
    over = heights > heights[kept][program.owners] + size
    planes = over | (guess.planes & (multipliers > -_CLOSE * program.C))
    pull = program.signs * (away + multipliers @ program.slopes)
    theta = program.signs * (program.middle + away)
    zeros = (~guess.zeros & (theta < 0)) | (guess.zeros & (pull >= 0))
    planes[kept] |= ~np.bincount(program.owners, planes, minlength=program.n_parts).astype(bool)
    return Guess(planes, zeros)


def _highest(program: PlaneProgram, alpha: FloatArray) -> IntArray:
    """Return the plane of every part with the largest multiplier."""
    order = np.argsort(alpha, kind="stable")
    kept = np.zeros(program.n_parts, dtype=np.int64)
    kept[program.owners[order]] = order
    return kept
