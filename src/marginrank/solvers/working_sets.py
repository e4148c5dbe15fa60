"""Planes of the blocks of a risk, and the best lower bound that they make."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from marginrank.errors import NumericalError
from marginrank.solvers.qp.plane_minimum import Planes, minimize_planes
from marginrank.typing import BoolArray, FloatArray, IntArray

#: Moves of multiplier in one visit of a block.
_STEPS: Final = 2
#: Sweeps between two looks at the clock, how often they are repeated before a program is solved at once, and how often
#: both are tried.
_SWEEPS: Final = 25
_REPEATS: Final = 4
_MOST_PROGRAMS: Final = 5
#: Most blocks times planes in a program that is solved at once, which takes a matrix of that size.
_LARGEST_PROGRAM: Final = 1 << 20


class WorkingSets:
    """Planes that are known of each block of a risk, and the highest lower bound that was made of them.

    Plane k, offset + slope·θ, is never above its block and has a multiplier α_k ≥ 0; in each block they add up to at
    most C, and what is missing to C is on the plane 0, since no block is negative. Then the objective is nowhere below
    Σ α_k offset_k − ½‖Σ α_k slope_k‖²: Chapelle, Le and Smola (2007), eqs. (10) and (11). ``theta`` is −Σ α_k slope_k.

    >>> sets = WorkingSets(1, 1, C=2.0)
    >>> sets.take(0, 3.0, np.array([-1.0]), np.zeros(1))   # the plane 3 − θ; the bound is 0 so far, and C·3 above it
    (6.0, True)
    >>> sets.lift(0)                                       # α = 2: θ = 2 and the bound is 2·3 − ½·4
    >>> sets.theta.tolist(), sets.dual()
    ([2.0], 4.0)
    """

    def __init__(self, n_blocks: int, n_parameters: int, C: float) -> None:
        self.C = float(C)
        self.theta = np.zeros(n_parameters)
        #: Where the regulariser and the planes are least, as far as that was worked out: θ, or the point of a program.
        self.point = self.theta
        self.sizes = np.zeros(n_blocks, dtype=np.int64)
        self._gaps = np.zeros(n_blocks)
        self._places = np.zeros((n_blocks, 4), dtype=np.int64)
        self._slopes = np.zeros((max(4, n_blocks), n_parameters))
        self._offsets, self._alpha = np.zeros(len(self._slopes)), np.zeros(len(self._slopes))
        self._idle = np.zeros(len(self._slopes), dtype=np.int64)
        self._spare = list(range(len(self._slopes)))

    @property
    def _planes(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]:
        return self._places, self.sizes, self._slopes, self._offsets, self._alpha

    def take(
        self, block: int, value: float, slope: FloatArray, at: FloatArray, margin: float = 0.0
    ) -> tuple[float, bool]:
        """Keep the plane that touches a block ``at`` a point if it is above those known by more than ``margin``.

        Gives what the block adds to the gap between objective and bound there, and whether the plane was kept.
        """
        from marginrank.solvers.working_sets_kernel import take_plane  # noqa: PLC0415

        if not self._spare or self.sizes[block] == self._places.shape[1]:
            self._grow()
        touching = float(value), np.ascontiguousarray(slope, dtype=np.float64), at
        gap, kept = take_plane(block, touching, float(margin), self.C, self._spare[-1], self._planes)
        if not np.isfinite(gap):
            raise NumericalError(
                f"block {block} of the risk is {value} at a point of norm {np.linalg.norm(at):g}; rescale the features"
            )
        if kept:
            self._idle[self._spare.pop()] = 0
        return gap, kept

    def _grow(self) -> None:
        n = len(self._offsets)
        if not self._spare:
            self._slopes = np.vstack([self._slopes, np.zeros_like(self._slopes)])
            self._offsets, self._alpha = np.pad(self._offsets, (0, n)), np.pad(self._alpha, (0, n))
            self._idle, self._spare = np.pad(self._idle, (0, n)), list(range(n, 2 * n))
        if self.sizes.max() == self._places.shape[1]:
            self._places = np.hstack([self._places, np.zeros_like(self._places)])

    def lift(self, block: int) -> None:
        """Raise the multiplier of the highest plane of a block, at the cost of the lowest."""
        from marginrank.solvers.working_sets_kernel import lift_block  # noqa: PLC0415

        lift_block(block, self.theta, self.C, self._planes)
        self.point = self.theta

    def ascend(self, target: float, sweeps: int) -> float:
        """Lift all blocks until what they add to the gap is at most ``target``, or for so many sweeps; give the rest.

        Blocks count with the planes that are known of them.
        """
        from marginrank.solvers.working_sets_kernel import ascend  # noqa: PLC0415

        blocks, self.point = np.flatnonzero(self.sizes), self.theta
        return float(ascend(blocks, target, sweeps * len(blocks), _STEPS, self._gaps, self.theta, self.C, self._planes))

    def solve(self, target: float, deadline: float = np.inf) -> None:
        """Bring what the blocks add to the gap to ``target``, with the planes that are known of them, or time is up.

        Lifting blocks is quick while it leads somewhere. Where features or C are large it does not, and the program is
        solved at once over the blocks that have not come to rest; or over all, if so much cancels that this is no use.
        """
        for _ in range(_MOST_PROGRAMS):
            for _ in range(_REPEATS):
                if self.ascend(target, _SWEEPS) <= target or time.perf_counter() > deadline:
                    return
            hard = self._restless(target), self.sizes > 0
            if not any(self._solve_at_once(blocks, target, deadline) for blocks in hard):
                break

    def _restless(self, target: float) -> BoolArray:
        """Blocks with a gap, or with more than one plane in use."""
        held = np.where(self._known, self._alpha[self._places], 0.0)
        most = np.maximum(held.max(axis=1), self.C - held.sum(axis=1))
        return np.asarray((most < (1.0 - 1e-9) * self.C) | (self._gaps * len(self.sizes) > 0.1 * target))

    def _solve_at_once(self, blocks: BoolArray, target: float, deadline: float) -> bool:
        """Solve the program over some blocks with the others as they are; False where the bound is no better.

        Where much cancels, the point that comes with the multipliers is better than the one they add up to.
        """
        rows, n = self._places[blocks][self._known[blocks]], int(blocks.sum())
        if n * len(rows) > _LARGEST_PROGRAM:
            return False
        before, bound = self._alpha[rows].copy(), self.dual()
        planes = Planes(
            np.vstack([self._slopes[rows], np.zeros((n, len(self.theta)))]),
            np.concatenate([self._offsets[rows], np.zeros(n)]),
            np.concatenate([np.repeat(np.arange(n), self.sizes[blocks]), np.arange(n)]),
        )
        self.point, _, alpha = minimize_planes(
            planes,
            self.C,
            center=self.theta + before @ self._slopes[rows],
            precision=max(1e-13, 0.1 * target / max(bound, target)),
            deadline=deadline,
        )
        self._alpha[rows] = alpha[: len(rows)]
        if self.dual() > bound:
            return True
        self._alpha[rows] = before
        self.dual()
        return False

    @property
    def _known(self) -> BoolArray:
        """Which places hold a plane."""
        return np.asarray(np.arange(self._places.shape[1]) < self.sizes[:, None])

    def dual(self) -> float:
        """The lower bound, with θ summed anew so that no rounding errors gather."""
        self.theta = -(self._alpha @ self._slopes)
        return float(self._alpha @ self._offsets) - 0.5 * float(self.theta @ self.theta)

    def prune(self, idle: int) -> None:
        """Drop planes that have held nothing up for so many calls."""
        self._idle = np.where(self._alpha > 0, 0, self._idle + 1)
        for block, place in self._idlers(idle):
            self.sizes[block] -= 1
            self._spare.append(int(self._places[block, place]))
            self._places[block, place] = self._places[block, self.sizes[block]]

    def _idlers(self, idle: int) -> Iterator[tuple[int, int]]:
        """Blocks and places of idle planes, the last of a block first, so that dropping one moves no other of them."""
        blocks, places = np.nonzero(self._known & (self._idle[self._places] >= idle))
        return zip(blocks[::-1].tolist(), places[::-1].tolist(), strict=True)
