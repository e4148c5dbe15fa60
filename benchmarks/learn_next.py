"""Accuracy of a ranker whose training documents are judged by committee, by depth or at random.

python benchmarks/learn_next.py [--data ../shared/data] [--draws 10] [COLLECTION ...]

A draw is 60 training queries, of which five random documents each are judged. Then 60 documents are chosen and judged
at a time: those that a committee disagrees about most (`marginrank.judging.learn_next`), the highest by the ranker
trained so far, or random ones. Test queries are a fifth of the collection, judged in full.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from judge_next import load

from marginrank import Queries, Ranker, evaluate
from marginrank.judging import learn_next
from marginrank.typing import BoolArray, IntArray

BATCH: Final = 60
ROUNDS: Final = 5


def chosen_rows(order: str, ranker: Ranker, hidden: Queries, judged: BoolArray, rng: np.random.Generator) -> IntArray:
    if order == "random":
        keys = rng.random(len(judged))
    elif order == "depth":
        keys = np.empty(len(judged))
        for query in range(len(hidden)):
            rows = np.flatnonzero((hidden.query_of_row == query) & ~judged)
            keys[rows[np.argsort(-ranker.predict(hidden)[rows])]] = np.arange(len(rows)) + rng.random(len(rows))
    else:
        result = learn_next(Ranker("ranksvm"), hidden, budget=BATCH, random_state=int(rng.integers(1 << 30)))
        return np.array([int(one.document) for one in result.documents])
    return np.argsort(np.where(judged, np.inf, keys))[:BATCH]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("collections", nargs="*", default=["mq2008"], help="mq2008, ohsumed, scifact, cranfield")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--draws", type=int, default=10)
    options = parser.parse_args()
    for name in options.collections:
        queries = load(options.data, name)
        values: dict[str, list[list[float]]] = {"committee": [], "depth": [], "random": []}
        for seed in range(options.draws):
            rng = np.random.default_rng(seed)
            numbers = rng.permutation(len(queries))
            test = queries[np.sort(numbers[: len(queries) // 5])]
            train = queries[np.sort(numbers[len(queries) // 5 :][:60])]
            train = replace(train, document_ids=np.arange(train.n_documents).astype(str), document_groups=None)
            first = np.zeros(train.n_documents, dtype=np.bool_)
            for query in range(len(train)):
                first[rng.permutation(np.flatnonzero(train.query_of_row == query))[:5]] = True
            for order, curves in values.items():
                judged, curve = first.copy(), []
                for _ in range(ROUNDS + 1):
                    hidden = replace(train, judgements=np.where(judged, train.grades, np.nan))
                    ranker = Ranker("ranksvm").fit(hidden)
                    curve.append(evaluate(test, ranker.predict(test), "ndcg@10").mean["ndcg@10"])
                    if judged.all():
                        break
                    judged[chosen_rows(order, ranker, hidden, judged, rng)] = True
                curves.append(curve + curve[-1:] * (ROUNDS + 1 - len(curve)))
        print(f"\n{name}: NDCG@10 after 0 to {ROUNDS} batches of {BATCH}, {options.draws} draws")
        for order, curves in values.items():
            print(f"{order:10}", " ".join(f"{mean:.4f}" for mean in np.mean(curves, axis=0)))
        gain = np.mean(values["committee"], axis=1) - np.mean(values["random"], axis=1)
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        print(f"committee minus random, mean over batches: {gain.mean():+.4f}, standard error {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
