"""The block-coordinate Frank–Wolfe method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, evaluate
from marginrank.solvers.working_sets import WorkingSets
from marginrank.typing import FloatArray, IntArray

#: Rounds of sampled blocks between two rounds of all blocks, and the share of the gap that a round covers.
_SAMPLED_ROUNDS: Final = 2
_COVER: Final = 0.99
#: Ascents over the known planes in a round of all blocks.
_ASCENTS: Final = 30
#: Gap over the known planes at which new planes pay, as a share of the whole gap.
_KNOWN_GAP: Final = 0.1
#: Most sweeps over the known planes at a time.
_SWEEPS: Final = 10


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """Frank–Wolfe steps in the dual, one block at a time.

    Lacoste-Julien, Jaggi, Schmidt and Pletscher (2013), with the gap sampling, the cached planes and the pairwise steps
    of Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien (2016). An update evaluates one block at the current θ;
    the planes of all blocks are kept, and multipliers are moved between them without evaluations of the risk until
    little can be gained. An iteration samples blocks in proportion to their last known gaps, goes through all blocks
    once, and evaluates the risk, which together with the dual gives the certificate.

    If the gap does not decrease, as with large features or C, or is larger than the sum over the blocks, all blocks are
    evaluated at one point instead. Blocks that were 0 so far are left out as long as the others add up to the whole
    risk, so blocks without weight are evaluated once.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of iterations, of two to four passes each.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        random_state: Seed of the order of the blocks; by default that of the ranker, and 0 without one.
        idle: Iterations after which an inactive plane is dropped.

    >>> class Distance(Problem):
    ...     n_parameters, capabilities = 1, frozenset({"blocks"})
    ...     def __call__(self, w): return abs(w[0] - 3.0), np.sign(w - 3.0)
    ...     def block(self, number, w): return self(w)
    >>> solution = FrankWolfe(tol=1e-9).minimize(Distance(), C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    name = "frank-wolfe"
    needs = ("blocks",)
    random_state: int | None = None
    idle: int = 10

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        progress = SolverProgress(self, problem, C)
        sets = WorkingSets(problem.n_blocks, problem.n_parameters, C)
        search = _BlockDual(problem, sets, np.random.default_rng(self.random_state or 0), progress)
        with progress.interruptible():
            theta = np.zeros(problem.n_parameters) if start is None else np.array(start, dtype=np.float64)
            value = search.begin(theta)
            while True:
                progress.offer(theta, value)
                if progress.note(search.sets.dual(), search.passes):
                    break
                if search.astray:
                    search.gather(theta, value)
                else:
                    for _ in range(_SAMPLED_ROUNDS):
                        search.update(search.sampled())
                    search.update(search.shuffled())
                theta, value = search.certify()
                search.sets.prune(self.idle)
        return progress.solution()


class _BlockDual:
    """The dual over the blocks of a risk: known planes, gaps, and a count of evaluations."""

    def __init__(self, risk: Problem, sets: WorkingSets, rng: np.random.Generator, progress: SolverProgress) -> None:
        self.risk, self.sets, self.rng, self.progress = risk, sets, rng, progress
        self.gaps = np.zeros(risk.n_blocks)
        #: Smallest gap so far, and whether the last one was too large for the gaps of the blocks or did not decrease.
        self.gap, self.astray = np.inf, False
        self.calls = self.evaluations = 0
        #: Blocks that were positive at some point.
        self.active = np.zeros(0, dtype=np.int64)

    @property
    def passes(self) -> float:
        return self.evaluations + self.calls / self.risk.n_blocks

    def begin(self, theta: FloatArray) -> float:
        """Evaluate all blocks at a point, and return the risk there."""
        value = self._sweep(theta, np.arange(self.risk.n_blocks))
        self.sets.solve(self._target, self.progress.deadline)
        return value

    def sampled(self) -> IntArray:
        """Return as many blocks as make up most of the gap, sampled in proportion to their last known gaps."""
        gaps = self.gaps[self.active]
        covered = np.cumsum(np.sort(gaps)[::-1])
        count = int(np.searchsorted(covered, _COVER * covered[-1])) + 1 if gaps.any() else 0
        # The smallest of exponential variables with the gaps as rates are a sample without replacement.
        with np.errstate(divide="ignore", over="ignore"):
            clocks = self.rng.standard_exponential(len(gaps)) / gaps
        return self.active[np.argsort(clocks)[:count]]

    def shuffled(self) -> IntArray:
        """Return all active blocks in random order."""
        return self.rng.permutation(self.active)

    def update(self, blocks: IntArray) -> None:
        """Evaluate one block after the other, each at the θ reached by the others, until time is up."""
        stride = -(-len(self.active) // _ASCENTS)
        for number, block in enumerate(blocks.tolist(), 1):
            if self.progress.late:
                break
            self._evaluate(block, self.sets.point)
            self.sets.step(block)
            if number % stride == 0:
                self.sets.ascend(self._target, _SWEEPS)
        self.sets.solve(self._target, self.progress.deadline)

    def certify(self) -> tuple[FloatArray, float]:
        """Evaluate the risk at the current θ, and check whether the updates decreased the gap."""
        theta, dual = self.sets.point.copy(), self.sets.dual()
        value = float(evaluate(self.risk, theta)[0][0])
        self.evaluations += 1
        gap = 0.5 * float(theta @ theta) + self.sets.C * value - dual
        self.astray = gap > min(2.0 * float(self.gaps.sum()), 0.5 * self.gap)
        self.gap = min(self.gap, gap)
        return theta, value

    def gather(self, theta: FloatArray, value: float) -> None:
        """Evaluate all blocks at one point; inactive ones only if the others do not add up to the risk."""
        total = self._sweep(theta, self.active)
        if value - total > 1e-9 * value:
            self._sweep(theta, np.setdiff1d(np.arange(self.risk.n_blocks), self.active))
        self.sets.solve(self._target, self.progress.deadline)

    def _sweep(self, theta: FloatArray, blocks: IntArray) -> float:
        total = 0.0
        for block in blocks.tolist():
            if self.progress.late:
                break
            total += self._evaluate(block, theta)
        self.active = np.union1d(self.active, np.flatnonzero(self.sets.sizes))
        return total

    def _evaluate(self, block: int, theta: FloatArray) -> float:
        value, gradient = self.risk.block(block, theta)
        self.calls += 1
        gap, _ = self.sets.take(block, value, gradient, theta)
        self.gaps[block] = max(0.0, gap)
        return float(value)

    @property
    def _target(self) -> float:
        return _KNOWN_GAP * min(float(self.gaps.sum()), self.gap)
