"""Choose C, and anything else, on queries that were not trained on."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from marginrank.data.grouping import join
from marginrank.data.inputs import Validation, as_queries, validation_parts
from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.errors import DataError
from marginrank.evaluation.evaluation import evaluate
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.measures.base import parse_mix
from marginrank.methods.argument_checks import warn_of_ties
from marginrank.methods.estimator import BaseRanker
from marginrank.model.model import Model
from marginrank.ranker.selection import (
    Candidate,
    Rule,
    Selection,
)
from marginrank.runtime.option_objects import check_C, check_seed, seconds, to_spec
from marginrank.runtime.text import suggest
from marginrank.runtime.threads import one_blas_thread, thread_count
from marginrank.scorers.base import CHOSEN, scorers_to_try
from marginrank.solvers.base import Callback
from marginrank.solvers.solution import Step
from marginrank.training.checkpoint import Log, repeatable, run_log
from marginrank.typing import AnyArray, FloatArray

#: Ten values of C over six decades: raw features in [0, 1] want large ones, standardised features small ones.
DEFAULT_CS: Final = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 4, 10))
#: Where training is mostly Python, threads wait for each other: how many are of use, by the numbers in the features.
_USEFUL_THREADS: Final = ((50_000, 1), (1_000_000, 2))


def tune(
    ranker: BaseRanker,
    X: AnyQueries | npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    group: npt.ArrayLike | None = None,
    valid: Validation | None = None,
    folds: int | None = None,
    Cs: Iterable[float] = DEFAULT_CS,
    grid: Mapping[str, Sequence[Any]] | None = None,
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
        checkpoint: A file in which finished settings are kept, and what was computed for the others, every few
            seconds, so that a killed search can go on.
        resume: Go on from the checkpoint if it exists.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3))
    >>> y = (X @ [1.0, -1.0, 0.0] + rng.standard_normal(600) > 1).astype(int)
    >>> from marginrank import Ranker
    >>> selection = tune(Ranker("svmmap"), X, y, qid=np.arange(600) // 10, folds=3, Cs=[0.1, 1.0, 10.0])
    >>> selection.best.mean > 0.6, selection.ranker.C == selection.best.parameters["C"]
    (True, True)
    """
    if rule not in ("best", "one-se"):
        raise ValueError(f"rule is {rule!r}; choose 'best' or 'one-se'")
    if valid is not None and folds is not None:
        raise ValueError("give validation queries or a number of folds, not both")
    if not isinstance(ranker, BaseRanker):
        raise TypeError(f"tune takes a ranker first, not {ranker!r:.60}; give for example Ranker('ndcg@10')")
    values = check_Cs(Cs)
    is_chosen = ranker.get_params(deep=False).get("scorer") == CHOSEN
    nan_rule: Any = {"allow_nan": True, "nan_advice": ""} if is_chosen else ranker._nan
    queries = as_queries(X, y, qid, group, None, **nan_rule)
    grid = _with_scorers(grid or {}, queries) if is_chosen else grid or {}
    settings = _settings(grid)
    _check_names(grid, ranker.get_params(deep=False))
    judge = Criterion(criterion or ranker.criterion, parse_policy(policy))
    held_out = None
    if valid is not None:
        held_out = as_queries(*validation_parts(valid), None, None, **nan_rule)
    n_folds = 5 if folds is None else folds
    search = _Search(
        ranker,
        _folds(queries, n_folds, random_state) if held_out is None else [(queries, held_out)],
        settings,
        values,
        judge,
        _Stop(callback, seconds(time_limit)),
    )

    def about() -> dict[str, Any]:
        cut = {"number": n_folds, "random_state": random_state, "query ids": _digest(queries)}
        return {
            **ranker._about(queries, values, held_out),
            **repeatable({"grid": {name: to_spec(list(tried)) for name, tried in grid.items()}}),
            **repeatable({"folds": cut if held_out is None else None}),
            "judged by": f"{judge.criterion}, policy {judge.policy.name}",
        }

    with run_log(checkpoint, resume, about) as log:
        candidates = search.run(n_jobs, log)
        chosen = _choose([candidate for candidate, _ in candidates], rule)
        best, final = candidates[chosen]
        if held_out is None and not search.stop.stopped:
            on_all = final._with_parameters(best.parameters).set_params(n_jobs=ranker.n_jobs)
            rest = None if log is None else log.log("on all")
            # What was judged is trained: a large C by itself may not be enough to tell that a hinge has collapsed.
            alike = on_all._bounded_as(final.model_)
            (trained,) = alike._fit_path(queries, [on_all.C], search.stop, search.stop.seconds_left, rest)
            on_all = trained if alike is on_all else on_all._with_model(on_all.C, trained.model_)
            # A ranker that was trained to the end on most of the queries is worth more than one that was not, on all.
            final = final if search.stop.cut_short(on_all) or search.stop.stopped else on_all
    complete = not search.stop.stopped
    warn_of_ties([final.model_], queries)
    what = f"{len(queries):,} queries in {len(search.splits)} folds"
    if held_out is not None:
        what = f"{len(held_out):,} validation queries"
    selection = Selection(
        tuple(candidate for candidate, _ in candidates),
        chosen,
        final.set_params(n_jobs=ranker.n_jobs),
        judge.criterion,
        judge.policy.name,
        rule,
        what,
        complete,
    )
    final.model_ = final.model_.with_selection(selection.to_dict()).with_quantiles(queries)
    return selection


def check_Cs(Cs: Iterable[float]) -> list[float]:
    """Return the values of C from the smallest to the largest, each once.

    >>> check_Cs([10, 0.1, 10.0])
    [0.1, 10.0]
    """
    if not isinstance(Cs, Iterable) or isinstance(Cs, str):
        raise TypeError(f"Cs is {Cs!r}; give a list of values of C, for example [0.1, 1, 10]")
    values = sorted({check_C(C) for C in Cs})
    if not values:
        raise ValueError("Cs is empty; give at least one C")
    return values


def _with_scorers(grid: Mapping[str, Sequence[Any]], queries: AnyQueries) -> dict[str, Sequence[Any]]:
    """Add the scorers that ``auto`` stands for to a grid."""
    for name in grid:
        if name.startswith("scorer__"):
            raise ValueError(f"{name} is for one scorer; name it instead of scorer='auto'")
    return {"scorer": scorers_to_try(queries), **grid}


def _settings(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return all combinations of the values of parameters.

    >>> _settings({"scorer__bins": [64, 255], "weighting": [None]})
    [{'scorer__bins': 64, 'weighting': None}, {'scorer__bins': 255, 'weighting': None}]
    """
    if "C" in grid:
        raise ValueError("C is in the grid; give its values as Cs")
    for name, values in grid.items():
        if isinstance(values, str) or not len(values):
            raise ValueError(f"the grid has {values!r} for {name}; give a list of values")
    return [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())]


def _check_names(grid: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse parameters that the ranker does not have; those of its parts have two underscores."""
    for name in grid:
        if name.partition("__")[0] not in known:
            raise ValueError(
                f"the grid has {name!r}, which is not a parameter of the ranker; {suggest(name, known)}; parameters of "
                "its parts are spelled scorer__bins, solver__tol, loss__measure"
            )


class _Stop:
    """A callback that ends the search: after a time limit, or where another callback says so."""

    def __init__(self, callback: Callback | None, time_limit: float) -> None:
        self.callback, self.deadline = callback, time.perf_counter() + time_limit
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - time.perf_counter(), 1e-9)

    def cut_short(self, ranker: BaseRanker) -> bool:
        """Whether the search, and not a limit of its own, ended the training of a ranker."""
        reason = ranker.solution_.reason
        late = reason == "time_limit" and time.perf_counter() > self.deadline
        if late:
            self._stopped.set()
        return late or reason in ("callback", "interrupted")

    def __call__(self, step: Step, theta: FloatArray) -> bool:
        if (self.callback is not None and self.callback(step, theta)) or time.perf_counter() > self.deadline:
            self._stopped.set()
        return self.stopped


@dataclass(frozen=True)
class Criterion:
    """What decides."""

    criterion: str
    policy: Policy

    def values(self, ranker: BaseRanker, held_out: AnyQueries) -> FloatArray:
        """Return the value of the criterion for each query, NaN where the policy leaves it out."""
        parts = parse_mix(self.criterion)
        names = [str(measure) for _, measure in parts]
        result = evaluate(held_out, ranker.predict(held_out), names, policy=self.policy, n_jobs=ranker.n_jobs)
        total = sum(weight for weight, _ in parts)
        return np.asarray(sum(weight * result[name] for (weight, _), name in zip(parts, names, strict=True)) / total)


#: A fitted ranker, and the value of the criterion for each query held out.
_Result: TypeAlias = tuple[BaseRanker, FloatArray]


@dataclass(frozen=True)
class _Search:
    """Every setting on every split of the queries."""

    ranker: BaseRanker
    splits: Sequence[tuple[AnyQueries, AnyQueries]]
    settings: Sequence[Mapping[str, Any]]
    Cs: Sequence[float]
    judge: Criterion
    stop: _Stop

    def run(self, n_jobs: int | None, log: Log | None = None) -> list[tuple[Candidate, BaseRanker]]:
        """Return the settings that were tried on every split, each with the ranker of one of them; at least one."""
        rankers = [clone(self.ranker).set_params(**setting) for setting in self.settings]
        # A method without C is the same for all.
        paths = [list(self.Cs) if one._path_of_C else [self.ranker.C] for one in rankers]
        tasks = [(one, split, Cs) for one, Cs in zip(rankers, paths, strict=True) for split in self.splits]
        threads = min(self._threads(n_jobs, rankers), len(tasks))

        def work(number: int) -> list[_Result] | None:
            ranker, (train, held_out), Cs = tasks[number]
            if self.stop.stopped and number > 0:
                return None
            own = clone(ranker).set_params(**({"n_jobs": 1} if threads > 1 else {}))
            name = f"setting and split {number}"
            part = None if log is None else log.part_of(name)
            kept = None if log is None else load_finished(log.log(name), len(Cs), len(held_out))
            if kept is not None:
                return [(own._with_model(C, model), values) for C, (model, values) in zip(Cs, kept, strict=True)]
            path = own._fit_path(train, Cs, self.stop, self.stop.seconds_left, part)
            results = [(one, self.judge.values(one, held_out)) for one in path]
            if log is not None and part is not None and not any(self.stop.cut_short(one) for one in path):
                save_finished(log.log(name), [(one.model_, values) for one, values in results])
                part.finish()
            return results

        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            trained = list(pool.map(work, range(len(tasks))))
        finished: list[tuple[Candidate, BaseRanker]] = []
        others: list[tuple[Candidate, BaseRanker]] = []
        for number, setting in enumerate(self.settings):
            of_folds = trained[number * len(self.splits) : (number + 1) * len(self.splits)]
            done = [path for path in of_folds if path is not None]
            for at, C in enumerate(paths[number] if done else []):
                of_C = [path[at] for path in done]
                # What was not trained to the end, or not judged on all folds, says little about its setting.
                whole = len(done) == len(of_folds) and not any(self.stop.cut_short(ranker) for ranker, _ in of_C)
                # Of folds that were stopped, some may not have begun.
                ranker = of_C[0][0] if whole else max((one for one, _ in of_C), key=lambda one: one.n_iter_)
                (finished if whole else others).append((_candidate({**setting, "C": C}, of_C), ranker))
        return finished or others

    def _threads(self, n_jobs: int | None, rankers: Sequence[BaseRanker]) -> int:
        """Return the number of threads to use."""
        # Workers of a cluster are busy with one ranker, and have room for its data once.
        if _partitioned(self.splits):
            return 1
        threads, (train, _) = thread_count(n_jobs), self.splits[0]
        if n_jobs is None and all(one._light for one in rankers):
            numbers = train.n_documents * train.n_features
            threads = min([threads, *(useful for most, useful in _USEFUL_THREADS if numbers <= most)])
        return threads


def _partitioned(splits: Sequence[tuple[AnyQueries, AnyQueries]]) -> bool:
    return any(isinstance(queries, PartitionedQueries) for split in splits for queries in split)


def _folds(queries: AnyQueries, k: int, random_state: int | None) -> list[tuple[AnyQueries, AnyQueries]]:
    if len(queries) < 2:
        raise DataError("one query cannot be cut into folds; give validation queries, or fit with a fixed C")
    if not 2 <= k <= len(queries):
        raise DataError(f"folds is {k} for {len(queries)} queries; give 2 or more, and at most one per query")
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


def _candidate(parameters: Mapping[str, Any], folds: Sequence[_Result]) -> Candidate:
    values = np.concatenate([own for _, own in folds])
    counted = values[~np.isnan(values)]
    if not len(counted):
        raise DataError("no validation query has a relevant document; give more queries, or fewer folds")
    rankers = [ranker for ranker, _ in folds]
    return Candidate(
        parameters,
        float(counted.mean()),
        float(counted.std(ddof=1) / np.sqrt(len(counted))) if len(counted) > 1 else 0.0,
        float(np.mean([ranker.objective_ for ranker in rankers])),
        float(np.mean([ranker.solution_.risk for ranker in rankers])),
        float(np.mean([np.linalg.norm(ranker.coef_) for ranker in rankers])),
        float(np.mean([ranker.solution_.passes for ranker in rankers])),
    )


def _choose(candidates: Sequence[Candidate], rule: Rule) -> int:
    best = max(range(len(candidates)), key=lambda number: candidates[number].mean)
    if rule == "best":
        return best
    top = candidates[best]
    others = {name: value for name, value in top.parameters.items() if name != "C"}
    for number, one in enumerate(candidates):
        same = {name: value for name, value in one.parameters.items() if name != "C"} == others
        if same and one.mean >= top.mean - top.standard_error:
            return number
    return best


def save_finished(log: Log, results: Judged) -> None:
    """Keep models that are finished, as model files, and what they reached."""
    parts = [len(results).to_bytes(8, "little")]
    with tempfile.TemporaryDirectory() as folder:
        for model, values in results:
            model.save(file := Path(folder, "model"))
            for part in (file.read_bytes(), np.ascontiguousarray(values, dtype="<f8").tobytes()):
                parts += [len(part).to_bytes(8, "little"), part]
    log.put(b"".join(parts), b"judged")


def load_finished(log: Log, n_models: int, n_queries: int) -> Judged | None:
    """Return models that were kept, and what they reached; None if they were not finished."""
    kept = log.get(b"judged")
    if kept is None:
        return None
    parts, at = [], 8
    while at < len(kept):
        end = at + 8 + int.from_bytes(kept[at : at + 8], "little")
        parts.append(kept[at + 8 : end])
        at = end
    whole = at == len(kept) and len(parts) == 2 * n_models and kept[:8] == n_models.to_bytes(8, "little")
    if not whole or any(len(values) != 8 * n_queries for values in parts[1::2]):
        raise DataError("its models are not those of this search; remove the file", path=log.checkpoint.path)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for model, values in zip(parts[::2], parts[1::2], strict=True):
            (file := Path(folder, "model")).write_bytes(model)
            results.append((Model.load(file), np.frombuffer(values, dtype="<f8").astype(np.float64)))
    return results


#: Models, each with the value of a criterion for each query that it was judged on.
Judged: TypeAlias = Sequence[tuple[Model, FloatArray]]
