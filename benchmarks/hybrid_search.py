"""Learned fusion against unsupervised fusions and a grid search, on text collections.

    python benchmarks/hybrid_search.py [--data ../shared/data] [--collections pydocs scifact cranfield] [--draws 5]

Results go to docs/pictures: JSON, tables and a picture. Collections can be run one at a time; ``--collections`` without
a name only redraws tables and picture.

Training queries are drawn at random, several times, and so are the folds of cross-validation; with all queries, only
the folds differ between draws. Everything that is chosen, the best retriever and the point of the
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
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import Queries, evaluate
from marginrank.datasets import pydocs
from marginrank.fusion import BestRun, Fusion, UnsupervisedFusion
from marginrank.preparation.run_features import RunTable
from marginrank.typing import FloatArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from learning_curve import OUT, style

from experiments.text_collections import collection

MEASURE = "ndcg@10"
SIZES = (20, 50, 200)
#: The two retrievers of the grid: words and vectors.
PAIR = {"pydocs": ("bm25_body", "vectors"), "scifact": ("bm25", "vectors"), "cranfield": ("bm25", "vectors")}
TITLES = {"pydocs": "Python docs", "scifact": "SciFact", "cranfield": "Cranfield"}
UNTRAINED = ("CombSUM", "RRF")
COMPARED = (
    ("learned", "RRF"),
    ("learned", "CombSUM"),
    ("learned, two retrievers", "grid of 66, two retrievers"),
    ("adaptive", "learned"),
)
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


def draw(train: Queries, size: int, seed: int) -> Queries:
    return train[np.sort(np.random.default_rng(seed).permutation(len(train))[:size])]


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


def methods_of(pair: tuple[str, str], seed: int) -> Mapping[str, Method]:
    """Return all methods; ``seed`` draws folds."""

    def learned(train: Queries, test: Queries) -> FloatArray:
        return Fusion(random_state=seed).fit(train).predict(test)

    def adaptive(train: Queries, test: Queries) -> FloatArray:
        return Fusion(adaptive=True, random_state=seed).fit(train).predict(test)

    return {
        "best retriever": lambda train, test: BestRun().fit(train).predict(test),
        "RRF": lambda train, test: UnsupervisedFusion("rrf").fit(train).predict(test),
        "CombSUM": lambda train, test: UnsupervisedFusion("combsum").fit(train).predict(test),
        "grid of 66, two retrievers": with_two(grid_search, pair),
        "learned, two retrievers": with_two(learned, pair),
        "learned": learned,
        "adaptive": adaptive,
    }


def run(name: str, data: Path, n_draws: int) -> dict[str, Any]:
    """Print and return the results of a collection."""
    train, test = parts_of(name, data)
    sizes = {}
    print(f"\n{name}: {len(train)} training queries, {len(test)} test queries", flush=True)
    for size in (*(size for size in SIZES if size < len(train)), len(train)):
        began = time.process_time()
        values: dict[str, list[float]] = {}
        by_query: dict[str, FloatArray] = {}
        for seed in range(n_draws):
            drawn = draw(train, size, seed)
            for method, score in methods_of(PAIR[name], seed).items():
                result = evaluate(test, score(drawn, test), MEASURE)
                values.setdefault(method, []).append(result.mean[MEASURE])
                by_query[method] = by_query.get(method, 0.0) + result[MEASURE] / n_draws
        differences = {
            f"{method} − {baseline}": interval(by_query[method] - by_query[baseline]) for method, baseline in COMPARED
        }
        seconds = time.process_time() - began
        sizes[str(size)] = {"values": values, "differences": differences, "cpu seconds": round(seconds, 1)}
        means = ", ".join(f"{method} {np.mean(known):.4f}" for method, known in values.items())
        print(f"{size} queries, {seconds:.0f} CPU s: {means}", flush=True)
    return {"train": len(train), "test": len(test), "draws": n_draws, "sizes": sizes}


def interval(differences: FloatArray) -> list[float]:
    """Return the mean and its 95% interval by a bootstrap over the queries that have relevant documents."""
    differences = differences[~np.isnan(differences)]
    rng = np.random.default_rng(0)
    means = differences[rng.integers(0, len(differences), (5000, len(differences)))].mean(axis=1)
    return [float(differences.mean()), *np.quantile(means, [0.025, 0.975]).tolist()]


def table(results: Mapping[str, Any]) -> str:
    """Return the means of all methods, and the differences that matter, as Markdown."""
    collections = results["collections"]
    first = next(iter(next(iter(collections.values()))["sizes"].values()))
    lines = [
        f"NDCG@10: mean over {results['draws']} draws of training queries and folds, with all queries of folds alone; "
        f"differences with 95% intervals over test queries. Made by `{results['command']}`.",
        "",
        "| collection, training queries | " + " | ".join(first["values"]) + " |",
        "| --- |" + " --- |" * len(first["values"]),
    ]
    for name, one in collections.items():
        for size, record in one["sizes"].items():
            cells = [f"{np.mean(known):.3f}".lstrip("0") for known in record["values"].values()]
            lines.append(f"| {TITLES[name]}, {size} | {' | '.join(cells)} |")
    lines += [
        "",
        "| collection, training queries | " + " | ".join(first["differences"]) + " | worst draw of adaptive |",
    ]
    lines.append("| --- |" + " --- |" * (len(first["differences"]) + 1))
    for name, one in collections.items():
        for size, record in one["sizes"].items():
            cells = [f"{mean:+.3f} ({low:+.3f} to {high:+.3f})" for mean, low, high in record["differences"].values()]
            worst = np.min(np.subtract(record["values"]["adaptive"], record["values"]["learned"]))
            lines.append(f"| {TITLES[name]}, {size} | {' | '.join(cells)} | {worst:+.4f} |")
    return "\n".join(lines) + "\n"


WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 760, 330, 44, 62, 44, 46
#: Methods of the picture, with the numbers of their colors.
DRAWN = {"adaptive": 2, "learned": 0, "grid of 66, two retrievers": 3, "CombSUM": 4, "RRF": 5}


def picture(results: Mapping[str, Any]) -> str:
    """Draw a panel for each collection: NDCG@10 after so many judged queries."""
    panels = results["collections"]
    room = (WIDTH - 12) / len(panels)
    parts = [f'<rect class="paper" width="{WIDTH}" height="{HEIGHT + LEGEND}" rx="6"/>']
    for number, (name, one) in enumerate(panels.items()):
        parts += panel(name, one, number * room, room)
    x = float(LEFT)
    for name, color in DRAWN.items():
        kind = " fixed" if name in UNTRAINED else ""
        parts.append(f'<path class="line{kind} c{color}" d="M{x:.0f} {HEIGHT + 18}h22"/>')
        parts.append(f'<text class="t{color}" x="{x + 28:.0f}" y="{HEIGHT + 22}">{name}</text>')
        x += 58 + 7.2 * len(name)
    label = "NDCG@10 of learned fusion, grid search, CombSUM and RRF on three collections"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + LEGEND}" width="{WIDTH}" '
        f'height="{HEIGHT + LEGEND}" role="img"><title>{label}</title><style>{style()}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def panel(name: str, one: Mapping[str, Any], at: float, room: float) -> list[str]:
    """Draw one collection, from ``at`` on, ``room`` wide; each has its own scale."""
    sizes = list(one["sizes"])
    rows = {
        method: [
            (np.mean(one["sizes"][size]["values"][method]), np.std(one["sizes"][size]["values"][method]))
            for size in sizes
        ]
        for method in DRAWN
    }
    edges = [mean + sign * sd for row in rows.values() for mean, sd in row for sign in (-1, 1)]
    low, high = np.floor(min(edges) * 50) / 50, np.ceil(max(edges) * 50) / 50
    left, right = at + LEFT, at + room - 12

    def x(place: int) -> float:
        return float(left + 16 + place / (len(sizes) - 1) * (right - left - 32))

    def y(value: float) -> float:
        return float(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM))

    parts = [
        f'<text class="title" x="{left:.0f}" y="26">{TITLES[name]}</text>',
        f'<text class="soft" x="{left:.0f}" y="45">NDCG@10, {one["test"]} test queries</text>',
    ]
    for tick in np.arange(low, high + 0.001, 0.02):
        parts.append(f'<path class="grid" d="M{left:.0f} {y(tick):.1f}H{right:.0f}"/>')
        parts.append(
            f'<text class="soft" x="{left - 6:.0f}" y="{y(tick) + 4.5:.1f}" text-anchor="end">{tick:.2f}</text>'
        )
    parts += [
        f'<text class="soft" x="{x(place):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{size}</text>'
        for place, size in enumerate(sizes)
    ]
    middle = (left + right) / 2
    parts.append(f'<text class="soft" x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">judged queries</text>')
    for method, color in reversed(DRAWN.items()):
        fixed = method in UNTRAINED
        # Beside each other, so that no interval hides another.
        shift = {"adaptive": 4, "grid of 66, two retrievers": -4}.get(method, 0)
        points = " ".join(f"{x(place) + shift:.1f},{y(mean):.1f}" for place, (mean, _) in enumerate(rows[method]))
        parts.append(f'<polyline class="line{" fixed" if fixed else ""} c{color}" points="{points}"/>')
        for place, (mean, sd) in enumerate([] if fixed else rows[method]):
            parts.append(
                f'<path class="sd c{color}" d="M{x(place) + shift:.1f} {y(mean - sd):.1f}V{y(mean + sd):.1f}"/>'
            )
            parts.append(f'<circle class="t{color}" cx="{x(place) + shift:.1f}" cy="{y(mean):.1f}" r="3.2"/>')
    return parts


def recorded(run: Callable[[str, Path, int], dict[str, Any]], script: str, doc: str | None) -> tuple[Path, Any]:
    """Run the collections that are asked for; return the path of the record in JSON, and its content."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--collections", nargs="*", default=list(PAIR), choices=list(PAIR), help="the others are kept")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write to")
    args = parser.parse_args()
    place = args.out / f"{script.replace('_', '-')}.json"
    collections = json.loads(place.read_text("utf-8"))["collections"] if place.exists() else {}
    for name in args.collections:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            collections[name] = run(name, args.data, args.draws)
        results = {
            "command": f"python benchmarks/{script}.py",
            "measure": MEASURE,
            "draws": args.draws,
            "versions": {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "marginrank")},
            "collections": {name: collections[name] for name in PAIR if name in collections},
        }
        place.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return place, json.loads(place.read_text("utf-8"))


def main() -> None:
    place, results = recorded(run, "hybrid_search", __doc__)
    place.with_suffix(".txt").write_text(table(results), encoding="utf-8")
    place.with_suffix(".svg").write_text(picture(results), encoding="utf-8")
    print("\n" + table(results))


if __name__ == "__main__":
    main()
