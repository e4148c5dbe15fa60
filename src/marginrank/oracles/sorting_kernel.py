"""Sorting inside levels, merging levels, and turning rankings into losses and gradients."""

from __future__ import annotations

import numpy as np
from numba import njit

#: Insertion sort gives up, for a merge sort, after this many moves per document.
MOVES_PER_DOCUMENT = 24


@njit(nogil=True, cache=True)
def _insertion_sort(scores, documents, start, end):  # type: ignore[no-untyped-def]
    """Sort by score, descending, equal scores by document; quick where the order was nearly right before."""
    moves = 0
    for place in range(start + 1, end):
        document = documents[place]
        score = scores[document]
        to = place
        while to > start:
            other = documents[to - 1]
            if scores[other] > score or (scores[other] == score and other < document):
                break
            documents[to] = other
            to -= 1
        documents[to] = document
        moves += place - to
        if moves > MOVES_PER_DOCUMENT * (end - start):
            return False
    return True


@njit(nogil=True, cache=True)
def sort_levels(scores, documents, sorted_scores, level_offsets, first, end):  # type: ignore[no-untyped-def]
    """Sort the documents of levels ``first`` to ``end`` by score, in place, and write their scores in that order."""
    for level in range(first, end):
        start, stop = level_offsets[level], level_offsets[level + 1]
        if not _insertion_sort(scores, documents, start, stop):
            by_number = np.sort(documents[start:stop])
            documents[start:stop] = by_number[np.argsort(-scores[by_number], kind="mergesort")]
        for place in range(start, stop):
            sorted_scores[place] = scores[documents[place]]


@njit(nogil=True, cache=True)
def merge_levels(sorted_scores, level_offsets, first, end, heads, skip, rank, ranks):  # type: ignore[no-untyped-def]
    """Rank the documents of levels by score, from ``rank`` on, leaving out the first ``skip`` of each level."""
    for level in range(first, end):
        heads[level - first] = level_offsets[level] + skip[level - first]
    while True:
        best = -1
        for level in range(first, end):
            place = heads[level - first]
            if place < level_offsets[level + 1] and (
                best < 0 or sorted_scores[place] > sorted_scores[heads[best - first]]
            ):
                best = level
        if best < 0:
            return
        ranks[heads[best - first]] = rank
        heads[best - first] += 1
        rank += 1


@njit(nogil=True, cache=True)
def rank_by_score(sorted_scores, level_offsets, of_query, ranks, first, end):  # type: ignore[no-untyped-def]
    """Rank the documents of queries ``first`` to ``end`` by score; ranks are given by place."""
    for query in range(first, end):
        low, high = of_query[query], of_query[query + 1]
        heads = np.empty(high - low, dtype=np.int64)
        skip = np.zeros(high - low, dtype=np.int64)
        merge_levels(sorted_scores, level_offsets, low, high, heads, skip, 0, ranks)


@njit(nogil=True, cache=True)
def finish(  # type: ignore[no-untyped-def]
    documents,
    sorted_scores,
    queries,
    active,
    profile,
    scales,
    ranks,
    reference,
    fixed,
    deltas,
    xi,
    gradient,
    first,
    end,
):
    """Turn rankings into slacks and gradients: ∂ξ/∂s_i = scale·(A(rank) − A(reference rank)), ξ = Δ + ∂ξ/∂s·s.

    The reference ranking is given by document (``fixed``), else by place (``reference``), and if both are empty it is the
    ideal ranking with every level in score order, which is the order of the places.
    """
    for query in range(first, end):
        start, stop = queries[query], queries[query + 1]
        if not active[query]:
            gradient[start:stop] = 0.0
            xi[query] = 0.0
            continue
        total = deltas[query]
        for place in range(start, stop):
            document = documents[place]
            other = place - start
            if len(fixed) > 0:
                other = fixed[document]
            elif len(reference) > 0:
                other = reference[place]
            slope = scales[query] * (profile[ranks[place]] - profile[other])
            gradient[document] = slope
            total += slope * sorted_scores[place]
        xi[query] = max(total, 0.0)
