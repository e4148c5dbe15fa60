"""`tune`: the choice of C and other parameters on held-out queries."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from marginrank.data.grouping import join
from marginrank.data.inputs import Validation, as_queries, validation_parts
from marginrank.data.partitions import AnyQueries, PartitionedQueries
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
from marginrank.runtime.threads import USEFUL_THREADS, one_blas_thread, thread_count
from marginrank.scorers.base import CHOSEN, scorers_to_try
from marginrank.solvers.base import Callback
from marginrank.solvers.solution import Step
from marginrank.training.checkpoint import Log, repeatable, run_log
from marginrank.training.plan import FitContext, Plan
from marginrank.training.tight_bound import Tight
from marginrank.training.trainer import train_path
from marginrank.typing import AnyArray, FloatArray

#: Ten values of C over six decades: raw features in [0, 1] want large ones, standardised features small ones.
DEFAULT_CS: Final = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 4, 10))


def tune(
    ranker: Ranker,
    X: AnyQueries | npt.ArrayLike,
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
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> Selection:
    """Choose C and other parameters of a ranker by a measure on held-out queries.

    Each setting of the other parameters takes one path of C, so ten values of C cost little more than the hardest.
    A baseline without C is one setting.

    Args:
        ranker: The ranker to train; its C is ignored. With ``scorer="auto"``, linear and additive scorers are tried.
        X: Training queries, in this process or distributed, or features with one row per document.
        y: Grades of the rows.
        qid: The query of each row, in any order.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        valid: Validation queries, or (X, y, qid). Without them, settings are cross-validated, and the ranker is
            finally trained on all queries.
        folds: Number of cross-validation folds; 5 by default without validation queries.
        Cs: Values of C.
        grid: Other parameters of the ranker to try, each with its values, for example ``{"scorer__bins": [64, 255]}``
            or ``{"loss__feature_map": ["dorm", "dorm(shape=log)"]}``.
        criterion: The measure, or mix of measures, to choose by; by default the ranker's own.
        policy: How ties and queries without relevant documents are scored.
        rule: ``best`` takes the highest mean; ``one-se`` the smallest C whose mean is within one standard error of it,
            with the other parameters of the best.
        callback: Called after every iteration of every solver with the `Step` and the best parameters so far, from
            several threads at a time; if it returns True, the search stops and returns the best so far.
        time_limit: Maximum duration of the search, in seconds.
        random_state: Seed of the folds, which do not depend on the order of the queries.
        n_jobs: Number of folds to train in parallel; by default one or two for a linear scorer on small data, where
            more would wait for each other, and otherwise all cores.
        checkpoint: A file in which finished settings are saved, and what was computed for the others, every few
            seconds, so that a killed search can be resumed.
        resume: Resume from the checkpoint if it exists.

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
    tried = _full_grid(ranker, grid or {}, queries)
    settings = _settings(ranker, tried)
    judge = Criterion.parse(criterion or resolve_method(ranker).criterion, policy)
    n_folds = 5 if folds is None else folds
    splits = _folds(queries, n_folds, random_state) if held_out is None else [(queries, held_out)]
    stop = _Stop(callback, seconds(time_limit))

    def identity() -> dict[str, Any]:
        cut = {"number": n_folds, "random_state": random_state, "query ids": _digest(queries)}
        return {
            **settings[0].plan.identity(queries, values, held_out),
            **repeatable(parameter_specs(ranker)),
            **repeatable({"grid": {name: to_spec(list(options)) for name, options in tried.items()}}),
            **repeatable({"folds": cut if held_out is None else None}),
            "judged by": f"{judge}, policy {judge.policy.name}",
        }

    with run_log(checkpoint, resume, identity) as log:
        candidates = _try_all(settings, splits, values, judge, stop, n_jobs, log)
        chosen = _choose([candidate for candidate, _ in candidates], rule)
        final = candidates[chosen][1]
        if held_out is None and not stop.stopped:
            model = _train_on_all(final, queries, stop, None if log is None else log.log("on all"))
            # A model that was trained to the end on most of the queries is worth more than one that was not, on all.
            final = final if stop.cut_short(model) or stop.stopped else replace(final, model=model)
    complete = not stop.stopped
    warn_of_ties([final.model], queries)
    selection = Selection(
        tuple(candidate for candidate, _ in candidates),
        chosen,
        final.setting.ranker.with_model(final.model, C=final.model.solution.C, n_jobs=ranker.n_jobs),
        str(judge),
        judge.policy.name,
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
class _Setting:
    """Parameters to try, apart from C: the ranker that has them, and its plan."""

    parameters: Mapping[str, Any]
    ranker: Ranker
    plan: Plan


@dataclass(frozen=True)
class _Trained:
    """A model of a setting, and the value of the criterion for each query held out."""

    setting: _Setting
    model: Model
    values: FloatArray


def check_Cs(Cs: Iterable[float]) -> list[float]:
    """Return the values of C from the smallest to the largest, each once.

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
    X: AnyQueries | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    valid: Validation | None,
) -> tuple[AnyQueries, AnyQueries | None]:
    """Return the training queries and the validation queries; the scorer to choose takes missing values."""
    nan_rule: Any = {"allow_nan": True, "nan_advice": ""}
    if ranker.scorer != CHOSEN:
        able = resolve(ranker).capabilities
        nan_rule = {"allow_nan": able.takes_nan, "nan_advice": able.nan_advice}
    queries = as_queries(X, y, qid, group, None, **nan_rule)
    refuse_empty(queries)
    if valid is None:
        return queries, None
    return queries, as_queries(*validation_parts(valid), None, None, **nan_rule)


def _full_grid(ranker: Ranker, grid: Mapping[str, Iterable[Any]], queries: AnyQueries) -> dict[str, list[Any]]:
    """Return the grid as lists, with the scorers that ``auto`` stands for; refuse what is no grid of the ranker."""
    known = ranker.get_params(deep=False)
    tried: dict[str, list[Any]] = {}
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
        tried[name] = list(options)
        if not tried[name]:
            raise ValueError(f"the grid has no value for {name}; give a list of values")
    if ranker.scorer != CHOSEN:
        return tried
    for name in grid:
        if name.startswith("scorer__"):
            raise ParameterError(f"{name} is for one scorer; name it instead of ", Parameter("scorer", "auto"))
    return {"scorer": [*scorers_to_try(queries)], **tried}


def _settings(ranker: Ranker, grid: Mapping[str, Sequence[Any]]) -> list[_Setting]:
    """Return all combinations of the values of a grid."""
    settings = []
    for options in product(*grid.values()):
        parameters = dict(zip(grid, options, strict=True))
        one: Ranker = clone(ranker).set_params(**parameters)
        settings.append(_Setting(parameters, one, resolve(one)))
    return settings


def _try_all(
    settings: Sequence[_Setting],
    splits: Sequence[tuple[AnyQueries, AnyQueries]],
    Cs: Sequence[float],
    judge: Criterion,
    stop: _Stop,
    n_jobs: int | None,
    log: Log | None,
) -> list[tuple[Candidate, _Trained]]:
    """Return the settings that were tried on every split, each with the model of one of them; at least one."""
    tasks = [(setting, split) for setting in settings for split in splits]
    threads = min(_thread_count(settings, splits, n_jobs), len(tasks))

    def work(number: int) -> list[_Trained] | None:
        setting, (train, held_out) = tasks[number]
        if stop.stopped and number > 0:
            return None
        one_thread = replace(setting, plan=replace(setting.plan, n_jobs=1)) if threads > 1 else setting
        own_log = None if log is None else log.log(f"setting and split {number}")
        return _try(one_thread, train, held_out, _path_of(setting, Cs), judge, stop, own_log)

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        trained = list(pool.map(work, range(len(tasks))))
    finished: list[tuple[Candidate, _Trained]] = []
    others: list[tuple[Candidate, _Trained]] = []
    for number, setting in enumerate(settings):
        of_folds = trained[number * len(splits) : (number + 1) * len(splits)]
        done = [path for path in of_folds if path is not None]
        for at, C in enumerate(_path_of(setting, Cs) if done else []):
            of_C = [path[at] for path in done]
            # What was not trained to the end, or not judged on all folds, says little about its setting.
            whole = len(done) == len(of_folds) and not any(stop.cut_short(one.model) for one in of_C)
            # Of folds that were stopped, some may not have begun.
            kept = of_C[0] if whole else max(of_C, key=lambda one: one.model.solution.n_iter)
            (finished if whole else others).append((_candidate({**setting.parameters, "C": C}, of_C), kept))
    return finished or others


def _path_of(setting: _Setting, Cs: Sequence[float]) -> list[float]:
    """Return the values of C to try; a method without C is the same for all."""
    return list(Cs) if setting.plan.capabilities.takes_C else [setting.plan.C]


def _try(
    setting: _Setting,
    train: AnyQueries,
    held_out: AnyQueries,
    Cs: Sequence[float],
    judge: Criterion,
    stop: _Stop,
    log: Log | None,
) -> list[_Trained]:
    """Train a path of C on one split and judge it on the other; take it from the checkpoint if it is finished."""
    saved = None if log is None else load_finished(log, len(Cs), len(held_out))
    if saved is not None:
        return [_Trained(setting, model, values) for model, values in saved]
    running = None if log is None else log.part_of("running")
    resumed = running if setting.plan.capabilities.resumes else None
    context = FitContext(Cs, time_limit=stop.seconds_left, callback=stop, log=resumed)
    models = train_path(setting.plan, train, context)
    n_jobs = setting.plan.n_jobs
    results = [
        _Trained(
            setting,
            model,
            judge.values(held_out, setting.ranker.with_model(model, n_jobs=n_jobs).predict(held_out), n_jobs),
        )
        for model in models
    ]
    if log is not None and running is not None and not any(stop.cut_short(model) for model in models):
        save_finished(log, [(one.model, one.values) for one in results])
        running.finish()
    return results


def _train_on_all(final: _Trained, queries: AnyQueries, stop: _Stop, log: Log | None) -> Model:
    """Train the chosen setting on all queries, with the bound that was judged."""
    plan, C = final.setting.plan, final.model.solution.C
    # A large C by itself may not be enough to tell that a hinge has collapsed.
    if plan.bound == "auto" and final.model.method.bound == "tight":
        plan = replace(plan, bound=Tight())
    resumed = log if plan.capabilities.resumes else None
    context = FitContext((C,), time_limit=stop.seconds_left, callback=stop, log=resumed)
    (model,) = train_path(plan, queries, context)
    return model


def _thread_count(
    settings: Sequence[_Setting], splits: Sequence[tuple[AnyQueries, AnyQueries]], n_jobs: int | None
) -> int:
    """Return the number of folds to train at a time."""
    # Workers of a cluster are busy with one ranker, and have memory for its data once.
    if any(isinstance(queries, PartitionedQueries) for split in splits for queries in split):
        return 1
    threads, (train, _) = thread_count(n_jobs), splits[0]
    if n_jobs is None and all(setting.plan.capabilities.gil_bound for setting in settings):
        numbers = train.n_documents * train.n_features
        threads = min([threads, *(useful for most, useful in USEFUL_THREADS if numbers <= most)])
    return threads


class _Stop:
    """A callback that ends the search: after a time limit, or when another callback returns True."""

    def __init__(self, callback: Callback | None, time_limit: float) -> None:
        self.callback, self.deadline = callback, time.perf_counter() + time_limit
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - time.perf_counter(), 1e-9)

    def cut_short(self, model: Model) -> bool:
        """Whether the search, and not a limit of its own, ended the training of a model."""
        reason = model.solution.reason
        late = reason == "time_limit" and time.perf_counter() > self.deadline
        if late:
            self._stopped.set()
        return late or reason in ("callback", "interrupted")

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        if (self.callback is not None and self.callback(step, theta)) or time.perf_counter() > self.deadline:
            self._stopped.set()
        return self.stopped


def _folds(queries: AnyQueries, k: int, random_state: int | None) -> list[tuple[AnyQueries, AnyQueries]]:
    if len(queries) < 2:
        raise DataError("one query cannot be cut into folds; give validation queries, or fit with a fixed C")
    if not 2 <= k <= len(queries):
        raise DataError(
            Parameter("folds"), f" is {k} for {len(queries)} queries; give 2 or more, and at most one per query"
        )
    # By the order of ids, so that the folds are the same however the rows are sorted.
    ids = _query_ids(queries)
    part = np.empty(len(queries), dtype=np.int64)
    part[np.argsort(join(ids), kind="stable")] = np.random.default_rng(check_seed(random_state)).permutation(
        np.arange(len(queries)) % k
    )
    if isinstance(queries, PartitionedQueries):
        own = np.split(part, np.cumsum([len(one) for one in ids])[:-1])
        return [
            (queries.select([one != number for one in own]), queries.select([one == number for one in own]))
            for number in range(k)
        ]
    return [(queries[np.flatnonzero(part != number)], queries[np.flatnonzero(part == number)]) for number in range(k)]


def _query_ids(queries: AnyQueries) -> list[AnyArray]:
    """Return the names of queries, partition by partition."""
    return queries.query_ids() if isinstance(queries, PartitionedQueries) else [queries.query_ids]


def _digest(queries: AnyQueries) -> str:
    """Return what tells the names of queries apart, which decide on their folds."""
    names = [name for part in _query_ids(queries) for name in part.tolist()]
    return hashlib.sha256(repr(names).encode()).hexdigest()[:16]


def _candidate(parameters: Mapping[str, Any], folds: Sequence[_Trained]) -> Candidate:
    values = np.concatenate([fold.values for fold in folds])
    counted = values[~np.isnan(values)]
    if not len(counted):
        raise DataError("no validation query has a relevant document; give more queries, or fewer folds")
    solutions = [fold.model.solution for fold in folds]
    return Candidate(
        parameters,
        float(counted.mean()),
        float(counted.std(ddof=1) / np.sqrt(len(counted))) if len(counted) > 1 else 0.0,
        float(np.mean([solution.primal for solution in solutions])),
        float(np.mean([solution.risk for solution in solutions])),
        float(np.mean([np.linalg.norm(solution.theta) for solution in solutions])),
        float(np.mean([solution.passes for solution in solutions])),
    )


def _choose(candidates: Sequence[Candidate], rule: Rule) -> int:
    best = max(range(len(candidates)), key=lambda number: candidates[number].mean)
    if rule == "best":
        return best
    top = candidates[best]
    others = {name: value for name, value in top.parameters.items() if name != "C"}
    for number, candidate in enumerate(candidates):
        same = {name: value for name, value in candidate.parameters.items() if name != "C"} == others
        if same and candidate.mean >= top.mean - top.standard_error:
            return number
    return best


def save_finished(log: Log, results: Sequence[tuple[Model, FloatArray]]) -> None:
    """Save finished models in a checkpoint, each with the value of the criterion for each query held out."""
    arrays: dict[str, AnyArray] = {}
    for number, (model, values) in enumerate(results):
        header = json.dumps(model.describe()).encode()
        arrays |= {f"{number}.header": np.frombuffer(header, dtype=np.uint8), f"{number}.values": values}
        arrays |= {f"{number}.array.{name}": array for name, array in model.arrays().items()}
    buffer = io.BytesIO()
    np.savez(buffer, **cast("Any", arrays))
    log.put(buffer.getvalue(), b"finished")


def load_finished(log: Log, n_models: int, n_queries: int) -> list[tuple[Model, FloatArray]] | None:
    """Return finished models of a checkpoint with the values of the criterion; None if there are none."""
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
