"""Documents to judge until the better of two systems is known: by leverage, by depth and at random.

python benchmarks/judge_next.py [--data ../shared/data] [--draws 50] [--seed 0] [COLLECTION ...]

A draw is two systems (features of MQ2008 and OHSUMED, retrievers of SciFact and Cranfield) on a random half of the
queries, at most 100 of them, compared by DCG@10. All grades are hidden and revealed in some order; the verdict is which
system has the higher mean. Depth pooling and random pools count unjudged documents as irrelevant, as is usual; with
"+ model" they count what `marginrank.judging.grade_model` expects of them. Constants of the model were chosen on
OHSUMED, which is not among the default collections for that reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.text_collections import collection
from marginrank import Queries
from marginrank.data.reader import read_queries
from marginrank.judging.grade_model import expected_gains
from marginrank.judging.next_judgements import JudgingPool, additive_measure, judging_pool, leverages, pair_verdicts
from marginrank.typing import BoolArray, FloatArray, IntArray

LETOR: Final = {"mq2008": "letor4-mq2008", "ohsumed": "letor3-ohsumed/QueryLevelNorm"}
COLLECTIONS: Final = ("mq2008", "scifact", "cranfield")
CONFIDENCE: Final = 0.95
#: The verdict is looked at after every so many documents.
STEP: Final = 5


class Course(NamedTuple):
    """Result of judging in some order, as shares of the documents that count."""

    #: Share judged until the verdict is right and stays so.
    right: float
    #: Share judged until no grades whatever could change it.
    final: float
    #: Share judged until the verdict is decided, and whether it is right there.
    stop: float
    right_at_stop: bool
    #: The probability at each step, and whether the verdict is right.
    probabilities: FloatArray
    hits: BoolArray


def load(data: Path, name: str) -> Queries:
    if name in LETOR:
        return read_queries([data / LETOR[name] / f"S{part}.txt.xz" for part in range(1, 6)])
    return collection(data, name)


def draw(queries: Queries, rng: np.random.Generator) -> JudgingPool:
    """Two systems that differ, on a random half of the queries."""
    useful = np.flatnonzero(queries.dense().std(axis=0) > 0)
    while True:
        chosen = queries[np.sort(rng.permutation(len(queries))[: min(len(queries) // 2, 100)])]
        a, b = rng.choice(useful, 2, replace=False)
        X = chosen.dense()
        scores = {"a": X[:, a].astype(np.float64), "b": X[:, b].astype(np.float64)}
        pool = judging_pool(chosen, scores, additive_measure("dcg@10"))
        if abs(pool.difference(0, 1) @ pool.gains) > 1e-12:
            return pool


def hidden(pool: JudgingPool, judged: BoolArray) -> JudgingPool:
    return JudgingPool(
        pool.systems, pool.query_ids, pool.document_ids, pool.query, pool.weights, pool.ranks,
        np.where(judged, pool.grades, np.nan), pool.gains, pool.range,
    )  # fmt: skip


def course(pool: JudgingPool, choose: Callable[[FloatArray, BoolArray], IntArray], *, model: bool) -> Course:
    """Judge documents in the order of ``choose`` (leverages, judged), a step at a time."""
    n = len(pool.grades)
    truth = np.sign(pool.difference(0, 1) @ pool.gains)
    judged = np.zeros(n, dtype=np.bool_)
    signs, probabilities, finals, decided, shares = [], [], [], [], []
    while True:
        view = hidden(pool, judged)
        expected = expected_gains(view.ranks, view.query, view.gains, judged, view.range[1])
        (verdict,) = pair_verdicts(view, expected)
        known = float(pool.difference(0, 1)[judged] @ pool.gains[judged])
        signs.append(np.sign(verdict.difference if model else known))
        probabilities.append(verdict.probability)
        finals.append(verdict.final)
        decided.append(verdict.decided(CONFIDENCE))
        shares.append(judged.mean())
        if judged.all():
            break
        order = choose(leverages(view, expected, [verdict], CONFIDENCE), judged)
        judged[order[:STEP]] = True
    hits = np.array(signs) == truth
    wrong = np.flatnonzero(~hits)
    right = shares[wrong[-1] + 1] if len(wrong) else 0.0
    stop = int(np.argmax(decided))
    final = shares[int(np.argmax(finals))]
    return Course(right, final, shares[stop], bool(hits[stop]), np.array(probabilities), hits)


def courses(pool: JudgingPool, rng: np.random.Generator) -> dict[str, Course]:
    noise = rng.random(len(pool.grades))
    depth = np.lexsort((noise, -pool.ranks.max(axis=0)))
    chance = np.argsort(noise)
    fixed = np.lexsort((noise, -np.abs(pool.difference(0, 1))))

    def in_order(order: IntArray) -> Callable[[FloatArray, BoolArray], IntArray]:
        return lambda _, judged: order[~judged[order]]

    def by_leverage(leverage: FloatArray, judged: BoolArray) -> IntArray:
        order = np.lexsort((noise, -leverage))
        return order[~judged[order]]

    return {
        "leverage": course(pool, by_leverage, model=True),
        "discounts alone": course(pool, in_order(fixed), model=False),
        "depth": course(pool, in_order(depth), model=False),
        "random": course(pool, in_order(chance), model=False),
        "depth + model": course(pool, in_order(depth), model=True),
        "random + model": course(pool, in_order(chance), model=True),
    }


def resampled(values: FloatArray, statistic: Callable[[FloatArray], float], rng: np.random.Generator) -> str:
    """A statistic of draws (rows) with its bootstrap interval."""
    drawn = [statistic(values[rng.integers(0, len(values), len(values))]) for _ in range(2000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{statistic(values):.3f} [{low:.3f}, {high:.3f}]"


def rows(name: str, drawn: list[dict[str, Course]], documents: float, rng: np.random.Generator) -> Iterator[str]:
    yield f"\n{name}: {len(drawn)} draws, {documents:.0f} documents that count on average"
    yield "| order | share judged until right for good | median | over depth | until final |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    depth = np.array([one["depth"].right for one in drawn])
    for order in drawn[0]:
        right = np.array([one[order].right for one in drawn])
        pairs = np.stack([right, depth], axis=1)
        ratio = resampled(pairs, lambda rows: float(rows[:, 0].mean() / rows[:, 1].mean()), rng)
        final = np.mean([one[order].final for one in drawn])
        mean = resampled(right, lambda column: float(column.mean()), rng)
        yield f"| {order} | {mean} | {np.median(right):.3f} | {ratio} | {final:.2f} |"
    ours = [one["leverage"] for one in drawn]
    stop = resampled(np.array([one.stop for one in ours]), lambda column: float(column.mean()), rng)
    hits = np.mean([one.right_at_stop for one in ours])
    yield f"stopping at {CONFIDENCE:.0%}: share judged {stop}, right {hits:.3f} of {len(ours)}"
    probability, hit = (np.concatenate([getattr(one, key) for one in ours]) for key in ("probabilities", "hits"))
    for low, high in ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.01)):
        among = (probability >= low) & (probability < high)
        if among.any():
            yield f"  probability {probability[among].mean():.3f}: right {hit[among].mean():.3f} of {among.sum():,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("collections", nargs="*", default=COLLECTIONS, help="mq2008, scifact, cranfield, ohsumed")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the collections")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.collections:
        rng = np.random.default_rng(options.seed)
        queries = load(options.data, name)
        pools = [draw(queries, rng) for _ in range(options.draws)]
        drawn = [courses(pool, rng) for pool in pools]
        print("\n".join(rows(name, drawn, float(np.mean([len(pool.grades) for pool in pools])), rng)), flush=True)


if __name__ == "__main__":
    main()
