"""Training with 30% of the grades hidden, on MQ2008: ``python benchmarks/unjudged_training.py [draws]``.

In each of the five folds, 30% of the grades of the training and the validation queries are hidden, at random or those
of the documents that BM25 ranks lowest (feature 25), as a pool of fixed depth would. C is chosen on the validation
queries with what is left. Unjudged documents are left out of training and validation, or counted as irrelevant. Values
are NDCG@10 on the test queries with all of their grades; intervals are of the paired differences over test queries,
averaged over the draws. The data lies in ../shared/data.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from marginrank import Queries, Ranker, compare, evaluate, tune
from marginrank.data import read_letor
from marginrank.typing import FloatArray

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "letor4-mq2008"
SHARE = 0.3
BM25 = "25"
METHODS = ("svmmap", "ndcg@10", "softmax")
CS = (0.01, 0.1, 1.0, 10.0)


def hidden(queries: Queries, how: str, rng: np.random.Generator) -> Queries:
    """Return the queries with a share of the grades hidden, at random or from the bottom of each list."""
    n = queries.n_documents
    if how == "at random":
        unjudged = rng.permutation(n) < SHARE * n
    else:
        offsets, scores = queries.grouped.query_offsets, queries.grouped.feature(BM25) + 1e-9 * rng.random(n)
        place = np.empty(n)
        for start, end in pairwise(offsets.tolist()):
            place[start:end] = np.argsort(np.argsort(-scores[start:end])) / (end - start)
        unjudged = queries.from_grouped(place >= np.quantile(place, 1 - SHARE))
    return replace(queries, judgements=np.where(unjudged, np.nan, queries.grades))


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    warnings.simplefilter("ignore")
    parts = [read_letor(next(FOLDER.glob(f"S{number}.txt*"))) for number in range(1, 6)]
    for how in ("at random", "below the pool"):
        for method in METHODS:
            values: dict[str, list[FloatArray]] = {"all grades": [], "skip": [], "irrelevant": []}
            for fold in range(5):
                train = Queries.concatenate([parts[(fold + i) % 5] for i in range(3)])
                valid, test = parts[(fold + 3) % 5], parts[(fold + 4) % 5]
                full = tune(Ranker(method), train, valid=valid, Cs=CS).ranker
                values["all grades"].append(evaluate(test, full, "ndcg@10")["ndcg@10"])
                for rule in ("skip", "irrelevant"):
                    sums = np.zeros(len(test))
                    for draw in range(draws):
                        rng = np.random.default_rng([fold, draw])
                        few, left = hidden(train, how, rng), hidden(valid, how, rng)
                        ranker = tune(Ranker(method, unjudged=rule), few, valid=left, Cs=CS).ranker
                        sums += evaluate(test, ranker, "ndcg@10")["ndcg@10"]
                    values[rule].append(sums / draws)
            joined = {name: np.concatenate(of_folds) for name, of_folds in values.items()}
            row = compare({"skip": joined["skip"], "irrelevant": joined["irrelevant"]}, baseline="irrelevant").rows[0]
            means = ", ".join(f"{name} {np.nanmean(of_all):.4f}" for name, of_all in joined.items())
            print(
                f"{how}, {method}: {means}; skip - irrelevant {row.difference:+.4f} "
                f"[{row.interval[0]:+.4f}, {row.interval[1]:+.4f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
