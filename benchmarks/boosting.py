"""Boosted trees: our losses beside LightGBM's lambdarank and rank_xendcg, in accuracy and time, all in one run.

    python benchmarks/boosting.py [--queries 2000] [--trees 300] [--threads 1] [--backend lightgbm] [--quick]

A generated set whose grades come from interactions of features: 60% of the queries train, 20% choose the learning
rate, the leaves and the number of trees of each method, and the rest is what is reported. Times are of training all
trees with 31 leaves, the best of two runs that take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import lightgbm
import numpy as np

from marginrank import Queries, Ranker, evaluate
from marginrank.losses import Loss, PairwiseHinge, SoftmaxCrossEntropy, SumLoss
from marginrank.runtime.text import table
from marginrank.scorers import Boosted

MEASURES = ("ndcg@10", "ap")
OURS: dict[str, str | Loss] = {
    "softmax + squared": SumLoss((SoftmaxCrossEntropy("exp2", target="share"), PairwiseHinge(power=2))),
    **{name: name for name in ("softmax", "ranksvm-squared", "ranksvm", "svmmap", "svmndcg@10")},
}
THEIRS = ("lambdarank", "rank_xendcg")


def interactions(n_queries: int, n_documents: int = 50, n_features: int = 20, seed: int = 0) -> Queries:
    """Return queries whose grades, 0 to 4, depend on products of features, a linear part and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries, n_documents, n_features)) + 0.5 * rng.standard_normal(
        (n_queries, 1, n_features)
    )
    X = X.reshape(-1, n_features)
    worth = X[:, 0] * X[:, 1] + np.sign(X[:, 2]) * X[:, 3] + np.abs(X[:, 4]) * X[:, 5] + 0.5 * X[:, 6]
    worth += 0.5 * X[:, 7] * X[:, 8] * X[:, 9] + 1.5 * rng.standard_normal(len(X))
    grades = np.searchsorted(np.quantile(worth, [0.7, 0.85, 0.93, 0.98]), worth)
    return Queries.from_arrays(X.astype(np.float32), grades, group=[n_documents] * n_queries)


def their_scores(name: str, train: Queries, trees: int, leaves: int, rate: float, threads: int) -> Callable[..., Any]:
    """Train LightGBM's own objective, and return scores by number of trees."""
    settings = {
        "objective": name,
        "learning_rate": rate,
        "num_leaves": leaves,
        "num_threads": threads,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    booster = lightgbm.train(settings, lightgbm.Dataset(train.X, train.grades, group=train.lengths), trees)
    return lambda X, n: booster.predict(X, num_iteration=n, num_threads=threads)


def our_scores(
    name: str, train: Queries, trees: int, leaves: int, rate: float, threads: int, backend: Any = "lightgbm"
) -> Callable[..., Any]:
    """Train a loss of ours, and return scores by number of trees."""
    scorer = Boosted(trees, leaves, learning_rate=rate, backend=backend)
    ranker = Ranker(OURS[name], scorer=scorer, n_jobs=threads).fit(train)
    form: Any = ranker.form_

    def scores(X: Any, n: int) -> Any:
        part = form.first(min(n, len(form.roots)))
        return part.score(ranker.coef_[: part.n_parameters], X, threads)

    return scores


def chosen(train_one: Callable[..., Any], valid: Queries, test: Queries, trees: int) -> list[str]:
    """Choose leaves, learning rate and number of trees on the validation queries; measure on the test queries."""
    best: tuple[float, str, list[str]] = (-1.0, "", [])
    for leaves, rate in product((8, 31), (0.05, 0.1)):
        scores = train_one(trees=trees, leaves=leaves, rate=rate)
        for n in sorted({trees // 6, trees // 3, trees // 2, trees}):
            value = evaluate(valid, scores(valid.X, n), "ndcg@10").mean["ndcg@10"]
            if value > best[0]:
                means = evaluate(test, scores(test.X, n), MEASURES).mean
                best = value, f"{leaves} leaves, rate {rate}, {n} trees", [f"{means[m]:.4f}" for m in MEASURES]
    return [f"{best[0]:.4f}", *best[2], best[1]]


def seconds(work: Callable[[], object]) -> float:
    """Measure a run."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", default="lightgbm")
    parser.add_argument("--quick", action="store_true", help="times only")
    options = parser.parse_args()
    queries = interactions(options.queries, seed=1)  # losses were compared on seed 0
    train, valid, test = queries.split(0.6, 0.2, 0.2, random_state=0)
    threads, trees = options.threads, options.trees

    def trainer(name: str) -> Callable[..., Any]:
        if name in THEIRS:
            return lambda **own: their_scores(name, train, threads=threads, **own)
        return lambda **own: our_scores(name, train, threads=threads, backend=options.backend, **own)

    for name in OURS:
        trainer(name)(trees=1, leaves=31, rate=0.1)  # compiles
    times: dict[str, list[float]] = {name: [] for name in (*THEIRS, *OURS)}
    for _ in range(2):
        for name, taken in times.items():
            taken.append(seconds(lambda name=name: trainer(name)(trees=trees, leaves=31, rate=0.1)))  # type: ignore[misc]
    least = {name: min(taken) for name, taken in times.items()}
    rows = [[name, f"{least[name]:.1f}", f"{least[name] / least['lambdarank']:.2f}"] for name in times]
    heads = ["method", "seconds", "/ lambdarank"]
    if not options.quick:
        heads += ["valid ndcg@10", *(f"test {measure}" for measure in MEASURES), "chosen"]
        rows = [[*row, *chosen(trainer(row[0]), valid, test, trees)] for row in rows]
    print(f"{options.queries:,} queries × 50 documents × 20 features, {trees} trees, {threads} thread(s)")
    print(table([heads, *rows], right=range(1, min(len(heads), 6))))


if __name__ == "__main__":
    main()
