"""Regression on grades with and without an intercept, beside scikit-learn's Ridge: NDCG@10 on LETOR folds.

    python benchmarks/regression.py [--data ../shared/data] [--sets mq2008 ohsumed]

C, or the penalty of Ridge, is chosen on the validation part of each of the five folds. Ridge weights documents alike,
the loss weights queries alike.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.linear_model import Ridge

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.letor import FOLDS, SETS, Fold, choose, fold
from marginrank.data.queries import Queries
from marginrank.evaluation.evaluation import evaluate
from marginrank.evaluation.paired_tests import p_t
from marginrank.losses import SquaredError
from marginrank.ranker.ranker import Ranker
from marginrank.typing import FloatArray

MEASURE: Final = "ndcg@10"
PENALTIES: Final = tuple(np.geomspace(1e-3, 1e4, 15).tolist())


def _values(queries: Queries, scores: FloatArray) -> FloatArray:
    return evaluate(queries, scores, MEASURE, n_jobs=1)[MEASURE]


def _ours(ranker: Ranker) -> Callable[[Fold], FloatArray]:
    return lambda data: choose(ranker, data, criterion=MEASURE).ranker.predict(data.test)


def _ridge(data: Fold) -> FloatArray:
    fitted: list[Any] = [Ridge(alpha=alpha).fit(data.train.X, data.train.grades) for alpha in PENALTIES]
    return np.asarray(
        max(fitted, key=lambda model: np.nanmean(_values(data.valid, model.predict(data.valid.X)))).predict(data.test.X)
    )


METHODS: Final[dict[str, Callable[[Fold], FloatArray]]] = {
    "without an intercept": _ours(Ranker(loss=SquaredError(intercept=False))),
    "regression": _ours(Ranker("regression")),
    "scikit-learn's Ridge": _ridge,
    "chapelle-ndcg": _ours(Ranker("chapelle-ndcg")),
}


def main() -> None:
    """Print the mean of each method, and its difference from Ridge with a p-value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the collections")
    parser.add_argument("--sets", nargs="+", default=["mq2008", "ohsumed"], choices=sorted(SETS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| set | method | {MEASURE} | less Ridge | p |\n|{' --- |' * 5}")
    for name in arguments.sets:
        folds = [fold(arguments.data, name, number) for number in FOLDS]
        values = {
            method: np.concatenate([_values(data.test, predict(data)) for data in folds])
            for method, predict in METHODS.items()
        }
        ridge = values["scikit-learn's Ridge"]
        for method, found in values.items():
            both = np.isfinite(found) & np.isfinite(ridge)
            difference = found[both] - ridge[both]
            p = p_t(difference) if difference.any() else 1.0
            print(f"| {name} | {method} | {np.nanmean(found):.4f} | {difference.mean():+.4f} | {p:.2g} |", flush=True)


if __name__ == "__main__":
    main()
