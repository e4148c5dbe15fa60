"""`tune`: selection of C and other parameters on held-out queries."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from marginrank.data.grouping import join
from marginrank.data.inputs import QuerySource, Validation, as_queries, opened, validation_parts
from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.data.unjudged import check_unjudged
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.criterion import Criterion
from marginrank.evaluation.policies import Policy
from marginrank.model.model import Model
from marginrank.preparation.base import refuse_empty
from marginrank.ranker.argument_checks import warn_of_ties
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import parameter_specs, resolve, resolve_method
from marginrank.ranker.selection import Candidate, Rule, Selection
from marginrank.runtime.option_objects import check_C, check_seed, seconds, to_spec
from marginrank.runtime.text import suggest
from marginrank.runtime.threads import one_blas_thread, thread_count
from marginrank.runtime.tuned_constants import GIL_BOUND_NUMBERS
from marginrank.scorers.base import CHOSEN, scorers_to_try
from marginrank.solvers.base import Callback
from marginrank.solvers.solution import Step
from marginrank.training.checkpoint import Log, checkpoint_log, identifying_parameters
from marginrank.training.plan import FitContext, Plan
from marginrank.training.progress import Progress, shown
from marginrank.training.tight_bound import Tight
from marginrank.training.trainer import train_path
from marginrank.typing import AnyArray, FloatArray

#: Ten values of C over six decades: raw features in [0, 1] need large ones, standardised features small ones.
DEFAULT_CS: Final = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 4, 10))


def tune(
    ranker: Ranker,
    X: AnyQueries | QuerySource | npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    valid: Validation | None = None,
    folds: int | None = None,
    Cs: Iterable[float] = DEFAULT_CS,
    grid: Mapping[str, Iterable[Any]] | None = None,
    criterion: str | None = None,
    policy: str | Policy = "standard",
    rule: Rule = "best",
    callback: Callback | None = None,
    time_limit: float | None = None,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    verbose: bool | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> Selection:
    """Choose C and other parameters of a ranker by a measure on held-out queries.

    For each combination of the other parameters, one path of C is trained, so ten values of C take little longer than
    the hardest of them. A baseline without C is trained once. Boosted trees have no C either: unless they are given,
    8 and 31 leaves and learning rates of 0.03 and 0.1 are tried, and early stopping on the held-out queries chooses the
    number of trees; with folds, the final one has the median of their numbers.

    Args:
        ranker: The ranker to train; its C is ignored. With ``scorer="auto"``, linear and additive scorers are tried.
        X: Training queries, in this process or distributed, a log of clicks with propensities, or features with one
            row per document.
        y: Grades of the rows.
        qid: The query of each row, in any order.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        valid: Validation queries, or (X, y, qid). Without them, candidates are cross-validated, and the ranker is
            finally trained on all queries.
        folds: Number of cross-validation folds; 5 by default without validation queries.
        Cs: Values of C. By default ten from 0.01 to 10,000; with at least as many features as documents, where large
            ones take long and overfit, the search goes up from the smallest, and ends after two that do not improve.
        grid: Other parameters of the ranker to try, each with its values, for example ``{"scorer__bins": [64, 255]}``
            or ``{"loss__feature_map": ["dorm", "dorm(shape=log)"]}``.
        criterion: The measure, or mix of measures, to select by; by default that of the ranker. On clicks, and other
            queries with document weights, DCG instead of measures that these do not estimate without bias.
        policy: How ties and queries without relevant documents are scored.
        rule: ``best`` takes the highest mean; ``one-se`` the smallest C whose mean is within one standard error of it,
            with the other parameters of the best.
        callback: Called after every iteration of every solver with the `Step` and the best parameters so far, from
            several threads at a time; if it returns True, the search stops and returns the best so far.
        time_limit: Maximum duration of the search, in seconds.
        random_state: Seed of the folds, which do not depend on the order of the queries.
        n_jobs: Number of folds to train in parallel; by default one for a linear scorer on small data, where more would
            wait for each other, and otherwise all cores.
        verbose: Whether to show progress, with the setting; by default as the ranker does.
        checkpoint: A file that finished candidates and the state of the others are written to, every few seconds.
        resume: Continue from the checkpoint if it exists; the result is the same as without the interruption.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3))
    >>> y = (X @ [1.0, -1.0, 0.0] + rng.standard_normal(600) > 1).astype(int)
    >>> from marginrank import Ranker
    >>> selection = tune(Ranker("svmmap"), X, y, qid=np.arange(600) // 10, folds=3, Cs=[0.1, 1.0, 10.0])
    >>> selection.best.mean > 0.6, selection.ranker.C == selection.best.parameters["C"]
    (True, True)
    """
    if rule not in ("best", "one-se"):
        raise ParameterError(Parameter("rule"), f" is {rule!r}; choose 'best' or 'one-se'")
    if valid is not None and folds is not None:
        raise ValueError("give validation queries or a number of folds, not both")
    if not isinstance(ranker, Ranker):
        raise TypeError(f"tune takes a ranker first, not {ranker!r:.60}; give for example Ranker('ndcg@10')")
    values = check_Cs(Cs)
    queries, held_out = _queries(ranker, X, y, qid, group, valid)
    full_grid = _full_grid(ranker, grid or {}, queries)
    grid_points = _grid_points(ranker, full_grid)
    judged_by, unjudged = queries if held_out is None else held_out, check_unjudged(ranker.unjudged)
    selected_by = Criterion.parse(criterion or resolve_method(ranker).criterion, policy, unjudged=unjudged)
    selected_by = selected_by.for_queries(judged_by) if criterion is None else selected_by
    n_folds = 5 if folds is None else folds
    splits = _folds(queries, n_folds, random_state) if held_out is None else [(queries, held_out)]
    n_problems = sum(len(_Cs_of(grid_point, values)) for grid_point in grid_points) * len(splits) + (held_out is None)

    def identity() -> dict[str, Any]:
        cut = {"number": n_folds, "random_state": random_state, "query ids": _digest(queries)}
        return {
            **grid_points[0].plan.identity(queries, values, held_out),
            **identifying_parameters(parameter_specs(ranker)),
            **identifying_parameters({"grid": {name: to_spec(list(options)) for name, options in full_grid.items()}}),
            "folds": identifying_parameters(cut) if held_out is None else None,
            "judged by": f"{selected_by}, policy {selected_by.policy.name}",
        }

    with (
        checkpoint_log(checkpoint, resume, identity) as log,
        shown(ranker.verbose if verbose is None else verbose, n_problems, grid_points[0].plan.solver.tol, callback) as (
            progress,
            watch,
        ),
    ):
        stop = _Stop(watch, seconds(time_limit), progress)
        train_Cs = _train_upwards if values == list(DEFAULT_CS) and _is_wide(queries, grid_points) else _train_all
        candidates = train_Cs(grid_points, splits, values, selected_by, stop, n_jobs, log)
        chosen = _choose([candidate for candidate, _ in candidates], rule)
        final = candidates[chosen][1]
        if held_out is None and not stop.stopped:
            model = _train_on_all(final, queries, stop, None if log is None else log.log("on all"))
            # A finished model of one fold is better than an unfinished model of all queries.
            final = final if stop.cut_short(model) or stop.stopped else replace(final, model=model)
    complete = not stop.stopped
    warn_of_ties([final.model], queries)
    selection = Selection(
        tuple(candidate for candidate, _ in candidates),
        chosen,
        final.grid_point.ranker.with_model(final.model, C=final.model.solution.C, n_jobs=ranker.n_jobs),
        str(selected_by),
        selected_by.policy.name,
        rule,
        f"{len(queries):,} queries in {len(splits)} folds"
        if held_out is None
        else f"{len(held_out):,} validation queries",
        complete,
    )
    fitted = selection.ranker
    fitted.model_ = fitted.model_.with_selection(selection.to_dict()).with_quantiles(queries)
    return selection


@dataclass(frozen=True)
class _GridPoint:
    """Parameters to try, apart from C, with their ranker and its plan."""

    parameters: Mapping[str, Any]
    ranker: Ranker
    plan: Plan

    @property
    def stages_option(self) -> str | None:
        """The option of the scorer that early stopping chooses; None if there is none."""
        chosen = self.plan.loss is not None and not self.plan.capabilities.takes_C
        return self.plan.scorer.stages_option if chosen else None

    def with_stages(self, n_stages: int) -> _GridPoint:
        """Return the grid point with a number of stages."""
        if self.stages_option is None:
            return self
        ranker: Ranker = clone(self.ranker).set_params(**{f"scorer__{self.stages_option}": n_stages})
        return replace(self, ranker=ranker, plan=resolve(ranker))


@dataclass(frozen=True)
class _Trained:
    """A model of a grid point, and the value of the criterion for each held-out query.

    Weights are those of the held-out queries if their documents have weights.
    """

    grid_point: _GridPoint
    model: Model
    values: FloatArray
    weights: FloatArray | None = None
    finished: bool = True

    @property
    def n_stages(self) -> int:
        """The number of stages of the model, which early stopping may have chosen."""
        solution = self.model.solution
        return 1 + [step.primal for step in solution.trace].index(solution.primal)


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


def _queries(
    ranker: Ranker,
    X: AnyQueries | QuerySource | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    valid: Validation | None,
) -> tuple[AnyQueries, AnyQueries | None]:
    """Return the training queries and the validation queries; with ``scorer="auto"``, missing values are allowed."""
    nan_rule: Any = {"allow_nan": True, "nan_advice": ""}
    if ranker.scorer != CHOSEN:
        capabilities = resolve(ranker).capabilities
        nan_rule = {"allow_nan": capabilities.takes_nan, "nan_advice": capabilities.nan_advice}
    queries = as_queries(opened(X), y, qid, group, None, **nan_rule).grouped
    refuse_empty(queries)
    if valid is None:
        return queries, None
    return queries, as_queries(*validation_parts(valid), None, None, **nan_rule).grouped


def _full_grid(ranker: Ranker, grid: Mapping[str, Iterable[Any]], queries: AnyQueries) -> dict[str, list[Any]]:
    """Return the grid as lists, with the scorers that ``auto`` stands for; refuse names that are not parameters."""
    known = ranker.get_params(deep=False)
    values: dict[str, list[Any]] = {}
    for name, options in grid.items():
        if name == "C":
            raise ParameterError(Parameter("C"), " is in the grid; give its values as ", Parameter("Cs"))
        if name.partition("__")[0] not in known:
            raise ValueError(
                f"the grid has {name!r}, which is not a parameter of the ranker; {suggest(name, known)}; parameters of "
                "its parts are spelled scorer__bins, solver__tol, loss__measure"
            )
        if isinstance(options, str) or not isinstance(options, Iterable):
            raise ValueError(f"the grid has {options!r} for {name}; give a list of values")
        values[name] = list(options)
        if not values[name]:
            raise ValueError(f"the grid has no value for {name}; give a list of values")
    if ranker.scorer != CHOSEN:
        return {**_default_grid(ranker, values), **values}
    for name in grid:
        if name.startswith("scorer__"):
            raise ParameterError(f"{name} is for one scorer; name it instead of ", Parameter("scorer", "auto"))
    return {"scorer": [*scorers_to_try(queries)], **values}


def _default_grid(ranker: Ranker, grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the options of the scorer to try if C has no effect, those with their default values."""
    plan = resolve(ranker)
    if plan.capabilities.takes_C or plan.loss is None or "scorer" in grid:
        return {}
    options = plan.scorer.tuned_options
    defaults = {option.name: option.default for option in fields(plan.scorer)}
    return {
        f"scorer__{name}": list(values)
        for name, values in options.items()
        if getattr(plan.scorer, name) == defaults[name]
    }


def _grid_points(ranker: Ranker, grid: Mapping[str, Sequence[Any]]) -> list[_GridPoint]:
    """Return all combinations of the values of a grid."""
    grid_points = []
    for options in product(*grid.values()):
        parameters = dict(zip(grid, options, strict=True))
        candidate: Ranker = clone(ranker).set_params(**parameters)
        grid_points.append(_GridPoint(parameters, candidate, resolve(candidate)))
    return grid_points


def _train_all(
    grid_points: Sequence[_GridPoint],
    splits: Sequence[tuple[AnyQueries, AnyQueries]],
    Cs: Sequence[float],
    selected_by: Criterion,
    stop: _Stop,
    n_jobs: int | None,
    log: Log | None,
) -> list[tuple[Candidate, _Trained]]:
    """Return the candidates that were trained on every split, each with a model of one split; at least one."""
    tasks = [(grid_point, split) for grid_point in grid_points for split in splits]
    threads = min(_thread_count(grid_points, splits, n_jobs), len(tasks))

    def work(number: int) -> list[_Trained] | None:
        grid_point, (train, held_out) = tasks[number]
        if stop.stopped and number > 0:
            return None
        if threads > 1:
            grid_point = replace(grid_point, plan=replace(grid_point.plan, n_jobs=1))
        task_log = None if log is None else log.log(f"setting and split {number}")
        return _train_on_split(grid_point, train, held_out, _Cs_of(grid_point, Cs), selected_by, stop, task_log)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        try:
            trained = list(pool.map(work, range(len(tasks))))
        except KeyboardInterrupt:
            # Ctrl-C interrupts this thread only; the others end after their iteration.
            stop.stop()
            raise
    finished: list[tuple[Candidate, _Trained]] = []
    unfinished: list[tuple[Candidate, _Trained]] = []
    for number, grid_point in enumerate(grid_points):
        paths = trained[number * len(splits) : (number + 1) * len(splits)]
        done = [path for path in paths if path is not None]
        for index, C in enumerate(_Cs_of(grid_point, Cs)):
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


def _is_wide(queries: AnyQueries, grid_points: Sequence[_GridPoint]) -> bool:
    """Return whether a large C takes long: documents have as many features as there are documents."""
    return queries.n_documents <= queries.n_features and all(point.plan.capabilities.takes_C for point in grid_points)


def _train_upwards(
    grid_points: Sequence[_GridPoint],
    splits: Sequence[tuple[AnyQueries, AnyQueries]],
    Cs: Sequence[float],
    selected_by: Criterion,
    stop: _Stop,
    n_jobs: int | None,
    log: Log | None,
) -> list[tuple[Candidate, _Trained]]:
    """Train for one C after the other, from the smallest, until two in a row are no better than the best before."""
    candidates: list[tuple[Candidate, _Trained]] = []
    best, n_worse = -np.inf, 0
    for C in sorted(Cs):
        log_of_C = None if log is None else log.log(f"C {C:g}")
        trained = _train_all(grid_points, splits, [C], selected_by, stop, n_jobs, log_of_C)
        if stop.stopped and candidates:
            break
        candidates += trained
        mean = max(candidate.mean for candidate, _ in trained)
        best, n_worse = max(best, mean), 0 if mean > best else n_worse + 1
        if n_worse == 2 or stop.stopped:
            break
    return candidates


def _Cs_of(grid_point: _GridPoint, Cs: Sequence[float]) -> list[float]:
    """Return the values of C to try; a method without C is the same for all."""
    return list(Cs) if grid_point.plan.capabilities.takes_C else [grid_point.plan.C]


def _train_on_split(
    grid_point: _GridPoint,
    train: AnyQueries,
    held_out: AnyQueries,
    Cs: Sequence[float],
    selected_by: Criterion,
    stop: _Stop,
    log: Log | None,
) -> list[_Trained]:
    """Train a path of C on one split and evaluate it on its held-out queries, or read it from the checkpoint.

    After a stop, the path ends with the C that was being trained.
    """
    weights = selected_by.query_weights(held_out)
    saved = None if log is None else load_finished(log, len(Cs), len(held_out))
    if saved is not None:
        return [_Trained(grid_point, model, values, weights) for model, values in saved]
    running = None if log is None else log.part_of("running")
    resumed = running if grid_point.plan.capabilities.resumes else None
    stop.progress.begin(grid_point.parameters)
    validation = None if grid_point.stages_option is None else held_out
    context = FitContext(Cs, validation, time_limit=stop.seconds_left, callback=stop, log=resumed)
    models = train_path(grid_point.plan, train, context)
    stopped_at = next((number for number, model in enumerate(models) if stop.cut_short(model)), None)
    # C grows along a path, so larger ones than the first that was stopped were not reached.
    models = models if stopped_at is None else models[: stopped_at + 1]
    n_jobs = grid_point.plan.n_jobs
    results = [
        _Trained(
            grid_point,
            model,
            selected_by.values(held_out, grid_point.ranker.with_model(model, n_jobs=n_jobs).predict(held_out), n_jobs),
            weights,
            not stop.cut_short(model),
        )
        for model in models
    ]
    if log is not None and running is not None and all(result.finished for result in results):
        save_finished(log, [(result.model, result.values) for result in results])
        running.finish()
    return results


def _train_on_all(final: _Trained, queries: AnyQueries, stop: _Stop, log: Log | None) -> Model:
    """Train the selected candidate on all queries, with the bound that it was evaluated with."""
    plan, C = final.grid_point.plan, final.model.solution.C
    # Whether a hinge collapses may not show at a single large C.
    if plan.bound == "auto" and final.model.method.bound == "tight":
        plan = replace(plan, bound=Tight())
    resumed = log if plan.capabilities.resumes else None
    stop.progress.begin(final.grid_point.parameters)
    context = FitContext((C,), time_limit=stop.seconds_left, callback=stop, log=resumed)
    (model,) = train_path(plan, queries, context)
    return model


def _thread_count(
    grid_points: Sequence[_GridPoint], splits: Sequence[tuple[AnyQueries, AnyQueries]], n_jobs: int | None
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


class _Stop:
    """A callback that stops the search after a time limit, or if the user's callback returns True."""

    def __init__(self, callback: Callback | None, time_limit: float, progress: Progress) -> None:
        self.callback, self.deadline, self.progress = callback, time.perf_counter() + time_limit, progress
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """Stop the search."""
        self._stopped.set()

    @property
    def seconds_left(self) -> float:
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
        if (self.callback is not None and self.callback(step, theta)) or time.perf_counter() > self.deadline:
            self.stop()
        return self.stopped


def _folds(queries: AnyQueries, k: int, random_state: int | None) -> list[tuple[AnyQueries, AnyQueries]]:
    if len(queries) < 2:
        raise DataError("one query cannot be cut into folds; give validation queries, or fit with a fixed C")
    if not 2 <= k <= len(queries):
        raise DataError(
            Parameter("folds"), f" is {k} for {len(queries)} queries; give 2 or more, and at most one per query"
        )
    # In the order of ids, so that the folds do not depend on the order of the rows.
    ids = _query_ids(queries)
    fold = np.empty(len(queries), dtype=np.int64)
    fold[np.argsort(join(ids), kind="stable")] = np.random.default_rng(check_seed(random_state)).permutation(
        np.arange(len(queries)) % k
    )
    if isinstance(queries, PartitionedQueries):
        folds = np.split(fold, np.cumsum([len(names) for names in ids])[:-1])
        return [
            (queries.select([part != number for part in folds]), queries.select([part == number for part in folds]))
            for number in range(k)
        ]
    return [(queries[np.flatnonzero(fold != number)], queries[np.flatnonzero(fold == number)]) for number in range(k)]


def _query_ids(queries: AnyQueries) -> list[AnyArray]:
    """Return the ids of queries, partition by partition."""
    return queries.query_ids() if isinstance(queries, PartitionedQueries) else [queries.query_ids]


def _digest(queries: AnyQueries) -> str:
    """Return a digest of the ids of queries, which determine their folds."""
    ids = [query for partition in _query_ids(queries) for query in partition.tolist()]
    return hashlib.sha256(repr(ids).encode()).hexdigest()[:16]


def _candidate(parameters: Mapping[str, Any], folds: Sequence[_Trained]) -> Candidate:
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
    """Return the weighted mean and its standard error, by linearisation of the ratio of two sums.

    >>> _mean(np.array([1.0, 0.0]), np.array([3.0, 1.0]))       # √(2/1 · (3²·¼² + 1²·¾²)) / 4
    (0.75, 0.375)
    """
    mean = float(np.average(values, weights=weights))
    if len(values) < 2:
        return mean, 0.0
    spread = weights * (values - mean)
    return mean, float(np.sqrt(len(values) / (len(values) - 1) * (spread @ spread)) / weights.sum())


def _choose(candidates: Sequence[Candidate], rule: Rule) -> int:
    best = max(range(len(candidates)), key=lambda number: candidates[number].mean)
    if rule == "best":
        return best
    top = candidates[best]
    for number, candidate in enumerate(candidates):
        same = {**candidate.parameters, "C": None} == {**top.parameters, "C": None}
        if same and candidate.mean >= top.mean - top.standard_error:
            return number
    return best


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
