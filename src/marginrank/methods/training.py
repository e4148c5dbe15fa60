"""From a scorer and a loss to parameters: which solver, which bound, and whether the result is healthy."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from threadpoolctl import threadpool_limits

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.losses.base import Bound, Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.pointwise import SquaredError
from marginrank.methods.baselines.base import Baseline, Setting, Stage
from marginrank.methods.presets import Start
from marginrank.methods.weighting import ordered_queries
from marginrank.risk import RankingRisk
from marginrank.scorers.base import Scorer
from marginrank.scorers.forms import Form
from marginrank.solvers.bundle import Bundle
from marginrank.solvers.concave_convex import ConcaveConvex
from marginrank.solvers.frank_wolfe import FrankWolfe
from marginrank.solvers.n_slack import NSlack
from marginrank.solvers.newton import Newton
from marginrank.solvers.planes import PlaneModel
from marginrank.solvers.progress import Callback, along
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.solvers.subgradient import Subgradient
from marginrank.typing import FloatArray, IntArray

SolverName: TypeAlias = Literal[
    "auto", "bundle", "frank-wolfe", "n-slack", "subgradient", "conjugate-subgradient", "newton", "cccp"
]
#: A hinge whose objective stays above this share of the objective at 0, for any C, has collapsed.
COLLAPSED: Final = 0.999
#: How much larger a C is tried before a hinge counts as collapsed: a small C alone also leaves the objective high.
_MUCH: Final = 1000.0
_NO_ORDER: Final = (
    "no query carries an order, each has one sample or one grade; give queries with documents of different grades"
)
_STARTS: Final[Mapping[Start, Loss]] = {"ranksvm": PairwiseHinge(power=2), "regression": SquaredError()}


class CollapseWarning(UserWarning):
    """The hinge of a loss is least at 0, so that it teaches nothing."""


@dataclass(frozen=True)
class Health:
    """Whether a loss and its feature map got along with the data; Chakrabarti et al. (KDD 2008) §4.2.

    Args:
        average_slack: The risk: mean of ξ over the queries that carry an order.
        slack_at_zero: The same at parameters 0, where all scores are the same.
        objective_ratio: The objective over the objective at 0; 1 means that nothing was learned.
        norm: ‖θ‖.
        collapsed: Whether the hinge was found to be least at 0 for any C.
    """

    average_slack: float
    slack_at_zero: float
    objective_ratio: float
    norm: float
    collapsed: bool


@dataclass(frozen=True)
class Fit:
    """Parameters for one C, how they were found, and how healthy they are; a baseline has no bound, solver, health."""

    form: Form
    solution: Solution
    bound: Bound | None
    solver: SolverName | None
    health: Health | None
    center: FloatArray


@dataclass(frozen=True)
class Options:
    """How to train; see `Ranker` for what each means."""

    solver: SolverName = "auto"
    bound: Bound | Literal["auto"] = "auto"
    start: Start | FloatArray = "ranksvm"
    start_C: float = 100.0  # noqa: N815
    anneal: int = 0
    tol: float = 1e-4
    max_iter: int = 1000
    time_limit: float = np.inf
    callback: Callback | None = None
    random_state: int | None = None
    n_jobs: int | None = None
    signs: IntArray | None = None
    warm: FloatArray | None = None
    limits: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        shared = {name: getattr(self, name) for name in ("tol", "max_iter", "time_limit", "callback")}
        object.__setattr__(self, "limits", shared)


def train_path(scorer: Scorer, loss: Loss, Cs: Sequence[float], options: Options) -> list[Fit]:
    """Minimise ½‖θ‖² + C·risk(θ) for several C; under the tight bound ½‖θ − w0‖² + C·risk(θ), with w0 a first guess.

    With ``bound="auto"`` the hinge is trained, and where it turns out to be least at 0 the tight bound, with a warning.
    """
    # Two threads of BLAS for matrices as small as those of the solvers cost more than they bring.
    with threadpool_limits(1, "blas"):
        if options.bound == "tight" or (options.bound == "auto" and not loss.convex) or options.solver == "cccp":
            return _tight_path(scorer, loss, Cs, options, collapsed=False)
        convex = loss.bounded("hinge")
        risk = RankingRisk(scorer, convex, options.n_jobs)
        if not risk.weights.any():
            raise DataError(_NO_ORDER)
        name = _choose(convex, options)
        solutions = _SOLVE[name](risk, Cs, options)
        at_zero, _ = risk(np.zeros(scorer.n_parameters))
        collapsed = _collapsed(risk, solutions, at_zero, options)
        if collapsed and options.bound == "auto" and _has_tight(loss):
            _warn(loss, "the tight bound is trained instead; bound='tight' does so without this warning")
            return _tight_path(scorer, loss, Cs, options, collapsed=True)
        if collapsed:
            advice = "use bound='tight' or 'auto'" if _has_tight(loss) else "train for another measure or feature map"
            _warn(loss, f"the parameters are near 0 and rank nothing; {advice}")
        origin = np.zeros(scorer.n_parameters)
        return [
            Fit(scorer.form, s, "hinge", name, _health(s, at_zero, s.C * at_zero, collapsed), origin) for s in solutions
        ]


#: Called with every stage of a baseline; says whether to keep it, and whether to stop.
Report: TypeAlias = Callable[[Step, Stage], tuple[bool, bool]]


def train_baseline(
    baseline: Baseline, queries: Queries, Cs: Sequence[float], setting: Setting, report: Report, time_limit: float
) -> list[Fit]:
    """Train a baseline for several C; one without a C is trained once, and is the same for all.

    The stage that was last to be kept is the result. Ctrl-C ends training with it, as in the solvers.
    """
    baseline.check(queries)
    if not ordered_queries(queries).any():
        raise DataError(_NO_ORDER)
    if baseline.takes_C:
        return [_by_stages(baseline, queries, replace(setting, C=C), report, time_limit) for C in Cs]
    once = _by_stages(baseline, queries, setting, report, time_limit)
    return [replace(once, solution=replace(once.solution, C=C)) for C in Cs]


def _by_stages(baseline: Baseline, queries: Queries, setting: Setting, report: Report, time_limit: float) -> Fit:
    if not (setting.C > 0 and np.isfinite(setting.C)):
        raise ValueError(f"C is {setting.C}; it must be a number above 0")
    began = time.perf_counter()
    setting = replace(setting, deadline=began + time_limit)
    trace: list[Step] = []
    reason: Reason = "converged"
    kept: Stage | None = None
    try:
        for number, stage in enumerate(baseline.stages(queries, setting), 1):
            kept = kept or stage
            trace.append(Step(stage.objective, -np.inf, time.perf_counter() - began, number))
            keep, stop = report(trace[-1], stage)
            kept = stage if keep else kept
            late = trace[-1].seconds > time_limit
            reason = "callback" if stop else "time_limit" if late else "converged"
            if stop or (late and not baseline.at_once):
                break
    except KeyboardInterrupt:
        if kept is None:
            raise
        reason = "interrupted"
    if kept is None:
        raise DataError(f"{baseline} found nothing to learn in these queries; look at them with `marginrank inspect`")
    figures = kept.objective, -np.inf, kept.objective
    solution = Solution(kept.theta, setting.C, *figures, reason, tuple(trace))
    return Fit(kept.form, solution, None, None, None, np.zeros_like(kept.theta))


def _choose(loss: Loss, options: Options) -> SolverName:
    if options.solver != "auto":
        if options.solver not in _SOLVE:
            raise ValueError(f"unknown solver {options.solver!r}; choose auto, {', '.join(_SOLVE)} or cccp")
        if options.signs is not None and options.solver != "bundle":
            raise ValueError(f"solver {options.solver!r} knows no signs of weights; use 'bundle' or 'auto'")
        if options.solver == "newton" and not loss.smooth:
            raise ValueError(f"solver 'newton' needs a smooth loss, and {loss} has kinks; use 'bundle' or 'auto'")
        return options.solver
    return "newton" if loss.smooth and options.signs is None else "bundle"


def _bundle(risk: RankingRisk, Cs: Sequence[float], options: Options) -> list[Solution]:
    solver = Bundle(**options.limits)
    if len(Cs) > 1:
        return list(solver.path(risk.parts, risk.n_parameters, Cs, signs=options.signs))
    return [solver.minimize(risk.parts, risk.n_parameters, Cs[0], start=options.warm, signs=options.signs)]


def _newton(risk: RankingRisk, Cs: Sequence[float], options: Options) -> list[Solution]:
    solver = Newton(**options.limits)
    if len(Cs) > 1:
        return list(solver.path(risk, risk.n_parameters, Cs))
    return [solver.minimize(risk, risk.n_parameters, Cs[0], start=options.warm)]


def _one_by_one(make: Callable[[Options], Any]) -> Callable[[RankingRisk, Sequence[float], Options], list[Solution]]:
    """Solve for each C on its own, from the smallest up, each from the solution before."""

    def solve(risk: RankingRisk, Cs: Sequence[float], options: Options) -> list[Solution]:
        def one(solver: Any, C: float, before: Solution | None) -> Solution:
            start = options.warm if before is None else before.theta
            return cast("Solution", solver.minimize(risk, risk.n_parameters, C, start=start))

        return along(make(options), Cs, one)

    return solve


_SOLVE: Final[Mapping[SolverName, Callable[[RankingRisk, Sequence[float], Options], list[Solution]]]] = {
    "bundle": _bundle,
    "newton": _newton,
    "frank-wolfe": _one_by_one(lambda options: FrankWolfe(**options.limits, random_state=options.random_state)),
    "n-slack": _one_by_one(lambda options: NSlack(**options.limits)),
    "subgradient": _one_by_one(lambda options: Subgradient(**options.limits)),
    "conjugate-subgradient": _one_by_one(lambda options: Subgradient(**options.limits, conjugate=True)),
}


def _tight_path(scorer: Scorer, loss: Loss, Cs: Sequence[float], options: Options, *, collapsed: bool) -> list[Fit]:
    if options.solver not in ("auto", "cccp") and not collapsed:
        raise ValueError(f"solver {options.solver!r} is for the hinge; the tight bound takes 'cccp' or 'auto'")
    convex = RankingRisk(scorer, loss.bounded("hinge"), options.n_jobs)
    tight = RankingRisk(scorer, loss.bounded("tight"), options.n_jobs)
    if not tight.weights.any():
        raise DataError(_NO_ORDER)
    center = first_guess(scorer, options)
    solver = ConcaveConvex(**options.limits | {"max_iter": min(options.max_iter, 50)}, anneal=options.anneal)
    start = center if options.warm is None else options.warm
    solutions = solver.path(
        convex.parts, tight, scorer.n_parameters, Cs, start=start, center=center, signs=options.signs
    )
    at_zero, _ = tight(np.zeros(scorer.n_parameters))
    reference = 0.5 * float(center @ center)
    healths = [_health(s, at_zero, reference + s.C * at_zero, collapsed) for s in solutions]
    return [Fit(scorer.form, s, "tight", "cccp", health, center) for s, health in zip(solutions, healths, strict=True)]


def first_guess(scorer: Scorer, options: Options) -> FloatArray:
    """What training under the tight bound begins at and stays near: a RankSVM, a regression, or parameters given."""
    if not isinstance(options.start, str):
        given = np.asarray(options.start, dtype=np.float64)
        if given.shape != (scorer.n_parameters,):
            raise DataError(f"start has shape {given.shape} for {scorer.n_parameters} parameters; give one number each")
        return given
    if options.start not in _STARTS:
        raise ValueError(f"start is {options.start!r}; choose {', '.join(_STARTS)}, or give the weights")
    risk = RankingRisk(scorer, _STARTS[options.start], options.n_jobs)
    if options.signs is None:
        return Newton(tol=1e-3).minimize(risk, scorer.n_parameters, options.start_C).theta
    return Bundle(tol=1e-3).minimize(risk.parts, scorer.n_parameters, options.start_C, signs=options.signs).theta


def _collapsed(risk: RankingRisk, solutions: Sequence[Solution], at_zero: float, options: Options) -> bool:
    """Whether 0 is as good as any parameters, for the C asked for and for a much larger one."""
    hardest = max(solutions, key=lambda solution: solution.C)
    if at_zero <= 0 or hardest.reason == "interrupted" or hardest.primal < COLLAPSED * hardest.C * at_zero:
        return False
    much = _MUCH * hardest.C
    model = PlaneModel(risk.n_parameters)
    tried = Bundle(tol=1e-3, max_iter=50).minimize(
        risk.parts, risk.n_parameters, much, model=model, signs=options.signs
    )
    return bool(tried.primal >= COLLAPSED * much * at_zero)


def _health(solution: Solution, at_zero: float, objective_at_zero: float, collapsed: bool) -> Health:
    ratio = solution.primal / objective_at_zero if objective_at_zero > 0 else 1.0
    return Health(solution.risk, at_zero, ratio, float(np.linalg.norm(solution.theta)), collapsed)


def _has_tight(loss: Loss) -> bool:
    try:
        loss.bounded("tight")
    except ValueError:
        return False
    return True


def _warn(loss: Loss, consequence: str) -> None:
    warnings.warn(
        f"the hinge of {loss} is least at weights 0 on these queries, whatever C is: {consequence}",
        CollapseWarning,
        stacklevel=4,
    )
