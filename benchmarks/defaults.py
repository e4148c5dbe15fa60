"""Cost of the defaults of scorers and scalings: NDCG@10 and MAP beside other settings.

    python benchmarks/defaults.py [--preset ranksvm-squared] [--table scorers|scalings]

C is chosen by NDCG@10 on validation queries: fold by fold (own C), or for all folds, by the mean of their
validation values (one C), which is less a matter of luck. Values are means of the test folds, policy ``standard``.
LETOR, LightGBM's example and MSLR are read from ../shared/data, and left out where they are not there; two collections
are generated: one where one document in 60 is relevant and the tails of the features tell it, and one of BM25, cosine
and clicks, whose spreads differ by a factor of 2,000.
"""

from __future__ import annotations

import argparse
import lzma
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from marginrank import Queries, Ranker, evaluate
from marginrank.data import read_letor
from marginrank.scorers import Additive

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CS = tuple(10.0**power for power in np.arange(-3, 3.5, 0.5))
Fold = tuple[Queries, Queries, Queries]

SCORERS: dict[str, dict[str, Any]] = {
    "linear": {"scaling": "standard"},
    **{
        f"{scorer.bins} bins, {scorer.spacing}, {scorer.shape}": {"scorer": scorer}
        for scorer in [
            Additive(bins=16, spacing="quantile", shape="steps"),
            Additive(bins=32, spacing="quantile", shape="steps"),
            Additive(bins=64, spacing="even", shape="steps"),
            Additive(bins=255, spacing="quantile", shape="steps"),
            Additive(bins=255, spacing="mixed", shape="steps"),
            Additive(bins=255, spacing="mixed", shape="lines"),
            Additive(bins=255, spacing="quantile", shape="lines"),
        ]
    },
}
SCALINGS: dict[str, dict[str, Any]] = {
    str(name): {"scaling": name}
    for name in ("auto", None, "standard", "query-standard", "query-minmax", "query-percentile")
}


def rare(seed: int, n_queries: int) -> Queries:
    """Ten features with long tails; the top sixtieth of the documents by a noisy sum of them is relevant."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(60, 181, n_queries)
    X = rng.standard_exponential((lengths.sum(), 10)).astype(np.float32)
    appeal = X @ np.array([1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0]) + rng.gumbel(0.0, 0.7, len(X))
    grades = [
        part.argsort()[::-1].argsort() < round(len(part) / 60) for part in np.split(appeal, np.cumsum(lengths)[:-1])
    ]
    return Queries.from_arrays(X, np.concatenate(grades).astype(int), group=lengths)


def search(seed: int, n_queries: int, length: int = 30) -> Queries:
    """BM25, which depends on the query, cosine similarity, and clicks."""
    rng = np.random.default_rng(seed)
    n = n_queries * length
    appeal, noise = rng.standard_normal(n), rng.standard_normal((4, n))
    bm25 = np.maximum(12 + 4 * np.repeat(rng.standard_normal(n_queries), length) + 3 * (0.6 * appeal + noise[0]), 0)
    cosine = np.clip(0.6 + 0.08 * (0.8 * appeal + noise[1]), -1, 1)
    clicks = np.floor(np.exp(3 + 1.5 * (0.4 * appeal + noise[2])))
    grades = np.searchsorted([1.0, 1.7], appeal + 0.3 * noise[3])
    return Queries.from_arrays(np.stack([bm25, cosine, clicks], axis=1), grades, group=[length] * n_queries)


def generated(make: Callable[[int, int], Queries], sizes: tuple[int, int, int]) -> Iterator[Fold]:
    for fold in range(3):
        train, valid, test = (make(3 * fold + number, size) for number, size in enumerate(sizes))
        yield train, valid, test


def letor(folder: str) -> Iterator[Fold]:
    yield from in_turn([read_letor(DATA / folder / f"S{number}.txt.xz", dtype="float32") for number in range(1, 6)])


def in_turn(parts: list[Queries]) -> Iterator[Fold]:
    """Three parts to train on, one to choose by, one to test on, five times."""
    for fold in range(5):
        train = Queries.concatenate([parts[(fold + number) % 5] for number in range(3)])
        yield train, parts[(fold + 3) % 5], parts[(fold + 4) % 5]


def lightgbm() -> Iterator[Fold]:
    features, grades, lengths = [], [], []
    for part in ("train", "test"):
        path = DATA / "lightgbm-lambdarank" / f"rank.{part}"
        with lzma.open(f"{path}.xz") as rows, lzma.open(f"{path}.query.xz") as groups:
            X, y = load_svmlight_file(rows, n_features=301)
            features.append(X.toarray())
            grades.append(y)
            lengths.append(np.loadtxt(groups, dtype=int))
    queries = Queries.from_arrays(np.vstack(features), np.concatenate(grades), group=np.concatenate(lengths))
    yield from in_turn(list(queries.split(*[0.2] * 5, random_state=0)))


def mslr() -> Iterator[Fold]:
    folder = DATA / "mslr-web30k-sample"
    halves = [read_letor(folder / f"msn1.fold1.{part}.5k.txt.xz", dtype="float64") for part in ("train", "test")]
    yield from in_turn(list(Queries.concatenate(halves).split(*[0.2] * 5, random_state=0)))


SETS: dict[str, Callable[[], Iterator[Fold]]] = {
    "MQ2008": lambda: letor("letor4-mq2008"),
    "OHSUMED": lambda: letor("letor3-ohsumed/QueryLevelNorm"),
    "rare": lambda: generated(rare, (150, 150, 600)),
    "OHSUMED, raw": lambda: letor("letor3-ohsumed/Feature-min"),
    "LightGBM": lightgbm,
    "MSLR": mslr,
    "BM25 + cosine + clicks": lambda: generated(search, (60, 40, 400)),
}
TABLES = {
    "scorers": (SCORERS, ["MQ2008", "OHSUMED", "rare", "LightGBM", "MSLR"]),
    "scalings": (SCALINGS, ["MQ2008", "OHSUMED", "OHSUMED, raw", "LightGBM", "MSLR", "BM25 + cosine + clicks"]),
}


def measure(folds: list[Fold], preset: str, parameters: dict[str, Any]) -> list[str]:
    """Test values with C chosen fold by fold and for all folds, the validation value, C, and seconds of training."""
    seconds, chosen, tested = 0.0, [], []
    for train, valid, test in folds:
        began = time.perf_counter()
        path = Ranker(preset, n_jobs=1, time_limit=60, **parameters).fit_path(train, Cs=CS)
        seconds += time.perf_counter() - began
        chosen.append([evaluate(valid, one.predict(valid), ["ndcg@10"]).mean["ndcg@10"] for one in path])
        tested.append([list(evaluate(test, one.predict(test), ["ndcg@10", "ap"]).mean.values()) for one in path])
    by_fold, values = np.array(chosen), np.array(tested)
    own = values[np.arange(len(values)), by_fold.argmax(axis=1)].mean(axis=0)
    best = int(by_fold.mean(axis=0).argmax())
    common = values[:, best].mean(axis=0)
    held = by_fold.mean(axis=0)[best]
    return [*(f"{value:.4f}" for value in (*own, *common, held)), f"{CS[best]:.3g}", f"{seconds / len(folds):.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", action="append", help="one preset; ranksvm-squared by default")
    parser.add_argument("--table", choices=list(TABLES), action="append", help="one table; both by default")
    parser.add_argument("--data", choices=list(SETS), action="append", help="one collection; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for table in options.table or list(TABLES):
        settings, names = TABLES[table]
        print("\n| data | preset | setting | ndcg@10, own C | ap | ndcg@10, one C | ap | validation | C | s / fold |")
        print("|" + " --- |" * 10)
        for name in [one for one in names if one in (options.data or names)]:
            try:
                folds = list(SETS[name]())
            except FileNotFoundError as error:
                print(f"{name} is left out: {error.filename} is not there", file=sys.stderr)
                continue
            for preset in options.preset or ["ranksvm-squared"]:
                for label, parameters in settings.items():
                    cells = [name, preset, label, *measure(folds, preset, parameters)]
                    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
