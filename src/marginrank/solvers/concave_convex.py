"""A risk that is a difference of convex functions, by a sequence of convex problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from marginrank.solvers.bundle import Bundle
from marginrank.solvers.planes import PlaneModel
from marginrank.solvers.progress import Limits, Progress, along, evaluate
from marginrank.solvers.solution import Risk, Solution, Step
from marginrank.typing import FloatArray, IntArray


@dataclass(frozen=True)
class ConcaveConvex(Limits):
    """The concave-convex procedure (Yuille and Rangarajan 2003) for a risk below a convex one.

    With R the convex risk and T the risk asked for, K = R − T is convex. At θ_t it is replaced by its tangent:

        θ_{t+1} = argmin ½‖θ − center‖² + C·[R(θ) − K(θ_t) − ∇K(θ_t)·(θ − θ_t)]

    which never raises ½‖θ − center‖² + C·T(θ). The linear term only moves the centre, to center + C·∇K(θ_t), so all
    these problems share the planes of R. Chapelle, Le and Smola (2007) §4 minimise the same objective, with the tight
    bound as T, by gradient descent from a center w0.

    The objective is not convex: there is no lower bound, and ``dual`` is −inf. It counts as converged where an
    iteration gains less than ``tol`` times the objective.

    Args:
        tol: Gain of an iteration at which it stops, as a share of the objective.
        max_iter: Most iterations; each is a convex problem.
        time_limit: Most seconds.
        callback: Called after every iteration with the `Step` and the best θ so far; True stops.
        anneal: Iterations over which K comes in step by step, from the convex problem on; 0 begins with all of it.

    >>> ramp = lambda w: (float(np.clip(1 - w[0], 0, 2)), np.where(abs(w) < 1, -1.0, 0.0))
    >>> hinge = lambda w: (max(0.0, 1 - w[0]), np.where(w < 1, -1.0, 0.0))
    >>> ConcaveConvex().minimize(hinge, ramp, 1, C=3.0, start=np.array([0.5])).theta.round(6).tolist()
    [1.0]
    """

    tol: float = 1e-4
    max_iter: int = 50
    anneal: int = 0

    def minimize(
        self,
        convex: Risk,
        risk: Risk,
        n_parameters: int,
        C: float,
        *,
        start: FloatArray | None = None,
        center: FloatArray | None = None,
        signs: IntArray | None = None,
        model: PlaneModel | None = None,
    ) -> Solution:
        """Minimise ½‖θ − center‖² + C·risk(θ) from ``start`` down to a stationary point.

        Args:
            convex: A convex risk, never below ``risk``, whose difference to it is convex.
            risk: The risk asked for, and its derivative.
            n_parameters: Length of θ.
            C: Weight of the risk.
            start: Where to begin; ``center`` by default.
            center: Where the regulariser is least; 0 by default.
            signs: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free.
            model: Planes of ``convex`` from before, which are used and added to.
        """
        progress = Progress(self, C)
        planes = PlaneModel(n_parameters) if model is None else model
        origin = np.zeros(n_parameters) if center is None else center
        theta = np.array(origin if start is None else start, dtype=np.float64)
        passes = 0.0
        with progress.interruptible():
            before, gain, round_number = np.inf, 1e-2, 0
            while True:
                values, slopes = evaluate(risk, theta)
                risk_value, away = float(values.sum()), theta - origin
                objective = 0.5 * float(away @ away) + C * risk_value
                progress.offer(theta, objective, risk_value)
                share = 1.0 if self.anneal == 0 else min(1.0, round_number / self.anneal)
                settled = round_number > self.anneal and before - objective <= self.tol * abs(objective)
                if progress.note(-np.inf, passes + 1, converged=settled):
                    break
                convex_values, convex_slopes = evaluate(convex, theta)
                planes.add(theta, convex_values, convex_slopes)
                passes += 2
                if np.isfinite(before):
                    gain = max(before - objective, 0.0) / max(abs(objective), 1e-300)
                tangent = convex_slopes.sum(axis=0) - slopes.sum(axis=0)
                enough = max(self.tol, min(0.1 * gain, 1e-2)) * abs(objective)
                step = _until(enough).minimize(
                    convex, n_parameters, C, start=theta, model=planes, center=origin + C * share * tangent, signs=signs
                )
                passes += step.passes
                if step.reason == "interrupted":
                    raise KeyboardInterrupt
                theta, before, round_number = step.theta, objective, round_number + 1
        return progress.solution()

    def path(
        self,
        convex: Risk,
        risk: Risk,
        n_parameters: int,
        Cs: Iterable[float],
        *,
        start: FloatArray | None = None,
        center: FloatArray | None = None,
        signs: IntArray | None = None,
        model: PlaneModel | None = None,
    ) -> Sequence[Solution]:
        """Minimise for several C, from the smallest up, each from the solution before; in the order given."""
        planes = PlaneModel(n_parameters) if model is None else model

        def solve(solver: ConcaveConvex, C: float, before: Solution | None) -> Solution:
            return replace(solver, anneal=solver.anneal if before is None else 0).minimize(
                convex,
                risk,
                n_parameters,
                C,
                start=start if before is None else before.theta,
                center=center,
                signs=signs,
                model=planes,
            )

        return along(self, Cs, solve)


def _until(gap: float) -> Bundle:
    """A bundle solver that stops at a gap given as a number: a moved centre shifts the objective by a constant."""

    def near(step: Step, theta: FloatArray) -> bool:  # noqa: ARG001
        return step.gap <= gap

    return Bundle(tol=1e-10, max_iter=200, callback=near)
