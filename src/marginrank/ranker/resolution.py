"""Resolution of a ranker's parameters into a plan; spellings are parsed here only."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from marginrank.data.unjudged import check_unjudged
from marginrank.errors import DataError
from marginrank.evaluation.criterion import Criterion
from marginrank.losses.base import Loss
from marginrank.methods.baselines.base import Baseline
from marginrank.methods.presets import DEFAULT, ResolvedMethod, loss_for, parse_method
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.option_objects import check_C, check_seed, seconds, to_spec
from marginrank.scorers.base import Scorer, parse_scorer
from marginrank.scorers.linear.scorer import Linear
from marginrank.scorers.staged_scorer import StagedScorer
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Solver, parse_solver
from marginrank.training.convex import ConvexTrainer
from marginrank.training.early_stopping import check_patience
from marginrank.training.plan import Plan
from marginrank.training.staged import StagedTrainer
from marginrank.training.tight_bound import BoundChoice, Tight, parse_bound
from marginrank.training.trainer import Trainer

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker

#: Parameters that change nothing in a model.
_NOT_SAVED: Final = ("n_jobs", "verbose")


@dataclass(frozen=True)
class NotInFile:
    """A parameter that a model file could not hold."""

    reason: str


def resolve(ranker: Ranker) -> Plan:
    """Return the plan that the parameters of a ranker stand for; refuse those that contradict each other."""
    method = resolve_method(ranker)
    scorer, solver = parse_scorer(ranker.scorer), parse_solver(ranker.solver)
    trainer, label = _trainer(method, scorer)
    bound, seed = resolve_bound(ranker, method), check_seed(ranker.random_state)
    if ranker.bound is None and isinstance(bound, Tight) and isinstance(scorer, StagedScorer):
        # Networks start on their own, and not where a preset says.
        bound = bound if scorer.on_top_of(Linear()).start_scorer else Tight()
    plan = Plan(
        trainer=trainer,
        label=label,
        criterion=Criterion.parse(method.criterion, unjudged=check_unjudged(ranker.unjudged)),
        loss=method.loss,
        bound=bound,
        scorer=scorer,
        solver=_seeded(solver, seed),
        scaling=ranker.scaling,
        weighting=ranker.weighting,
        unjudged=check_unjudged(ranker.unjudged),
        C=check_C(ranker.C),
        seed=seed,
        time_limit=seconds(ranker.time_limit),
        patience=None if ranker.patience is None else check_patience(ranker.patience),
        n_jobs=ranker.n_jobs,
        preset=method.preset,
        parameters=parameter_specs(ranker),
    )
    _check_meaning(ranker, plan, solver)
    return plan


def resolve_method(ranker: Ranker) -> ResolvedMethod:
    """Return the loss or the baseline that a ranker trains."""
    for name, value in ranker.get_params(deep=False).items():
        if isinstance(value, NotInFile):
            raise DataError(f"{value.reason}; set it with set_params({name}=...) before fitting again")
    chosen = [name for name in ("method", "measure", "loss") if getattr(ranker, name) is not None]
    if len(chosen) > 1:
        raise ValueError(f"give one of method, measure and loss, not {' and '.join(chosen)}")
    if ranker.loss is not None:
        if not isinstance(ranker.loss, Loss):
            raise TypeError(f"loss is {ranker.loss!r}; give a Loss such as StructuredLoss('ap'), or use measure")
        return ResolvedMethod(ranker.loss)
    if ranker.measure is not None:
        return ResolvedMethod(loss_for(ranker.measure))
    if ranker.method is not None:
        return parse_method(ranker.method)
    return replace(parse_method(DEFAULT), judged_by=DEFAULT_MEASURE)


def resolve_bound(ranker: Ranker, method: ResolvedMethod) -> BoundChoice:
    """Return the bound of a ranker; by default that of the preset."""
    return method.bound if ranker.bound is None else parse_bound(ranker.bound)


def parameter_specs(ranker: Ranker) -> dict[str, Any]:
    """Describe the parameters of a ranker in plain values, for model files and checkpoints."""
    specs = {}
    for name, value in ranker.get_params(deep=False).items():
        if name in _NOT_SAVED:
            continue
        try:
            specs[name] = to_spec(value)
        except TypeError as error:
            specs[name] = {"kind": "unknown", "reason": f"{name}: {error}"}
    return specs


def _trainer(method: ResolvedMethod, scorer: Scorer) -> tuple[Trainer, str]:
    """Return the trainer, and its name in messages."""
    if method.baseline is not None:
        return method.baseline, method.preset or type(method.baseline).__name__
    return StagedTrainer() if isinstance(scorer, StagedScorer) else ConvexTrainer(), f"the {scorer.name} scorer"


def _seeded(solver: Solver, seed: int | None) -> Solver:
    """Return the solver with the seed of the ranker, drawn at random if that is None, unless the solver has a seed."""
    if solver.get_params().get("random_state", 0) is not None:
        return solver
    drawn = secrets.randbelow(1 << 31) if seed is None else seed
    return solver.with_params(random_state=drawn)


def _check_meaning(ranker: Ranker, plan: Plan, solver: Solver) -> None:
    """Refuse parameters that do not apply to the method."""
    is_baseline, is_staged = isinstance(plan.trainer, Baseline), isinstance(plan.trainer, StagedTrainer)
    set_names = [name for name, is_set in (("solver", solver != Auto()), ("warm_start", ranker.warm_start)) if is_set]
    if is_baseline and (ranker.bound is not None or set_names):
        name = "bound" if ranker.bound is not None else set_names[0]
        raise ValueError(f"{name} is for methods with a loss, and {plan.label} is a baseline; leave it out")
    if is_baseline and plan.scorer != Linear() and not plan.trainer.takes_scorer:  # type: ignore[attr-defined]
        raise ValueError(f"{plan.label} has its own form; leave out scorer")
    if is_staged and set_names:
        raise ValueError(
            f"{set_names[0]} is for scorers that a solver trains, and {plan.scorer.name} is not; leave it out"
        )
