"""Two sorted lists, one above the other as far as it pays: argmax for φpo.

Every oracle kernel ranks the documents of queries ``first`` to ``end``, by place, so that
``weight·Δ + a(y)·s`` is largest, and writes ``weight·Δ`` of that ranking. ``buffers`` are work arrays.
"""

from __future__ import annotations

import numpy as np

from marginrank.losses.oracles.average_precision import PairCosts
from marginrank.losses.oracles.base import CreditShares, Violations
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.runtime.kernels import njit

#: Sums of scores, in units of the largest loss, from which gains are added up one by one.
LARGEST_SUM = 1e4


@njit()
def _rank_interleaved(relevant_before, n_rel, start, passed, ranks):  # type: ignore[no-untyped-def]
    """Rank two sorted lists when ``relevant_before[j]`` relevant documents precede the irrelevant one j.

    ``passed`` is a buffer of n_rel + 1 numbers. There are no branches, since they could not be predicted.
    """
    for i in range(n_rel + 1):
        passed[i] = 0
    for j in range(len(relevant_before)):
        passed[relevant_before[j]] += 1
        ranks[start + n_rel + j] = relevant_before[j] + j
    total = 0
    for i in range(n_rel):
        total += passed[i]
        ranks[start + i] = i + total


@njit()
def most_violated_pairs(scores, layout, pairs, weights, violations, first, end):  # type: ignore[no-untyped-def]
    """Turn each pair if that gains more than it costs: weight·cost > 2·scale·(s_relevant − s_irrelevant).

    For AUC, Chakrabarti et al. (KDD 2008) eq. (8): shift the relevant documents down by a half and sort.
    """
    layout, pairs, violations = Layout(*layout), PairCosts(*pairs), Violations(*violations)
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, end_rel = layout.queries[query], layout.offsets[layout.of_query[query] + 1]
        n_rel, n_irr = end_rel - start, layout.queries[query + 1] - end_rel
        cost = weights[query] * pairs.costs[query]
        margin = cost / (2.0 * pairs.scales[query])
        i, j, turned = 0, 0, 0
        # Without a branch: whether the next document is relevant cannot be predicted.
        while i < n_rel and j < n_irr:
            relevant = scores[start + i] - scores[end_rel + j] >= margin
            violations.ranks[start + i if relevant else end_rel + j] = i + j
            turned += 0 if relevant else n_rel - i
            i += relevant
            j += not relevant
        for rest in range(i, n_rel):
            violations.ranks[start + rest] = rest + n_irr
        for rest in range(j, n_irr):
            violations.ranks[end_rel + rest] = n_rel + rest
        violations.deltas[query] = cost * turned


@njit()
def _best_by_adding(relevant, score, pair, shares, drops, gains):  # type: ignore[no-untyped-def]
    """Return how many of some relevant documents should precede an irrelevant one, by the gain of passing each."""
    n = len(relevant)
    for i in range(n):
        gains[i] = shares[i] * drops[i] - pair * (relevant[i] - score)
    best, value, largest = n, 0.0, 0.0
    for back in range(n):
        value += gains[n - 1 - back]
        pays = value > largest
        best = n - 1 - back if pays else best
        largest = value if pays else largest
    return best


@njit()
def _best_place(tables, sums, price, rise, first, last, passed):  # type: ignore[no-untyped-def]
    """Return the i from ``first`` to ``last`` where share_i·D(i + j) − rise·S(i + j) + worth_i − price·i is largest.

    Of several it is the last. ``tables`` has shares and worths, by i, ``sums`` has discounts D and their sums S, and j
    is how many documents ``passed``.
    """
    best, largest = first, -np.inf
    for i in range(first, last + 1):
        value = tables[0, i] * sums[0, i + passed] + tables[1, i] - rise * sums[1, i + passed] - price * i
        better = value >= largest
        best = i if better else best
        largest = value if better else largest
    return best


@njit()
def _place_irrelevant(relevant, irrelevant, pair, rise, placement, tables, relevant_before):  # type: ignore[no-untyped-def]
    """Place each irrelevant document at its best rank, by divide and conquer.

    As the discount is convex, the lower its score, the lower its best place. Yue et al. (SIGIR 2007) Algorithm 2
    finds the places one by one; placing every second document between its neighbors, then every second of the others,
    bounds the places left to look at, so that the work is O(n log n) (Mohapatra et al., 2018).

    If shares rise evenly, sums of gains come from sums of scores and discounts: Σ_{t≥i} share_t·(D(t + j) − D(t + j
    + 1)) is share_i·D(i + j) − rise·Σ_{r≤i+j} D(r), up to a constant. Otherwise, and if sums of scores are so large
    that their differences would be lost in rounding, gains are added up.
    """
    n_rel, n_irr, step = len(relevant), len(irrelevant), 1
    even, origin = rise == rise, relevant[0]  # noqa: PLR0124
    while 2 * step <= n_irr:
        step *= 2
    while step > 0:
        for j in range(step - 1, n_irr, 2 * step):
            fewest = relevant_before[j - step] if j >= step else 0
            most = relevant_before[j + step] if j + step < n_irr else n_rel
            if even:
                price = pair * (irrelevant[j] - origin)
                place = _best_place(tables, placement.sums, price, rise, fewest, most, j)
            else:
                shares, drops = tables[0, fewest:most], placement.drops[fewest + j : most + j]
                place = fewest + _best_by_adding(relevant[fewest:most], irrelevant[j], pair, shares, drops, tables[1])
            relevant_before[j] = place
        step //= 2


@njit()
def _lost(shares, discounts, ranks):  # type: ignore[no-untyped-def]
    """Return the credit that relevant documents lose by not being at the first ranks."""
    total = 0.0
    for i in range(len(ranks)):
        total += shares[i] * (discounts[i] - discounts[ranks[i]])
    return total


@njit()
def most_violated_interleaving(scores, layout, placement, weights, buffers, violations, first, end):  # type: ignore[no-untyped-def]
    """Place the irrelevant documents, if a credit is a share times a discount that is convex in the rank."""
    layout, placement, violations = Layout(*layout), CreditShares(*placement), Violations(*violations)
    counts, tables = buffers
    ranks = violations.ranks
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, stop = layout.queries[query], layout.queries[query + 1]
        end_rel, weight = layout.offsets[layout.of_query[query] + 1], weights[query]
        n_rel, relevant_before = end_rel - start, counts[0, : stop - end_rel]
        pair, rise = 2.0 * placement.scales[query], weight * placement.rises[query]
        relevant, irrelevant = scores[start:end_rel], scores[end_rel:stop]
        spread = max(relevant[0], irrelevant[0]) - min(relevant[n_rel - 1], irrelevant[stop - end_rel - 1])
        if pair * n_rel * spread > LARGEST_SUM * weight:
            rise = np.nan
        for i in range(n_rel):
            tables[0, i] = weight * placement.shares[start + i]
        if rise == rise:  # noqa: PLR0124
            # Only differences of scores matter, and numbers that all of them share would drown these.
            worth = 0.0
            for i in range(n_rel):
                tables[1, i] = worth
                worth += pair * (relevant[i] - relevant[0])
            tables[0, n_rel], tables[1, n_rel] = tables[0, n_rel - 1] + rise, worth
        _place_irrelevant(relevant, irrelevant, pair, rise, placement, tables, relevant_before)
        _rank_interleaved(relevant_before, n_rel, start, counts[1], ranks)
        violations.deltas[query] = _lost(tables[0], placement.discounts, ranks[start:end_rel])
