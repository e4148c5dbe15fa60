"""Success rate of the search of slack rescaling, and cost of the exact method.

python benchmarks/slack_search.py [--queries 200]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from marginrank.losses import SlackLoss
from marginrank.losses.base import PreparedLoss
from marginrank.typing import FloatArray

#: Measure, map, and the shares of the grades from 0 on.
KINDS = (
    ("ap", "po", (0.7, 0.3)),
    ("ap", "dorm", (0.7, 0.3)),
    ("auc", "dorm", (0.7, 0.3)),
    ("ndcg@10", "po", (0.6, 0.3, 0.1)),
    ("ndcg@10", "dorm", (0.6, 0.3, 0.1)),
    ("ndcg", "po", (0.6, 0.3, 0.1)),
    ("ndcg", "dorm", (0.6, 0.3, 0.1)),
)
LENGTHS = (20, 50, 100)
SPREADS = (0.3, 3.0)


def timed(prepared: PreparedLoss, scores: FloatArray) -> tuple[FloatArray, float]:
    """Slacks of all queries, and the milliseconds of the second evaluation."""
    prepared(scores)
    began = time.perf_counter()
    xi, _ = prepared(scores)
    return xi, 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Print a table: share of exact answers, smallest ratio to the optimum, milliseconds of a query in both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=200, help="number of random queries of each kind")
    n_queries = parser.parse_args().queries
    print("| measure | map | documents | exact | smallest ratio | ms exact | ms search |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for measure, feature_map, shares in KINDS:
        for n in LENGTHS:
            rng = np.random.default_rng(n)
            grades = rng.choice(len(shares), n_queries * n, p=shares).astype(np.float64)
            noise = rng.standard_normal(n_queries * n) + 0.7 * grades
            scores = np.repeat(np.tile(SPREADS, n_queries)[:n_queries], n) * noise
            offsets = np.arange(n_queries + 1) * n
            frontier = SlackLoss(measure, feature_map, most_states=10**9).prepare(grades, offsets)
            exact, exact_ms = timed(frontier, scores)
            search, search_ms = timed(SlackLoss(measure, feature_map, most_states=0).prepare(grades, offsets), scores)
            ratio = np.where(exact > 0, search / np.where(exact > 0, exact, 1.0), 1.0)
            # Where some query ran out of labels its optimum may be larger still.
            share = ("" if frontier.exact else "≤ ") + f"{100 * np.mean(ratio > 1 - 1e-9):.0f}%"
            print(
                f"| {measure} | {feature_map} | {n} | {share} | {ratio.min():.4f} "
                f"| {exact_ms / n_queries:.2f} | {search_ms / n_queries:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
