"""NDCG@10 against the number of judged training queries: ``python benchmarks/learning_curve.py``.

The collection is `marginrank.datasets.pydocs`. Training queries are drawn at random from its training part, several
times; every ranker is trained on the same draws and evaluated on the whole test part. Everything that is chosen is
chosen by five-fold cross-validation inside the drawn queries, by NDCG@10: C of the linear rankers from ten values;
number of leaves, number of trees and learning rate of LightGBM from 36 combinations. The best retriever is
the one that is best on the drawn queries. Results go to docs/pictures: JSON, a table and a picture. Needs LightGBM.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import Queries, Ranker, evaluate, tune
from marginrank.datasets import pydocs
from marginrank.fusion import rrf
from marginrank.typing import FloatArray

OUT = Path(__file__).resolve().parents[1] / "docs" / "pictures"
SIZES = (20, 50, 200)
N_DRAWS = 8
N_FOLDS = 5
MEASURE = "ndcg@10"
LEAVES, TREES, RATES = (4, 8, 31), (20, 40, 60, 100), (0.03, 0.05, 0.1)
#: Scores of the test queries, given the training queries, the test queries and a seed.
Method = Callable[[Queries, Queries, int], FloatArray]


def value(queries: Queries, scores: FloatArray) -> float:
    return evaluate(queries, scores, MEASURE).mean[MEASURE]


def linear(name: str) -> Method:
    def train(queries: Queries, test: Queries, seed: int) -> FloatArray:
        tuned = tune(Ranker(name), queries, folds=N_FOLDS, criterion=MEASURE, random_state=seed)
        return tuned.ranker.predict(test)

    return train


def boost(queries: Queries, leaves: int = 31, rate: float = 0.1, trees: int = 100) -> Any:
    """LightGBM's lambdarank; the defaults are LightGBM's."""
    import lightgbm

    settings = {
        "objective": "lambdarank",
        "num_leaves": leaves,
        "learning_rate": rate,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": 0,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(queries.X, queries.grades, group=queries.lengths, params={"verbosity": -1})
    return lightgbm.train(settings, data, trees)


def lightgbm_defaults(queries: Queries, test: Queries, _: int) -> FloatArray:
    return np.asarray(boost(queries).predict(test.X))


def lightgbm_tuned(queries: Queries, test: Queries, seed: int) -> FloatArray:
    chosen = best_setting(queries, seed)
    return np.asarray(boost(queries, **chosen).predict(test.X))


def best_setting(queries: Queries, seed: int) -> dict[str, Any]:
    """The best of the grid by cross-validation over whole queries."""
    folds = np.array_split(np.random.default_rng(seed).permutation(len(queries)), N_FOLDS)
    means: dict[tuple[int, float, int], list[float]] = {}
    for fold, (leaves, rate) in product(folds, product(LEAVES, RATES)):
        kept, held_out = queries[np.setdiff1d(np.arange(len(queries)), fold)], queries[np.sort(fold)]
        booster = boost(kept, leaves, rate, max(TREES))
        for trees in TREES:
            scores = np.asarray(booster.predict(held_out.X, num_iteration=trees))
            means.setdefault((leaves, rate, trees), []).append(value(held_out, scores))
    leaves, rate, trees = max(means, key=lambda setting: float(np.nanmean(means[setting])))
    return {"leaves": leaves, "rate": rate, "trees": trees}


def fused(_: Queries, test: Queries, __: int) -> FloatArray:
    return rrf(test)


def best_retriever(queries: Queries, test: Queries, _: int) -> FloatArray:
    names = queries.feature_names or ()
    return test.feature(max(names, key=lambda name: value(queries, queries.feature(name))))


METHODS: dict[str, Method] = {
    "SVMmap": linear("svmmap"),
    "softmax": linear("softmax"),
    "LightGBM, tuned": lightgbm_tuned,
    "LightGBM, defaults": lightgbm_defaults,
    "RRF": fused,
    "best retriever": best_retriever,
}


def measure(sizes: Sequence[int], n_draws: int) -> dict[str, Any]:
    docs = pydocs()
    results: dict[str, dict[str, list[float]]] = {name: {str(size): [] for size in sizes} for name in METHODS}
    for draw in range(n_draws):
        order = np.random.default_rng(draw).permutation(len(docs.train))
        for size, (name, method) in product(sizes, METHODS.items()):
            began = time.perf_counter()
            queries = docs.train[np.sort(order[:size])]
            results[name][str(size)].append(value(docs.test, method(queries, docs.test, draw)))
            seconds = time.perf_counter() - began
            print(
                f"draw {draw}  {size:4} queries  {name:<20}{results[name][str(size)][-1]:.4f}{seconds:8.1f} s",
                flush=True,
            )
    packages = ("numpy", "scipy", "scikit-learn", "lightgbm", "marginrank")
    return {
        "command": "python benchmarks/learning_curve.py",
        "measure": MEASURE,
        "draws": n_draws,
        "documents": len(docs.summaries),
        "queries": {"train": len(docs.train), "test": len(docs.test)},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "values": results,
    }


def summarize(results: Mapping[str, Any]) -> dict[str, list[tuple[int, float, float]]]:
    """Size, mean and standard deviation over draws, by method."""
    return {
        name: [
            (int(size), statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)
            for size, values in by_size.items()
        ]
        for name, by_size in results["values"].items()
    }


def table(results: Mapping[str, Any]) -> str:
    rows = summarize(results)
    sizes = [size for size, *_ in next(iter(rows.values()))]
    lines = ["| | " + " | ".join(f"{size} queries" for size in sizes) + " |", "| --- |" + " --- |" * len(sizes)]
    lines += [
        f"| {name} | " + " | ".join(f"{mean:.3f} ± {sd:.3f}" for _, mean, sd in row) + " |"
        for name, row in rows.items()
    ]
    versions = results["versions"]
    made = ", ".join(f"{name} {versions[name]}" for name in ("numpy", "scipy", "scikit-learn", "lightgbm"))
    about = (
        f"NDCG@10 on {results['queries']['test']} test queries: mean and standard deviation over {results['draws']} "
        f"draws of training queries. Made by `{results['command']}` with {made}."
    )
    return "\n".join([about, "", *lines, ""])


# The picture: colors for light and dark, and a background of its own, so that it can be read on any page.
WIDTH, HEIGHT = 580, 360
LEFT, RIGHT, TOP, BOTTOM = 50, 172, 46, 44
LIGHT = ("#0a6bb0", "#00856a", "#c4500a", "#99478c", "#8a6d00", "#5d5d66")
DARK = ("#5ab4ec", "#3fc9a4", "#f2935c", "#d992cc", "#d9bb4a", "#b0b0ba")


def style() -> str:
    def colors(palette: Sequence[str], ink: str, soft: str, paper: str, grid: str) -> str:
        series = [f".c{n} {{ stroke: {one}; }} .t{n} {{ fill: {one}; }}" for n, one in enumerate(palette)]
        rules = (
            f"text {{ fill: {ink}; }} .soft {{ fill: {soft}; }} .paper {{ fill: {paper}; }} .grid {{ stroke: {grid}; }}"
        )
        return "\n".join([rules, *series])

    return f"""
text {{ font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }}
.title {{ font-size: 15px; font-weight: 600; }}
.line {{ fill: none; stroke-width: 2.5; }}
.sd {{ stroke-width: 1.6; opacity: 0.65; }}
.fixed {{ stroke-dasharray: 5 4; stroke-width: 1.8; }}
{colors(LIGHT, "#1c2024", "#5b6470", "#ffffff", "#dfe3e8")}
@media (prefers-color-scheme: dark) {{
{colors(DARK, "#e6e9ec", "#9aa4af", "#14171a", "#31373d")}
}}
"""


def picture(results: Mapping[str, Any]) -> str:
    rows = summarize(results)
    sizes = [size for size, *_ in next(iter(rows.values()))]
    low = min(mean - sd for row in rows.values() for _, mean, sd in row)
    high = max(mean + sd for row in rows.values() for _, mean, sd in row)
    low, high = np.floor(low * 50) / 50, np.ceil(high * 50) / 50

    def x(size: float) -> float:
        share = np.log(size / sizes[0]) / np.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else 0.5
        return float(LEFT + 14 + share * (WIDTH - LEFT - RIGHT - 28))

    def y(mean: float) -> float:
        return float(HEIGHT - BOTTOM - (mean - low) / (high - low) * (HEIGHT - TOP - BOTTOM))

    parts = [f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>']
    parts.append(f'<text class="title" x="{LEFT}" y="26">NDCG@10 on {results["queries"]["test"]} test queries</text>')
    for tick in np.arange(low, high + 0.001, 0.02):
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y(tick) + 4.5:.1f}" text-anchor="end">{tick:.2f}</text>')
    for size in sizes:
        parts.append(f'<text class="soft" x="{x(size):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{size}</text>')
    parts.append(
        f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        "judged training queries</text>"
    )
    for number, (name, row) in enumerate(rows.items()):
        fixed = name in ("RRF", "best retriever")
        # Beside each other, so that no interval hides another.
        shift = 0 if fixed else 5 * (number - 1.5)
        points = " ".join(f"{x(size) + shift:.1f},{y(mean):.1f}" for size, mean, _ in row)
        parts.append(f'<polyline class="line{" fixed" if fixed else ""} c{number}" points="{points}"/>')
        for size, mean, sd in [] if fixed else row:
            at = x(size) + shift
            parts.append(f'<path class="sd c{number}" d="M{at:.1f} {y(mean - sd):.1f}V{y(mean + sd):.1f}"/>')
            parts.append(f'<circle class="t{number}" cx="{at:.1f}" cy="{y(mean):.1f}" r="3.5"/>')
    ends = {name: y(row[-1][1]) for name, row in rows.items()}
    for name, place in spread(ends, 18).items():
        number, mean = list(rows).index(name), rows[name][-1][1]
        text = f"{name} {mean:.3f}"
        parts.append(f'<text class="t{number}" x="{WIDTH - RIGHT + 6}" y="{place + 4.5:.1f}">{text}</text>')
    label = f"Learning curves: NDCG@10 after {', '.join(map(str, sizes))} judged queries"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img"><title>{label}</title><style>{style()}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def spread(places: Mapping[str, float], room: float) -> dict[str, float]:
    """Move labels apart, as little as keeps their order: blocks of labels that touch are centered on their places."""
    blocks: list[tuple[list[str], float]] = []
    for name in sorted(places, key=lambda name: places[name]):
        blocks.append(([name], places[name]))
        while len(blocks) > 1 and blocks[-1][1] - blocks[-2][1] < room * (len(blocks[-1][0]) + len(blocks[-2][0])) / 2:
            names = blocks[-2][0] + blocks[-1][0]
            blocks[-2:] = [(names, statistics.fmean(places[name] for name in names))]
    return {
        name: middle + room * (at - (len(names) - 1) / 2) for names, middle in blocks for at, name in enumerate(names)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=N_DRAWS, help="draws of training queries")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of training queries")
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write to")
    parser.add_argument("--draw-only", action="store_true", help="make table and picture from the JSON that is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    place = options.out / "learning-curve.json"
    if not options.draw_only:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = measure(options.sizes, options.draws)
        place.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    results = json.loads(place.read_text(encoding="utf-8"))
    place.with_suffix(".txt").write_text(table(results), encoding="utf-8")
    place.with_suffix(".svg").write_text(picture(results), encoding="utf-8")
    print("\n" + table(results))


if __name__ == "__main__":
    main()
