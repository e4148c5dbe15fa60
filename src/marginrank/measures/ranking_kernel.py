"""Sorts of and sums over the lists of many queries."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Lists are sorted whole rather than by insertion when more than this many ranks count.
INSERTION_DEPTH = 64
#: Length of the runs that the sort of a whole list begins with.
RUN = 16


@njit()
def _insert_top(start, end, scores, prefer, top):  # type: ignore[no-untyped-def]
    """Keep the best documents sorted in ``top``, in one pass over the list."""
    depth, prefers = len(top), len(prefer) > 0
    filled = 0
    for document in range(start, end):
        score, place = scores[document], filled
        while place > 0:
            other = top[place - 1]
            tied = score == scores[other]
            if not (score > scores[other] or (tied and prefers and prefer[document] > prefer[other])):
                break
            if place < depth:
                top[place] = other
            place -= 1
        if place < depth:
            top[place] = document
        filled = min(filled + 1, depth)


@njit()
def _merge_runs(run, width, scores, prefer, out):  # type: ignore[no-untyped-def]
    """Merge neighboring sorted runs of a width, from one array of documents into another."""
    n, prefers = len(run), len(prefer) > 0
    for left in range(0, n, 2 * width):
        middle, right = min(left + width, n), min(left + 2 * width, n)
        a, b = left, middle
        for to in range(left, right):
            later = a >= middle
            if b < right and not later:
                later = scores[run[b]] > scores[run[a]]
                if prefers and scores[run[b]] == scores[run[a]]:
                    later = prefer[run[b]] > prefer[run[a]]
            if later:
                out[to] = run[b]
                b += 1
            else:
                out[to] = run[a]
                a += 1


@njit()
def _rank_list(start, end, scores, prefer, top):  # type: ignore[no-untyped-def]
    """Rank a list: by insertion if few ranks count, otherwise by merging sorted runs."""
    n, shallow = end - start, len(top) <= INSERTION_DEPTH
    width, order = (n, top) if shallow else (min(RUN, n), np.empty(n, dtype=np.int64))
    for run in range(0, n, width):
        _insert_top(start + run, min(start + run + width, end), scores, prefer, order[run : run + width])
    if shallow:
        return
    merged = np.empty(n, dtype=np.int64)
    while width < n:
        _merge_runs(order, width, scores, prefer, merged)
        order, merged = merged, order
        width *= 2
    for place in range(len(top)):
        top[place] = order[place]


@njit()
def rank_lists(scores, prefer, offsets, out_offsets, order, first, end):  # type: ignore[no-untyped-def]
    """Rank the documents of queries ``first`` to ``end``, best first, as deep as the output has room.

    Equal scores are ordered by ``prefer``, descending, if it is not empty, and then as they come.
    """
    for query in range(first, end):
        top = order[out_offsets[query] : out_offsets[query + 1]]
        if len(top) > 0:
            _rank_list(offsets[query], offsets[query + 1], scores, prefer, top)


@njit()
def sum_discounted(gains, offsets, discounts, out):  # type: ignore[no-untyped-def]
    """Sum discount times gain down each list."""
    for query in range(len(out)):
        total = 0.0
        start = offsets[query]
        for rank in range(min(offsets[query + 1] - start, len(discounts))):
            total += discounts[rank] * gains[start + rank]
        out[query] = total


@njit()
def sum_cascade(stops, tied, offsets, depth, out):  # type: ignore[no-untyped-def]
    """Sum 1/(r+1) · P(the user stops at rank r) down each list, on average over orders inside ties.

    A user who reaches a block of t tied documents with stopping probabilities R goes past the first m of them, taken
    in a random order, with probability e_m(1 − R) / C(t, m), where e_m is the elementary symmetric polynomial.
    """
    for query in range(len(out)):
        start, end = offsets[query], offsets[query + 1]
        total, reached = 0.0, 1.0
        block = start
        while block < end and block - start < depth:
            after = block + 1
            while after < end and len(tied) > 0 and tied[after]:
                after += 1
            size = after - block
            passing = np.zeros(size + 1)
            passing[0] = 1.0
            for m in range(size):
                # Mean over subsets, built up so that no binomial coefficient can overflow.
                go_on = 1.0 - stops[block + m]
                for taken in range(m + 1, 0, -1):
                    share = taken / (m + 1)
                    passing[taken] = share * go_on * passing[taken - 1] + (1.0 - share) * passing[taken]
            for m in range(size):
                rank = block + m - start
                if rank < depth:
                    total += reached * (passing[m] - passing[m + 1]) / (rank + 1)
            reached *= passing[size]
            block = after
        out[query] = total
