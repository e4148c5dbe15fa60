"""The demo: learn to combine five retrievers that search the documentation of NumPy, SciPy and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.datasets.python_docs import Collection, pydocs
from marginrank.estimator import BaseRanker
from marginrank.evaluation.comparing import Comparison, compare, mean_interval
from marginrank.evaluation.evaluating import Evaluation, evaluate
from marginrank.fusion.fixed import rrf
from marginrank.ranker import Ranker
from marginrank.reporting.facts import Mean
from marginrank.tuning import tune
from marginrank.typing import FloatArray
from marginrank.words import plain, table

MEASURE: Final = "ndcg@10"
LEARNED: Final = "learned"
#: Retrievers that RRF combines, by the name of the system; None stands for all.
_FUSIONS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "RRF of BM25 and vectors": ("bm25_body", "vectors"),
    "RRF of all five": None,
}
_MARKED_BELOW: Final = 0.05
#: Documents of a query that are shown.
SHOWN: Final = 5


@dataclass(frozen=True, eq=False)
class Outcome:
    """The collection, the ranker, and what each system reaches on the test queries.

    Args:
        collection: The queries with their texts.
        ranker: The ranker, with C chosen by cross-validation on the training queries.
        scores: Scores of each system on the test queries: the retrievers, RRF, and the ranker last.
        values: NDCG@10 of each system.
        means: Mean and bootstrap interval of each system.
        comparison: Every system minus the ranker.
        best_retriever: The retriever that is best on the training queries.
    """

    collection: Collection
    ranker: BaseRanker
    scores: Mapping[str, FloatArray]
    values: Mapping[str, Evaluation]
    means: tuple[Mean, ...]
    comparison: Comparison
    best_retriever: str


def learn(say: Callable[[str], None] | None = None) -> Outcome:
    """Build the collection, train, and evaluate everything on the test queries.

    Args:
        say: Called with what is done next.
    """
    say = say or (lambda _: None)
    say("searching the docstrings of NumPy, SciPy and scikit-learn ...")
    collection = pydocs()
    train, test = collection.train, collection.test
    names = test.feature_names or ()
    say(f"training on {len(train):,} queries, with C by cross-validation ...")
    ranker = tune(Ranker(MEASURE), train).ranker
    scores = {name: test.feature(name) for name in names}
    scores |= {name: rrf(_with_features(test, chosen or names)) for name, chosen in _FUSIONS.items()}
    scores[LEARNED] = ranker.predict(test)
    values = {name: evaluate(test, column, MEASURE) for name, column in scores.items()}
    return Outcome(
        collection=collection,
        ranker=ranker,
        scores=scores,
        values=values,
        means=tuple(_mean(name, value) for name, value in values.items()),
        comparison=compare(values, measure=MEASURE, baseline=LEARNED),
        best_retriever=max(names, key=lambda name: evaluate(train, train.feature(name), MEASURE).mean[MEASURE]),
    )


def _with_features(queries: Queries, names: tuple[str, ...]) -> Queries:
    return queries.with_features(np.stack([queries.feature(name) for name in names], axis=1), names)


def _mean(system: str, values: Evaluation) -> Mean:
    return Mean(system, MEASURE, values.mean[MEASURE], *mean_interval(values, MEASURE), values.counted(MEASURE))


@dataclass(frozen=True)
class Gain:
    """What the ranker gains on a system, over the test queries.

    Args:
        difference: Mean of the ranker minus the system.
        low: Start of the 95 % interval of the difference.
        high: End of the interval.
        record: Queries won, lost and tied by the ranker.
        p: p-value of the randomization test.
        significant: Whether it is significant after Holm's correction for all systems.
    """

    difference: float
    low: float
    high: float
    record: tuple[int, int, int]
    p: float
    significant: bool


def gains(comparison: Comparison) -> dict[str, Gain]:
    """Return the gain of the ranker on each system."""
    return {
        row.system: Gain(
            -row.difference,
            -row.interval[1],
            -row.interval[0],
            (row.losses, row.wins, row.ties),
            row.p_randomization,
            row.holm_randomization < _MARKED_BELOW,
        )
        for row in comparison.rows
    }


@dataclass(frozen=True)
class Example:
    """A query before and after: ids of its first documents, and why the order changed.

    Args:
        query: Id of the query.
        before: The first documents by the best retriever.
        after: The first documents by the ranker.
        grades: The grade of each document.
        change: NDCG@10 by the best retriever and by the ranker.
        above: The document that came up, and the one it is now above.
        reasons: What each feature adds to the difference of their scores.
    """

    query: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    grades: Mapping[str, float]
    change: tuple[float, float]
    above: tuple[str, str]
    reasons: Mapping[str, float]


def examples(outcome: Outcome) -> tuple[list[Example], Example]:
    """Return the query of each package that gained most, and the one that lost most."""
    test = outcome.collection.test
    gain = outcome.values[LEARNED][MEASURE] - outcome.values[outcome.best_retriever][MEASURE]
    order = np.argsort(-np.nan_to_num(gain), kind="stable").tolist()
    packages = [str(query).partition(".")[0] for query in test.query_ids.tolist()]
    best = [next(at for at in order if packages[at] == package) for package in dict.fromkeys(packages)]
    return [_example(outcome, at) for at in best], _example(outcome, order[-1])


def _example(outcome: Outcome, at: int) -> Example:
    one = outcome.collection.test[at]
    rows = slice(*outcome.collection.test.offsets[at : at + 2].tolist())
    documents = one.document_names.tolist()
    before, after = (
        np.argsort(-outcome.scores[name][rows], kind="stable") for name in (outcome.best_retriever, LEARNED)
    )
    # What came up is the better of the two at the first rank where the orders differ.
    ranks = [rank for rank in range(len(documents)) if before[rank] != after[rank]]
    up, down = (after[ranks[0]], before[ranks[0]]) if ranks else (after[0], after[1])
    parts = outcome.ranker.explain(one)
    return Example(
        query=str(one.query_ids[0]),
        before=tuple(documents[row] for row in before[:SHOWN]),
        after=tuple(documents[row] for row in after[:SHOWN]),
        grades=dict(zip(documents, one.grades.tolist(), strict=True)),
        change=tuple(float(outcome.values[name][MEASURE][at]) for name in (outcome.best_retriever, LEARNED)),  # type: ignore[arg-type]
        above=(documents[up], documents[down]),
        reasons=dict(zip(one.feature_names or (), (parts[up] - parts[down]).tolist(), strict=True)),
    )


def certificate(ranker: BaseRanker) -> str:
    """Say in a line how far from the optimum the weights can be."""
    share = ranker.gap_ / ranker.objective_
    return (
        f"C = {ranker.C:g} by cross-validation on the training queries. The objective, {ranker.objective_:.4g}, is at "
        f"most {100 * share:.2g} % above the optimum."
    )


def summary(outcome: Outcome) -> str:
    """Describe the outcome as text."""
    collection, gained = outcome.collection, gains(outcome.comparison)
    header = ["system", "NDCG@10", "95% interval", f"{LEARNED} − system", "95% interval", "W/L/T", "p "]
    rows = [
        [one.system, f"{one.mean:.4f}", f"[{one.low:.4f}, {one.high:.4f}]", *_gain_cells(gained.get(one.system))]
        for one in sorted(outcome.means, key=lambda one: one.mean)
    ]
    lines = [
        "Search in the documentation of NumPy, SciPy and scikit-learn by description",
        f"{len(collection.summaries):,} documents, {len(collection.train):,} training queries, "
        f"{len(collection.test):,} test queries ({outcome.comparison.n_queries:,} have a relevant document to rank)",
        "",
        table([header, *rows], right=range(1, len(header))),
        f"* Holm-adjusted p < {_MARKED_BELOW:g} over {len(gained)} comparisons (randomization test)",
        "",
        "Weights of the standardized scores: "
        + ", ".join(f"{name} {weight:+.3f}" for name, weight in weights(outcome.ranker).items()),
        certificate(outcome.ranker),
    ]
    return "\n".join(lines)


def _gain_cells(gain: Gain | None) -> list[str]:
    if gain is None:
        return ["", "", "", ""]
    p = ("<0.0001" if gain.p < 0.0001 else f"{gain.p:.4f}") + ("*" if gain.significant else " ")
    return [f"{gain.difference:+.4f}", f"[{gain.low:+.4f}, {gain.high:+.4f}]", "/".join(map(str, gain.record)), p]


def weights(ranker: BaseRanker) -> dict[str, float]:
    """Return the weight of each feature, the largest first."""
    named = dict(zip(ranker.model_.names, ranker.coef_.tolist(), strict=True))
    return dict(sorted(named.items(), key=lambda one: -abs(one[1])))


def record(outcome: Outcome) -> dict[str, Any]:
    """Describe the outcome as plain values."""
    ranker, collection = outcome.ranker, outcome.collection
    described = {
        "documents": len(collection.summaries),
        "queries": {"train": len(collection.train), "test": len(collection.test)},
        "measure": MEASURE,
        "mean": {one.system: one.mean for one in outcome.means},
        "interval": {one.system: [one.low, one.high] for one in outcome.means},
        "comparison": outcome.comparison.to_dicts(),
        "weights": weights(ranker),
        "C": ranker.C,
        "objective": ranker.objective_,
        "gap": ranker.gap_,
    }
    return dict(plain(described))
