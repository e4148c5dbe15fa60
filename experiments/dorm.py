"""Shared by the experiments of Le and Smola (2008): training along a path of C, tests of a claim, and curves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from experiments.base import Size
from experiments.letor import FOLDS, fold_average
from experiments.verdicts import Verdict, against, at_zero, beats, mark_untestable
from marginrank.data.queries import Queries
from marginrank.evaluation.evaluation import evaluate
from marginrank.model.plots import new_figure
from marginrank.ranker.ranker import Ranker
from marginrank.typing import FloatArray

PAPER: Final = "Le and Smola (2008)"
CS: Final = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: Shares of the training queries, those that 100, 300, 500, 700 and 1000 of 1000 are in Figs. 3, 5 and 6.
SHARES: Final = (0.1, 0.3, 0.5, 0.7, 1.0)
#: What all notes of these experiments say.
WEB_NOTE: Final = (
    "The web data of the paper is private. MQ2008 (784 queries) and OHSUMED (106 queries) are used instead, with the "
    "folds of their publisher. They have 3 grades and 46 and 45 features instead of 5 and 367. Training queries are "
    "those with documents of different grades."
)
BOUND_NOTE: Final = (
    "“DORM” is the convex hinge of the paper, with an ideal ranking that has documents of one grade in a random "
    "order. “tight” is the bound of Chapelle, Le and Smola (2007), eq. (14), trained from a ranking SVM and kept "
    "near it, which the paper does not have."
)


def settings(size: Size, shares: Sequence[float]) -> list[tuple[int, dict[str, Any]]]:
    """Folds, each with how many queries of a part are read, shares of the training queries, and values of C."""
    if size == "full":
        return [(fold, {"most": None, "shares": list(shares), "Cs": list(CS)}) for fold in FOLDS]
    return [(FOLDS[0], {"most": 4, "shares": [0.5, 1.0], "Cs": [1.0]})]


def share_labels(results: Mapping[str, Any], prefix: str) -> list[str]:
    """Shares of the training queries, and how many queries they are on average, of a method with all folds."""
    pairs = zip(fold_average(results, prefix, "shares"), fold_average(results, prefix, "queries"), strict=True)
    return [f"{100 * share:g}% ({n:.0f})" for share, n in pairs]


def first_share(queries: Queries, share: float, seed: int) -> Queries:
    """Draw a share of the queries with several grades at random, so that smaller shares lie in larger ones.

    >>> queries = Queries.from_arrays(np.ones((6, 1)), [1, 0, 0, 0, 1, 0], group=[2, 2, 2])
    >>> len(first_share(queries, 1.0, seed=0)), len(first_share(queries, 0.5, seed=0))
    (2, 1)
    """
    starts, ends = queries.offsets[:-1], queries.offsets[1:]
    spread = [np.ptp(queries.grades[start:end]) for start, end in zip(starts, ends, strict=True)]
    useful = np.random.default_rng(seed).permutation(np.flatnonzero(spread))
    return queries[np.sort(useful[: max(1, round(share * len(useful)))])]


def paths(
    untrained: Ranker, train: Queries, shares: Sequence[float], Cs: Sequence[float], seed: int
) -> Iterator[tuple[int, list[Ranker]]]:
    """Train for every C on growing shares of the queries; yield the number of queries and the rankers."""
    for share in shares:
        queries = first_share(train, share, seed)
        yield len(queries), untrained.fit_path(queries, Cs=Cs)


def best(models: Sequence[Ranker], valid: Queries, measure: str) -> Ranker:
    """Return the first of the rankers with the highest mean on validation queries."""
    return max(models, key=lambda model: judged(model, valid, measure).mean())


def judged(ranker: Ranker, queries: Queries, measure: str) -> FloatArray:
    """Value of each query that the measure is defined for; ties count their mean over all orders."""
    values = evaluate(queries, ranker.predict(queries), measure, n_jobs=1)[measure]
    return np.asarray(values[~np.isnan(values)].round(5))


def advantage(values: Mapping[str, FloatArray], method: str, untrained: Collection[str] = ()) -> tuple[Verdict, str]:
    """Decide whether one method is better than each of the others, and return the numbers as well.

    Args:
        values: Values by query, by method.
        method: The method that is said to be better.
        untrained: Methods that stayed at w = 0; comparisons with them are not testable.
    """
    others = [name for name in values if name != method]
    rows = mark_untestable(against(values, method), [bool({method, other} & set(untrained)) for other in others])
    return beats(rows), f"{method} {values[method].mean():.4f}; {'; '.join(map(str, rows))}{_at_zero_note(untrained)}"


def _at_zero_note(untrained: Collection[str]) -> str:
    return f"; at w = 0: {', '.join(untrained)}" if untrained else ""


def ratio_at_zero(ranker: Ranker) -> float | None:
    """Return the objective of a trained ranker over that at w = 0, if it has one."""
    return None if ranker.health_ is None else round(ranker.health_.objective_ratio, 6)


def methods_at_zero(results: Mapping[str, Any], name: str, methods: Iterable[str]) -> list[str]:
    """Return the methods that stayed at w = 0 in most folds: results named ``NAME/METHOD/fold N`` with a ``ratio``."""
    ratios = {
        method: [results[key].get("ratio") for fold in FOLDS if (key := f"{name}/{method}/fold {fold}") in results]
        for method in methods
    }
    return [method for method, by_fold in ratios.items() if at_zero(by_fold)]


def curves(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], xlabel: str, ylabel: str
) -> Any:
    """Draw a panel for each set with a line for each method, and the legend beside them."""
    figure = new_figure(4.2 * len(panels) + 1.8, 3.6)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, (title, lines) in zip(axes, panels.items(), strict=True):
        for number, (label, (x, y)) in enumerate(lines.items()):
            panel.plot(x, y, marker="osv^Dx*P"[number % 8], linestyle=("-", "--")[number // 8 % 2], label=label)
        panel.set(xlabel=xlabel, title=title)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel(ylabel)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure
