"""Cutting planes of the risk, and the point where their maximum with the regulariser is least."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.solvers.base import Solver
from marginrank.solvers.planes import PlaneModel
from marginrank.solvers.problem import Problem
from marginrank.solvers.progress import Progress, along, evaluate
from marginrank.solvers.solution import Solution
from marginrank.typing import FloatArray

#: Share of the gap between objective and bound that the quadratic programs may leave.
_SHARE: Final = 0.1
#: Share of the gap by which the objective may fall less than the model says, for a longer step.
_SURPRISE: Final = 0.1
#: Iterations without any gain after which they are solved exactly; as many more are lost in rounding.
_PATIENCE: Final = 5


@dataclass(frozen=True)
class Bundle(Solver):
    """The bundle method: cutting planes with a step back towards the best point.

    Joachims, Finley and Yu (2009); Chapelle, Le and Smola (2007) §3.3.2 with the planes of the risk alone, since planes
    of the whole objective would not be a lower bound. Planes are taken a share of the way from the best point to the
    minimiser of the model, as Franc and Sonnenburg (2009) do, which prevents oscillation; the share is doubled where
    the objective fell about as far as the model said. Each part of the risk has its own planes, which makes a better
    model for the same evaluations. The minimum of the model is a lower bound, so the gap is a certificate. Planes are
    valid for every C, and a path shares them.

    Args:
        tol: Gap between objective and lower bound at which the solver stops, as a share of the objective and of the
            most that it can fall from the centre, whichever is smaller.
        max_iter: Maximum number of iterations, of one evaluation each.
        time_limit: Maximum number of seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        step: Least share of the way from the best point to the minimiser of the model at which planes are taken.
        idle: Iterations after which an inactive plane is dropped.

    >>> import numpy as np
    >>> from marginrank.solvers.problem import Function
    >>> distance = Function(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1)
    >>> solution = Bundle(tol=1e-9).minimize(distance, C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    name = "bundle"
    supports = ("signs", "center")
    step: float = 0.2
    idle: int = 5

    def minimize(self, problem: Problem, C: float, start: FloatArray | None = None) -> Solution:
        """Minimise ½‖θ − center‖² + C·risk(θ) until the gap is as small as ``tol`` asks for."""
        return self.refine(problem, C, PlaneModel(problem.n_parameters), start)

    def path(self, problem: Problem, Cs: Iterable[float], start: FloatArray | None = None) -> list[Solution]:
        """Minimise for several C, from the smallest up, with one set of planes; results in the order given."""
        planes = PlaneModel(problem.n_parameters)

        def solve(solver: Bundle, C: float, before: Solution | None) -> Solution:
            return solver.refine(problem, C, planes, start if before is None else before)

        return along(self, Cs, solve)

    def refine(
        self, problem: Problem, C: float, planes: PlaneModel, start: FloatArray | Solution | None = None
    ) -> Solution:
        """Minimise with planes of this risk from before, which are used and added to.

        A ``start`` that is a solution has its planes among them, and is not evaluated again.
        """
        progress = Progress(self, problem, C)
        passes = 0

        def visit(theta: FloatArray) -> bool:
            nonlocal passes
            values, slopes = evaluate(problem.parts, theta)
            planes.add(theta, values, slopes)
            passes += 1
            return progress.offer(theta, float(values.sum()))

        with progress.interruptible():
            if isinstance(start, Solution):
                progress.offer(start.theta, start.risk)
            else:
                visit(problem.inside(problem.origin if start is None else start))
            # From the centre, which ranks nothing, a step is taken before anything can end the search.
            begun, still, share = start is not None, 0, 1.0
            while True:
                before, best = progress.bound, progress.primal
                left = best - before if np.isfinite(before) else self.tol * best
                minimizer, bound = planes.minimize(
                    C,
                    problem.center,
                    problem.signs,
                    _SHARE * left if still < _PATIENCE else 0.0,
                    max(1e-13, 1e-3 * self.tol),
                    progress.deadline,
                )
                if begun and progress.note(bound, passes, stalled=still > 2 * _PATIENCE):
                    break
                begun = True
                # Both are convex along the way, so the model is at most this.
                expected = (1.0 - share) * best + share * bound + _SURPRISE * share * (best - bound)
                at = minimizer if share == 1.0 else progress.theta + share * (minimizer - progress.theta)
                better = visit(at)
                share = min(1.0, 2.0 * share) if better and progress.primal <= expected else self.step
                # Without this a plane could come and go for ever while the bound stands still.
                if progress.bound > before:
                    planes.prune(self.idle)
                still = 0 if progress.bound > before or progress.primal < best else still + 1
        return progress.solution()
