"""Two sorted lists, one above the other as far as it pays: argmax for φpo.

Every oracle kernel ranks the documents of queries ``first`` to ``end``, by place, so that
``weight·Δ + a(y)·s`` is largest, and writes ``weight·Δ`` of that ranking. ``room`` is a work array, or several.
"""

from __future__ import annotations

from marginrank.kernels import njit
from marginrank.losses.oracles.interleave import PairCosts
from marginrank.losses.oracles.levels import Layout
from marginrank.losses.oracles.problem import Placement, Violations


@njit(nogil=True, cache=True, allocates=False)
def _rank_interleaved(relevant_before, n_rel, start, ranks):  # type: ignore[no-untyped-def]
    """Rank two sorted lists when ``relevant_before[j]`` relevant documents precede the irrelevant one j."""
    n_irr = len(relevant_before)
    j = 0
    for i in range(n_rel):
        while j < n_irr and relevant_before[j] <= i:
            ranks[start + n_rel + j] = i + j
            j += 1
        ranks[start + i] = i + j
    while j < n_irr:
        ranks[start + n_rel + j] = n_rel + j
        j += 1


@njit(nogil=True, cache=True, allocates=False)
def most_violated_pairs(scores, layout, pairs, weights, violations, first, end):  # type: ignore[no-untyped-def]
    """Turn each pair where that gains more than it costs: weight·cost > 2·scale·(s_relevant − s_irrelevant).

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


@njit(nogil=True, cache=True, allocates=False)
def _place_irrelevant(relevant, irrelevant, pair, weighted, drops, gains, relevant_before):  # type: ignore[no-untyped-def]
    """Place each irrelevant document where it pays most, by divide and conquer.

    As the discount is convex, the lower its score, the lower its best place. Yue et al. (SIGIR 2007) Algorithm 2
    finds the places one by one; placing every second document between its neighbours, then every second of the others,
    bounds the places left to look at, so that the work is O(n log n) (Mohapatra et al., 2018).
    """
    step = 1
    while 2 * step <= len(irrelevant):
        step *= 2
    while step > 0:
        for j in range(step - 1, len(irrelevant), 2 * step):
            fewest = relevant_before[j - step] if j >= step else 0
            most = relevant_before[j + step] if j + step < len(irrelevant) else len(relevant)
            n, score = most - fewest, irrelevant[j]
            above, shares, own = relevant[fewest:most], weighted[fewest:most], drops[fewest + j : most + j]
            for i in range(n):
                gains[i] = shares[i] * own[i] - pair * (above[i] - score)
            best, value, largest = n, 0.0, 0.0
            for back in range(n):
                value += gains[n - 1 - back]
                pays = value > largest
                best = n - 1 - back if pays else best
                largest = value if pays else largest
            relevant_before[j] = fewest + best
        step //= 2


@njit(nogil=True, cache=True, allocates=False)
def most_violated_interleaving(scores, layout, placement, weights, room, violations, first, end):  # type: ignore[no-untyped-def]
    """Place the irrelevant documents, where a credit is a share times a discount that is convex in the rank."""
    layout, placement, violations = Layout(*layout), Placement(*placement), Violations(*violations)
    before, sums = room
    discounts, drops, ranks = placement.discounts, placement.drops, violations.ranks
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, stop = layout.queries[query], layout.queries[query + 1]
        end_rel = layout.offsets[layout.of_query[query] + 1]
        n_rel, relevant_before = end_rel - start, before[: stop - end_rel]
        pair, weighted, gains = 2.0 * placement.scales[query], sums[0, :n_rel], sums[1]
        for i in range(n_rel):
            weighted[i] = weights[query] * placement.shares[start + i]
        relevant, irrelevant = scores[start:end_rel], scores[end_rel:stop]
        _place_irrelevant(relevant, irrelevant, pair, weighted, drops, gains, relevant_before)
        _rank_interleaved(relevant_before, n_rel, start, ranks)
        delta = 0.0
        for i in range(n_rel):
            delta += weighted[i] * (discounts[i] - discounts[ranks[start + i]])
        violations.deltas[query] = delta
