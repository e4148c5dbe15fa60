"""Training on clicks and judgements together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from marginrank.clicks.click_log import ClickLog
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.criterion import Criterion
from marginrank.evaluation.weighted_documents import relevant_totals
from marginrank.ranker.grid_search import DEFAULT_CS, check_Cs
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.resolution import resolve
from marginrank.runtime.option_objects import check_seed
from marginrank.runtime.text import table
from marginrank.training.query_weighting import ordered_queries
from marginrank.typing import FloatArray

#: Shares of the judgements that are tried; 0 are clicks alone, 1 judgements alone.
DEFAULT_SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


def with_judgements(clicks: ClickLog | Queries, judged: Queries, share: float) -> Queries:
    """Put clicks and judged queries together, so that training minimizes a weighted mean of their losses.

    The risk is (1 − share)·(mean loss of corrected clicks) + share·(mean loss of judged queries). A loss that is a sum
    over relevant documents serves for both; `marginrank.losses.ClicksAndJudgements` has one for each.

    >>> clicks = Queries.from_arrays([[0.0], [1.0]], [0, 1], qid=["a", "a"], document_weights=[0.0, 4.0])
    >>> judged = Queries.from_arrays([[0.0], [1.0]], [2, 0], qid=["a", "a"])
    >>> both = with_judgements(clicks, judged, 0.25)
    >>> both.query_ids.tolist(), both.query_weights.tolist(), both.document_weights.tolist()
    (['clicks of a', 'a'], [0.1875, 0.25], [0.0, 4.0, nan, nan])

    Args:
        clicks: A log with features and propensities, or its weighted documents.
        judged: Judged queries with the same features.
        share: Share of the judgements, from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise ParameterError(Parameter("share"), f" is {share:g}; give a number from 0, clicks alone, to 1")
    logged = clicks.to_queries() if isinstance(clicks, ClickLog) else clicks
    if logged.document_weights is None:
        raise DataError("the clicks have no document weights; give a click log, or what its to_queries returns")
    if judged.has_document_weights:
        raise DataError("the judged queries have document weights; give queries with grades alone")
    if share in (0, 1):
        return judged if share else logged
    ids = np.array([f"clicks of {name}" for name in as_text(logged.query_ids).tolist()])
    return Queries.concatenate(
        [
            _weighted(
                replace(logged, query_ids=ids), 1 - share, np.where(logged.lengths > 1, relevant_totals(logged), 0)
            ),
            _weighted(replace(judged, query_ids=as_text(judged.query_ids)), share, _judged_weights(judged)),
        ]
    )


def _judged_weights(judged: Queries) -> FloatArray:
    """Return the weights of the queries that have an order, 0 for the others."""
    weights = np.ones(len(judged)) if judged.query_weights is None else judged.query_weights
    return np.where(ordered_queries(judged.grouped), weights, 0.0)


def _weighted(queries: Queries, share: float, counted: FloatArray) -> Queries:
    """Return queries whose mean loss counts as much as the share, without ids of documents.

    Args:
        queries: The queries.
        share: The share.
        counted: How much each query counts in the mean loss.
    """
    if not counted.any():
        kind = "clicked" if queries.has_document_weights else "judged"
        raise DataError(f"no {kind} query has documents of different grades; give others")
    weights = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
    return replace(queries, query_weights=weights * (share / counted.sum()), document_ids=None, index=None)


@dataclass(frozen=True)
class MixSelection:
    """The result of `tune_with_judgements`.

    Args:
        ranker: Trained on all clicks and judgements with the chosen share and C.
        share: The chosen share of the judgements.
        C: The chosen C.
        criterion: What was chosen by.
        means: By (share, C), the mean of the criterion over held-out judged queries.
    """

    ranker: Ranker
    share: float
    C: float
    criterion: str
    means: dict[tuple[float, float], float]

    def __str__(self) -> str:
        best: dict[float, tuple[float, float]] = {}
        for (share, C), mean in self.means.items():
            best[share] = max(best.get(share, (-np.inf, 0.0)), (mean, C))
        rows = [
            [f"{share:g}", f"{C:g}", f"{mean:.4f}", "chosen" if share == self.share else ""]
            for share, (mean, C) in best.items()
        ]
        return table([["share of judgements", "C", self.criterion, ""], *rows], right=[0, 1, 2])


def tune_with_judgements(
    ranker: Ranker,
    clicks: ClickLog | Queries,
    judged: Queries,
    *,
    shares: Iterable[float] = DEFAULT_SHARES,
    Cs: Iterable[float] = DEFAULT_CS,
    folds: int = 5,
    criterion: str | None = None,
    random_state: int | None = 0,
) -> MixSelection:
    """Train on clicks and judgements, with C and the share of each chosen on held-out judged queries.

    Judged queries are cut into folds. Clicks on the held-out queries are left out too, so that these are new.

    Args:
        ranker: The ranker to train; its C is ignored, and so are all of Cs if it has none.
        clicks: A log with features and propensities, or its weighted documents.
        judged: Judged queries with the same features.
        shares: Shares of the judgements to try; see `with_judgements`.
        Cs: Values of C.
        folds: Number of cross-validation folds.
        criterion: The measure to choose by; by default that of the ranker.
        random_state: Seed of the folds.
    """
    logged = clicks.to_queries() if isinstance(clicks, ClickLog) else clicks
    plan = resolve(ranker)
    values = check_Cs(Cs) if plan.capabilities.takes_C else [ranker.C]
    tried = sorted({float(share) for share in shares})
    selected_by = plan.criterion if criterion is None else Criterion.parse(criterion)
    if not tried:
        raise ParameterError(Parameter("shares"), " is empty; give at least one")
    if not 2 <= folds <= len(judged):
        raise ParameterError(
            Parameter("folds"),
            f" is {folds} for {len(judged)} judged queries; give 2 or more, and at most one per query",
        )
    fold = np.random.default_rng(check_seed(random_state)).permutation(np.arange(len(judged)) % folds)
    names, of_clicks = as_text(judged.query_ids), as_text(logged.query_ids)
    results: dict[tuple[float, float], list[FloatArray]] = {}
    for number in range(folds):
        held_out = judged[np.flatnonzero(fold == number)]
        kept = logged[np.flatnonzero(~np.isin(of_clicks, names[fold == number]))]
        for share in tried:
            both = with_judgements(kept, judged[np.flatnonzero(fold != number)], share)
            for C, fitted in zip(values, _path(ranker, both, values), strict=True):
                column = selected_by.values(held_out, fitted.predict(held_out), ranker.n_jobs)
                results.setdefault((share, C), []).append(column)
    means = {candidate: _mean(columns) for candidate, columns in results.items()}
    share, C = max(means, key=lambda candidate: means[candidate])
    final = clone(ranker).set_params(C=C).fit(with_judgements(logged, judged, share))
    return MixSelection(final, share, C, str(selected_by), means)


def _path(ranker: Ranker, queries: Queries, Cs: Sequence[float]) -> list[Ranker]:
    return ranker.fit_path(queries, Cs=Cs) if len(Cs) > 1 else [clone(ranker).set_params(C=Cs[0]).fit(queries)]


def _mean(columns: Sequence[FloatArray]) -> float:
    values = np.concatenate(columns)
    if np.isnan(values).all():
        raise DataError("no judged query has a relevant document; give other judged queries")
    return float(np.nanmean(values))
