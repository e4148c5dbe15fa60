"""Training in stages, for staged scorers and baselines: selection of the best stage, and stopping."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np

from marginrank.data.partitions import AnyQueries, in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.errors import DataError, NumericalError, Parameter, ParameterError
from marginrank.losses.base import Bound, Loss
from marginrank.losses.score_risk import ScoreRisk
from marginrank.model.model import Health, Model
from marginrank.preparation.scaling import FittedScaling, scale
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.text import count
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.base import PreparedScorer
from marginrank.scorers.boosted.form import BoostedForm
from marginrank.scorers.form import NAN_ADVICE, Form, SumForm
from marginrank.scorers.linear.scorer import Linear
from marginrank.scorers.staged_scorer import GrownStage, Stage, StagedScorer, StageLimits, Towards
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Callback, Solver
from marginrank.solvers.solution import Reason, Solution, Step
from marginrank.training.early_stopping import EarlyStopping
from marginrank.training.loss_minimizer import NO_ORDER, Fit, LossMinimizer
from marginrank.training.plan import Capabilities, Deadline, FitContext, Plan
from marginrank.training.query_weighting import documents_to_learn_from
from marginrank.training.risk import RankingRisk
from marginrank.training.tight_bound import BoundChoice, Tight
from marginrank.training.trainer import make_models
from marginrank.typing import FloatArray


class PreparedLeaves(PreparedScorer):
    """Scores Zθ of the documents of given queries, where Z holds the leaves of each document, one per tree.

    >>> import numpy as np
    >>> from marginrank.scorers.boosted.form import Tree
    >>> stump = Tree(*np.array([[0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 0]]))
    >>> form, _ = BoostedForm.collect([stump, stump], [0, 0], n_features=1)
    >>> queries = Queries.from_arrays([[1.0], [2.0]], [1, 0], group=[2])
    >>> PreparedLeaves(queries, form).scores(np.array([1.0, 2.0, 10.0, 20.0])).tolist()
    [11.0, 22.0]

    Args:
        queries: The queries.
        trees: The trees.
        n_jobs: Number of threads.
    """

    def __init__(self, queries: Queries, trees: BoostedForm, n_jobs: int | None = None) -> None:
        n_trees = len(trees.roots)
        what = f"the leaves of {count(queries.n_documents, 'document')} in {count(n_trees, 'tree')}"
        check_memory(4 * queries.n_documents * n_trees, what, max_memory(), remedy="grow fewer trees")
        self.queries, self.form = queries, trees
        self.n_parameters = trees.n_parameters
        self._leaves = trees.leaves(queries.X, n_jobs)
        self.n_bytes = self._leaves.nbytes

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return the values of the leaves themselves."""
        return theta

    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the sums of the leaves of the rows from ``start`` to ``stop``."""
        from marginrank.scorers.boosted.trees_kernel import score_leaves  # noqa: PLC0415

        score_leaves(self._leaves, weights, scores, start, stop)

    def pull_back(self, gradient: FloatArray, gradient_sums: FloatArray, start: int, stop: int) -> None:
        """Add the gradient of each row to its leaves."""
        from marginrank.scorers.boosted.trees_kernel import add_gradients  # noqa: PLC0415

        add_gradients(self._leaves, gradient, start, stop, gradient_sums)

    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the sums themselves."""
        return gradient_sums


class LeafRefit:
    """Minimize ½‖θ − θ₀‖² + C·risk over the values θ of the leaves of all trees of a stage.

    θ₀ are the values that the leaves were grown with, or 0. What the trees were added to stays as it is. The parameters
    of the problem are θ − θ₀, so that solvers which want the regularizer to be minimal at 0 take it too.

    Args:
        stage: The grown trees, alone or on top of another model.
        risk: The risk that they were grown on.
        towards: ``grown`` or ``zero``.
        n_jobs: Number of threads.
    """

    def __init__(self, stage: Stage, risk: ScoreRisk, towards: Towards, n_jobs: int | None = None) -> None:
        trees = _trees(stage)
        if trees is None:
            raise TypeError(f"a {stage.form.kind} model has no leaves")
        prepared = PreparedLeaves(risk.queries, trees, n_jobs)
        self._stage = stage
        self._fixed, grown = np.split(stage.theta, [len(stage.theta) - trees.n_parameters])
        self._origin = grown if towards == "grown" else np.zeros_like(grown)
        self._start = grown - self._origin
        base = prepared.scores(self._origin)
        if isinstance(stage.form, SumForm):
            below = stage.form.parts[0]
            base = base + below.score(self._fixed, risk.queries.X, n_jobs)
        #: The problem, in θ − θ₀.
        self.problem = RankingRisk(prepared, risk.loss.definition, n_jobs, base=base)

    def minimize(self, C: float, solver: Solver) -> tuple[Stage, Solution]:
        """Return the stage with refitted leaves, and the solution with its certificate."""
        solution = solver.minimize(self.problem, C, self._start)
        theta = np.concatenate([self._fixed, self._origin + solution.theta])
        return Stage(self._stage.form, theta, solution.risk), replace(solution, theta=theta)


def has_leaves(stage: Stage) -> bool:
    """Return whether there is a tree; a model that trees were to be added to may be best without any."""
    return _trees(stage) is not None


def _trees(stage: Stage) -> BoostedForm | None:
    last = stage.form.parts[-1] if isinstance(stage.form, SumForm) else stage.form
    return last if isinstance(last, BoostedForm) else None


#: Tolerance of the model to start from, which the stages change anyway.
_START_TOL: Final = 1e-3


@dataclass
class StageSelection:
    """Decides after each stage whether to stop, and whether it is the best so far.

    Args:
        callback: Called after every stage; True stops.
        stopping: Early stopping, and the scaled validation queries; the best stage on them is selected.
        lowest: Without them, whether the stage of the lowest objective is selected; otherwise the last.
        n_jobs: Number of threads.
    """

    callback: Callback | None = None
    stopping: tuple[EarlyStopping, Queries] | None = None
    lowest: bool = False
    n_jobs: int | None = None
    _lowest: float = field(default=np.inf, init=False)
    _scores: FloatArray | None = field(default=None, init=False)

    @classmethod
    def of(
        cls, plan: Plan, scaling: FittedScaling[Any], context: FitContext, patience: int, *, lowest: bool = False
    ) -> StageSelection:
        """Select by the validation queries of a call, if there are any."""
        if context.validation is None:
            return cls(context.callback, lowest=lowest, n_jobs=plan.n_jobs)
        validation = in_memory(context.validation, plan.label)
        patience = patience if plan.patience is None else plan.patience
        stopping = EarlyStopping(validation, plan.criterion, patience, lambda theta: theta, context.callback)
        return cls(context.callback, (stopping, scaling.apply(validation)), lowest, plan.n_jobs)

    def __call__(self, step: Step, stage: Stage) -> tuple[bool, bool]:
        """Return whether to stop, and whether the stage is the best so far."""
        if self.stopping is None:
            keep = stage.objective < self._lowest if self.lowest else True
            self._lowest = min(self._lowest, stage.objective)
            return bool(self.callback is not None and self.callback(step, stage.theta)), keep
        stopper, ready = self.stopping
        scores = self._score(stage, ready)
        stopper.scores = lambda _: scores
        stop = stopper(step, stage.theta)
        return stop, stopper.best is not None and stopper.best[1] is stage.theta

    def _score(self, stage: Stage, queries: Queries) -> FloatArray:
        if not isinstance(stage, GrownStage):
            self._scores = stage.form.score(stage.theta, queries.X, self.n_jobs)
            return self._scores
        form, theta = stage.added
        added = form.score(theta, queries.X, self.n_jobs)
        self._scores = added if self._scores is None else self._scores + added
        return self._scores

    def prefers(self, stage: Stage, other: Stage) -> bool:
        """Return whether a stage is better than another on the validation queries; True if there are none."""
        if self.stopping is None:
            return True
        stopper, ready = self.stopping
        values = []
        for candidate in (stage, other):
            scores = candidate.form.score(candidate.theta, ready.X, self.n_jobs)
            stopper.scores = lambda _, scores=scores: scores  # type: ignore[misc]
            values.append(stopper.measure(candidate.theta))
        return values[0] > values[1]


def keep_best(
    stages: Iterator[Stage],
    setting: StageLimits,
    selection: StageSelection,
    name: str,
    *,
    end: Reason,
    at_once: bool = False,
) -> tuple[Stage, Solution]:
    """Train stage by stage, and return the best stage.

    Args:
        stages: The stages.
        setting: Their limits.
        selection: Selects the best stage, and decides when to stop.
        name: What is trained, for errors.
        end: The reason to stop if the stages come to an end.
        at_once: Whether all stages are trained together with the first, so that the rest take no time.
    """
    began = time.perf_counter()
    trace: list[Step] = []
    reason = end
    best: Stage | None = None
    try:
        for number, stage in enumerate(stages, 1):
            trace.append(Step(stage.objective, -np.inf, time.perf_counter() - began, number))
            stop, keep = selection(trace[-1], stage)
            best = stage if keep or best is None else best
            late = setting.late
            reason = "callback" if stop else "time_limit" if late else end
            if stop or (late and not at_once):
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        reason = "interrupted"
    if best is None:
        raise DataError(f"{name} found nothing to learn in these queries; look at them with `marginrank inspect`")
    theta = np.asarray(best.theta, dtype=np.float64)
    if not (np.isfinite(best.objective) and np.isfinite(theta).all()):
        raise NumericalError(f"the objective of {name} is {best.objective}; rescale the features, or the grades")
    return best, Solution(theta, setting.C, best.objective, -np.inf, best.objective, reason, tuple(trace))


class StagedTrainer:
    """Trains staged scorers: trees one after the other, networks epoch by epoch."""

    def capabilities(self, plan: Plan) -> Capabilities:
        """Return what this trainer can do with a plan."""
        scorer = plan.scorer
        return Capabilities(scorer.takes_nan, NAN_ADVICE, scorer.takes_sparse, scorer.takes_C)

    def train(self, plan: Plan, queries: AnyQueries, context: FitContext) -> list[Model]:
        """Train a model for each C; once, if the scorer has no use for it."""
        deadline = Deadline.after(min(plan.time_limit, context.time_limit))
        scorer = cast("StagedScorer", plan.scorer)
        if isinstance(plan.bound, Tight) and plan.bound != Tight():
            scorer = scorer.on_top_of(Linear(missing="mean"))
        # Sorted before they are scaled: means of the same rows in another order differ in the last digit.
        keep_rows = plan.needed_loss.depends_on_rows
        ordered = in_canonical_order(in_memory(queries, plan.label), keep_rows=keep_rows)
        scaling = scale(ordered, plan.scaling, matters=scorer.scale_matters, before=scorer.before_scaling)
        selection = StageSelection.of(plan, scaling, context, scorer.patience, lowest=True)
        limits = StageLimits(1.0, deadline.at, plan.seed, plan.n_jobs)
        growth = _Growth(scorer, plan.needed_loss, plan.bound, limits)
        ready = documents_to_learn_from(scaling.queries, plan.weighting, plan.unjudged)
        fits = growth.path(ready, context.Cs, selection)
        return make_models(plan, queries, scaling, fits)


@dataclass(frozen=True)
class _Growth:
    """Minimization of a loss by a staged scorer.

    Args:
        scorer: The scorer.
        loss: The loss.
        bound: ``auto`` and ``hinge`` minimize the loss as it is or its hinge, a `Tight` the tight bound.
        setting: The limits; its C is replaced.
    """

    scorer: StagedScorer
    loss: Loss
    bound: BoundChoice
    setting: StageLimits

    def path(self, queries: Queries, Cs: Sequence[float], selection: StageSelection) -> list[tuple[Form, Fit]]:
        """Train for each C; once, if the scorer has no use for it."""
        loss, bound = self._bounded()
        if self.scorer.refits is not None and not loss.convex:
            raise ParameterError(
                f"{loss} is not convex, so no solver refits the leaves; use ",
                Parameter("bound", "hinge"),
                ", or no refit",
            )
        risk = ScoreRisk(loss, queries, self.setting.n_jobs)
        if not risk.weights.any():
            raise DataError(NO_ORDER)
        fits: list[tuple[Form, Fit]] = []
        # Only the start and the refit have a C, unless the stages have one of their own.
        again = self.scorer.takes_C and (self.scorer.refits is None or self.scorer.start_scorer is not None)
        for C in Cs:
            setting = replace(self.setting, C=C)
            # Two threads of BLAS for matrices as small as those of a batch cost more than they bring.
            with one_blas_thread():
                if not fits or again:
                    stages = self._stages(risk, setting)
                    best, grown = keep_best(stages, setting, replace(selection), str(self.scorer), end="max_iter")
                    if grown.reason == "max_iter" and grown.n_iter < (self.scorer.max_stages or 0):
                        grown = replace(grown, reason="stationary")
                    refit = self._refit(best, grown, risk)
                stage, solution, name = best, replace(grown, C=C), self.scorer.name
                if refit is not None:
                    solver = Auto(time_limit=setting.seconds_left).choose(refit.problem)
                    better, refitted = refit.minimize(C, solver)
                    if selection.prefers(better, best):
                        stage, solution, name = better, refitted, solver.name
            origin = np.zeros(len(solution.theta))
            fits.append((stage.form, Fit(solution, loss, bound, name, _health(solution, risk), origin)))
        return fits

    def _refit(self, stage: Stage, grown: Solution, risk: ScoreRisk) -> LeafRefit | None:
        """Return the refit of the leaves; None if there is none, or if growing them was cut short."""
        cut_short = grown.reason in ("time_limit", "interrupted")
        if self.scorer.refits is None or cut_short or not has_leaves(stage):
            return None
        return LeafRefit(stage, risk, self.scorer.refits, self.setting.n_jobs)

    def _stages(self, risk: ScoreRisk, setting: StageLimits) -> Iterator[Stage]:
        """Train the model to start from, if there is one, and the stages on top of it."""
        start = self.scorer.start_scorer
        if start is None:
            yield from self.scorer.stages(risk, setting)
            return
        prepared = start.prepare(risk.queries, setting.n_jobs)
        solver = Auto(tol=_START_TOL, time_limit=setting.seconds_left)
        if isinstance(self.bound, Tight) and self.bound != Tight():
            theta = self.bound.center(prepared, solver, setting.n_jobs)
        else:
            training = LossMinimizer(self.loss.bounded("hinge"), "hinge", solver, setting.n_jobs)
            theta = training.path(prepared, [setting.C])[0].solution.theta
        started = risk.starting_at(prepared.scores(theta))
        yield Stage(prepared.form, theta, risk(started.start)[0])
        for stage in self.scorer.stages(started, setting):
            yield _on_top(prepared.form, theta, stage)

    def _bounded(self) -> tuple[Loss, Bound]:
        if isinstance(self.bound, Tight):
            if self.bound != Tight() and (self.scorer.start_scorer is None or self.bound.anneal):
                raise ParameterError(
                    f"the {self.scorer.name} scorer starts on its own; use ",
                    Parameter("bound", "tight"),
                    " without options",
                )
            return self.loss.bounded("tight") if self.loss.convex else self.loss, "tight"
        loss = self.loss.bounded("hinge") if self.bound == "hinge" else self.loss
        return loss, "hinge" if loss.bounded("hinge") == loss else "tight"


def _on_top(form: Form, theta: FloatArray, stage: Stage) -> Stage:
    """Return a stage with the model that it started from."""
    both = np.concatenate([theta, stage.theta])
    if isinstance(stage, GrownStage):
        return GrownStage(lambda: SumForm((form, stage.form)), both, stage.objective, stage.added)
    return Stage(SumForm((form, stage.form)), both, stage.objective)


def _health(solution: Solution, risk: ScoreRisk) -> Health:
    at_zero = risk.at_zero
    ratio = solution.risk / at_zero if at_zero > 0 else 1.0
    return Health(solution.risk, at_zero, ratio, float(np.linalg.norm(solution.theta)), False)
