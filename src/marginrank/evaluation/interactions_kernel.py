"""Branch and bound, and local search, for rankings with interactions of pairs."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Gains below this share of the value are rounding errors.
_ROUNDING = 1e-12


@njit()
def list_value(gains, pairs, discounts, order):  # type: ignore[no-untyped-def]
    """Return the value of a ranking, whose first documents fill the ranks."""
    total = 0.0
    for rank in range(len(discounts)):
        worth = gains[order[rank]]
        for before in range(rank):
            worth += pairs[order[before], order[rank]]
        total += discounts[rank] * worth
    return total


@njit()
def upper_bound(worth, pairs, discounts, placed, depth):  # type: ignore[no-untyped-def]
    """Return what the ranks from ``depth`` on can add at most.

    A pair of positive worth adds D at its second rank, and D falls, so half of it for each document at its own rank is
    no less. The largest such worths go to the first ranks.

    Args:
        worth: Gain of each document, and what it adds with those placed.
        pairs: Interactions.
        discounts: Of all ranks.
        placed: Which documents are placed.
        depth: How many documents are placed.
    """
    n, ranks = len(worth), len(discounts)
    partners = ranks - depth - 1
    optimistic = np.full(n, -np.inf)
    halves = np.empty(n)
    for document in range(n):
        if placed[document]:
            continue
        count = 0
        for other in range(n):
            if not placed[other] and pairs[document, other] > 0.0:
                halves[count] = 0.5 * pairs[document, other]
                count += 1
        total = worth[document]
        if count <= partners:
            for at in range(count):
                total += halves[at]
        elif partners > 0:
            best = np.sort(halves[:count])
            for at in range(partners):
                total += best[count - 1 - at]
        optimistic[document] = total
    ordered = np.sort(optimistic)
    bound = 0.0
    for rank in range(depth, ranks):
        bound += discounts[rank] * ordered[n - 1 - (rank - depth)]
    return bound


@njit()
def best_list(gains, pairs, discounts, best, value):  # type: ignore[no-untyped-def]
    """Search all lists depth first, without those whose bound is no better than the best; write it, return its value.

    Args:
        gains: By document.
        pairs: Interactions.
        discounts: By rank.
        best: A list to begin with, overwritten if there is a better one.
        value: Its value.
    """
    n, ranks = len(gains), len(discounts)
    placed = np.zeros(n, dtype=np.bool_)
    # What each document adds with those placed before depth, for each depth.
    worth = np.empty((ranks + 1, n))
    worth[0] = gains
    totals = np.zeros(ranks + 1)
    trial = np.full(ranks, -1, dtype=np.int64)
    candidates = np.empty((ranks, n), dtype=np.int64)
    tried = np.zeros(ranks, dtype=np.int64)
    candidates[0] = np.argsort(-worth[0])
    depth = 0
    while depth >= 0:
        if trial[depth] >= 0:
            placed[trial[depth]] = False
            trial[depth] = -1
        while tried[depth] < n and placed[candidates[depth, tried[depth]]]:
            tried[depth] += 1
        if tried[depth] == n:
            depth -= 1
            continue
        document = candidates[depth, tried[depth]]
        tried[depth] += 1
        trial[depth] = document
        placed[document] = True
        totals[depth + 1] = totals[depth] + discounts[depth] * worth[depth, document]
        if depth + 1 == ranks:
            if totals[ranks] > value + _ROUNDING * abs(value):
                value = totals[ranks]
                best[:] = trial
            continue
        for other in range(n):
            worth[depth + 1, other] = worth[depth, other] + pairs[document, other]
        bound = totals[depth + 1] + upper_bound(worth[depth + 1], pairs, discounts, placed, depth + 1)
        if bound <= value + _ROUNDING * abs(value):
            continue
        depth += 1
        candidates[depth] = np.argsort(-worth[depth])
        tried[depth] = 0
    return value


@njit()
def improve(gains, pairs, discounts, order):  # type: ignore[no-untyped-def]
    """Write a greedy order of all documents, improved by exchanges and insertions until no single one helps."""
    n, ranks = len(gains), len(discounts)
    worth, left = gains.copy(), np.ones(n, dtype=np.bool_)
    for rank in range(n):
        document = -1
        for other in range(n):
            if left[other] and (document < 0 or worth[other] > worth[document]):
                document = other
        order[rank] = document
        left[document] = False
        if rank < ranks:
            worth += pairs[document]
    value = list_value(gains, pairs, discounts, order)
    trial, better = order.copy(), True
    while better:
        better = False
        for rank in range(ranks):
            for other in range(n):
                for insert in range(2):
                    if other == rank or (insert == 0 and other < rank):
                        continue
                    trial[:] = order
                    if insert == 0:
                        trial[rank], trial[other] = order[other], order[rank]
                    elif other < rank:
                        trial[other + 1 : rank + 1] = order[other:rank]
                        trial[other] = order[rank]
                    else:
                        trial[rank:other] = order[rank + 1 : other + 1]
                        trial[other] = order[rank]
                    reached = list_value(gains, pairs, discounts, trial)
                    if reached > value + _ROUNDING * abs(value):
                        value, better = reached, True
                        order[:] = trial
