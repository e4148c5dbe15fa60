"""Features in float16 beside float32: time of a pass, and what the rounding does to test values.

    python benchmarks/half.py

A pass: CPU time of two threads, on 10,000 generated queries of 120 documents with 136 features. Test values:
five folds of LETOR's MQ2008 and OHSUMED and the test part of pydocs; C is chosen by NDCG@10 on validation queries, on
its own for each type.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from marginrank import Queries, Ranker, evaluate, tune
from marginrank.data import read_letor
from marginrank.datasets import pydocs
from marginrank.losses.base import Loss
from marginrank.losses.pairwise import PairwiseHinge
from marginrank.losses.softmax_cross_entropy import SoftmaxCrossEntropy
from marginrank.losses.structured import StructuredLoss
from marginrank.scorers import Linear
from marginrank.solvers import Auto
from marginrank.training.loss_minimizer import CollapseWarning
from marginrank.training.risk import RankingRisk

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
N_QUERIES, N_DOCUMENTS, N_FEATURES, THREADS = 10_000, 120, 136, 2
LOSSES: dict[str, Loss] = {
    "auc, po": StructuredLoss("auc"),
    "ap, po": StructuredLoss("ap"),
    "ranksvm": PairwiseHinge(),
    "softmax": SoftmaxCrossEntropy(),
}
#: Gap of the solver: with the default of 1e-3, two trainings on the same features differ by more than the rounding.
TOL = 1e-5
PRESETS = ("svmmap", "svmndcg", "ranksvm-squared", "softmax")
Fold = tuple[Queries, Queries, Queries]


def passes(rng: np.random.Generator) -> None:
    """Print the time of a pass for either type, measured in turns."""
    X = rng.standard_normal((N_QUERIES * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    queries = Queries.from_arrays(X, rng.integers(0, 5, len(X)), group=np.full(N_QUERIES, N_DOCUMENTS))
    print("| loss | float32, CPU ms | float16, CPU ms | ratio |\n| --- | --- | --- | --- |")
    scorers = [Linear(dtype=dtype).prepare(queries) for dtype in (None, "float16")]
    for name, loss in LOSSES.items():
        risks = [RankingRisk(scorer, loss, THREADS) for scorer in scorers]
        w, times = rng.standard_normal(N_FEATURES), np.full(2, np.inf)
        for _ in range(8):
            at = w + 1e-3 * rng.standard_normal(N_FEATURES)
            for number, risk in enumerate(risks):
                start = time.process_time()
                risk(at)
                times[number] = min(times[number], time.process_time() - start)
        print(f"| {name} | {1e3 * times[0]:.0f} | {1e3 * times[1]:.0f} | {times[1] / times[0]:.2f} |", flush=True)


def folds() -> Iterator[tuple[str, list[Fold]]]:
    """Yield collections as folds of training, validation and test queries."""
    for name, folder in {"MQ2008": "letor4-mq2008", "OHSUMED": "letor3-ohsumed/QueryLevelNorm"}.items():
        files = [DATA / folder / f"S{number}.txt.xz" for number in range(1, 6)]
        if all(file.exists() for file in files):
            parts = [read_letor(file) for file in files]
            yield name, [_fold(parts, number) for number in range(5)]
        else:
            print(f"{name} is left out: {DATA / folder} is not there")
    docs = pydocs()
    train, valid = docs.train.split(0.75, 0.25)
    yield "pydocs", [(train, valid, docs.test)]


def _fold(parts: list[Queries], number: int) -> Fold:
    train = Queries.concatenate([parts[(number + other) % 5] for other in range(3)])
    return train, parts[(number + 3) % 5], parts[(number + 4) % 5]


def accuracy() -> None:
    """Print test values for either type."""
    print("\n| data | preset | ndcg@10, float32 | float16 | ap, float32 | float16 | same C |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for data, parts in folds():
        for preset in PRESETS:
            values, chosen = [], []
            for dtype in (None, "float16"):
                ranker = Ranker(preset, scorer=Linear(dtype=dtype), solver=Auto(tol=TOL))
                choose = partial(tune, ranker, criterion="ndcg@10")
                found = [(choose(train, valid=valid).ranker, test) for train, valid, test in parts]
                means = [evaluate(test, ranker, ["ndcg@10", "ap"]).mean for ranker, test in found]
                values.append([float(np.mean([mean[name] for mean in means])) for name in ("ndcg@10", "ap")])
                chosen.append([ranker.C for ranker, _ in found])
            (ndcg, ap), (half_ndcg, half_ap) = values
            same = f"{sum(a == b for a, b in zip(*chosen, strict=True))} of {len(parts)}"
            print(
                f"| {data} | {preset} | {ndcg:.4f} | {half_ndcg:.4f} | {ap:.4f} | {half_ap:.4f} | {same} |", flush=True
            )


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore", CollapseWarning)
    passes(np.random.default_rng(0))
    accuracy()


if __name__ == "__main__":
    main()
