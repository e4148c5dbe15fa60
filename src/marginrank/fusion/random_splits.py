"""Comparison of fusions over many random splits of the queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.evaluation.comparison import Comparison, compare
from marginrank.evaluation.evaluation import evaluate
from marginrank.evaluation.policies import Policy
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.option_objects import check_seed
from marginrank.runtime.text import ResultTable, count, data_frame, plain
from marginrank.runtime.threads import one_blas_thread, thread_count
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Indices of the training, validation and test queries.
Split: TypeAlias = tuple[IntArray, IntArray, IntArray]


@dataclass(frozen=True, eq=False, repr=False)
class SplitComparison:
    """Results of methods over several splits of the same queries.

    Args:
        measure: The measure.
        query_ids: The queries.
        per_trial: Mean over the test queries of each trial, by method.
        per_query: Mean of each query over the trials in which it was tested, by method; NaN if there is none.
    """

    measure: str
    query_ids: AnyArray
    per_trial: Mapping[str, FloatArray]
    per_query: Mapping[str, FloatArray]

    @property
    def mean(self) -> dict[str, float]:
        """Mean over the trials, by method."""
        return {name: float(np.nanmean(values)) for name, values in self.per_trial.items()}

    def compare(self, baseline: str | None = None) -> Comparison:
        """Compare methods by query: each with ``baseline``, or every pair."""
        return compare(self.per_query, baseline=baseline, query_ids=self.query_ids)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, NaN as None."""
        ids = self.query_ids.tolist()
        by_query = {name: dict(zip(ids, values.tolist(), strict=True)) for name, values in self.per_query.items()}
        record: dict[str, Any] = plain(
            {"measure": self.measure, "mean": self.mean, "per_trial": self.per_trial, "per_query": by_query}
        )
        return record

    def to_frame(self) -> Any:
        """Return a pandas frame with one row per method: the mean over the trials and the standard deviation."""
        deviations = [float(np.nanstd(values)) for values in self.per_trial.values()]
        return data_frame(
            {"method": list(self.mean), f"mean_{self.measure}": list(self.mean.values()), "sd": deviations}
        )

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4f}" for name, value in self.mean.items())
        return f"SplitComparison({self.measure}: {means})"

    def _table(self) -> ResultTable:
        n_trials = len(next(iter(self.per_trial.values())))
        n_counted = int(np.count_nonzero(~np.isnan(next(iter(self.per_query.values())))))
        rows = [["method", f"mean {self.measure}", "s.d."]]
        for name, values in self.per_trial.items():
            rows.append([name, f"{self.mean[name]:.4f}", f"{np.nanstd(values):.4f}"])
        counted = f"{n_counted:,} of {len(self.query_ids):,} queries count"
        note = f"over {count(n_trials, 'split')} of the queries; {counted}"
        return ResultTable(rows, right=[1, 2], note=note)

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def compare_on_random_splits(
    queries: Queries,
    methods: Mapping[str, Any],
    *,
    n_trials: int = 50,
    sizes: tuple[int, int, int] = (10, 5, 35),
    measure: str = DEFAULT_MEASURE,
    policy: str | Policy = "standard",
    random_state: int | None = 0,
    n_jobs: int | None = None,
) -> SplitComparison:
    """Compare methods over random splits, as Yue et al. (SIGIR 2007), section 5, do.

    In each of 50 trials there are 10 random training queries, 5 to select C, and 35 test queries, and every query has
    each role equally often. The paper reports means over the trials, and per query wins and losses with Wilcoxon's
    test: `SplitComparison.compare`. Queries that the policy leaves out are not used.

    Args:
        queries: Judged queries with a column per run.
        methods: By name, estimators with ``fit(train, valid)`` and ``predict(queries)``: `Fusion`,
            `UnsupervisedFusion`, `BestRun`.
        n_trials: Number of trials.
        sizes: Training, validation and test queries of each trial.
        measure: The measure.
        policy: How ties and queries without relevant documents are scored.
        random_state: Seed of the splits.
        n_jobs: Number of trials in parallel; all cores by default.
    """
    at_random = evaluate(queries, np.zeros(queries.n_documents), measure, policy=policy)[measure]
    counted = queries[~np.isnan(at_random)]
    splits = balanced_splits(len(counted), n_trials, sizes, random_state)
    return compare_on_splits(counted, methods, splits, measure=measure, policy=policy, n_jobs=n_jobs)


def compare_on_splits(
    queries: Queries,
    methods: Mapping[str, Any],
    splits: Sequence[Split],
    *,
    measure: str = DEFAULT_MEASURE,
    policy: str | Policy = "standard",
    n_jobs: int | None = None,
) -> SplitComparison:
    """Train and test methods on given splits of the queries, such as published folds.

    Args:
        queries: Judged queries with a column per run.
        methods: By name, estimators with ``fit(train, valid)`` and ``predict(queries)``: `Fusion`,
            `UnsupervisedFusion`, `BestRun`.
        splits: Numbers of the training, validation and test queries of each trial; without validation queries, methods
            are fitted on the training queries alone.
        measure: The measure.
        policy: How ties and queries without relevant documents are scored.
        n_jobs: Number of trials in parallel; all cores by default.
    """
    if not methods or not splits:
        raise ValueError("nothing to compare; give at least one method and one split")
    threads = min(thread_count(n_jobs), len(splits))

    def work(split: Split) -> dict[str, FloatArray]:
        train, valid, test = (queries[part] for part in split)
        values = {}
        for name, method in methods.items():
            model = clone(method)
            if threads > 1 and "n_jobs" in model.get_params():
                model.set_params(n_jobs=1)
            scores = model.fit(train, valid if len(valid) else None).predict(test)
            values[name] = evaluate(test, scores, measure, policy=policy, n_jobs=1)[measure]
        return values

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(work, splits))
    tested = np.concatenate([test for _, _, test in splits])
    values = {name: [result[name] for result in results] for name in methods}
    return SplitComparison(
        measure,
        queries.query_ids,
        {name: np.array([_mean(trial) for trial in trials]) for name, trials in values.items()},
        {name: _means_by(tested, np.concatenate(trials), len(queries)) for name, trials in values.items()},
    )


def balanced_splits(
    n_queries: int, n_trials: int, sizes: tuple[int, int, int], random_state: int | None = 0
) -> list[Split]:
    """Draw training, validation and test queries so that each query has each role equally often, give or take one.

    Evenly spaced windows of a circle of the queries are balanced, and remain so if two trials exchange roles for
    queries that have role a in one and b in the other, and as many with b and a.

    >>> splits = balanced_splits(10, 10, (3, 2, 5))
    >>> [np.bincount(np.concatenate(role)).tolist() for role in zip(*splits)][1]
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    if len(sizes) != 3 or min(sizes) < 0 or sizes[0] < 1 or sizes[2] < 1 or n_trials < 1:
        raise ValueError(f"sizes are {sizes} for {n_trials} trials; give training, validation and test queries")
    if sum(sizes) > n_queries:
        raise DataError(f"sizes {sizes} need {sum(sizes)} queries that count, and there are {n_queries}; ask for fewer")
    rng = np.random.default_rng(check_seed(random_state))
    window = np.repeat(np.arange(4), [*sizes, n_queries - sum(sizes)])
    starts = np.arange(n_trials) * n_queries // n_trials
    circle = rng.permutation(n_queries)
    roles = window[(circle - starts[:, None]) % n_queries]
    for _ in range(10 * n_trials if n_trials > 1 else 0):
        first, second = rng.choice(n_trials, 2, replace=False)
        _exchange(roles[first], roles[second], rng)
    return [(np.flatnonzero(row == 0), np.flatnonzero(row == 1), np.flatnonzero(row == 2)) for row in roles]


def _exchange(first: IntArray, second: IntArray, rng: np.random.Generator) -> None:
    """Exchange roles between two trials at random, in place; counts per trial and per query remain the same."""
    for a, b in combinations(range(4), 2):
        queries = np.flatnonzero(((first == a) & (second == b)) | ((first == b) & (second == a)))
        first[queries] = rng.permutation(first[queries])
        second[queries] = a + b - first[queries]


def _mean(values: FloatArray) -> float:
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if len(counted) else float("nan")


def _means_by(queries: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Return the mean of the values of each query; NaN without values."""
    counted = ~np.isnan(values)
    sums = np.bincount(queries[counted], values[counted], minlength=n)
    counts = np.bincount(queries[counted], minlength=n)
    return np.asarray(np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0))
