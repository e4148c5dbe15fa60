"""One grade for each document from the grades of several raters, with its uncertainty."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from marginrank.data.formats.trec import Qrels
from marginrank.data.grouping import offsets_from_sizes
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.judging.judgements import Judgements
from marginrank.runtime.files import atomic_path
from marginrank.runtime.text import ResultTable, count
from marginrank.typing import AnyArray, FloatArray, IntArray

#: How grades are merged.
MergeMethod: TypeAlias = Literal["mean", "majority", "dawid-skene"]

_ITERATIONS: Final = 1000
#: Gain of the log-likelihood per grade below which the algorithm stops.
_TOLERANCE: Final = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class MergedGrades:
    """One grade per document of a query, in ascending order of ids; the result of `merge`."""

    query_ids: AnyArray
    document_ids: AnyArray
    grades: FloatArray
    #: Standard error of each grade; NaN if it is unknown, as no document has two grades.
    uncertainty: FloatArray
    #: Number of raters of each document.
    raters: IntArray
    #: Whether they gave different grades.
    disputed: AnyArray
    method: MergeMethod
    #: Of "dawid-skene": the estimated parameters.
    model: DawidSkene | None = None

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.grades)

    def __repr__(self) -> str:
        return f"MergedGrades({count(len(self), 'document')}, {int(self.disputed.sum()):,} disputed, {self.method})"

    def __str__(self) -> str:
        order = self.adjudication()
        shown = order[:10]
        lines = [
            [str(self.query_ids[at]), str(self.document_ids[at]), f"{self.grades[at]:g}", f"{self.uncertainty[at]:.2f}"]
            for at in shown
        ]
        if not lines:
            return f"{self!r}: nothing to adjudicate"
        table = ResultTable([["query", "document", "grade", "uncertainty"], *lines], right=[2, 3])
        more = f"\n... and {len(order) - len(shown):,} more" if len(order) > len(shown) else ""
        return f"{count(len(order), 'document')} to adjudicate, first:\n{table.text().rstrip()}{more}"

    def adjudication(self) -> IntArray:
        """Return the documents whose raters disagree, in the order to adjudicate them: the most uncertain first."""
        disputed = np.flatnonzero(self.disputed)
        return np.asarray(disputed[np.argsort(-self.uncertainty[disputed], kind="stable")])

    def to_qrels(self) -> Qrels:
        """Return the grades as judgements, which `marginrank.evaluate` and others take."""
        topics, sizes = np.unique(self.query_ids, return_counts=True)
        return Qrels(topics, offsets_from_sizes(sizes), self.document_ids, self.grades)

    def onto(self, queries: Queries) -> Queries:
        """Return queries with these grades, NaN for documents that have none.

        Raises:
            DataError: None of their documents has a grade.
        """
        pairs = zip(self.query_ids.tolist(), self.document_ids.tolist(), strict=True)
        grade_of = dict(zip(pairs, self.grades.tolist(), strict=True))
        names = as_text(queries.document_names).tolist()
        rows = zip(as_text(queries.query_ids)[queries.query_of_row].tolist(), names, strict=True)
        grades = np.array([grade_of.get(pair, np.nan) for pair in rows], dtype=np.float64)
        if np.isnan(grades).all():
            raise DataError("no document of these queries has a merged grade; do ids of queries and documents agree?")
        return replace(queries, judgements=grades)

    def write(self, path: str | Path) -> None:
        """Write a CSV file with the columns query, document, grade, uncertainty, raters and disputed."""
        with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["query", "document", "grade", "uncertainty", "raters", "disputed"])
            for at in range(len(self)):
                error = self.uncertainty[at]
                rows.writerow(
                    [
                        self.query_ids[at],
                        self.document_ids[at],
                        f"{self.grades[at]:.10g}",
                        "" if np.isnan(error) else f"{error:.6g}",
                        self.raters[at],
                        int(self.disputed[at]),
                    ]
                )


def merge(judgements: Judgements, method: MergeMethod = "mean") -> MergedGrades:
    """Merge the grades of raters into one for each document.

    ``"mean"`` is the mean grade. ``"majority"`` is the most frequent grade; of several, the one nearest to the mean of
    the document, and then the lower. The uncertainty of both is the standard error of a mean, ``s / sqrt(m)`` for
    ``m`` grades, with ``s²`` the variance of the grades of a document, pooled over all documents. ``"dawid-skene"`` is
    the most probable grade by the model of `dawid_skene`, which weighs raters by how reliable they are; its uncertainty
    is the standard deviation of the grade by the same probabilities, which takes the model and its parameters for
    granted: with two raters, or few documents, it is too small.

    >>> table = Judgements.of(["q"] * 5, list("aaabb"), list("xyzxy"), [2, 2, 0, 1, 0])
    >>> merge(table, "majority").grades.tolist(), merge(table).grades.round(2).tolist()
    ([2.0, 0.0], [1.33, 0.5])
    >>> merge(table).uncertainty.round(2).tolist()          # s² = (8/3 + 1/2) / 3
    [0.59, 0.73]

    Args:
        judgements: What raters gave.
        method: How to merge.
    """
    if method not in get_args(MergeMethod):
        raise ParameterError(Parameter("method"), f" is {method!r}; choose 'mean', 'majority' or 'dawid-skene'")
    m = judgements.judged.sum(axis=1)
    lowest, highest = np.nanmin(judgements.grades, axis=1), np.nanmax(judgements.grades, axis=1)
    means = np.nanmean(judgements.grades, axis=1)
    model = None
    if method == "dawid-skene":
        model = dawid_skene(_counts(judgements))
        grades = judgements.levels[model.probabilities.argmax(axis=1)]
        expected = model.probabilities @ judgements.levels
        errors = np.sqrt(np.maximum(model.probabilities @ judgements.levels**2 - expected**2, 0.0))
    else:
        grades = means if method == "mean" else _majority(judgements, means)
        spare = int((m - 1).sum())
        squares = float(np.nansum((judgements.grades - means[:, None]) ** 2))
        errors = np.sqrt(squares / spare / m) if spare else np.full(len(m), np.nan)
    ids = judgements.query_ids, judgements.document_ids
    return MergedGrades(*ids, grades, errors, m, lowest < highest, method, model)


def _counts(judgements: Judgements) -> FloatArray:
    """Count how often each rater gave each level to each document: documents × raters × levels."""
    return np.asarray(judgements.codes[:, :, None] == np.arange(len(judgements.levels)), dtype=np.float64)


def _majority(judgements: Judgements, means: FloatArray) -> FloatArray:
    votes = _counts(judgements).sum(axis=1)
    apart = np.abs(judgements.levels - means[:, None])
    tied = votes == votes.max(axis=1, keepdims=True)
    return np.asarray(judgements.levels[np.where(tied, apart, np.inf).argmin(axis=1)])


class DawidSkene(NamedTuple):
    """Parameters of the model of Dawid and Skene that maximize the likelihood, as far as the algorithm got."""

    #: Probability of each level of each document.
    probabilities: FloatArray
    #: Share of each level.
    shares: FloatArray
    #: Probability that each rater gives each level (last) to a document of each level (middle); NaN if unseen.
    confusion: FloatArray
    log_likelihood: float
    iterations: int
    converged: bool


def dawid_skene(counts: FloatArray) -> DawidSkene:
    """Estimate true levels and the errors of raters by expectation maximization.

    Every document has a true level ``j`` with probability ``p_j``, and rater ``k`` gives it level ``l`` with
    probability ``π_jl^(k)``, independently of the other raters. Starting from the shares of the grades of each
    document, the algorithm estimates ``p`` and ``π`` as means, weighted by the probabilities of true levels, and then
    these probabilities, in turn; the likelihood never falls. Dawid and Skene, "Maximum likelihood estimation of
    observer error-rates using the EM algorithm" (Applied Statistics, 1979).

    >>> counts = np.array([[[1, 0], [1, 0]], [[0, 1], [0, 1]], [[1, 0], [0, 1]]])
    >>> dawid_skene(counts.astype(float)).probabilities[:2].round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    Args:
        counts: How often each rater gave each level to each document: documents × raters × levels.
    """
    if not counts.any(axis=(1, 2)).all():
        raise DataError("a document has no grade; leave it out")
    votes = counts.sum(axis=1)
    probabilities = votes / votes.sum(axis=1, keepdims=True)
    likelihood, change = -np.inf, np.inf
    iteration, enough = 0, _TOLERANCE * float(counts.sum())
    while change > enough and iteration < _ITERATIONS:
        shares = probabilities.mean(axis=0)
        given = np.einsum("dj,dkl->kjl", probabilities, counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            confusion = given / given.sum(axis=2, keepdims=True)
            logs = np.where(given > 0, np.log(confusion), -np.inf)
            log_shares = np.log(shares)
        joint = log_shares + _weighted(counts, logs)
        top = joint.max(axis=1, keepdims=True)
        likelihoods = np.exp(joint - top).sum(axis=1)
        probabilities = np.exp(joint - top) / likelihoods[:, None]
        before, likelihood = likelihood, float((np.log(likelihoods) + top[:, 0]).sum())
        change = likelihood - before
        iteration += 1
    return DawidSkene(probabilities, shares, confusion, likelihood, iteration, change <= enough)


def _weighted(counts: FloatArray, logs: FloatArray) -> FloatArray:
    """Add up the logarithms of what raters gave, documents × levels; what was not given counts nothing."""
    impossible = np.einsum("dkl,kjl->dj", counts, np.isinf(logs).astype(np.float64)) > 0
    sums = np.einsum("dkl,kjl->dj", counts, np.where(np.isinf(logs), 0.0, logs))
    return np.where(impossible, -np.inf, sums)


__all__ = ["DawidSkene", "MergedGrades", "dawid_skene", "merge"]
