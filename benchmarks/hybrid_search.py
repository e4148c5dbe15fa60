"""Learned fusion against unsupervised fusions and a grid search, on text collections.

    python benchmarks/hybrid_search.py [--data ../shared/data] [--collections pydocs scifact cranfield] [--draws 5]

Training queries are drawn at random, several times; everything that is chosen, the best retriever and the point of the
grid included, is chosen on the drawn queries, by NDCG@10, and evaluated on test queries that are the same for all.
The grid is that of OpenSearch's hybrid search optimizer, which combines two retrievers: two scalings, three means, and
eleven weights. SciFact has test queries of its own; of Cranfield's 225 queries, 100 are for testing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from marginrank import Queries, evaluate
from marginrank.datasets import pydocs
from marginrank.fusion import BestRun, Fusion, UnsupervisedFusion
from marginrank.preparation.run_features import RunTable
from marginrank.typing import FloatArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.text_collections import collection

MEASURE = "ndcg@10"
SIZES = (20, 50, 200)
#: The two retrievers of the grid: words and vectors.
PAIR = {"pydocs": ("bm25_body", "vectors"), "scifact": ("bm25", "vectors"), "cranfield": ("bm25", "vectors")}
#: Scores of the test queries, given the training queries and the test queries.
Method = Callable[[Queries, Queries], FloatArray]


def parts_of(name: str, data: Path) -> tuple[Queries, Queries]:
    """Return training and test queries."""
    if name == "pydocs":
        docs = pydocs()
        return docs.train, docs.test
    queries = collection(data, name)
    test = np.array([str(query).startswith("test/") for query in queries.query_ids])
    if name == "cranfield":
        test[np.random.default_rng(0).permutation(len(queries))[:100]] = True
    return queries[np.flatnonzero(~test)], queries[np.flatnonzero(test)]


def value(queries: Queries, scores: FloatArray) -> float:
    return evaluate(queries, scores, MEASURE).mean[MEASURE]


def grid_scores(queries: Queries) -> Iterator[FloatArray]:
    """Yield the scores of each point of the grid: scaling, mean, weight of the first of two retrievers."""
    queries = queries.grouped
    table = RunTable(queries.dense(), queries.offsets)
    norms = np.sqrt(np.add.reduceat(np.nan_to_num(table.scores) ** 2, queries.offsets[:-1], axis=0))
    euclidean = table.scores / np.repeat(np.where(norms > 0, norms, 1.0), queries.lengths, axis=0)
    for unit, mean in product((np.nan_to_num(table.unit), np.nan_to_num(euclidean)), ("sum", "geometric", "harmonic")):
        known = np.maximum(unit, 1e-9)
        for weight in np.linspace(0, 1, 11):
            weights = np.array([weight, 1 - weight])
            if mean == "sum":
                yield unit @ weights
            elif mean == "geometric":
                yield np.exp(np.log(known) @ weights)
            else:
                yield 1.0 / ((1.0 / known) @ weights)


def grid_search(train: Queries, test: Queries) -> FloatArray:
    best = int(np.argmax([value(train, scores) for scores in grid_scores(train)]))
    return list(grid_scores(test))[best]


def with_two(method: Method, pair: tuple[str, str]) -> Method:
    """Return a method that sees two retrievers only."""

    def scores(train: Queries, test: Queries) -> FloatArray:
        columns = [np.column_stack([queries.feature(name) for name in pair]) for queries in (train, test)]
        return method(*(part.with_features(X, list(pair)) for part, X in zip((train, test), columns, strict=True)))

    return scores


def fused(**options: object) -> Method:
    return lambda train, test: Fusion(**options).fit(train).predict(test)  # type: ignore[arg-type]


def methods_of(pair: tuple[str, str]) -> Mapping[str, Method]:
    return {
        "best retriever": lambda train, test: BestRun().fit(train).predict(test),
        "RRF": lambda train, test: UnsupervisedFusion("rrf").fit(train).predict(test),
        "CombSUM": lambda train, test: UnsupervisedFusion("combsum").fit(train).predict(test),
        "grid of 66, two retrievers": with_two(grid_search, pair),
        "learned, two retrievers": with_two(fused(), pair),
        "learned": fused(),
        "learned, adaptive": fused(adaptive=True),
    }


def run(name: str, data: Path, n_draws: int) -> list[dict[str, object]]:
    """Print and return the results of a collection."""
    train, test = parts_of(name, data)
    methods, records = methods_of(PAIR[name]), []
    print(f"\n## {name}: {len(train)} training queries, {len(test)} test queries\n", flush=True)
    print("| training queries | " + " | ".join(methods) + " | adaptive − static, 95% interval |")
    print("|---:|" + "---:|" * (len(methods) + 1))
    for size in (*(size for size in SIZES if size < len(train)), len(train)):
        values: dict[str, list[float]] = {method: [] for method in methods}
        differences = np.zeros(len(test))
        draws = n_draws if size < len(train) else 1
        began = time.process_time()
        for seed in range(draws):
            drawn = train[np.sort(np.random.default_rng(seed).permutation(len(train))[:size])]
            scores = {method: score(drawn, test) for method, score in methods.items()}
            for method, ranked in scores.items():
                values[method].append(value(test, ranked))
            by_query = [evaluate(test, scores[key], MEASURE)[MEASURE] for key in ("learned, adaptive", "learned")]
            differences += (by_query[0] - by_query[1]) / draws
        low, high = interval(differences)
        cells = [
            f"{np.mean(known):.4f}" + (f" ± {np.std(known):.4f}" if draws > 1 else "") for known in values.values()
        ]
        worst = min(np.subtract(values["learned, adaptive"], values["learned"]))
        print(f"| {size} | {' | '.join(cells)} | {low:+.4f} to {high:+.4f} (worst draw {worst:+.4f}) |", flush=True)
        seconds = time.process_time() - began
        records.append(
            {"collection": name, "size": size, "values": values, "interval": [low, high], "cpu seconds": seconds}
        )
    return records


def interval(differences: FloatArray) -> tuple[float, float]:
    """Return a 95% interval of the mean by a bootstrap over the queries that have relevant documents."""
    differences = differences[~np.isnan(differences)]
    rng = np.random.default_rng(0)
    means = differences[rng.integers(0, len(differences), (5000, len(differences)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--collections", nargs="+", default=list(PAIR), choices=list(PAIR))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the values as JSON")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    records = [record for name in args.collections for record in run(name, args.data, args.draws)]
    if args.out is not None:
        args.out.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
