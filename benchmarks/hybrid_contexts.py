"""Contexts of fusions, which their weights may depend on, against static weights, on text collections.

    python benchmarks/hybrid_contexts.py [--data ../shared/data] [--collections pydocs scifact cranfield] [--draws 5]

Results go to docs/pictures, as JSON and a table. Collections can be run one at a time, and ``--collections`` alone only
rewrites the table. Collections, draws and test queries are those of benchmarks/hybrid_search.py. With 20 training
queries the minimum of `Fusion(adaptive=True)` is lifted, to see what it is good for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from marginrank import Queries
from marginrank.datasets import pydocs
from marginrank.datasets.docstrings import read_pages
from marginrank.fusion import Fusion
from marginrank.preparation import (
    QUERY_TEXT_FEATURES,
    RARITY_FEATURES,
    WordRarity,
    add_query_features,
    query_text_features,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from hybrid_search import SIZES, TITLES, draw, parts_of, recorded, value

from experiments.text_collections import read_texts

TEXT = (*QUERY_TEXT_FEATURES, *RARITY_FEATURES)
CONTEXTS: Mapping[str, tuple[str, ...]] = {
    "best": ("best",),
    "best, gap": ("best", "gap"),
    "best, peak": ("best", "peak"),
    "best, overlap": ("best", "overlap"),
    "best, count": ("best", "count"),
    "all five": ("best", "gap", "peak", "overlap", "count"),
    "text": TEXT,
    "best, text": ("best", *TEXT),
}


def with_texts(name: str, data: Path, parts: tuple[Queries, Queries]) -> tuple[Queries, Queries]:
    """Add columns that describe the text of the query."""
    if name == "pydocs":
        texts = pydocs().texts
        documents = [page.text for page in read_pages(["numpy", "scipy", "sklearn"]).documents.values()]
    else:
        known = read_texts(data, name)
        texts, documents = known.queries, [" ".join(document) for document in known.documents.values()]
    rarity = WordRarity.of(documents)

    def described(queries: Queries) -> Queries:
        asked = [texts[query] for query in queries.query_ids.tolist()]
        return add_query_features(queries, np.hstack([query_text_features(asked), rarity.features(asked)]), TEXT)

    return described(parts[0]), described(parts[1])


def run(name: str, data: Path, n_draws: int) -> dict[str, Any]:
    """Print and return NDCG@10 of static weights and of each context, by number of training queries and draw."""
    plain = parts_of(name, data)
    texts = with_texts(name, data, plain)
    sizes: dict[str, Any] = {}
    for size in (*(size for size in SIZES if size < len(plain[0])), len(plain[0])):
        began = time.process_time()
        values: dict[str, list[float]] = {"static": [], **{context: [] for context in CONTEXTS}}
        for seed in range(n_draws):
            for label, known in values.items():
                context = CONTEXTS.get(label, CONTEXTS["best"])
                train, test = texts if set(context).intersection(TEXT) else plain
                fusion = Fusion(adaptive=label != "static", context=context, random_state=seed)
                with mock.patch("marginrank.fusion.context.FEWEST_ADAPTIVE", min(SIZES)):
                    known.append(value(test, fusion.fit(draw(train, size, seed)).predict(test)))
        seconds = time.process_time() - began
        sizes[str(size)] = {"values": values, "cpu seconds": round(seconds, 1)}
        print(
            f"{name}, {size}, {seconds:.0f} CPU s:",
            {key: round(np.mean(v), 4) for key, v in values.items()},
            flush=True,
        )
    return sizes


def table(results: Mapping[str, Any]) -> str:
    """Return how far each context is ahead of static weights, as Markdown."""
    lines = [
        f"NDCG@10 minus that of static weights: mean over {results['draws']} draws, and the worst of them. Made by "
        f"`{results['command']}`.",
        "",
        "| collection, training queries | static | " + " | ".join(CONTEXTS) + " |",
        "| --- |" + " --- |" * (len(CONTEXTS) + 1),
    ]
    for name, sizes in results["collections"].items():
        for size, record in sizes.items():
            values = record["values"]
            ahead = (np.subtract(values[context], values["static"]) for context in CONTEXTS)
            cells = [f"{one.mean():+.3f} ({one.min():+.3f})" for one in ahead]
            static = f"{np.mean(values['static']):.3f}".lstrip("0")
            lines.append(f"| {TITLES[name]}, {size} | {static} | {' | '.join(cells)} |")
    return "\n".join(lines).replace("-0.", "−.").replace("+0.", "+.").replace("−.000", "+.000") + "\n"


def main() -> None:
    place, results = recorded(run, "hybrid_contexts", __doc__)
    place.with_suffix(".txt").write_text(table(results), encoding="utf-8")
    print("\n" + table(results))


if __name__ == "__main__":
    main()
