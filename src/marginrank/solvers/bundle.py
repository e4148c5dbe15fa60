"""Cutting planes of the risk, and the point where their maximum with the regulariser is least."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from marginrank.solvers.simplex_qp import maximize_on_simplex
from marginrank.solvers.solution import Risk, Solution, Step
from marginrank.typing import FloatArray


class PlaneModel:
    """Planes b + g·θ that the risk is never below, and the maximum of them as a model of it.

    They say nothing of C, so a model that was built for one C serves every other.
    """

    def __init__(self, n_parameters: int) -> None:
        # The risk is not negative, which is a plane to begin with.
        self.slopes = np.zeros((1, n_parameters))
        self.offsets = np.zeros(1)
        self._gram = np.zeros((1, 1))
        self._idle = np.zeros(1, dtype=np.int64)

    def add(self, theta: FloatArray, value: float, slope: FloatArray) -> None:
        """Add the plane that touches the risk at θ."""
        products = self.slopes @ slope
        self.slopes = np.vstack([self.slopes, slope])
        self.offsets = np.append(self.offsets, value - float(slope @ theta))
        gram = np.empty((len(self.offsets), len(self.offsets)))
        gram[:-1, :-1] = self._gram
        gram[-1, :-1] = gram[:-1, -1] = products
        gram[-1, -1] = slope @ slope
        self._gram = gram
        self._idle = np.append(self._idle, 0)

    def minimize(self, C: float) -> tuple[FloatArray, float]:
        """Find the least of ½‖θ‖² + C·max_k (b_k + g_k·θ), and where it is."""
        alpha = maximize_on_simplex(self._gram, self.offsets, C)
        theta = -alpha @ self.slopes
        self._idle = np.where(alpha > 1e-9 * C, 0, self._idle + 1)
        # The value of the dual, which is below the optimum whatever α is.
        return theta, float(self.offsets @ alpha) - 0.5 * float(theta @ theta)

    def prune(self, idle: int) -> None:
        """Drop planes that have not held anything up for so many iterations."""
        keep = self._idle < idle
        keep[0] = True
        if not keep.all():
            self.slopes, self.offsets, self._idle = self.slopes[keep], self.offsets[keep], self._idle[keep]
            self._gram = self._gram[np.ix_(keep, keep)]


@dataclass(frozen=True)
class Bundle:
    """1-slack cutting planes with a step back towards the best point.

    Joachims, Finley and Yu (2009); Chapelle, Le and Smola (2007) §3.3.2 with the planes of the risk alone, since planes
    of the whole objective would be no lower bound. Where the minimiser of the model is no better than the best point so
    far, a second plane is taken between the two, after Franc and Sonnenburg (2009), which keeps the objective from
    swinging. The minimum of the model is a lower bound, so the gap is a certificate.

    >>> solution = Bundle(tol=1e-9).minimize(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1, C=1.0)
    >>> solution.theta.round(6).tolist(), round(solution.primal, 6), solution.converged
    ([1.0], 2.5, True)
    """

    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float = np.inf
    #: Share of the way from the best point to the minimiser of the model at which planes are taken.
    step: float = 0.3
    #: Iterations after which a plane that holds nothing up is dropped.
    idle: int = 50

    def minimize(
        self,
        risk: Risk,
        n_parameters: int,
        C: float,
        *,
        start: FloatArray | None = None,
        model: PlaneModel | None = None,
    ) -> Solution:
        """Minimise ½‖θ‖² + C·risk(θ) until the gap is at most ``tol`` times the objective."""
        if not C > 0:
            raise ValueError(f"C is {C}; it must be above 0")
        planes = PlaneModel(n_parameters) if model is None else model
        best = np.zeros(n_parameters) if start is None else np.asarray(start, dtype=np.float64)
        began = time.perf_counter()
        best_risk, slope = _evaluate(risk, best)
        planes.add(best, best_risk, slope)
        primal = 0.5 * float(best @ best) + C * best_risk
        dual = -np.inf
        trace: list[Step] = []
        converged = False
        while True:
            minimizer, bound = planes.minimize(C)
            dual = max(dual, bound)
            trace.append(Step(primal, dual, time.perf_counter() - began))
            converged = bool(primal - dual <= self.tol * abs(primal))
            if converged or len(trace) >= self.max_iter or trace[-1].seconds > self.time_limit:
                break
            for share in (1.0, self.step):
                point = best + share * (minimizer - best)
                value, slope = _evaluate(risk, point)
                planes.add(point, value, slope)
                objective = 0.5 * float(point @ point) + C * value
                if objective < primal:
                    best, primal, best_risk = point, objective, value
                    break
            planes.prune(self.idle)
        return Solution(best, C, primal, dual, best_risk, converged, tuple(trace))

    def path(self, risk: Risk, n_parameters: int, Cs: Iterable[float]) -> Sequence[Solution]:
        """Minimise for several C, from the smallest up, with one set of planes; solutions come in the order given."""
        wanted = [float(C) for C in Cs]
        model = PlaneModel(n_parameters)
        found: dict[float, Solution] = {}
        theta: FloatArray | None = None
        for C in sorted(set(wanted)):
            found[C] = self.minimize(risk, n_parameters, C, start=theta, model=model)
            theta = found[C].theta
        return [found[C] for C in wanted]


def _evaluate(risk: Risk, theta: FloatArray) -> tuple[float, FloatArray]:
    value, slope = risk(theta)
    if not (np.isfinite(value) and np.isfinite(slope).all()):
        raise FloatingPointError(
            f"the risk is {value} at a point of norm {np.linalg.norm(theta):g}; rescale the features"
        )
    return float(value), slope
