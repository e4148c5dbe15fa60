"""`tune`: selection of C and other parameters on held-out queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

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
from marginrank.preparation.base import refuse_empty
from marginrank.ranker.argument_checks import warn_of_ties
from marginrank.ranker.grid_search import DEFAULT_CS, Cs_to_try, GridPoint, GridSearch, SearchLimits, check_Cs
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import parameter_specs, resolve, resolve_method
from marginrank.ranker.selection import Candidate, Rule, Selection
from marginrank.runtime.option_objects import check_seed, seconds, to_spec
from marginrank.runtime.text import suggest
from marginrank.scorers.base import CHOSEN, scorers_to_try
from marginrank.solvers.base import Callback
from marginrank.training.checkpoint import checkpoint_log, identifying_parameters
from marginrank.training.progress import shown
from marginrank.typing import AnyArray


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
        ranker: The ranker to train; its C is ignored. With ``scorer="auto"``, the linear scorer and curves of two
            shapes are compared by softmax, which trains fast; curves are trained for the loss of the ranker only if
            one of them is better there.
        X: Training queries, in this process or distributed, a log of clicks with propensities, or features with one
            row per document.
        y: Grades of the rows.
        qid: The query of each row, in any order.
        group: Instead of ``qid``, the number of consecutive rows of each query.
        valid: Validation queries, or (X, y, qid). Without them, candidates are cross-validated, and the ranker is
            finally trained on all queries.
        folds: Number of cross-validation folds; 5 by default without validation queries.
        Cs: Values of C. By default ten from 0.01 to 10,000; with curves, and with at least as many features as
            documents, where large ones take long and overfit, the search goes up from the smallest, and ends after two
            that do not improve.
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
    n_fits = sum(len(Cs_to_try(grid_point, values)) for grid_point in grid_points) * len(splits) + (held_out is None)

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
        shown(ranker.verbose if verbose is None else verbose, n_fits, grid_points[0].plan.solver.tol, callback) as (
            progress,
            watch,
        ),
    ):
        limits = SearchLimits(watch, seconds(time_limit), progress)
        search = GridSearch(splits, values, selected_by, limits, n_jobs)
        candidates, compared = search.train_grid(grid_points, log, compare_scorers=ranker.scorer == CHOSEN)
        chosen = _choose([candidate for candidate, _ in candidates], rule)
        final = candidates[chosen][1]
        if held_out is None and not limits.stopped:
            model = search.train_on_all(final, queries, None if log is None else log.log("on all"))
            # A finished model of one fold is better than an unfinished model of all queries.
            final = final if limits.cut_short(model) or limits.stopped else replace(final, model=model)
    complete = not limits.stopped
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
        tuple(compared),
    )
    fitted = selection.ranker
    fitted.model_ = fitted.model_.with_selection(selection.to_dict()).with_quantiles(queries)
    return selection


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


def _grid_points(ranker: Ranker, grid: Mapping[str, Sequence[Any]]) -> list[GridPoint]:
    """Return all combinations of the values of a grid."""
    grid_points = []
    for options in product(*grid.values()):
        parameters = dict(zip(grid, options, strict=True))
        candidate: Ranker = clone(ranker).set_params(**parameters)
        grid_points.append(GridPoint(parameters, candidate, resolve(candidate)))
    return grid_points


def _folds(queries: AnyQueries, k: int, random_state: int | None) -> list[tuple[AnyQueries, AnyQueries]]:
    if len(queries) < 2:
        raise DataError("one query cannot be split into folds; give validation queries, or fit with a fixed C")
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
