"""Minimization of a loss: the hinge, the tight bound, and the check for a collapsed hinge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from marginrank.errors import ComposedMessage, DataError, Message, Parameter, ParameterError, warn
from marginrank.losses.base import Bound, Loss
from marginrank.model.model import Health, Model
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.base import Prepared
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Callback, Solver
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.concave_convex import ConcaveConvex
from marginrank.solvers.cutting_planes import PlaneModel
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution, Step
from marginrank.solvers.stream_state import StreamState
from marginrank.training.checkpoint import Log, checkpointed
from marginrank.training.partitioned_risk import PartitionedRisk, ranking_risk
from marginrank.training.plan import Deadline, Start
from marginrank.training.risk import RankingRisk
from marginrank.training.tight_bound import BoundChoice, Tight
from marginrank.typing import FloatArray

#: A hinge whose objective stays above this share of the objective at 0 has collapsed.
COLLAPSED: Final = 0.999
#: Factor of the larger C that is tried before a hinge counts as collapsed: a small C alone also leaves the objective
#: high, and so do small features.
_LARGER: Final = 1000.0
#: A trial ends with a lower bound above this share: even the larger C lowers the objective by less than half a percent,
#: and a closer bound would take most iterations. ``fit`` of ndcg@10 on 1.2 million × 136: 3.0 CPU s, and 8.5 for 0.999.
_DECIDED: Final = 0.995
#: Iterations of that trial.
_TRIAL_ITERATIONS: Final = 50
#: Number of parts of the risk in that trial if there are many parameters. With more parts, scorers that can fit
#: anything lower a collapsed hinge by a little more than a thousandth.
_TRIAL_PARTS: Final = 8
#: Iterations without noticeable progress before the trial.
_PATIENCE: Final = 30
NO_ORDER: Final = (
    "every query has a single document or a single grade, so there is nothing to learn; give queries with documents of "
    "different grades"
)


class CollapseWarning(ComposedMessage, UserWarning):
    """Warns that the hinge of a loss is minimal at w = 0, so that nothing is learned."""


@dataclass(frozen=True)
class Fit:
    """Parameters for one C, and how they were found."""

    solution: Solution
    #: The loss and its bound, the solver and the health of the result; None for a baseline.
    loss: Loss | None = None
    bound: Bound | None = None
    solver: str | None = None
    health: Health | None = None
    #: Minimizer of the regularizer.
    center: FloatArray | None = None
    #: What is needed to continue with more queries; None if that is impossible.
    stream: StreamState | None = None


@dataclass(frozen=True)
class LossMinimizer:
    """Minimizer of a loss by a solver, or by the tight bound.

    Args:
        loss: The loss.
        bound: With ``auto`` the hinge is minimized and, if it is minimal at 0, the tight bound, with a warning.
        solver: The solver.
        n_jobs: Number of threads; all cores by default.
        log: The checkpoint; none by default.
        silent: Whether to leave out the warning about a hinge that is minimal at 0.
    """

    loss: Loss
    bound: BoundChoice = "auto"
    solver: Solver = field(default_factory=Auto)
    n_jobs: int | None = None
    log: Log | None = None
    silent: bool = False

    def from_start(self, scorer: Prepared, Cs: Sequence[float], start: Start | None) -> list[Fit]:
        """Minimize for several C from a starting point, or near it."""
        if start is None:
            return self.path(scorer, Cs)
        if start.theta.shape != (scorer.n_parameters,):
            warn(
                f"the previous fit has {len(start.theta)} parameters and this one {scorer.n_parameters}, so training "
                "starts from scratch"
            )
            return self.path(scorer, Cs)
        if start.model is not None and start.centered:
            return [self.with_bound_of(start.model).near(scorer, Cs[0], start.theta)]
        return self.path(scorer, Cs, start.theta)

    def with_bound_of(self, model: Model) -> LossMinimizer:
        """Return the minimization of the bound that a model was trained with; refuse another."""
        bound: Bound = "tight" if model.method.bound == "tight" else "hinge"
        requested = "tight" if isinstance(self.bound, Tight) else self.bound
        if requested not in ("auto", bound):
            raise ParameterError(
                f"the model was trained with the {bound} bound and ",
                Parameter("bound", requested),
                "; leave it out, or use fit",
            )
        return replace(self, loss=self.loss.bounded(bound))

    def path(self, scorer: Prepared, Cs: Sequence[float], start: FloatArray | None = None) -> list[Fit]:
        """Minimize ½‖θ‖² + C·risk(θ) for several C; under the tight bound ½‖θ − w0‖² + C·risk(θ)."""
        deadline = Deadline.after(self.solver.time_limit)
        # Two threads of BLAS for matrices as small as those of the solvers cost more than they bring.
        with one_blas_thread():
            if isinstance(self.bound, Tight):
                loss = self.loss.bounded("tight") if self.loss.convex else self.loss
                return replace(self, loss=loss)._descend(scorer, Cs, start, self.bound, deadline)
            loss = self.loss.bounded("hinge") if self.bound == "hinge" else self.loss
            if not loss.convex:
                return replace(self, loss=loss)._descend(scorer, Cs, start, Tight(), deadline)
            if isinstance(self.solver, ConcaveConvex):
                return replace(self, loss=loss.bounded("tight"))._descend(scorer, Cs, start, Tight(), deadline)
            return replace(self, loss=loss)._hinge(scorer, Cs, start, deadline)

    def _hinge(self, scorer: Prepared, Cs: Sequence[float], start: FloatArray | None, deadline: Deadline) -> list[Fit]:
        risk = self._risk(scorer)
        problem = checkpointed(risk, self.log, repr(self.loss))
        solver, has_tight = deadline.limit(self.solver).choose(problem), "tight" in self.loss.bounds
        check = _CollapseCheck(solver.callback, partial(_trial_of_idle, problem, scorer, Cs, deadline))
        checked = self.bound == "auto" and has_tight and start is None and isinstance(solver, Bundle)
        solutions = _solve(replace(solver, callback=check) if checked else solver, problem, Cs, start)
        at_zero = _risk_at_center(problem, solutions)
        trial = check.trial if check.tried else _trial_of_solved(problem, scorer, solutions, deadline)
        collapsed = trial is not None
        tried = max(*Cs, trial or 0.0)
        if collapsed and self.bound == "auto" and has_tight:
            silently = Parameter("bound", "tight"), " does so without this warning"
            self._warn(tried, ("training the tight bound instead; ", silently))
            limits = Auto(self.solver.tol, self.solver.max_iter, self.solver.time_limit, self.solver.callback)
            tight = replace(self, loss=self.loss.bounded("tight"), solver=limits)
            return tight._descend(scorer, Cs, None, Tight(), deadline, collapsed=True)
        if collapsed:
            fallback: Message = "train for another measure or feature map"
            advice = ("use ", Parameter("bound", "tight", "auto")) if has_tight else fallback
            self._warn(tried, ("the weights are near 0 and rank little; ", advice))
        origin, stream = np.zeros(scorer.n_parameters), StreamState(risk.weight)
        comparisons = [health(s, at_zero, s.C * at_zero, collapsed) for s in solutions]
        return [
            Fit(s, self.loss, "hinge", solver.name, compared, origin, stream)
            for s, compared in zip(solutions, comparisons, strict=True)
        ]

    def _descend(
        self,
        scorer: Prepared,
        Cs: Sequence[float],
        start: FloatArray | None,
        tight: Tight,
        deadline: Deadline,
        *,
        collapsed: bool = False,
    ) -> list[Fit]:
        """Minimize a loss that is not convex, near the w0 that training begins at."""
        risk = self._risk(scorer)
        risk.center = tight.center(scorer, deadline.limit(self.solver), self.n_jobs, self.log)
        solver = deadline.limit(self.solver)
        solver = _annealed(solver, tight.anneal) if tight.anneal else solver
        return self._near(risk, Cs, risk.center if start is None else start, solver, collapsed=collapsed)

    def near(self, scorer: Prepared, C: float, center: FloatArray) -> Fit:
        """Minimize ½‖θ − center‖² + C·risk(θ) for the loss as it is, from the center."""
        risk = self._risk(scorer)
        risk.center = center
        with one_blas_thread():
            return self._near(risk, [C], center, self.solver)[0]

    def _near(
        self,
        risk: RankingRisk | PartitionedRisk,
        Cs: Sequence[float],
        start: FloatArray,
        solver: Solver,
        *,
        collapsed: bool = False,
    ) -> list[Fit]:
        """Minimize near the center of the risk."""
        problem, center = checkpointed(risk, self.log, repr(self.loss)), risk.origin
        solver = solver.choose(problem)
        solutions = _solve(solver, problem, Cs, start)
        at_zero, _ = problem(np.zeros(risk.n_parameters))
        reference = 0.5 * float(center @ center)
        comparisons = [health(s, at_zero, reference + s.C * at_zero, collapsed) for s in solutions]
        bound, stream = bound_of(self.loss), StreamState(risk.weight, origin=center)
        return [
            Fit(s, self.loss, bound, solver.name, compared, center, stream)
            for s, compared in zip(solutions, comparisons, strict=True)
        ]

    def _risk(self, scorer: Prepared) -> RankingRisk | PartitionedRisk:
        """Return the risk; refuse queries without an order."""
        risk = ranking_risk(scorer, self.loss, self.n_jobs)
        if not risk.weight:
            raise DataError(NO_ORDER)
        return risk

    def _warn(self, tried: float, consequence: Message) -> None:
        fact = f"the hinge of {self.loss} is minimal at w = 0 on these queries, or nearly so, for C up to {tried:g}: "
        if not self.silent:
            warn(CollapseWarning(fact, consequence))


def bound_of(loss: Loss) -> Bound:
    """Return the bound of a loss."""
    return "hinge" if loss.bounded("hinge") == loss else "tight"


def _annealed(solver: Solver, anneal: int) -> Solver:
    """Return the concave-convex procedure with the limits of a solver; it alone goes from the hinge to the bound."""
    if isinstance(solver, Auto):
        solver = ConcaveConvex(solver.tol, time_limit=solver.time_limit, callback=solver.callback)
    if not isinstance(solver, ConcaveConvex):
        raise ParameterError(
            Parameter("anneal"), f" is for the solver 'cccp', and this one is {solver.name!r}; leave it out"
        )
    return replace(solver, anneal=anneal)


def _solve(solver: Solver, problem: Problem, Cs: Sequence[float], start: FloatArray | None) -> list[Solution]:
    return solver.path(problem, Cs, start) if len(Cs) > 1 else [solver.minimize(problem, Cs[0], start)]


class _CollapseCheck:
    """Tries a larger C if the first solution of a path makes no progress, and stops if the hinge has collapsed.

    A collapsed hinge takes hundreds of iterations to find the best parameters next to 0.

    Args:
        callback: Another callback, called first.
        trial: Given the objective, returns a large C for which the hinge has collapsed; None if it has not.
    """

    def __init__(self, callback: Callback | None, trial: Callable[[float], float | None]) -> None:
        self._callback, self._try = callback, trial
        self._n_steps, self._passes = 0, 0.0
        self.tried = False
        self.trial: float | None = None

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        """Count the iterations for the smallest C, and return whether to stop."""
        if self._callback is not None and self._callback(step, theta):
            return True
        self._n_steps = self._n_steps + 1 if step.passes >= self._passes else _PATIENCE + 1
        self._passes = step.passes
        if self._n_steps == _PATIENCE:
            self.trial, self.tried = self._try(step.primal), True
        return self.trial is not None


def _trial_of_idle(
    risk: Problem, scorer: Prepared, Cs: Sequence[float], deadline: Deadline, primal: float
) -> float | None:
    """Return a large C for which the hinge has collapsed, if the objective for the smallest C has hardly fallen."""
    if primal < COLLAPSED * min(Cs) * risk.risk_at_center:
        return None
    larger, trial = _try_larger(risk, scorer, max(Cs), deadline)
    if trial == "interrupted":
        raise KeyboardInterrupt
    return larger if trial == "collapsed" else None


def _trial_of_solved(
    risk: Problem, scorer: Prepared, solutions: Sequence[Solution], deadline: Deadline
) -> float | None:
    """Return a large C for which the hinge has collapsed, if 0 is as good as any parameters for every C requested."""
    hardest = max(solutions, key=lambda solution: solution.C)
    stopped = hardest.reason in ("callback", "interrupted", "time_limit")
    if stopped or hardest.primal < COLLAPSED * hardest.C * _risk_at_center(risk, solutions):
        return None
    larger, trial = _try_larger(risk, scorer, hardest.C, deadline)
    return larger if trial == "collapsed" else None


def _risk_at_center(problem: Problem, solutions: Sequence[Solution]) -> float:
    """Return the risk at the center, which most solvers have evaluated."""
    known = (solution.risk_at_center for solution in solutions if solution.risk_at_center is not None)
    return next(known, None) or problem.risk_at_center


def _try_larger(risk: Problem, scorer: Prepared, C: float, deadline: Deadline) -> tuple[float, str]:
    """Return a larger C, and whether the hinge has ``collapsed`` for it.

    What is large depends on the scale of the features, and on nothing else if C is small.
    """
    at_zero, spread = risk.risk_at_center, scorer.spread
    if at_zero <= 0 or spread == 0 or not risk.n_parameters:
        return C, "nothing to learn"
    larger = min(_LARGER * max(C, max(spread, 1e-45) ** -2), 1e100)
    objective_at_zero = larger * at_zero

    def decided(step: Step, theta: FloatArray) -> bool:  # noqa: ARG001
        return step.primal < COLLAPSED * objective_at_zero or step.dual >= _DECIDED * objective_at_zero

    solver = Bundle(tol=1e-3, max_iter=_TRIAL_ITERATIONS, time_limit=deadline.seconds_left, callback=decided)
    trial = solver.refine(risk, larger, PlaneModel(risk.n_parameters), n_parts=_TRIAL_PARTS)
    if trial.reason in ("interrupted", "time_limit"):
        return larger, trial.reason
    return larger, "collapsed" if trial.primal >= COLLAPSED * objective_at_zero else "learns"


def health(solution: Solution, at_zero: float, objective_at_zero: float, collapsed: bool = False) -> Health:
    """Compare a solution with θ = 0, given the risk and the objective there."""
    ratio = solution.primal / objective_at_zero if objective_at_zero > 0 else 1.0
    return Health(solution.risk, at_zero, ratio, float(np.linalg.norm(solution.theta)), collapsed)
