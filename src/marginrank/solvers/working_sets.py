"""Working sets: the known planes of each block of a risk, and their dual."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from marginrank.errors import NumericalError
from marginrank.solvers.qp.plane_minimum import Planes, minimize_planes
from marginrank.typing import BoolArray, FloatArray, IntArray

#: Pair steps in one visit of a block.
_STEPS: Final = 2
#: Sweeps between two looks at the clock, repetitions before a program is solved as a whole, and repetitions of both.
_SWEEPS: Final = 25
_REPEATS: Final = 4
_MAX_PROGRAMS: Final = 5
#: Maximum of blocks × planes in a program that is solved as a whole, which takes a matrix of that size.
_LARGEST_PROGRAM: Final = 1 << 20


class WorkingSets:
    """Known planes of each block of a risk, with the multipliers of a lower bound.

    Plane k, offset + gradient·θ, is never above its block and has a multiplier α_k ≥ 0; in each block they add up to at
    most C, and the rest is the multiplier of the plane 0, since no block is negative. A lower bound of the objective is
    Σ α_k offset_k − ½‖Σ α_k gradient_k‖²: Chapelle, Le and Smola (2007), eqs. (10) and (11). ``theta`` is
    −Σ α_k gradient_k.

    >>> sets = WorkingSets(1, 1, C=2.0)
    >>> sets.take(0, 3.0, np.array([-1.0]), np.zeros(1))   # the plane 3 − θ; the bound is 0 so far, and C·3 above it
    (6.0, True)
    >>> sets.step(0)                                       # α = 2: θ = 2 and the bound is 2·3 − ½·4
    >>> sets.theta.tolist(), sets.dual()
    ([2.0], 4.0)
    """

    def __init__(self, n_blocks: int, n_parameters: int, C: float) -> None:
        self.C = float(C)
        #: Number of planes that were added, dropped ones included.
        self.n_taken = 0
        self.theta = np.zeros(n_parameters)
        #: The minimizer of the regularizer plus the planes, as far as it is known: θ, or the point of a program.
        self.point = self.theta
        self.sizes = np.zeros(n_blocks, dtype=np.int64)
        self._gaps = np.zeros(n_blocks)
        self._places = np.zeros((n_blocks, 4), dtype=np.int64)
        self._gradients = np.zeros((max(4, n_blocks), n_parameters))
        self._offsets, self._alpha = np.zeros(len(self._gradients)), np.zeros(len(self._gradients))
        self._idle = np.zeros(len(self._gradients), dtype=np.int64)
        self._spare = list(range(len(self._gradients)))

    @property
    def _planes(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]:
        return self._places, self.sizes, self._gradients, self._offsets, self._alpha

    def take(
        self, block: int, value: float, gradient: FloatArray, theta: FloatArray, margin: float = 0.0
    ) -> tuple[float, bool]:
        """Keep the tangent plane of a block at θ if it is above the known planes by more than ``margin``.

        Returns the gap of the block at θ, and whether the plane was kept.
        """
        from marginrank.solvers.working_sets_kernel import take_plane  # noqa: PLC0415

        if not self._spare or self.sizes[block] == self._places.shape[1]:
            self._grow()
        tangent = float(value), np.ascontiguousarray(gradient, dtype=np.float64), theta
        gap, kept = take_plane(block, tangent, float(margin), self.C, self._spare[-1], self._planes)
        if not np.isfinite(gap):
            raise NumericalError(
                f"block {block} of the risk is {value} at a point of norm {np.linalg.norm(theta):g}; "
                "rescale the features"
            )
        if kept:
            self._idle[self._spare.pop()] = 0
            self.n_taken += 1
        return gap, kept

    def _grow(self) -> None:
        n = len(self._offsets)
        if not self._spare:
            self._gradients = np.vstack([self._gradients, np.zeros_like(self._gradients)])
            self._offsets, self._alpha = np.pad(self._offsets, (0, n)), np.pad(self._alpha, (0, n))
            self._idle, self._spare = np.pad(self._idle, (0, n)), list(range(n, 2 * n))
        if self.sizes.max() == self._places.shape[1]:
            self._places = np.hstack([self._places, np.zeros_like(self._places)])

    def step(self, block: int) -> None:
        """Move multiplier from the smallest plane of a block to the largest."""
        from marginrank.solvers.working_sets_kernel import step_block  # noqa: PLC0415

        step_block(block, self.theta, self.C, self._planes)
        self.point = self.theta

    def ascend(self, target: float, sweeps: int) -> float:
        """Step in all blocks until their gaps add up to at most ``target``, or for ``sweeps``; return the sum.

        Gaps are over the known planes.
        """
        from marginrank.solvers.working_sets_kernel import ascend  # noqa: PLC0415

        blocks, self.point = np.flatnonzero(self.sizes), self.theta
        return float(ascend(blocks, target, sweeps * len(blocks), _STEPS, self._gaps, self.theta, self.C, self._planes))

    def solve(self, target: float, deadline: float = np.inf) -> None:
        """Reduce the sum of the gaps over the known planes to ``target``, until time is up.

        Steps in blocks are fast as long as they make progress. With large features or C they do not, and the program is
        solved as a whole over the unsettled blocks; or over all blocks, if rounding errors prevent that.
        """
        for _ in range(_MAX_PROGRAMS):
            for _ in range(_REPEATS):
                if self.ascend(target, _SWEEPS) <= target or time.perf_counter() > deadline:
                    return
            candidates = self._unsettled(target), self.sizes > 0
            if not any(self._solve_whole(blocks, target, deadline) for blocks in candidates):
                break

    def _unsettled(self, target: float) -> BoolArray:
        """Return the blocks with a gap, or with more than one active plane."""
        alpha = np.where(self._known, self._alpha[self._places], 0.0)
        largest = np.maximum(alpha.max(axis=1), self.C - alpha.sum(axis=1))
        return np.asarray((largest < (1.0 - 1e-9) * self.C) | (self._gaps * len(self.sizes) > 0.1 * target))

    def _solve_whole(self, blocks: BoolArray, target: float, deadline: float) -> bool:
        """Solve the program over some blocks, with the others fixed; return whether the bound is better.

        With large rounding errors, the point of the program is better than the sum over its multipliers.
        """
        rows, n = self._places[blocks][self._known[blocks]], int(blocks.sum())
        if n * len(rows) > _LARGEST_PROGRAM:
            return False
        before, bound = self._alpha[rows].copy(), self.dual()
        planes = Planes(
            np.vstack([self._gradients[rows], np.zeros((n, len(self.theta)))]),
            np.concatenate([self._offsets[rows], np.zeros(n)]),
            np.concatenate([np.repeat(np.arange(n), self.sizes[blocks]), np.arange(n)]),
        )
        self.point, _, alpha = minimize_planes(
            planes,
            self.C,
            center=self.theta + before @ self._gradients[rows],
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
        """The places that hold a plane."""
        return np.asarray(np.arange(self._places.shape[1]) < self.sizes[:, None])

    def dual(self) -> float:
        """Return the lower bound, with θ summed from scratch so that rounding errors do not accumulate."""
        self.theta = -(self._alpha @ self._gradients)
        return float(self._alpha @ self._offsets) - 0.5 * float(self.theta @ self.theta)

    def prune(self, idle: int) -> None:
        """Drop planes that were inactive for ``idle`` calls."""
        self._idle = np.where(self._alpha > 0, 0, self._idle + 1)
        for block, place in self._inactive(idle):
            self.sizes[block] -= 1
            self._spare.append(int(self._places[block, place]))
            self._places[block, place] = self._places[block, self.sizes[block]]

    def _inactive(self, idle: int) -> Iterator[tuple[int, int]]:
        """Return blocks and places of inactive planes, the last of a block first: dropping one moves no other."""
        blocks, places = np.nonzero(self._known & (self._idle[self._places] >= idle))
        return zip(blocks[::-1].tolist(), places[::-1].tolist(), strict=True)
