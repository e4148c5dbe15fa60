"""Every preset on OHSUMED and MQ2008, five folds, next to the published baselines: ``python benchmarks/accuracy.py``.

C is chosen by MAP on the validation part of each fold, under the policy of the official scripts, from the ten values of
`DEFAULT_CS`; nothing else is chosen. ``plain`` trains on the features as they are, all queries alike; ``recipe`` on
features standardized by query, queries weighted by the sum of their grades. The data lies in ../shared/data.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import Queries, Ranker, compare, evaluate, tune
from marginrank.data import read_letor
from marginrank.methods import all_presets
from marginrank.solvers import Auto
from marginrank.training import CollapseWarning
from marginrank.typing import FloatArray

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = {
    "OHSUMED": (DATA / "letor3-ohsumed" / "QueryLevelNorm", "letor3"),
    "MQ2008": (DATA / "letor4-mq2008", "letor4"),
}
CUTS = (1, 3, 5, 10)
#: NDCG@1, 3, 5, 10 and MAP, means of five test folds by the official scripts, from the LETOR pages.
PUBLISHED = {
    "OHSUMED": {
        "RankSVM": (0.4958, 0.4207, 0.4164, 0.4140, 0.4334),
        "RankBoost": (0.4632, 0.4555, 0.4494, 0.4302, 0.4411),
        "ListNet": (0.5326, 0.4732, 0.4432, 0.4410, 0.4457),
        "AdaRank-MAP": (0.5388, 0.4682, 0.4613, 0.4429, 0.4487),
    },
    "MQ2008": {
        "RankSVM-Struct": (0.3627, 0.4286, 0.4695, 0.2279, 0.4696),
        "RankBoost": (0.3856, 0.4288, 0.4666, 0.2255, 0.4775),
        "ListNet": (0.3754, 0.4324, 0.4747, 0.2303, 0.4775),
        "AdaRank-MAP": (0.3754, 0.4370, 0.4794, 0.2288, 0.4764),
        "AdaRank-NDCG": (0.3826, 0.4420, 0.4821, 0.2307, 0.4824),
    },
}


class Result:
    """Test values of one method: means of folds under both policies, and NDCG@10 of every query."""

    def __init__(self) -> None:
        self.official: list[list[float]] = []
        self.standard: list[list[float]] = []
        self.per_query: list[FloatArray] = []
        self.Cs: list[float] = []

    def add(self, test: Queries, scores: FloatArray, policy: str) -> None:
        """Measure the scores of one test fold."""
        names = [*(f"ndcg@{k}" for k in CUTS), "ap"]
        self.official.append(list(evaluate(test, scores, names, policy=policy).mean.values()))
        standard = evaluate(test, scores, ["ndcg@10", "ap"])
        self.standard.append(list(standard.mean.values()))
        self.per_query.append(standard["ndcg@10"])


#: Parameters of `Ranker` by the name of the variant.
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"scaling": None},
    "recipe": {"scaling": "query-standard", "weighting": "grades"},
    "additive": {"scorer": "additive"},
    "additive, weighted": {"scorer": "additive", "weighting": "sqrt-pairs"},
}


def run(name: str, parts: list[Queries], policy: str, parameters: dict[str, Any], tol: float) -> Result:
    result = Result()
    for fold in range(5):
        train, valid, test = (
            Queries.concatenate([parts[(fold + number) % 5] for number in range(3)]),
            parts[(fold + 3) % 5],
            parts[(fold + 4) % 5],
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            chosen = tune(
                Ranker(name, solver=Auto(tol=tol), **parameters), train, valid=valid, criterion="ap", policy=policy
            )
        result.Cs.append(chosen.ranker.C)
        result.add(test, chosen.ranker.predict(test), policy)
    return result


def report(data: str, presets: list[str], variants: list[str], tol: float) -> None:
    folder, policy = SETS[data]
    if not folder.exists():
        sys.exit(f"{folder} is not there; this comparison reads the LETOR data from ../shared/data")
    parts = [read_letor(folder / f"S{number}.txt.xz", dtype="float64") for number in range(1, 6)]
    print(f"\n{data}: means of five test folds; NDCG@k and MAP of policy {policy}, then of policy standard")
    header = "".join(f"{f'N@{k}':>8}" for k in CUTS)
    print(f"{'method':<32}{header}{'MAP':>8} |{'N@10':>8}{'MAP':>8} |{'C of the folds':>28}{'seconds':>9}")
    for published, row in PUBLISHED[data].items():
        print(f"{published + ' (published)':<32}" + "".join(f"{value:8.4f}" for value in row) + " |")
    results: dict[str, Result] = {}
    for variant in variants:
        for name in presets:
            label = name if variant == "plain" else f"{name}, {variant}"
            began = time.perf_counter()
            results[label] = result = run(name, parts, policy, VARIANTS[variant], tol)
            official, standard = np.mean(result.official, axis=0), np.mean(result.standard, axis=0)
            figures = "".join(f"{value:8.4f}" for value in official) + " |"
            figures += "".join(f"{value:8.4f}" for value in standard) + " |"
            Cs = " ".join(f"{C:g}" for C in result.Cs)
            print(f"{label:<32}{figures}{Cs:>28}{time.perf_counter() - began:9.1f}", flush=True)
    if len(results) > 1:
        values = {label: np.concatenate(result.per_query) for label, result in results.items()}
        counted = ~np.isnan(next(iter(values.values())))
        baseline = "ranksvm" if "ranksvm" in values else next(iter(values))
        print(f"\nNDCG@10 of all test queries (policy standard) against {baseline}:")
        print(compare({label: column[counted] for label, column in values.items()}, baseline=baseline))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=list(SETS), action="append", help="one data set; both by default")
    parser.add_argument("--preset", action="append", help="one preset; all by default")
    parser.add_argument("--variant", choices=list(VARIANTS), action="append", help="plain and recipe by default")
    parser.add_argument("--tol", type=float, default=1e-4)
    options = parser.parse_args()
    for data in options.data or list(SETS):
        report(data, options.preset or list(all_presets()), options.variant or ["plain", "recipe"], options.tol)


if __name__ == "__main__":
    main()
