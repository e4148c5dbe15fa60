"""Systems combined by SVMs, over many small samples of queries: Yue et al. (SIGIR 2007), Tables 6 to 11."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from sklearn.base import BaseEstimator

from experiments.base import Experiment, Size, Task
from experiments.letor import Fold, choose, parts
from experiments.rankers import ranker
from experiments.yue_fusion_report import CHOSEN, LEARNED, SINGLES, SYSTEMS, report
from marginrank.data.queries import Queries
from marginrank.evaluation.evaluation import evaluate
from marginrank.fusion.random_splits import Split, balanced_splits, compare_on_splits
from marginrank.fusion.run_pool import fusion_features
from marginrank.fusion.unsupervised import BestRun, UnsupervisedFusion
from marginrank.typing import FloatArray

#: With more, SVMs separate the ten training queries, and rank others worse.
CS: Final = (0.001, 0.01, 0.1, 1.0, 10.0)
#: Training and validation queries of a trial; all others test.
ROLES: Final = (10, 5)
#: Queries of the small sample, as many as a TREC topic set.
SAMPLE: Final = 50


class BinnedSVM(BaseEstimator):  # type: ignore[misc]
    """An SVM on the thresholds that the ranks of each system exceed, C chosen by the validation queries.

    The features are φ(x, d) = ⟨1[f(d|x) > k]⟩ of section 4.2 with f minus the rank; a document that the system did not
    return has a weight of its own. SVM_acc3 and SVM_acc4 bring their own thresholds, on what is relative to the query.
    """

    def __init__(self, preset: str = "svmmap") -> None:
        self.preset = preset

    def fit(self, train: Queries, valid: Queries) -> Self:
        """Train for every C, and keep the best on the validation queries."""
        brings_thresholds = self.preset in ("svmacc3", "svmacc4")
        untrained = ranker(self.preset, bins=None if brings_thresholds else 51)
        held_out = _ranked(valid)
        self.ranker_ = choose(untrained, Fold(_ranked(train), held_out, held_out), Cs=CS).ranker
        return self

    def predict(self, queries: Queries) -> FloatArray:
        """Score documents."""
        return self.ranker_.predict(_ranked(queries))


def _ranked(queries: Queries) -> Queries:
    return fusion_features(queries, "score", ranks=True, keep_missing=True)


@cache
def pool(data: Path, name: str, most: int | None) -> Queries:
    """Return the queries with a relevant document: all, or a random sample."""
    queries = Queries.concatenate(parts(data, "mq2008-agg", most))
    counted = queries[_average_precision(queries, np.zeros(queries.n_documents)) > 0]
    if name == "all" or len(counted) <= SAMPLE:
        return counted
    return counted[np.sort(np.random.default_rng(0).choice(len(counted), SAMPLE, replace=False))]


def best_first(queries: Queries) -> list[int]:
    """Return the systems by their mean average precision on all queries, the best first."""
    return [int(system) for system in np.argsort(-BestRun("ap", ranks=True).fit(queries).means_, kind="stable")]


def _splits(queries: Queries, n_trials: int) -> list[Split]:
    return balanced_splits(len(queries), n_trials, (*ROLES, len(queries) - sum(ROLES)))


def _with_systems(queries: Queries, systems: str) -> Queries:
    if systems == "all systems":
        return queries
    return queries.with_features(np.delete(queries.dense(), best_first(queries)[0], axis=1))


def _learned(
    data: Path, *, sample: str, systems: str, preset: str, n_trials: int, most: int | None
) -> dict[str, list[float]]:
    """Average precision of an SVM, by trial and by query."""
    queries = _with_systems(pool(data, sample, most), systems)
    return _trial_values(queries, BinnedSVM(preset), n_trials)


def _unlearned(data: Path, *, sample: str, systems: str, n_trials: int, most: int | None) -> dict[str, Any]:
    """The same for single systems and for unsupervised fusions."""
    whole = pool(data, sample, most)
    queries = _with_systems(whole, systems)
    methods: dict[str, Any] = {
        "combmnz": UnsupervisedFusion("combmnz", ranks=True),
        "rrf": UnsupervisedFusion("rrf", ranks=True),
    }
    methods[CHOSEN] = BestRun("ap", ranks=True)
    by_method: dict[str, Any] = {name: _trial_values(queries, method, n_trials) for name, method in methods.items()}
    for name, system in zip(SINGLES, best_first(whole), strict=False):
        one = whole.with_features(whole.dense()[:, [system]])
        by_method[name] = {**_trial_values(one, BestRun("ap", ranks=True), n_trials), "system": system + 1}
    return by_method


def _trial_values(queries: Queries, method: Any, n_trials: int) -> dict[str, list[float]]:
    trials = compare_on_splits(queries, {"it": method}, _splits(queries, n_trials), measure="ap", n_jobs=1)
    return {
        "per_trial": np.round(trials.per_trial["it"], 5).tolist(),
        "per_query": np.round(trials.per_query["it"], 5).tolist(),
    }


def _average_precision(queries: Queries, scores: FloatArray) -> FloatArray:
    return np.nan_to_num(evaluate(queries, scores, "ap", n_jobs=1)["ap"])


def _plan(size: Size) -> list[Task]:
    full = size == "full"
    shared: Mapping[str, Any] = {"n_trials": 50 if full else 2, "most": None if full else 4}
    presets = LEARNED if full else ("svmmap", "svmacc")
    tasks = []
    for sample in ("all", "fifty") if full else ("all",):
        for systems in SYSTEMS:
            where = {"sample": sample, "systems": systems, **shared}
            tasks.append(Task(f"{sample}/{systems}/without learning", _unlearned, where))
            tasks += [Task(f"{sample}/{systems}/{preset}", _learned, {"preset": preset, **where}) for preset in presets]
    return tasks


EXPERIMENT: Final = Experiment(
    "yue-fusion",
    "Systems combined for average precision, from ten queries",
    "Yue et al. (2007), Tables 6 to 11",
    "Rankings of 25 systems of the TREC Million Query track are combined. A trial trains on 10 queries, chooses C by 5 "
    "and tests on the others; 50 trials have every query in each role equally often, give or take one. Features say "
    "which of up to 50 thresholds minus the rank in a system exceeds, and whether the system returned the document at "
    "all. SVMs that optimize average precision, ROC-Area and accuracy are compared with each other, with the best "
    "single systems and with unsupervised fusions.",
    ("letor4-mq2008-agg",),
    _plan,
    report,
)
