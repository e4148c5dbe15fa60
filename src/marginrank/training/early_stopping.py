"""Early stopping: training ends when validation queries are no longer ranked better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from marginrank.data.partitions import AnyQueries
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.criterion import Criterion
from marginrank.evaluation.systems import System
from marginrank.solvers.base import Callback
from marginrank.solvers.solution import Solution, Step
from marginrank.typing import FloatArray

#: Returns the scores of the validation queries for given parameters.
Scores: TypeAlias = Callable[[FloatArray], System]


def check_patience(patience: Any) -> int:
    """Return the patience; refuse what is not a number of iterations."""
    if isinstance(patience, bool | np.bool_) or not isinstance(patience, int | np.integer):
        raise TypeError(f"patience is {patience!r}; give a number of iterations")
    if patience < 1:
        raise ParameterError(Parameter("patience"), f" is {patience}; wait for at least one iteration")
    return int(patience)


@dataclass
class EarlyStopping:
    """A callback that measures every new point on validation queries and remembers the best.

    Args:
        queries: The validation queries.
        criterion: The criterion.
        patience: Iterations without an improvement after which training stops.
        scores: Scores of the validation queries, given the parameters; may be replaced before each call.
        callback: Another callback that is called first.
    """

    queries: AnyQueries
    criterion: Criterion
    patience: int
    scores: Scores
    callback: Callback | None = None
    best: tuple[float, FloatArray, Step] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_patience(self.patience)
        self.criterion = self.criterion.for_queries(self.queries)
        self._waited, self._passes = 0, 0.0
        self._last: FloatArray | None = None

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        """Measure a point, and return whether to stop."""
        stop = bool(self.callback is not None and self.callback(step, theta))
        if self._passes > step.passes:
            # Another solver has begun, with another objective: the tight bound after a hinge that collapsed.
            self.best, self._last, self._waited = None, None, 0
        self._passes = step.passes
        if self._last is not None and np.array_equal(self._last, theta):
            self._waited += 1
        else:
            self._last = theta
            value = self.measure(theta)
            improved = self.best is None or value > self.best[0]
            self._waited = 0 if improved else self._waited + 1
            if improved:
                self.best = value, theta, step
        return stop or self._waited >= self.patience

    def best_of(self, solution: Solution, center: FloatArray | None) -> Solution:
        """Return the solution with the parameters that were best on the validation queries."""
        if self.best is None:
            return solution
        _, theta, step = self.best
        away = theta if center is None else theta - center
        risk = (step.primal - 0.5 * float(away @ away)) / solution.C
        # An earlier point is not what the solver converged to.
        reason = solution.reason if np.array_equal(theta, solution.theta) else "callback"
        return replace(solution, theta=theta, primal=step.primal, risk=risk, reason=reason)

    def measure(self, theta: FloatArray) -> float:
        """Return the value of the criterion on the validation queries."""
        value = self.criterion.mean(self.queries, self.scores(theta))
        if np.isnan(value):
            raise DataError("no validation query has a relevant document; give other validation queries")
        return value
