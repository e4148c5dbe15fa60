"""Rankers evaluated from clicks by inverse propensity weighting."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from marginrank.clicks.click_log import ClickLog
from marginrank.clicks.propensities import Propensities, exposure_weights
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.comparison import Comparison, PairedComparison, compare, mean_interval
from marginrank.evaluation.evaluation import Evaluation
from marginrank.evaluation.systems import System, orderings, score_documents
from marginrank.typing import FloatArray

Estimator: TypeAlias = Literal["ips", "snips"]


def evaluate_clicks(
    log: ClickLog,
    system: System,
    measure: str = "dcg@10",
    *,
    propensities: Propensities | None = None,
    estimator: Estimator = "ips",
) -> Evaluation:
    """Estimate a sum over relevant documents from clicks: Joachims, Swaminathan and Schnabel (WSDM 2017).

    With λ(rank) = 1/log2(1 + rank) for DCG, rank for ``rank``, and w the `exposure_weights` of a document, ``ips`` is
    Σ w λ(rank)/impressions: unbiased for the sum over relevant documents per impression. ``snips`` is Σ w λ/Σ w, the
    mean over relevant documents: less variance, a small bias. Ranks are among the documents shown for the query.

    The result has a value per query with weights, so that `click_interval` and `marginrank.compare` take it.

    >>> log = ClickLog.from_arrays([1, 1, 1], ["x", "y", "z"], [1, 2, 3], [0, 1, 0])
    >>> evaluate_clicks(log, [3, 1, 2], "rank", propensities=Propensities.power(1.0, 3), estimator="snips").mean
    {'snips rank': 3.0}

    Args:
        log: The log.
        system: A ranker, or one score for each row of ``log.documents``.
        measure: ``dcg``, ``dcg@k`` or ``rank``.
        propensities: By default those of the rows.
        estimator: ``ips`` or ``snips``.
    """
    if estimator not in ("ips", "snips"):
        raise ParameterError(Parameter("estimator"), f" is {estimator!r}; choose ips or snips")
    gain = _gains(measure, log.documents, system)
    weights = exposure_weights(log, propensities)
    query = log.documents.query_of_row
    if not np.any(weights):
        raise DataError("the log has no clicks; nothing can be evaluated with it")
    n = len(log.documents)
    numerator = np.bincount(query, weights * gain, n)
    denominator = log.impressions if estimator == "ips" else np.bincount(query, weights, n)
    counted = denominator > 0
    values = np.divide(numerator, denominator, out=np.full(n, np.nan), where=counted)
    shares = np.where(counted, denominator, 0.0)
    return Evaluation("clicks", log.documents.query_ids, {f"{estimator} {measure}": values}, shares)


def _gains(measure: str, documents: Queries, system: System) -> FloatArray:
    """Return λ(rank) of each document."""
    match = re.fullmatch(r"(dcg|rank)(?:@([1-9]\d*))?", measure)
    if match is None or (match[1] == "rank" and match[2]):
        raise ParameterError(
            Parameter("measure"),
            f" is {measure!r}; inverse weighting is unbiased for sums over relevant documents: dcg, dcg@k or rank. "
            "NDCG, AP and RR are not such sums: they need grades",
        )
    scores = score_documents(documents, system)
    if not isinstance(scores, np.ndarray) or scores.shape != (documents.n_documents,):
        raise DataError(f"a system is a ranker, or one score for each of {documents.n_documents:,} shown documents")
    rank = np.empty(documents.n_documents)
    for rows in orderings(scores, documents.query_offsets, documents.order, None, None):
        rank[rows] = np.arange(1, len(rows) + 1)
    if match[1] == "rank":
        return rank
    gain = 1 / np.log2(1 + rank)
    return np.asarray(np.where(rank <= int(match[2]), gain, 0.0) if match[2] else gain)


def click_interval(evaluation: Evaluation, confidence: float = 0.95) -> tuple[float, float]:
    """Return the bootstrap interval over queries of an estimate of `evaluate_clicks`."""
    (measure,) = evaluation.values
    return mean_interval(evaluation, measure, confidence=confidence)


def compare_clicks(
    log: ClickLog,
    systems: Mapping[str, System],
    measure: str = "dcg@10",
    *,
    propensities: Propensities | None = None,
    estimator: Estimator = "ips",
    baseline: str | None = None,
) -> Comparison:
    """Test the differences between systems on clicks, as `marginrank.compare` does on judgements.

    Args:
        log: The log.
        systems: By name, rankers or scores of ``log.documents``.
        measure: As in `evaluate_clicks`. For ``rank`` less is better: verdicts, wins and losses say so, and
            differences are those of ranks.
        propensities: By default those of the rows.
        estimator: ``ips`` or ``snips``.
        baseline: Compare every other system with this one.
    """
    results = {
        name: evaluate_clicks(log, system, measure, propensities=propensities, estimator=estimator)
        for name, system in systems.items()
    }
    comparison = compare(results, baseline=baseline)
    return comparison if measure != "rank" else replace(comparison, rows=tuple(map(_less_is_better, comparison.rows)))


class RankComparison(PairedComparison):
    """A comparison of mean ranks: the system with the lower one is better."""

    @property
    def verdict(self) -> Literal["better", "worse", "no significant difference"]:
        """The conclusion of the randomization test about ``system``."""
        return PairedComparison(**{**vars(self), "difference": -self.difference}).verdict


def _less_is_better(row: PairedComparison) -> RankComparison:
    return RankComparison(**{**vars(row), "wins": row.losses, "losses": row.wins})


@dataclass(frozen=True)
class Agreement:
    """Do clicks and judges agree? Pairs of shown documents of a query that judges grade differently.

    Args:
        share: Share of the pairs that corrected click rates order as the judges do; ties count half. 0.5 is chance.
        interval: Its bootstrap interval over queries.
        n_pairs: Number of pairs.
        n_queries: Number of queries that have any.
    """

    share: float
    interval: tuple[float, float]
    n_pairs: int
    n_queries: int

    def __str__(self) -> str:
        low, high = self.interval
        verdict = "clicks and judges agree" if low > 0.5 else "no agreement beyond chance is shown"
        return (
            f"{self.share:.1%} of {self.n_pairs:,} pairs in {self.n_queries:,} queries are ordered alike "
            f"({low:.1%}..{high:.1%}): {verdict}"
        )


def click_agreement(log: ClickLog, judged: Queries, *, propensities: Propensities | None = None) -> Agreement:
    """Compare the order of documents by corrected click rates with the order by grades.

    Args:
        log: The log.
        judged: Judged queries with document ids; queries and documents are matched by id.
        propensities: By default those of the rows.
    """
    if judged.document_ids is None:
        raise DataError("the judged queries have no document ids to match those of the log; add them")
    queries = as_text(judged.query_ids)[judged.query_of_row].tolist()
    grades = dict(zip(zip(queries, judged.document_names.tolist(), strict=True), judged.grades.tolist(), strict=True))
    pairs = log.documents
    keys = zip(as_text(pairs.query_ids)[pairs.query_of_row].tolist(), pairs.document_names.tolist(), strict=True)
    grade = np.array([grades.get(key, np.nan) for key in keys])
    rate = exposure_weights(log, propensities) / log.impressions[pairs.query_of_row]
    values, weights = np.zeros(len(pairs)), np.zeros(len(pairs))
    for query in range(len(pairs)):
        start, stop = pairs.offsets[query : query + 2]
        rows = start + np.flatnonzero(~np.isnan(grade[start:stop]))
        higher = grade[rows][:, None] > grade[rows][None, :]
        order = np.sign(rate[rows][:, None] - rate[rows][None, :])
        weights[query] = higher.sum()
        values[query] = ((1 + order) / 2)[higher].sum() / max(weights[query], 1.0)
    if not weights.any():
        raise DataError("no query of the log has two shown documents with different grades; check the ids")
    evaluation = Evaluation("clicks", pairs.query_ids, {"agreement": np.where(weights > 0, values, np.nan)}, weights)
    interval = mean_interval(evaluation, "agreement")
    return Agreement(evaluation.mean["agreement"], interval, int(weights.sum()), int((weights > 0).sum()))
