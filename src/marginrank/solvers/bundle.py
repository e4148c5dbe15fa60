"""Cutting planes of the risk, and the point where their maximum with the regulariser is least."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from marginrank.solvers.planes import PlaneModel
from marginrank.solvers.progress import Limits, Progress, along, evaluate
from marginrank.solvers.solution import Risk, Solution
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Bundle(Limits):
    """Cutting planes with a step back towards the best point.

    Joachims, Finley and Yu (2009); Chapelle, Le and Smola (2007) §3.3.2 with the planes of the risk alone, since planes
    of the whole objective would be no lower bound. Where the minimiser of the model is no better than the best point so
    far, more planes are taken between the two, after Franc and Sonnenburg (2009), which keeps the objective from
    swinging. A risk that gives its parts has planes for each, which says more about it for the same evaluations. The
    minimum of the model is a lower bound, so the gap is a certificate.

    Args:
        tol: Gap at which the optimum counts as found, as a share of the objective.
        max_iter: Most iterations, of one or two evaluations each.
        time_limit: Most seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        step: Share of the way from the best point to the minimiser of the model at which planes are taken.
        idle: Iterations after which a plane that holds nothing up is dropped.

    >>> solution = Bundle(tol=1e-9).minimize(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1, C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    step: float = 0.3
    idle: int = 5

    def minimize(
        self,
        risk: Risk,
        n_parameters: int,
        C: float,
        *,
        start: FloatArray | Solution | None = None,
        model: PlaneModel | None = None,
        center: FloatArray | None = None,
        signs: IntArray | None = None,
    ) -> Solution:
        """Minimise ½‖θ − center‖² + C·risk(θ) until the gap is at most ``tol`` times the objective.

        Args:
            risk: Risk at θ and a subgradient there, or the parts it is a sum of with one subgradient each.
            n_parameters: Length of θ.
            C: Weight of the risk.
            start: Where to begin, 0 or ``center`` by default; an earlier solution whose planes are in ``model`` is
                not evaluated again.
            model: Planes of this risk from before, which are used and added to.
            center: Where the regulariser is least; 0 by default.
            signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
        """
        progress = Progress(self, C)
        planes = PlaneModel(n_parameters) if model is None else model
        origin = np.zeros(n_parameters) if center is None else center
        passes = 0

        def offer(theta: FloatArray, value: float) -> bool:
            return progress.offer(theta, 0.5 * float((theta - origin) @ (theta - origin)) + C * value, value)

        def visit(theta: FloatArray) -> bool:
            nonlocal passes
            values, slopes = evaluate(risk, theta)
            planes.add(theta, values, slopes)
            passes += 1
            return offer(theta, float(values.sum()))

        with progress.interruptible():
            if isinstance(start, Solution) and model is not None:
                offer(start.theta, start.risk)
            else:
                visit(_inside(origin if start is None else _theta(start), signs))
            while True:
                before = progress.dual
                minimizer, bound = planes.minimize(C, center, signs, max(1e-13, 1e-3 * self.tol))
                if progress.note(bound, passes):
                    break
                if not visit(minimizer):
                    visit(progress.theta + self.step * (minimizer - progress.theta))
                # Without this a plane could come and go for ever while the bound stands still.
                if progress.dual > before:
                    planes.prune(self.idle)
        return progress.solution()

    def path(
        self, risk: Risk, n_parameters: int, Cs: Iterable[float], *, signs: IntArray | None = None
    ) -> Sequence[Solution]:
        """Minimise for several C, from the smallest up, with one set of planes; solutions come in the order given."""
        model = PlaneModel(n_parameters)
        return along(
            self,
            Cs,
            lambda solver, C, before: solver.minimize(risk, n_parameters, C, start=before, model=model, signs=signs),
        )


def _theta(start: FloatArray | Solution) -> FloatArray:
    return start.theta if isinstance(start, Solution) else start


def _inside(theta: FloatArray, signs: IntArray | None) -> FloatArray:
    """Bring a point to the signs asked for."""
    point = np.array(theta, dtype=np.float64)
    return point if signs is None else np.where(signs * point < 0, 0.0, point)
