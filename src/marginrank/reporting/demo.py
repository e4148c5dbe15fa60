"""The demo: learned image search on scikit-learn's digits."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.datasets.digit_images import digit_images, digits
from marginrank.evaluation.comparing import compare
from marginrank.evaluation.evaluating import Evaluation, evaluate
from marginrank.ranker import Ranker
from marginrank.typing import FloatArray
from marginrank.words import table

MEASURES: Final = ("ap", "ndcg@10", "rr", "p@5")
SHOWN: Final = 10
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>marginrank: learned image search</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} th, td {{ padding: .2rem .8rem; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; }} tr + tr {{ border-top: 1px solid #8884; }}
img {{ max-width: 100%; background: #fff; border-radius: 4px; }} pre {{ overflow-x: auto; }}
</style></head><body>
<h1>Learned image search</h1>
<p>Each query is an image of a digit, its documents are {n_documents} other images, and the features of a document are
the squared differences of its {n_features} pixels from those of the query. A document is relevant if it shows the same
digit. Euclidean distance weighs all pixels equally; a ranker learns their weights, for the measure it is judged by.
{n_train} training queries, {n_test} test queries.</p>
<h2>Measures</h2>{table}<pre>{comparison}</pre>
<h2>Convergence</h2><p>{certificate}</p>{convergence}
<h2>Weights</h2><p>Weight of each pixel's difference: red pixels should agree, white ones do not matter.</p>
{weights}
<h2>Before and after</h2><p>The first {shown} documents by Euclidean distance (upper row) and by the ranker trained for
average precision (lower row); a green frame marks the same digit.</p>{examples}
<p><small>Made by <code>marginrank demo</code>; run it again to get the same numbers.</small></p>
</body></html>
"""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The test queries, the scores and values of each ranker, and the rankers themselves."""

    test: Queries
    scores: dict[str, FloatArray]
    values: dict[str, Evaluation]
    rankers: dict[str, Ranker]
    n_train: int


def learn(n_queries: int = 600, n_documents: int = 100) -> Outcome:
    """Train two rankers and measure them against Euclidean distance."""
    train, test = digits(n_queries, n_documents).split(0.7, 0.3)
    rankers = {
        "svmmap": Ranker("svmmap", C=10.0).fit(train),
        "svmndcg": Ranker(measure="ndcg@10", bound="hinge", C=10.0).fit(train),
    }
    scores = {"euclidean": -np.asarray(test.X).sum(axis=1, dtype=np.float64)}
    scores |= {name: ranker.predict(test) for name, ranker in rankers.items()}
    values = {name: evaluate(test, column, MEASURES) for name, column in scores.items()}
    return Outcome(test, scores, values, rankers, len(train))


def certificate(ranker: Ranker) -> str:
    """Say in a line how far from the optimum the weights can be."""
    share = ranker.gap_ / ranker.objective_
    return (
        f"{ranker.model_.method.preset or ranker.measure_}: objective {ranker.objective_:.4f}, at most "
        f"{100 * share:.3f} % above the optimum, after {ranker.solution_.passes:.0f} passes over the data"
    )


def summary(outcome: Outcome) -> str:
    """Describe the outcome as text."""
    lines = [f"Image search on digits: {outcome.n_train} training queries, {len(outcome.test)} test queries", ""]
    rows = [[name, *(f"{one.mean[measure]:.4f}" for measure in MEASURES)] for name, one in outcome.values.items()]
    lines.append(table([["ranker", *MEASURES], *rows], right=range(1, len(MEASURES) + 1)))
    lines += ["", "Average precision, paired by query:", ""]
    lines.append(str(compare(outcome.values, measure="ap", baseline="euclidean")))
    lines += ["", "Certificates:", *(f"  {certificate(ranker)}" for ranker in outcome.rankers.values())]
    return "\n".join(lines)


def record(outcome: Outcome) -> dict[str, Any]:
    """Describe the outcome as plain values."""
    return {
        "queries": {"train": outcome.n_train, "test": len(outcome.test)},
        "mean": {name: dict(result.mean) for name, result in outcome.values.items()},
        "comparison": compare(outcome.values, measure="ap", baseline="euclidean").to_dicts(),
        "gap": {name: ranker.gap_ for name, ranker in outcome.rankers.items()},
        "objective": {name: ranker.objective_ for name, ranker in outcome.rankers.items()},
    }


def render(outcome: Outcome) -> str:
    """Make one page of everything, which needs nothing from the network."""
    ranker = outcome.rankers["svmmap"]
    header = "".join(f"<th>{measure}</th>" for measure in MEASURES)
    rows = "".join(
        f"<tr><td>{name}</td>" + "".join(f"<td>{result.mean[measure]:.4f}</td>" for measure in MEASURES) + "</tr>"
        for name, result in outcome.values.items()
    )
    comparison = str(compare(outcome.values, measure="ap", baseline="euclidean"))
    return _PAGE.format(
        n_documents=int(outcome.test.lengths[0]),
        n_features=outcome.test.n_features,
        n_train=outcome.n_train,
        n_test=len(outcome.test),
        table=f"<table><tr><th>ranker</th>{header}</tr>{rows}</table>",
        comparison=html.escape(comparison),
        certificate=html.escape(certificate(ranker)),
        convergence=_picture(_convergence(ranker), "gap against passes"),
        weights=_picture(_weights(outcome.rankers), "learned weight of each pixel"),
        shown=SHOWN,
        examples=_picture(_examples(outcome), "first documents before and after"),
    )


def _figure(width: float, height: float) -> Any:
    from marginrank.plots import new_figure  # noqa: PLC0415

    return new_figure(width, height)


def _picture(figure: Any, text: str) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return f'<img alt="{text}" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}">'


def _convergence(ranker: Ranker) -> Any:
    from marginrank.plots import plot_convergence  # noqa: PLC0415

    return plot_convergence(ranker.solution_)


def _weights(rankers: dict[str, Ranker]) -> Any:
    figure = _figure(3.2 * len(rankers), 3.4)
    for axes, (name, ranker) in zip(figure.subplots(1, len(rankers)), rankers.items(), strict=True):
        reach = np.abs(ranker.coef_).max()
        axes.imshow(ranker.coef_.reshape(8, 8), cmap="RdBu", vmin=-reach, vmax=reach)
        axes.set(title=name, xticks=[], yticks=[])
    return figure


def _examples(outcome: Outcome, n_examples: int = 4) -> Any:
    """The queries that gained most, each with its first documents by both rankers."""
    images, labels = digit_images()
    gain = outcome.values["svmmap"]["ap"] - outcome.values["euclidean"]["ap"]
    best = np.argsort(-np.nan_to_num(gain), kind="stable")[:n_examples]
    figure = _figure(9.0, 1.7 * n_examples)
    grid = figure.subplots(2 * n_examples, SHOWN + 1)
    for number, query in enumerate(best.tolist()):
        one = outcome.test[query]
        asked, names = int(one.query_ids[0]), np.asarray(one.document_ids)
        rows = slice(int(outcome.test.offsets[query]), int(outcome.test.offsets[query + 1]))
        _draw(grid[2 * number, 0], images[asked], "black")
        grid[2 * number + 1, 0].axis("off")
        for line, name in enumerate(("euclidean", "svmmap")):
            scores = outcome.scores[name][rows]
            for place, document in enumerate(np.argsort(-scores, kind="stable")[:SHOWN].tolist()):
                image = int(names[document])
                colour = "tab:green" if labels[image] == labels[asked] else "tab:red"
                _draw(grid[2 * number + line, place + 1], images[image], colour)
    return figure


def _draw(axes: Any, image: FloatArray, colour: str) -> None:
    axes.imshow(image.reshape(8, 8), cmap="gray_r")
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set(color=colour, linewidth=2.5)
