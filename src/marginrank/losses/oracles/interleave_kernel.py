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
def most_violated_pairs(scores, layout, pairs, weights, room, violations, first, end):  # type: ignore[no-untyped-def]
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
        relevant_before = room[:n_irr]
        i, turned = 0, 0
        for j in range(n_irr):
            while i < n_rel and scores[start + i] - scores[end_rel + j] >= margin:
                i += 1
            relevant_before[j] = i
            turned += n_rel - i
        _rank_interleaved(relevant_before, n_rel, start, violations.ranks)
        violations.deltas[query] = cost * turned


@njit(nogil=True, cache=True, allocates=False)
def _place_irrelevant(relevant, irrelevant, pair, weight, shares, discounts, stack, relevant_before):  # type: ignore[no-untyped-def]
    """Place each irrelevant document where it pays most, by divide and conquer.

    As the discount is convex, the lower its score, the lower its best place. Yue et al. (SIGIR 2007) Algorithm 2
    finds the places one by one; halving the list bounds the places left to look at, so that the work is O(n log n)
    (Mohapatra et al., 2018).
    """
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, len(irrelevant) - 1, 0, len(relevant)
    depth = 1
    while depth > 0:
        depth -= 1
        low, high, fewest, most = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if low > high:
            continue
        middle = (low + high) // 2
        best, value, best_value = most, 0.0, 0.0
        for i in range(most - 1, fewest - 1, -1):
            lost = weight * shares[i] * (discounts[i + middle] - discounts[i + middle + 1])
            value += lost - pair * (relevant[i] - irrelevant[middle])
            if value > best_value:
                best, best_value = i, value
        relevant_before[middle] = best
        stack[depth, 1], stack[depth, 3] = middle - 1, best
        above = depth + 1
        stack[above, 0], stack[above, 1], stack[above, 2], stack[above, 3] = middle + 1, high, best, most
        depth += 2


@njit(nogil=True, cache=True, allocates=False)
def most_violated_interleaving(scores, layout, placement, weights, room, violations, first, end):  # type: ignore[no-untyped-def]
    """Place the irrelevant documents, where a credit is a share times a discount that is convex in the rank."""
    layout, placement, violations = Layout(*layout), Placement(*placement), Violations(*violations)
    room, stack = room
    discounts, ranks = placement.discounts, violations.ranks
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, stop = layout.queries[query], layout.queries[query + 1]
        end_rel = layout.offsets[layout.of_query[query] + 1]
        shares, weight = placement.shares[start:end_rel], weights[query]
        relevant_before = room[: stop - end_rel]
        pair = 2.0 * placement.scales[query]
        _place_irrelevant(
            scores[start:end_rel], scores[end_rel:stop], pair, weight, shares, discounts, stack, relevant_before
        )
        _rank_interleaved(relevant_before, end_rel - start, start, ranks)
        delta = 0.0
        for i in range(end_rel - start):
            delta += weight * shares[i] * (discounts[i] - discounts[ranks[start + i]])
        violations.deltas[query] = delta
