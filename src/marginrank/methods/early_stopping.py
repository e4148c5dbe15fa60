"""Stop training when validation queries say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.evaluating import evaluate
from marginrank.methods.presets import parse_mix
from marginrank.solvers.progress import Callback
from marginrank.solvers.solution import Solution, Step
from marginrank.typing import FloatArray


class EarlyStopping:
    """A callback that measures every new point on validation queries and remembers the best.

    Args:
        queries: The validation queries.
        measure: What is measured, or a mix.
        patience: Iterations without an improvement after which training stops.
        callback: Another callback that is called first.
        scores: Scores of the validation queries, given the parameters; may be set anew before each call.
    """

    def __init__(
        self,
        queries: Queries,
        measure: str,
        patience: int,
        callback: Callback | None = None,
        scores: Callable[[FloatArray], FloatArray] | None = None,
    ) -> None:
        if patience < 1:
            raise ValueError(f"patience is {patience}; wait for at least one iteration")
        self.queries, self.mix, self.patience = queries, parse_mix(measure), patience
        self.callback, self.scores = callback, scores
        self.values: list[float] = []
        self.best: tuple[float, FloatArray, Step] | None = None
        self._waited = 0
        self._last: FloatArray | None = None

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        """Measure a point, and say whether to stop."""
        stop = bool(self.callback is not None and self.callback(step, theta))
        if self._last is not None and np.array_equal(self._last, theta):
            self._waited += 1
        else:
            self._last = theta
            value = self._measure(theta)
            self.values.append(value)
            improved = self.best is None or value > self.best[0]
            self._waited = 0 if improved else self._waited + 1
            if improved:
                self.best = value, theta, step
        return stop or self._waited >= self.patience

    def best_of(self, solution: Solution, center: FloatArray) -> Solution:
        """Give the solution with the parameters that were best on the validation queries."""
        if self.best is None:
            return solution
        _, theta, step = self.best
        away = theta - center
        risk = (step.primal - 0.5 * float(away @ away)) / solution.C
        return replace(solution, theta=theta, primal=step.primal, risk=risk)

    def _measure(self, theta: FloatArray) -> float:
        if self.scores is None:
            raise RuntimeError("nothing says how to score the validation queries")
        means = evaluate(self.queries, self.scores(theta), [str(measure) for _, measure in self.mix]).mean
        value = float(sum(weight * means[str(measure)] for weight, measure in self.mix))
        if np.isnan(value):
            raise DataError("no validation query has a relevant document; give others")
        return value
