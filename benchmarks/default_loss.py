"""Which loss to train by default: NDCG@10 on five collections with 20, 50, 200 and all training queries.

    python benchmarks/default_loss.py [--data ../shared/data]

C is chosen by five-fold cross-validation on the training queries; everything else is a default.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from text_collections import collection

from experiments.letor import FOLDS, arranged, parts
from marginrank.data.queries import Queries
from marginrank.datasets.python_docs import pydocs
from marginrank.evaluation.evaluation import evaluate
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.tuning import tune

LOSSES: Final = ("svmmap", "ndcg@10", "softmax", "ranksvm")
COLLECTIONS: Final = {
    "mq2008": "MQ2008",
    "ohsumed": "OHSUMED",
    "pydocs": "pydocs",
    "scifact": "SciFact",
    "cranfield": "Cranfield",
}
FOLDERS: Final = {"mq2008": "letor4-mq2008", "ohsumed": "letor3-ohsumed"}
#: Training queries; None for all.
SIZES: Final = (20, 50, 200, None)
MEASURE: Final = "ndcg@10"


def _split(data: Path, name: str, draw: int) -> tuple[Queries, Queries]:
    """Return training and test queries: published folds or splits, and for Cranfield fifths of the queries."""
    if name in ("mq2008", "ohsumed"):
        fold = arranged(parts(data, name), draw)
        return Queries.concatenate([fold.train, fold.valid]), fold.test
    if name == "pydocs":
        docs = pydocs()
        return docs.train, docs.test
    queries = collection(data, name)
    if name == "scifact":
        in_test = np.char.startswith(queries.query_ids, "test/")
    else:
        in_test = np.arange(len(queries)) % len(FOLDS) == draw - 1
    return queries[~in_test], queries[in_test]


def _drawn(train: Queries, size: int | None, draw: int) -> Queries:
    """Draw training queries among those with something to learn from."""
    varied = [q for q in range(len(train)) if len(set(train[q].grades.tolist())) > 1]
    if size is None or size >= len(varied):
        return train[np.array(varied)]
    return train[np.sort(np.random.default_rng(draw).choice(varied, size, replace=False))]


def _trial(data: Path, name: str, size: int | None, draw: int) -> dict[str, float]:
    """Choose C by cross-validation on the training queries, and return the mean on the test queries, by loss."""
    train, test = _split(data, name, draw)
    some = _drawn(train, size, draw)
    means = {}
    for loss in LOSSES:
        ranker = tune(Ranker(loss), some, folds=5, criterion=MEASURE, n_jobs=1).ranker
        means[loss] = float(evaluate(test, ranker.predict(test), MEASURE, n_jobs=1).mean[MEASURE])
    return means


def main() -> None:
    """Print the mean of each loss on each collection, and over all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the collections")
    data = parser.parse_args().data
    warnings.simplefilter("ignore")  # the hinge of ndcg@10 is minimal at 0 on some draws
    print(f"| collection | training queries | draws | {' | '.join(LOSSES)} |\n|{' --- |' * (3 + len(LOSSES))}")
    means = []
    for name, title in COLLECTIONS.items():
        if name != "pydocs" and not (data / FOLDERS.get(name, name)).is_dir():
            print(f"{title}: skipped, no folder {data / FOLDERS.get(name, name)}", file=sys.stderr)
            continue
        for size in SIZES:
            if (name, size) in (("ohsumed", 200), ("cranfield", 200)):
                continue  # there are fewer
            draws = FOLDS if size is not None or name in ("mq2008", "ohsumed", "cranfield") else FOLDS[:1]
            trials = [_trial(data, name, size, draw) for draw in draws]
            means.append([float(np.mean([trial[loss] for trial in trials])) for loss in LOSSES])
            values = " | ".join(f"{mean:.4f}" for mean in means[-1])
            print(f"| {title} | {size or 'all'} | {len(trials)} | {values} |", flush=True)
    values = " | ".join(f"{mean:.4f}" for mean in np.mean(means, axis=0))
    print(f"| mean | | | {values} |")


if __name__ == "__main__":
    main()
