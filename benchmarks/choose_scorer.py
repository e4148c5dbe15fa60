"""Time and accuracy of ``tune`` with ``scorer="auto"``, compared with the linear scorer.

    python benchmarks/choose_scorer.py [--method ndcg@10] [--data MQ2008]

C and the scorer are chosen by NDCG@10 on validation queries, fold by fold; values are means of the test folds. CPU
seconds are those of all folds, on one thread. Collections are those of `defaults.py`, read from ../shared/data.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from defaults import SETS

from marginrank import Ranker, evaluate, tune

COLLECTIONS = ("LightGBM", "OHSUMED", "MQ2008", "MSLR")
SCORERS = ("linear", "auto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="ndcg@10", help="what is trained")
    parser.add_argument("--data", choices=COLLECTIONS, action="append", help="one collection; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | NDCG@10, linear | auto | CPU s, linear | auto | folds with curves |")
    print("|" + " --- |" * 6)
    for name in options.data or COLLECTIONS:
        values: dict[str, list[float]] = {scorer: [] for scorer in SCORERS}
        seconds = dict.fromkeys(SCORERS, 0.0)
        curves = folds = 0
        for train, valid, test in SETS[name]():
            folds += 1
            for scorer in SCORERS:
                began = time.process_time()
                ranker = Ranker(options.method, scorer=scorer, n_jobs=1)
                selection = tune(ranker, train, valid=valid, criterion="ndcg@10")
                seconds[scorer] += time.process_time() - began
                values[scorer].append(evaluate(test, selection.ranker, ["ndcg@10"]).mean["ndcg@10"])
            curves += selection.best.parameters["scorer"].startswith("additive")
        means = [f"{np.mean(values[scorer]):.4f}" for scorer in SCORERS]
        took = [f"{seconds[scorer]:.1f}" for scorer in SCORERS]
        print(f"| {' | '.join([name, *means, *took, f'{curves} of {folds}'])} |", flush=True)


if __name__ == "__main__":
    main()
