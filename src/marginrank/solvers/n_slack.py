"""The n-slack cutting-plane method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.solvers.stopping import SolverProgress, evaluate
from marginrank.solvers.working_sets import WorkingSets
from marginrank.typing import FloatArray

#: Shares of the tolerance for the gap of the quadratic programs, and for the constraints that are not added.
_FOR_PROGRAMS: Final = 0.1
_FOR_CONSTRAINTS: Final = 0.5


@dataclass(frozen=True)
class NSlack(Solver):
    """Cutting planes with a slack for every block.

    Yue, Finley, Radlinski and Joachims (2007), Algorithm 1: go through the blocks, add the most violated constraint of
    each if it is violated by more than ε beyond the slack of the block, and solve the quadratic program over all
    constraints so far; with the variations of Chapelle, Le and Smola (2007) §3.2. The programs are solved in the dual
    from the last multipliers, by pair steps within a block, and by the methods of `minimize_planes` if that is slow.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the center, whichever is smaller.
        max_iter: Maximum number of loops over the blocks.
        time_limit: Maximum number of seconds.
        callback: Called after every loop with the `Step` and the best θ so far; True stops.
        schedule: When the program is solved: after every added ``constraint``, at the end of each ``loop``, or, given a
            number, after so many constraints and at the end of the loop.
        single: Whether the multiplier of a constraint is set when it is added, before the program is solved.
        sweeps: Maximum number of sweeps over the blocks in one program, which is then solved only in part as long as
            constraints are being added; None solves it.
        epsilon: Violation above which a constraint is added, in units of the risk; a loop without any stops the
            solver. None derives it from the tolerance.
        idle: Loops after which a constraint with a multiplier of 0 is dropped.

    >>> class Distance(Problem):
    ...     n_parameters, capabilities = 1, frozenset({"blocks"})
    ...     def __call__(self, w): return abs(w[0] - 3.0), np.sign(w - 3.0)
    ...     def block(self, number, w): return self(w)
    >>> solution = NSlack(tol=1e-9).minimize(Distance(), C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    name = "n-slack"
    needs = ("blocks",)
    schedule: Literal["constraint", "loop"] | int = "loop"
    single: bool = False
    sweeps: int | None = None
    epsilon: float | None = None
    idle: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.schedule, int) and self.schedule < 1:
            raise ValueError(f"schedule is {self.schedule}; give 'constraint', 'loop' or a number of constraints")
        if self.sweeps is not None and self.sweeps < 1:
            raise ValueError(f"sweeps is {self.sweeps}; at least one is needed, or None to solve the programs")
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError(f"epsilon is {self.epsilon}; give a number of at least 0")

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimize ½‖θ‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        progress = SolverProgress(self, problem, C)
        sets = WorkingSets(problem.n_blocks, problem.n_parameters, C)
        fixed = None if start is None else np.array(start, dtype=np.float64)
        passes, target = 0, 0.0
        with progress.interruptible():
            while True:
                point, value, added = self._loop(problem, sets, fixed, target, progress)
                self._solve(sets, target or self.tol * C * value, progress, partly=added and self.schedule == "loop")
                dual, passes = sets.dual(), passes + 1
                if point is None:
                    point, passes = sets.point.copy(), passes + 1
                    value = float(evaluate(problem, point)[0][0])
                progress.offer(point, value)
                if progress.note(dual, passes, settled=self.epsilon is not None and not added):
                    break
                fixed, target = None, progress.target
                sets.prune(self.idle)
        return replace(progress.solution(), n_planes=sets.n_taken)

    def _loop(
        self, risk: Problem, sets: WorkingSets, fixed: FloatArray | None, target: float, progress: SolverProgress
    ) -> tuple[FloatArray | None, float, int]:
        """Add constraints of all blocks at a fixed point, or at the solution of the program as the schedule moves it.

        Returns the point, or None if it moved or time was up; the sum of the blocks; and the number of constraints
        added.
        """
        every = self.schedule if isinstance(self.schedule, int) else int(self.schedule == "constraint")
        still = fixed is not None or not (every or self.single)
        margin = self.epsilon
        if margin is None:
            margin = _FOR_CONSTRAINTS * target / (sets.C * risk.n_blocks)
        total, added = 0.0, 0
        for block in range(risk.n_blocks):
            point = sets.point if fixed is None else fixed
            if progress.late:
                return None, total, added
            value, gradient = risk.block(block, point)
            _, kept = sets.take(block, value, gradient, point, margin)
            total, added = total + float(value), added + kept
            if still or not kept:
                continue
            if self.single:
                sets.step(block)
            if every and added % every == 0:
                self._solve(sets, target or self.tol * sets.C * total, progress, partly=True)
        return (point.copy() if still or not added else None), total, added

    def _solve(self, sets: WorkingSets, target: float, progress: SolverProgress, *, partly: bool | int) -> None:
        """Solve the program to a share of ``target``, or only in part if ``partly``."""
        if partly and self.sweeps is not None:
            sets.ascend(_FOR_PROGRAMS * target, self.sweeps)
        else:
            sets.solve(_FOR_PROGRAMS * target, progress.deadline)
