"""Removal of documents that no ranker can order: all-zero ones, and good and bad ones with the same features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np

from marginrank.data.queries import Queries
from marginrank.data.unjudged import SOME_UNJUDGED
from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.typing import BoolArray, Features, FloatArray

#: Similarities in memory at a time.
BLOCK = 1 << 22


@dataclass(frozen=True)
class CleaningReport:
    """Counts of what `clean` dropped, and of what it started from.

    Attributes:
        n_documents: Documents before cleaning.
        n_queries: Queries before cleaning.
        zero_documents: Documents dropped because all their features are 0.
        alike_good: Good documents dropped because a bad one of their query points the same way.
        alike_bad: Bad documents dropped because a good one of their query points the same way.
        dropped_queries: Queries dropped because no good or no bad document was left in them.
        stranded_documents: Documents dropped with those queries.
    """

    n_documents: int
    n_queries: int
    zero_documents: int
    alike_good: int
    alike_bad: int
    dropped_queries: int
    stranded_documents: int

    @property
    def kept_documents(self) -> int:
        """Documents after cleaning."""
        gone = self.zero_documents + self.alike_good + self.alike_bad + self.stranded_documents
        return self.n_documents - gone

    def __str__(self) -> str:
        return (
            f"{self.kept_documents:,} of {self.n_documents:,} documents kept, "
            f"{self.n_queries - self.dropped_queries:,} of {self.n_queries:,} queries; dropped: "
            f"{self.zero_documents:,} all-zero, {self.alike_good:,} good and {self.alike_bad:,} bad alike, "
            f"{self.stranded_documents:,} stranded"
        )


def clean(queries: Queries, *, rel: float = 1, cosine: float = 0.99) -> tuple[Queries, CleaningReport]:
    """Drop all-zero documents, and relevant and irrelevant documents of one query with nearly the same features.

    The cleaning of Chakrabarti et al. (KDD 2008), section 4.1: "we eliminated all zero feature vectors and
    good and bad vectors whose cosine similarity was above 0.99". The sentence leaves two things open. Here
    both documents of an alike pair go, whatever other pairs they are in. And as "this further reduced the
    number of queries", a query goes when it has no good or no bad document left, even if it had none to begin
    with. Two vectors are alike if ``g·b / (|g| |b|) > cosine``.

    >>> q = Queries.from_arrays([[1, 0], [2, 0], [0, 1], [3, 1], [0, 0]], [1, 0, 1, 0, 0], group=[5])
    >>> cleaned, report = clean(q)
    >>> cleaned.X.tolist()                              # (1,0) and (2,0) point the same way; (3,1) does not
    [[0.0, 1.0], [3.0, 1.0]]
    >>> print(report)
    2 of 5 documents kept, 1 of 1 queries; dropped: 1 all-zero, 1 good and 1 bad alike, 0 stranded

    Args:
        queries: Judged queries, dense or CSR, without missing values.
        rel: The lowest grade of a good document.
        cosine: The similarity that alike documents exceed, at least 0 and below 1.

    Returns:
        The remaining queries, with rows grouped by query, and the counts of dropped documents and queries.
    """
    if not 0 <= cosine < 1:
        raise ValueError(f"cosine is {cosine}; give a similarity from 0 up to, but not including, 1")
    if queries.n_unjudged:
        raise DataError(SOME_UNJUDGED)
    queries = queries.grouped
    good = queries.grades >= rel
    zero, alike = np.zeros((2, queries.n_documents), dtype=bool)
    for query, (start, end) in enumerate(pairwise(queries.offsets)):
        rows = queries.X[start:end].astype(np.float64)
        norms = np.sqrt((rows * rows).sum(axis=1))
        if np.isnan(norms).any():
            raise DataError(f"query {queries.query_ids[query]} has NaN features; fill them before cleaning")
        zero[start:end] = norms == 0
        alike[start:end] = _alike(rows, norms, good[start:end], cosine)
    left = _keep_documents(queries, ~(zero | alike))
    has_both = _any_per_query(left, left.grades >= rel) & _any_per_query(left, left.grades < rel)
    cleaned = left[has_both]
    report = CleaningReport(
        n_documents=queries.n_documents,
        n_queries=len(queries),
        zero_documents=int(zero.sum()),
        alike_good=int((alike & good).sum()),
        alike_bad=int((alike & ~good).sum()),
        dropped_queries=len(left) - len(cleaned),
        stranded_documents=left.n_documents - cleaned.n_documents,
    )
    return cleaned, report


def _alike(X: Features, norms: FloatArray, good: BoolArray, cosine: float) -> BoolArray:
    """Return a mask of the good rows with a bad row closer than ``cosine``, and of these bad rows."""
    alike = np.zeros(len(good), dtype=bool)
    goods, bads = np.flatnonzero(good), np.flatnonzero(~good)
    step = max(1, BLOCK // max(1, len(bads)))
    for start in range(0, len(goods), step):
        block = goods[start : start + step]
        products = X[block] @ X[bads].T
        dense = products.toarray() if sp.issparse(products) else products
        close = dense > cosine * np.outer(norms[block], norms[bads])
        alike[block] = close.any(axis=1)
        alike[bads] |= close.any(axis=0)
    return alike


def _any_per_query(queries: Queries, marked: BoolArray) -> BoolArray:
    return cast("BoolArray", np.diff(np.r_[0, np.cumsum(marked)][queries.offsets]) > 0)


def _keep_documents(queries: Queries, keep: BoolArray) -> Queries:
    documents, groups, weights = queries.document_ids, queries.document_groups, queries.document_weights
    # Scaled documents are identified by the features before scaling.
    has_keys = queries.keys is not None or queries.keyed_by is not None
    return replace(
        queries,
        X=queries.X[keep],
        judgements=queries.grades[keep],
        query_offsets=np.r_[0, np.cumsum(keep)][queries.offsets],
        document_ids=None if documents is None else documents[keep],
        document_groups=None if groups is None else groups[keep],
        document_weights=None if weights is None else weights[keep],
        rows=None,
        keyed_by=None,
        keys=queries.document_keys[keep] if has_keys else None,
    )
