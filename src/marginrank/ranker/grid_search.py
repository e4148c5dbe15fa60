"""Search of the values of C and other parameters: training on splits, and evaluation on their held-out queries."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import numpy as np
from sklearn.base import clone

from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.criterion import Criterion
from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy
from marginrank.model.model import Model
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import resolve
from marginrank.ranker.selection import Candidate
from marginrank.runtime.option_objects import check_C, to_spec
from marginrank.runtime.threads import one_blas_thread, thread_count
from marginrank.runtime.tuned_constants import GIL_BOUND_NUMBERS
from marginrank.scorers.base import Scorer
from marginrank.solvers.auto import Auto
from marginrank.solvers.base import Callback
from marginrank.solvers.solution import Step
from marginrank.training.checkpoint import Log
from marginrank.training.loss_minimizer import NO_ORDER
from marginrank.training.plan import FitContext, Plan, Start
from marginrank.training.progress import Progress
from marginrank.training.tight_bound import Tight
from marginrank.training.trainer import train_path
from marginrank.typing import AnyArray, FloatArray

#: Ten values of C over six decades: raw features in [0, 1] need large ones, standardized features small ones.
DEFAULT_CS: Final = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 4, 10))
#: Largest C of the first path if the search goes up from the smallest; the others follow one by one.
_FIRST_PATH: Final = 1.0
#: Tolerance, and largest C, of the fits that scorers are compared by before curves are trained for the ranker's loss.
_COMPARISON_TOL: Final = 1e-3
_COMPARISON_C: Final = 100.0
#: C from which two values without improvement end an upward search, even if few queries cannot show that it got worse.
_LARGE_C: Final = 100.0


@dataclass(frozen=True)
class GridPoint:
    """Parameters to try, apart from C, with their ranker and its plan."""

    parameters: Mapping[str, Any]
    ranker: Ranker
    plan: Plan

    @property
    def stages_option(self) -> str | None:
        """The option of the scorer that early stopping chooses; None if there is none."""
        chosen = self.plan.loss is not None and not self.plan.capabilities.takes_C
        return self.plan.scorer.stages_option if chosen else None

    def with_stages(self, n_stages: int) -> GridPoint:
        """Return the grid point with a number of stages."""
        if self.stages_option is None:
            return self
        ranker: Ranker = clone(self.ranker).set_params(**{f"scorer__{self.stages_option}": n_stages})
        return replace(self, ranker=ranker, plan=resolve(ranker))


@dataclass(frozen=True)
class Trained:
    """A model of a grid point, and the value of the criterion for each held-out query.

    Weights are those of the held-out queries if their documents have weights.
    """

    grid_point: GridPoint
    model: Model
    values: FloatArray
    weights: FloatArray | None = None
    finished: bool = True

    @property
    def n_stages(self) -> int:
        """The number of stages of the model, which early stopping may have chosen."""
        solution = self.model.solution
        return 1 + [step.primal for step in solution.trace].index(solution.primal)


#: Candidates, each with a model of one split.
Candidates: TypeAlias = list[tuple[Candidate, Trained]]


def check_Cs(Cs: Iterable[float]) -> list[float]:
    """Return the distinct values of C in increasing order.

    >>> check_Cs([10, 0.1, 10.0])
    [0.1, 10.0]
    """
    if not isinstance(Cs, Iterable) or isinstance(Cs, str):
        raise TypeError(f"Cs is {Cs!r}; give a list of values of C, for example [0.1, 1, 10]")
    values = sorted({check_C(C) for C in Cs})
    if not values:
        raise ParameterError(Parameter("Cs"), " is empty; give at least one C")
    return values


@dataclass(frozen=True)
class GridSearch:
    """Training and evaluation of candidates.

    Args:
        splits: Training and held-out queries.
        Cs: Values of C, from the smallest up.
        selected_by: The criterion.
        limits: When the search stops.
        n_jobs: Number of threads.
    """

    splits: Sequence[tuple[AnyQueries, AnyQueries]]
    Cs: Sequence[float]
    selected_by: Criterion
    limits: SearchLimits
    n_jobs: int | None

    def train_grid(
        self, grid_points: Sequence[GridPoint], log: Log | None, *, compare_scorers: bool = False
    ) -> tuple[Candidates, list[Candidate]]:
        """Return the candidates of a grid, at least one, and the best of each scorer if they were compared by softmax.

        With ``compare_scorers``, the first scorer is trained, and of the others the best if softmax is clearly better
        with it.
        """
        if not compare_scorers or all(point.plan.loss is None or point.plan.loss.smooth for point in grid_points):
            return self._train_points(grid_points, log), []
        scorers = list(dict.fromkeys(point.plan.scorer for point in grid_points))
        candidates = self._train_points([point for point in grid_points if point.plan.scorer == scorers[0]], log)
        compared = self._compare_by_softmax(
            [next(point for point in grid_points if point.plan.scorer == scorer) for scorer in scorers], log
        )
        best = max(compared, key=lambda scorer: compared[scorer].mean, default=scorers[0])
        if best != scorers[0] and not self.limits.stopped and compared[best].clearly_better(compared[scorers[0]]):
            candidates += self._train_points([point for point in grid_points if point.plan.scorer == best], log)
        return candidates, list(compared.values())

    def _compare_by_softmax(self, grid_points: Sequence[GridPoint], log: Log | None) -> dict[Scorer, Candidate]:
        """Return the best candidate of each scorer if softmax is trained; of fewer scorers after a stop."""
        search = replace(self, Cs=[C for C in self.Cs if C <= _COMPARISON_C] or self.Cs[:1])
        softmax_log = None if log is None else log.log("softmax")
        compared: dict[Scorer, Candidate] = {}
        for point in grid_points:
            if self.limits.stopped:
                break
            softmax, solver = SoftmaxCrossEntropy(), Auto(tol=_COMPARISON_TOL)
            plan = replace(point.plan, loss=softmax, bound="hinge", solver=solver, silent=True)
            candidates = [candidate for candidate, _ in search._train_points([replace(point, plan=plan)], softmax_log)]
            compared[point.plan.scorer] = max(candidates, key=lambda candidate: candidate.mean)
        return compared

    def _train_points(self, grid_points: Sequence[GridPoint], log: Log | None) -> Candidates:
        """Train all values of C together, or upwards where large ones take long."""
        upwards = [point for point in grid_points if self._goes_up(point)]
        together = [point for point in grid_points if not self._goes_up(point)]
        candidates: Candidates = []
        if together:
            candidates += self._candidates(together, self.Cs, self._paths(together, self.Cs, log))
        for point in upwards:
            if not (self.limits.stopped and candidates):
                candidates += self._train_upwards(point, log)
        return candidates

    def _goes_up(self, point: GridPoint) -> bool:
        """Return whether a large C takes long: with curves, and with as many features as documents."""
        capabilities = point.plan.capabilities
        return (
            list(self.Cs) == list(DEFAULT_CS)
            and capabilities.takes_C
            and (self._wide or point.plan.scorer.slow_for_large_C)
        )

    @cached_property
    def _wide(self) -> bool:
        train = self.splits[0][0]
        return train.n_documents <= train.n_features

    def _train_upwards(self, point: GridPoint, log: Log | None) -> Candidates:
        """Train for larger and larger C, from the solution before, until two are no better."""
        candidates: Candidates = []
        first = 0.0 if self._wide else _FIRST_PATH
        groups = [[C for C in self.Cs if first >= C], *([C] for C in self.Cs if first < C)]
        best: Candidate | None = None
        n_worse = 0
        starts: list[Model | None] = [None] * len(self.splits)
        for Cs in filter(None, groups):
            group_log = None if log is None else log.log(f"{to_spec(dict(point.parameters))}, C to {Cs[-1]:g}")
            paths = self._paths([point], Cs, group_log, starts)
            trained = self._candidates([point], Cs, paths)
            if self.limits.stopped and candidates:
                break
            candidates += trained
            for candidate, _ in trained:
                better = best is None or candidate.mean > best.mean
                best, n_worse = (candidate, 0) if best is None or better else (best, n_worse + 1)
            # As long as C is small, results hardly change.
            large = self._wide or Cs[-1] >= _LARGE_C
            ends = n_worse >= 2 and best is not None and (large or best.clearly_better(trained[-1][0]))
            if ends or self.limits.stopped:
                break
            starts = [path[-1].model if path else None for path in paths]
        return candidates

    def _paths(
        self,
        grid_points: Sequence[GridPoint],
        Cs: Sequence[float],
        log: Log | None,
        starts: Sequence[Model | None] | None = None,
    ) -> list[list[Trained] | None]:
        """Train a path of C for every grid point and split; those that a stop left out are None."""
        tasks = [(grid_point, number) for grid_point in grid_points for number in range(len(self.splits))]
        threads = min(_thread_count(grid_points, self.splits, self.n_jobs), len(tasks))

        def work(task: int) -> list[Trained] | None:
            grid_point, split = tasks[task]
            if self.limits.stopped and task > 0:
                return None
            if threads > 1:
                grid_point = replace(grid_point, plan=replace(grid_point.plan, n_jobs=1))
            # Paths of other scorers are in the same log.
            task_log = None if log is None else log.log(f"{to_spec(dict(grid_point.parameters))}, split {split}")
            start = None if starts is None else starts[split]
            return self._train_on_split(grid_point, *self.splits[split], Cs_to_try(grid_point, Cs), task_log, start)

        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            try:
                return list(pool.map(work, range(len(tasks))))
            except KeyboardInterrupt:
                # Ctrl-C interrupts this thread only; the others end after their iteration.
                self.limits.stop()
                raise

    def _candidates(
        self, grid_points: Sequence[GridPoint], Cs: Sequence[float], trained: Sequence[list[Trained] | None]
    ) -> Candidates:
        """Return the candidates that were trained on every split, each with a model of one split; at least one."""
        n_splits = len(self.splits)
        finished: Candidates = []
        unfinished: Candidates = []
        for number, grid_point in enumerate(grid_points):
            paths = trained[number * n_splits : (number + 1) * n_splits]
            done = [path for path in paths if path is not None]
            for index, C in enumerate(Cs_to_try(grid_point, Cs)):
                folds = [path[index] for path in done if index < len(path)]
                if not folds:
                    continue
                # Models that were stopped, or are missing for some folds, say little about the candidate.
                complete = len(folds) == len(paths) and all(fold.finished for fold in folds)
                # Some of the folds that were stopped may not have begun.
                fold = folds[0] if complete else max(folds, key=lambda fold: fold.model.solution.n_iter)
                if grid_point.stages_option is not None:
                    n_stages = int(np.median([fold.n_stages for fold in folds]))
                    fold = replace(fold, grid_point=grid_point.with_stages(n_stages))
                candidate = _candidate({**grid_point.parameters, "C": C}, folds)
                (finished if complete else unfinished).append((candidate, fold))
        return finished or unfinished

    def _train_on_split(
        self,
        grid_point: GridPoint,
        train: AnyQueries,
        held_out: AnyQueries,
        Cs: Sequence[float],
        log: Log | None,
        start: Model | None,
    ) -> list[Trained]:
        """Train a path of C on one split and evaluate it on its held-out queries, or read it from the checkpoint.

        After a stop, the path ends with the C that was being trained.
        """
        limits, plan = self.limits, grid_point.plan
        weights = self.selected_by.query_weights(held_out)
        saved = None if log is None else load_finished(log, len(Cs), len(held_out))
        if saved is not None:
            return [Trained(grid_point, model, values, weights) for model, values in saved]
        running = None if log is None else log.part_of("running")
        limits.progress.begin(grid_point.parameters)
        context = FitContext(
            Cs,
            None if grid_point.stages_option is None else held_out,
            None if start is None or not plan.capabilities.continues else Start(start.theta, start),
            limits.seconds_left,
            limits,
            running if plan.capabilities.resumes else None,
        )
        try:
            models = train_path(plan if start is None else _with_bound_of(plan, start), train, context)
        except DataError as error:
            if len(self.splits) == 1 or error.message != (NO_ORDER,):
                raise
            raise DataError(
                "in a fold, every training query has a single document or a single grade, so there is nothing to "
                "learn; give more queries with documents of different grades, or validation queries"
            ) from None
        stopped_at = next((number for number, model in enumerate(models) if limits.cut_short(model)), None)
        # C grows along a path, so larger ones than the first that was stopped were not reached.
        models = models if stopped_at is None else models[: stopped_at + 1]
        results = [
            Trained(
                grid_point,
                model,
                self.selected_by.values(
                    held_out, grid_point.ranker.with_model(model, n_jobs=plan.n_jobs).predict(held_out), plan.n_jobs
                ),
                weights,
                not limits.cut_short(model),
            )
            for model in models
        ]
        if log is not None and running is not None and all(result.finished for result in results):
            save_finished(log, [(result.model, result.values) for result in results])
            running.finish()
        return results

    def train_on_all(self, final: Trained, queries: AnyQueries, log: Log | None) -> Model:
        """Train the selected candidate on all queries, with the bound that it was evaluated with."""
        plan, C = _with_bound_of(final.grid_point.plan, final.model), final.model.solution.C
        resumed = log if plan.capabilities.resumes else None
        self.limits.progress.begin(final.grid_point.parameters)
        context = FitContext((C,), time_limit=self.limits.seconds_left, callback=self.limits, log=resumed)
        (model,) = train_path(plan, queries, context)
        return model


class SearchLimits:
    """Stops the search after a time limit, or if the user's callback returns True; a callback of solvers."""

    def __init__(self, callback: Callback | None, time_limit: float, progress: Progress) -> None:
        self.callback, self.deadline, self.progress = callback, time.perf_counter() + time_limit, progress
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        """Whether the search has been stopped."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Stop the search."""
        self._stopped.set()

    @property
    def seconds_left(self) -> float:
        """The time until the deadline, in seconds."""
        return max(self.deadline - time.perf_counter(), 1e-9)

    def cut_short(self, model: Model) -> bool:
        """Return whether the search stopped the training of a model, rather than a limit of the ranker."""
        reason = model.solution.reason
        late = reason == "time_limit" and time.perf_counter() > self.deadline
        if late:
            self.stop()
        # Early stopping is a callback too.
        return late or reason == "interrupted" or (reason == "callback" and self.stopped)

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        """Return whether to stop, after an iteration of a solver."""
        if (self.callback is not None and self.callback(step, theta)) or time.perf_counter() > self.deadline:
            self.stop()
        return self.stopped


def _with_bound_of(plan: Plan, model: Model) -> Plan:
    """Return the plan with the tight bound if the hinge of a model collapsed: at a single large C it may not show."""
    return replace(plan, bound=Tight()) if plan.bound == "auto" and model.method.bound == "tight" else plan


def Cs_to_try(grid_point: GridPoint, Cs: Sequence[float]) -> list[float]:
    """Return the values of C to try; a method without C is the same for all."""
    return list(Cs) if grid_point.plan.capabilities.takes_C else [grid_point.plan.C]


def _thread_count(
    grid_points: Sequence[GridPoint], splits: Sequence[tuple[AnyQueries, AnyQueries]], n_jobs: int | None
) -> int:
    """Return the number of folds to train at a time."""
    # One ranker occupies all workers of a cluster, and their memory.
    if any(isinstance(queries, PartitionedQueries) for split in splits for queries in split):
        return 1
    train = splits[0][0]
    small = train.n_documents * train.n_features <= GIL_BOUND_NUMBERS
    if n_jobs is None and small and all(grid_point.plan.capabilities.gil_bound for grid_point in grid_points):
        return 1
    return thread_count(n_jobs)


def _candidate(parameters: Mapping[str, Any], folds: Sequence[Trained]) -> Candidate:
    values = np.concatenate([fold.values for fold in folds])
    weights = np.concatenate([np.ones(len(fold.values)) if fold.weights is None else fold.weights for fold in folds])
    counted = ~np.isnan(values) & (weights > 0)
    if not counted.any():
        raise DataError("no validation query has a relevant document; give more queries, or fewer folds")
    mean, standard_error = _mean(values[counted], weights[counted])
    solutions = [fold.model.solution for fold in folds]
    return Candidate(
        parameters,
        mean,
        standard_error,
        float(np.mean([solution.primal for solution in solutions])),
        float(np.mean([solution.risk for solution in solutions])),
        float(np.mean([np.linalg.norm(solution.theta) for solution in solutions])),
        float(np.mean([solution.passes for solution in solutions])),
        values,
    )


def _mean(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and its standard error, by linearization of the ratio of two sums.

    >>> _mean(np.array([1.0, 0.0]), np.array([3.0, 1.0]))       # √(2/1 · (3²·¼² + 1²·¾²)) / 4
    (0.75, 0.375)
    """
    mean = float(np.average(values, weights=weights))
    if len(values) < 2:
        return mean, 0.0
    spread = weights * (values - mean)
    return mean, float(np.sqrt(len(values) / (len(values) - 1) * (spread @ spread)) / weights.sum())


def save_finished(log: Log, results: Sequence[tuple[Model, FloatArray]]) -> None:
    """Save finished models in a checkpoint, each with the value of the criterion for each held-out query."""
    arrays: dict[str, AnyArray] = {}
    for number, (model, values) in enumerate(results):
        header = json.dumps(model.describe()).encode()
        arrays |= {f"{number}.header": np.frombuffer(header, dtype=np.uint8), f"{number}.values": values}
        arrays |= {f"{number}.array.{name}": array for name, array in model.arrays().items()}
    buffer = io.BytesIO()
    np.savez(buffer, **cast("Any", arrays))
    log.put(buffer.getvalue(), b"finished")


def load_finished(log: Log, n_models: int, n_queries: int) -> list[tuple[Model, FloatArray]] | None:
    """Read finished models from a checkpoint, with the values of the criterion; return None if there are none."""
    content = log.get(b"finished")
    if content is None:
        return None
    results = []
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for number in range(n_models):
            header, values = arrays.get(f"{number}.header"), arrays.get(f"{number}.values")
            if header is None or values is None or len(values) != n_queries:
                raise DataError("its models are not those of this search; remove the file", path=log.checkpoint.path)
            prefix = f"{number}.array."
            parts = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
            results.append((Model.from_parts(json.loads(header.tobytes()), parts), values))
    return results
