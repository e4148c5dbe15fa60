"""The page of the demo: one HTML file without chart libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.datasets.python_docs import Collection, pydocs
from marginrank.evaluation.comparison import Comparison, compare, mean_interval
from marginrank.evaluation.evaluation import Evaluation, evaluate
from marginrank.fusion.unsupervised import rrf
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.tuning import tune
from marginrank.reporting.html_elements import (
    Cell,
    TableColumn,
    breakable,
    details,
    escape,
    number,
    paragraph,
    section,
    table,
    whole_page,
)
from marginrank.reporting.report_facts import Mean
from marginrank.runtime.default_measures import DEFAULT_MEASURE
from marginrank.runtime.text import plain
from marginrank.runtime.text import table as text_table
from marginrank.typing import FloatArray
from marginrank.version import __version__

MEASURE: Final = DEFAULT_MEASURE
LEARNED: Final = "learned"
#: Retrievers that RRF combines, by the name of the system; None stands for all.
_FUSIONS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "RRF of BM25 and vectors": ("bm25_body", "vectors"),
    "RRF of all five": None,
}

_MARKED_BELOW: Final = 0.05
#: Documents of a query that are shown.
SHOWN: Final = 5


@dataclass(frozen=True, eq=False)
class DemoResults:
    """The collection, the ranker, and what each system reaches on the test queries.

    Args:
        collection: The queries with their texts.
        ranker: The ranker, with C chosen by cross-validation on the training queries.
        scores: Scores of each system on the test queries: the retrievers, RRF, and the ranker last.
        values: NDCG@10 of each system.
        means: Mean and bootstrap interval of each system.
        comparison: Every system minus the ranker.
        best_retriever: The retriever that is best on the training queries.
    """

    collection: Collection
    ranker: Ranker
    scores: Mapping[str, FloatArray]
    values: Mapping[str, Evaluation]
    means: tuple[Mean, ...]
    comparison: Comparison
    best_retriever: str


def learn(say: Callable[[str], None] | None = None) -> DemoResults:
    """Build the collection, train, and evaluate everything on the test queries.

    Args:
        say: Called with what is done next.
    """
    say = say or (lambda _: None)
    say("searching the docstrings of NumPy, SciPy and scikit-learn ...")
    collection = pydocs()
    train, test = collection.train, collection.test
    names = test.feature_names or ()
    say(f"training on {len(train):,} queries, with C by cross-validation ...")
    ranker = tune(Ranker(MEASURE), train).ranker
    scores = {name: test.feature(name) for name in names}
    scores |= {name: rrf(_with_features(test, chosen or names)) for name, chosen in _FUSIONS.items()}
    scores[LEARNED] = ranker.predict(test)
    values = {name: evaluate(test, column, MEASURE) for name, column in scores.items()}
    return DemoResults(
        collection=collection,
        ranker=ranker,
        scores=scores,
        values=values,
        means=tuple(_mean(name, value) for name, value in values.items()),
        comparison=compare(values, measure=MEASURE, baseline=LEARNED),
        best_retriever=max(names, key=lambda name: evaluate(train, train.feature(name), MEASURE).mean[MEASURE]),
    )


def _with_features(queries: Queries, names: tuple[str, ...]) -> Queries:
    return queries.with_features(np.stack([queries.feature(name) for name in names], axis=1), names)


def _mean(system: str, values: Evaluation) -> Mean:
    return Mean(system, MEASURE, values.mean[MEASURE], *mean_interval(values, MEASURE), values.counted(MEASURE))


@dataclass(frozen=True)
class Gain:
    """Gain of the ranker over a system, on the test queries.

    Args:
        difference: Mean of the ranker minus the system.
        low: Start of the 95% interval of the difference.
        high: End of the interval.
        record: Queries won, lost and tied by the ranker.
        p: p-value of the randomization test.
        significant: Whether it is significant after Holm's correction for all systems.
    """

    difference: float
    low: float
    high: float
    record: tuple[int, int, int]
    p: float
    significant: bool


def gains(comparison: Comparison) -> dict[str, Gain]:
    """Return the gain of the ranker on each system."""
    return {
        row.system: Gain(
            -row.difference,
            -row.interval[1],
            -row.interval[0],
            (row.losses, row.wins, row.ties),
            row.p_randomization,
            row.holm_randomization < _MARKED_BELOW,
        )
        for row in comparison.rows
    }


@dataclass(frozen=True)
class Example:
    """A query before and after: ids of its first documents, and why the order changed.

    Args:
        query: Id of the query.
        before: The first documents by the best retriever.
        after: The first documents by the ranker.
        grades: The grade of each document.
        change: NDCG@10 by the best retriever and by the ranker.
        above: The document that came up, and the one it is now above.
        reasons: What each feature adds to the difference of their scores.
    """

    query: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    grades: Mapping[str, float]
    change: tuple[float, float]
    above: tuple[str, str]
    reasons: Mapping[str, float]


def examples(outcome: DemoResults) -> tuple[list[Example], Example]:
    """Return the query of each package that gained most, and the one that lost most."""
    test = outcome.collection.test
    gain = outcome.values[LEARNED][MEASURE] - outcome.values[outcome.best_retriever][MEASURE]
    order = np.argsort(-np.nan_to_num(gain), kind="stable").tolist()
    packages = [str(query).partition(".")[0] for query in test.query_ids.tolist()]
    best = [next(at for at in order if packages[at] == package) for package in dict.fromkeys(packages)]
    return [_query_example(outcome, at) for at in best], _query_example(outcome, order[-1])


def _query_example(outcome: DemoResults, at: int) -> Example:
    query = outcome.collection.test[at]
    rows = slice(*outcome.collection.test.query_offsets[at : at + 2].tolist())
    documents = query.document_names.tolist()
    before, after = (
        np.argsort(-outcome.scores[name][rows], kind="stable") for name in (outcome.best_retriever, LEARNED)
    )
    # What came up is the better of the two at the first rank where the orders differ.
    ranks = [rank for rank in range(len(documents)) if before[rank] != after[rank]]
    up, down = (after[ranks[0]], before[ranks[0]]) if ranks else (after[0], after[1])
    parts = outcome.ranker.explain(query)
    return Example(
        query=str(query.query_ids[0]),
        before=tuple(documents[row] for row in before[:SHOWN]),
        after=tuple(documents[row] for row in after[:SHOWN]),
        grades=dict(zip(documents, query.grades.tolist(), strict=True)),
        change=tuple(float(outcome.values[name][MEASURE][at]) for name in (outcome.best_retriever, LEARNED)),  # type: ignore[arg-type]
        above=(documents[up], documents[down]),
        reasons=dict(zip(query.feature_names or (), (parts[up] - parts[down]).tolist(), strict=True)),
    )


def certificate(ranker: Ranker) -> str:
    """Describe in one line how far the weights can be from the optimum."""
    share = ranker.gap_ / ranker.objective_
    return (
        f"C = {ranker.C:g} by cross-validation on the training queries. The objective, {ranker.objective_:.4g}, is at "
        f"most {100 * share:.2g}% above the optimum."
    )


def summary(outcome: DemoResults) -> str:
    """Describe the outcome as text."""
    collection, gained = outcome.collection, gains(outcome.comparison)
    header = ["system", "NDCG@10", "95% interval", f"{LEARNED} − system", "95% interval", "W/L/T", "p "]
    rows = [
        [
            result.system,
            f"{result.mean:.4f}",
            f"[{result.low:.4f}, {result.high:.4f}]",
            *_gain_cells(gained.get(result.system)),
        ]
        for result in sorted(outcome.means, key=lambda result: result.mean)
    ]
    lines = [
        "Search in the documentation of NumPy, SciPy and scikit-learn by description",
        f"{len(collection.summaries):,} documents, {len(collection.train):,} training queries, "
        f"{len(collection.test):,} test queries ({outcome.comparison.n_queries:,} have a relevant document to rank)",
        "",
        text_table([header, *rows], right=range(1, len(header))),
        f"* Holm-adjusted p < {_MARKED_BELOW:g} over {len(gained)} comparisons (randomization test)",
        "",
        "Weights of the standardized scores: "
        + ", ".join(f"{name} {weight:+.3f}" for name, weight in weights(outcome.ranker).items()),
        certificate(outcome.ranker),
    ]
    return "\n".join(lines)


def _gain_cells(gain: Gain | None) -> list[str]:
    if gain is None:
        return ["", "", "", ""]
    p = ("<0.0001" if gain.p < 0.0001 else f"{gain.p:.4f}") + ("*" if gain.significant else " ")
    return [f"{gain.difference:+.4f}", f"[{gain.low:+.4f}, {gain.high:+.4f}]", "/".join(map(str, gain.record)), p]


def weights(ranker: Ranker) -> dict[str, float]:
    """Return the weight of each feature, the largest first."""
    named = dict(zip(ranker.model_.names, ranker.coef_.tolist(), strict=True))
    return dict(sorted(named.items(), key=lambda entry: -abs(entry[1])))


def record(outcome: DemoResults) -> dict[str, Any]:
    """Describe the outcome as plain values."""
    ranker, collection = outcome.ranker, outcome.collection
    described = {
        "documents": len(collection.summaries),
        "queries": {"train": len(collection.train), "test": len(collection.test)},
        "measure": MEASURE,
        "mean": {result.system: result.mean for result in outcome.means},
        "interval": {result.system: [result.low, result.high] for result in outcome.means},
        "comparison": outcome.comparison.to_dicts(),
        "weights": weights(ranker),
        "C": ranker.C,
        "objective": ranker.objective_,
        "gap": ranker.gap_,
    }
    return dict(plain(described))


TITLE: Final = "Search NumPy, SciPy and scikit-learn by description"
#: What the page invites readers to run; the tests run it.
SNIPPET: Final = """\
from marginrank import Ranker, compare, tune
from marginrank.datasets import pydocs
from marginrank.fusion import rrf

docs = pydocs()
train, test = docs.train, docs.test
ranker = tune(Ranker("ndcg@10"), train).ranker
systems = {
    "bm25": test.feature("bm25_body"),
    "rrf": rrf(test),
    "learned": ranker,
}
print(compare(systems, test, baseline="rrf"))
ranker.save("ranker.safetensors")
"""

_BY_FILE: Final = """\
from marginrank import Ranker, read, tune

queries = read("judged.parquet")
train, test = queries.split(0.5, 0.5)
ranker = tune(Ranker("ndcg@10"), train).ranker
"""

_GRADES: Final = {2.0: ("target", "target"), 1.0: ("related", "related")}


def render(outcome: DemoResults) -> str:
    """Make the page, which needs nothing from the network."""
    sections = [
        section("systems", "Retrievers, RRF and the learned ranker", *_systems(outcome)),
        section("queries", "Three queries before and after", *_examples(outcome)),
        section("weights", "What was learned", *_weights(outcome)),
        section("code", "Try it", *_code()),
    ]
    footer = (
        f"<p>Generated by <code>marginrank demo</code>, marginrank {escape(__version__)}. The same versions of the "
        "packages give the same numbers.</p>"
    )
    return whole_page(TITLE, _intro(outcome), sections, footer, styles=("page.css", "demo.css"))


def _intro(outcome: DemoResults) -> str:
    collection, gained = outcome.collection, gains(outcome.comparison)
    means = {result.system: result.mean for result in outcome.means}
    rival = max((name for name in means if name != LEARNED), key=lambda name: means[name])
    query, text = next(iter(collection.texts.items()))
    query, text = next(
        ((name, words) for name, words in collection.texts.items() if name.startswith("numpy.unravel_index/")),
        (query, text),
    )
    headline = (
        f"Trained on {len(collection.train):,} judged queries, a linear ranker has an NDCG@10 of {means[LEARNED]:.3f} "
        f"on {outcome.comparison.n_queries:,} other queries; {rival}, the best without training, has "
        f"{means[rival]:.3f}. {_verdict(gained)}"
    )
    about = (
        f"The documents are {len(collection.summaries):,} docstrings. The queries are descriptions from the See Also "
        f"sections of other pages, such as “{text}” for {query.partition('/')[0]}. The described page has grade 2, the "
        "pages it refers to have grade 1. See Also sections are not part of the documents, and no page is the target "
        "of both training and test queries. Five retrievers score every document: BM25 on body, summary and name, LSA "
        "vectors, and character n-grams. The ranker learns how much each score counts."
    )
    return paragraph(headline, "lead") + paragraph(about)


def _verdict(gained: Mapping[str, Gain]) -> str:
    better = [name for name, gain in gained.items() if gain.significant and gain.difference > 0]
    if len(better) == len(gained):
        return f"It is significantly better than each of the {len(gained)} other systems."
    return f"It is significantly better than {len(better)} of the {len(gained)} other systems."


def _systems(outcome: DemoResults) -> list[str]:
    ordered, gained = sorted(outcome.means, key=lambda result: -result.mean), gains(outcome.comparison)
    columns = [
        TableColumn("system"),
        TableColumn("NDCG@10", number=True),
        TableColumn("95% interval", number=True),
        TableColumn(f"{LEARNED} − system", number=True),
        TableColumn("95% interval", number=True),
        TableColumn("won", number=True),
        TableColumn("lost", number=True),
        TableColumn("tied", number=True),
        TableColumn("p", number=True),
    ]
    note = (
        "Lines on the bars are 95% bootstrap intervals over queries. To see whether two systems differ, look at the "
        "paired differences in the table. p-values are from the randomization test; * marks p < 0.05 after Holm’s "
        f"correction for {len(gained)} comparisons. Wins, losses and ties are those of the learned ranker."
    )
    return [
        _bars([_mean_bar(result) for result in ordered]),
        table("NDCG@10 on the test queries", columns, [_row(result, gained.get(result.system)) for result in ordered]),
        paragraph(note, "note"),
    ]


def _row(result: Mean, gain: Gain | None) -> list[Cell]:
    shown = [Cell(result.system), number(result.mean), Cell(f"{result.low:.4f} to {result.high:.4f}", result.low)]
    if gain is None:
        return shown + [Cell("")] * 6
    low, high = number(gain.low, "+.4f"), number(gain.high, "+.4f")
    p = ("<0.0001" if gain.p < 0.0001 else f"{gain.p:.4f}") + ("*" if gain.significant else "")
    return [
        *shown,
        number(gain.difference, "+.4f"),
        Cell(f"{low.text} to {high.text}", low.key),
        *(number(n, ",d") for n in gain.record),
        Cell(p, gain.p),
    ]


def _bars(rows: Sequence[str]) -> str:
    return f'<div class="bars">{"".join(rows)}</div>'


def _bar(name: str, value: str, marks: str, look: str = "") -> str:
    return (
        f'<div class="{look}"><span class="label">{escape(name)}</span><span class="track">{marks}</span>'
        f'<span class="value">{escape(value)}</span></div>'
    )


def _mean_bar(result: Mean) -> str:
    look = "ours" if result.system == LEARNED else ""
    marks = (
        f'<i class="bar {look}" style="--from: 0%; --width: {100 * result.mean:.2f}%"></i>'
        f'<i class="whisker" style="--low: {100 * result.low:.2f}%; --high: {100 * result.high:.2f}%"></i>'
    )
    return _bar(result.system, f"{result.mean:.3f}", marks, look)


def _signed_bars(values: Mapping[str, float]) -> str:
    """Draw bars to the right and left of zero, on one scale."""
    low, high = min(0.0, *values.values()), max(0.0, *values.values())
    reach = (high - low) or 1.0

    def place(value: float) -> float:
        return 100 * (value - low) / reach

    rows = []
    for name, value in values.items():
        start, stop = sorted((place(0.0), place(value)))
        look = "minus" if value < 0 else "ours"
        marks = (
            f'<i class="bar {look}" style="--from: {start:.2f}%; --width: {stop - start:.2f}%"></i>'
            f'<i class="zero" style="--from: {place(0.0):.2f}%"></i>'
        )
        rows.append(_bar(name, number(value, "+.3f").text, marks))
    return _bars(rows)


def _examples(outcome: DemoResults) -> list[str]:
    gained, lost = examples(outcome)
    intro = (
        f"For each package, the query with the largest gain over {outcome.best_retriever}, the best single retriever "
        "on the training queries. The described page is marked as target, pages it refers to as related."
    )
    return [
        paragraph(intro),
        *(_example(outcome, example) for example in gained),
        details("The largest loss", _example(outcome, lost)),
    ]


def _example(outcome: DemoResults, example: Example) -> str:
    before, after = example.change
    up, down = example.above
    hits = "".join(
        f"<div><h4>{escape(title)}, NDCG@10 {value:.2f}</h4>{_hits(outcome, documents, example.grades)}</div>"
        for title, documents, value in (
            (f"Before: {outcome.best_retriever}", example.before, before),
            ("After: learned", example.after, after),
        )
    )
    why = f"Why {up} is above {down}: difference of their scores, by feature"
    return (
        f'<article class="example"><h3>“{escape(outcome.collection.texts[example.query])}”</h3>'
        f'<div class="grid pair">{hits}</div><h4>{escape(why)}</h4>{_signed_bars(example.reasons)}</article>'
    )


def _hits(outcome: DemoResults, documents: Sequence[str], grades: Mapping[str, float]) -> str:
    rows = []
    for name in documents:
        look, tag = _GRADES.get(grades[name], ("", ""))
        mark = f'<span class="tag">{tag}</span>' if tag else ""
        summary = escape(_shortened(outcome.collection.summaries[name]))
        rows.append(
            f'<li class="{look}"><span><span class="name">{breakable(name)}</span>{mark}'
            f'<span class="summary">{summary}</span></span></li>'
        )
    return f'<ol class="hits">{"".join(rows)}</ol>'


def _shortened(text: str, most: int = 110) -> str:
    """Cut long text between words.

    >>> _shortened("one two three", 8)
    'one two …'
    """
    return text if len(text) <= most else text[: most + 1].rpartition(" ")[0] + " …"


def _weights(outcome: DemoResults) -> list[str]:
    intro = "The weight of each retriever. Scores are standardized on the training queries."
    return [paragraph(intro), _signed_bars(weights(outcome.ranker)), paragraph(certificate(outcome.ranker), "note")]


def _code() -> list[str]:
    return [
        paragraph("Run the same in Python:"),
        _block(SNIPPET),
        paragraph("Or start from your own judged queries, for example a Parquet file with a row per document:"),
        _block(_BY_FILE),
    ]


def _block(code: str) -> str:
    return (
        f'<div class="code"><pre><code>{escape(code.rstrip())}</code></pre>'
        '<button type="button" class="copy" aria-label="Copy this code">Copy</button></div>'
    )
