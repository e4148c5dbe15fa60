"""Explanations of scores and rankings: contributions of features, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.model.model import Model
from marginrank.ranker.loader import ranker_of
from marginrank.ranker.resolution import resolve
from marginrank.runtime.lazy_imports import sp
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Reason:
    """Contribution of a feature.

    Args:
        feature: The feature.
        value: Its value in the document.
        other: Its value in the other document, or the mean in the query.
        contribution: What it adds to the difference of the scores.
    """

    feature: str
    value: float
    other: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The score of a document as a sum: ``base`` and the contributions of all features.

    Args:
        query: The query.
        document: The document.
        other: The document that it is compared with; None for the mean of the query.
        score: The score of the document.
        base: The score of the other document, or the mean score of the query.
        reasons: One for each feature, the largest contribution first.
    """

    query: str
    document: str
    other: str | None
    score: float
    base: float
    reasons: tuple[Reason, ...]

    def shortened(self, most: int) -> tuple[tuple[Reason, ...], float, int]:
        """Return the largest reasons that are not 0, and the sum and number of all others that are not."""
        effective = [reason for reason in self.reasons if reason.contribution]
        rest = effective[most:]
        return tuple(effective[:most]), sum(reason.contribution for reason in rest), len(rest)


def explain_document(model: Model, query: Queries, row: int, other: int | None = None) -> Explanation:
    """Explain the score of a document of one query, or why it differs from that of another one.

    >>> from marginrank import Ranker
    >>> X, y = [[3.0, 1.0], [1.0, 0.0], [0.0, 2.0]], [1, 0, 0]
    >>> query = Queries.from_arrays(X, y, qid=["q"] * 3, feature_names=["bm25", "age"], document_ids=["a", "b", "c"])
    >>> model = Ranker("svmmap", scaling=None).fit(query).model_
    >>> explanation = explain_document(model, query, 0, 1)
    >>> explanation.document, explanation.other, [reason.feature for reason in explanation.reasons]
    ('a', 'b', ['bm25', 'age'])
    >>> total = explanation.base + sum(reason.contribution for reason in explanation.reasons)
    >>> bool(np.isclose(total, explanation.score))
    True

    Args:
        model: The model.
        query: Queries that hold the one query, with all its documents.
        row: The document.
        other: The document to compare with; the mean of the query by default.
    """
    scores, names = model.score(query), query.document_names
    parts = model.explain(query, reference=other)[row]
    order = np.argsort(-np.abs(parts), kind="stable")
    values = _row(query, row)
    reference = _row(query, other) if other is not None else _means(query)
    columns = ([model.names[number] for number in order], values[order], reference[order], parts[order])
    return Explanation(
        str(query.query_ids[0]),
        str(names[row]),
        None if other is None else str(names[other]),
        float(scores[row]),
        float(scores.mean() if other is None else scores[other]),
        tuple(Reason(name, *map(float, numbers)) for name, *numbers in zip(*columns, strict=True)),
    )


def one_query(queries: Queries, at: int) -> Queries:
    """Return one of the queries; documents without ids keep the numbers that they have among all."""
    if queries.document_ids is not None:
        return queries[at]
    rows = np.flatnonzero(queries.query_of_row == at)
    return replace(queries[at], document_ids=queries.document_names[rows])


def _row(query: Queries, row: int) -> FloatArray:
    values = query.X[[row]]
    return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64).ravel()


def _means(query: Queries) -> FloatArray:
    return np.asarray(query.X.mean(axis=0, dtype=np.float64), dtype=np.float64).ravel()


def first_difference(order: Sequence[str], other: Sequence[str]) -> tuple[str, str] | None:
    """Return the documents at the first rank where two lists differ; None if they do not.

    >>> first_difference(["c", "a", "b"], ["c", "b", "a"]), first_difference(["a"], ["a"])
    (('a', 'b'), None)
    """
    return next((pair for pair in zip(order, other, strict=False) if pair[0] != pair[1]), None)


def trace_records(model: Model) -> list[dict[str, float]]:
    """Return passes, seconds, objective and gap after each iteration."""
    return [
        {"passes": step.passes, "seconds": step.seconds, "objective": step.primal, "gap": step.gap}
        for step in model.solution.trace
    ]


def takes_C(model: Model) -> bool:
    """Tell whether C had an effect on a model; it has none on networks, and on trees and baselines without a C."""
    try:
        return resolve(ranker_of(model)).capabilities.takes_C
    except (DataError, TypeError):  # of an unknown class
        return True


def feature_records(model: Model) -> list[dict[str, Any]]:
    """Return one record per feature: its weight, its curve with its spread, or how often trees split on it."""
    names = model.names
    if isinstance(model.form, AdditiveForm):
        return [
            {
                "feature": name,
                "size": float(max(shape.values) - min(shape.values)),
                "thresholds": shape.thresholds.tolist(),
                "values": shape.values.tolist(),
                "missing": shape.missing,
                "start": shape.start,
            }
            for name, shape in zip(names, model.shapes(), strict=True)
        ]
    sizes = model.form.sizes(model.theta).tolist()
    return [{"feature": name, "size": size} for name, size in zip(names if sizes else [], sizes, strict=True)]
