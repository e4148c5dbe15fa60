"""The page of the demo: one file of HTML, without charts that need a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from marginrank.reporting.demo import LEARNED, Example, Gain, Outcome, certificate, examples, gains, weights
from marginrank.reporting.facts import Mean
from marginrank.reporting.markup import Cell, Column, breakable, details, escape, number, paragraph, section, table
from marginrank.reporting.shell import whole_page
from marginrank.version import __version__

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


def render(outcome: Outcome) -> str:
    """Make the page, which needs nothing from the network."""
    sections = [
        section("systems", "Retrievers, RRF and the learned ranker", *_systems(outcome)),
        section("queries", "Three queries before and after", *_examples(outcome)),
        section("weights", "What was learned", *_weights(outcome)),
        section("code", "Try it", *_code()),
    ]
    footer = (
        f"<p>Made by <code>marginrank demo</code>, marginrank {escape(__version__)}. The same versions of the packages "
        "give the same numbers.</p>"
    )
    return whole_page(TITLE, _intro(outcome), sections, footer, styles=("page.css", "demo.css"))


def _intro(outcome: Outcome) -> str:
    collection, gained = outcome.collection, gains(outcome.comparison)
    means = {one.system: one.mean for one in outcome.means}
    rival = max((name for name in means if name != LEARNED), key=lambda name: means[name])
    query, text = next(iter(collection.texts.items()))
    query, text = next(
        ((one, words) for one, words in collection.texts.items() if one.startswith("numpy.unravel_index/")),
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


def _systems(outcome: Outcome) -> list[str]:
    ordered, gained = sorted(outcome.means, key=lambda one: -one.mean), gains(outcome.comparison)
    columns = [
        Column("system"),
        Column("NDCG@10", number=True),
        Column("95 % interval", number=True),
        Column(f"{LEARNED} − system", number=True),
        Column("95 % interval", number=True),
        Column("won", number=True),
        Column("lost", number=True),
        Column("tied", number=True),
        Column("p", number=True),
    ]
    note = (
        "Lines on the bars are 95 % bootstrap intervals over queries. To see whether two systems differ, look at the "
        "paired differences in the table. p-values are from the randomization test; * marks p < 0.05 after Holm’s "
        f"correction for {len(gained)} comparisons. Wins, losses and ties are those of the learned ranker."
    )
    return [
        _bars([_mean_bar(one) for one in ordered]),
        table("NDCG@10 on the test queries", columns, [_row(one, gained.get(one.system)) for one in ordered]),
        paragraph(note, "note"),
    ]


def _row(one: Mean, gain: Gain | None) -> list[Cell]:
    shown = [Cell(one.system), number(one.mean), Cell(f"{one.low:.4f} to {one.high:.4f}", one.low)]
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


def _mean_bar(one: Mean) -> str:
    look = "ours" if one.system == LEARNED else ""
    marks = (
        f'<i class="bar {look}" style="--from: 0%; --width: {100 * one.mean:.2f}%"></i>'
        f'<i class="whisker" style="--low: {100 * one.low:.2f}%; --high: {100 * one.high:.2f}%"></i>'
    )
    return _bar(one.system, f"{one.mean:.3f}", marks, look)


def _signed_bars(values: Mapping[str, float]) -> str:
    """Bars to the right and left of zero, on one scale."""
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


def _examples(outcome: Outcome) -> list[str]:
    gained, lost = examples(outcome)
    intro = (
        f"For each package, the query with the largest gain over {outcome.best_retriever}, the best single retriever "
        "on the training queries. The described page is marked as target, pages it refers to as related."
    )
    return [
        paragraph(intro),
        *(_example(outcome, one) for one in gained),
        details("The largest loss", _example(outcome, lost)),
    ]


def _example(outcome: Outcome, one: Example) -> str:
    before, after = one.change
    up, down = one.above
    hits = "".join(
        f"<div><h4>{escape(title)}, NDCG@10 {value:.2f}</h4>{_hits(outcome, documents, one.grades)}</div>"
        for title, documents, value in (
            (f"Before: {outcome.best_retriever}", one.before, before),
            ("After: learned", one.after, after),
        )
    )
    why = f"Why {up} is above {down}: difference of their scores, by feature"
    return (
        f'<article class="example"><h3>“{escape(outcome.collection.texts[one.query])}”</h3>'
        f'<div class="grid pair">{hits}</div><h4>{escape(why)}</h4>{_signed_bars(one.reasons)}</article>'
    )


def _hits(outcome: Outcome, documents: Sequence[str], grades: Mapping[str, float]) -> str:
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


def _weights(outcome: Outcome) -> list[str]:
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
