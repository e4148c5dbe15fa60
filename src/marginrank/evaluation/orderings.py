"""From scores to orderings: the best documents of each query first."""

from __future__ import annotations

import numpy as np

from marginrank.errors import DataError
from marginrank.typing import AnyArray, FloatArray, IntArray


def best_first(scores: FloatArray, k: int | None = None, groups: AnyArray | None = None) -> IntArray:
    """Order the documents of one query by falling score, ties in the order given.

    With ``k`` only the first k are sorted, O(n + k log k), Le and Smola (2008) §4.1. With ``groups`` only the best
    document of each group takes part, which is the best ranking with every group at most once, §5.1 there.

    >>> best_first(np.array([0.1, 0.9, 0.5, 0.9])).tolist()
    [1, 3, 2, 0]
    >>> best_first(np.array([0.1, 0.9, 0.5, 0.9]), k=2, groups=np.array(["a", "b", "a", "b"])).tolist()
    [1, 2]
    """
    if k is not None and (not isinstance(k, int | np.integer) or k < 1):
        raise ValueError(f"k is {k}; rank a whole number of documents, at least one")
    if groups is not None:
        order = np.argsort(-scores, kind="stable")
        _, first = np.unique(groups[order], return_index=True)
        return np.asarray(order[np.sort(first)][:k])
    if k is None or k >= len(scores):
        return np.argsort(-scores, kind="stable")
    worst = -np.partition(-scores, k - 1)[k - 1]
    better = np.flatnonzero(scores > worst)
    tied = np.flatnonzero(scores == worst)[: k - len(better)]
    chosen = np.concatenate([better, tied])
    return np.asarray(chosen[np.argsort(-scores[chosen], kind="stable")])


def orderings(
    scores: FloatArray, offsets: IntArray, rows: IntArray | None, k: int | None, groups: AnyArray | None
) -> list[IntArray]:
    """Order the documents of every query, as numbers of the rows they came from.

    Args:
        scores: One per document, query after query.
        offsets: Where each query begins and the last ends.
        rows: The row that each document came from; its own number where None.
        k: How many documents of each query; all by default.
        groups: A label per document, query after query; each label comes at most once in a query.
    """
    if np.isnan(scores).any():
        raise DataError(f"score {int(np.argmax(np.isnan(scores)))} is NaN; every document needs a score")
    ranked = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        order = start + best_first(scores[start:stop], k, None if groups is None else groups[start:stop])
        ranked.append(order if rows is None else rows[order])
    return ranked
