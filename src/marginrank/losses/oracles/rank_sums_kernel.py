"""Merging sorted levels rank by rank: argmax for sums over ranks.

A state says how many documents of each level are placed at the first ranks; the others follow in score order. Of all
states only those are looked at that some best ranking can pass through.

Let i and j be the next documents of their levels. At the ranks r < t, i comes before j in a best ranking if f(i) >
f(j), where f = (A(r) − A(t))·score − (D(r) − D(t))·gain. Over all t > r that is a matter of the least and of the
largest ratio of the two falls: if j gains more, i comes first wherever j goes if f(i) > f(j) at the least; if j gains
less, if that is so at the largest. A document does not come as long as another one comes first. Neither does it come
right after a document that it should change places with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.losses.oracles.base import SortedDocuments, Violations
from marginrank.losses.oracles.grade_levels import Layout
from marginrank.losses.oracles.rank_sums import CreditSum, RankSum, States
from marginrank.runtime.kernels import njit
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: Relative error of what is compared, with a safety factor.
ROUNDING = 1e-12


class MergeTable(NamedTuple):
    """The states of as many levels as a query has."""

    counts: AnyArray
    successors: AnyArray
    predecessors: AnyArray


class MergeList(NamedTuple):
    """The list of a query: scores by place, first place of each level, discounts, depth, and the fall of a linear A."""

    scores: FloatArray
    starts: IntArray
    discounts: FloatArray
    depth: int
    slope: float


class MergeBuffers(NamedTuple):
    """Work arrays, which the caller makes, since code that makes arrays is slow to compile.

    Args:
        value: The best sum over the ranks so far, by state.
        came: The level of the last document.
        seen: The last query for which a state was reached.
        reached: The states of one rank.
        following: The states of the next.
        falls: How A and D fall from rank to rank, as `grade_lattice.falls` has it, for the query.
        heads: Score of the next document of each level.
        free: Whether no document of a worse level comes before that.
        positions: Ranks by score of the first documents of each level.
        above: How many documents of each level score more than these.
        passed: How many documents of each level were gone through.
        costs: What it costs to place them first.
        sums: Sums of the scores of the first documents of each level.
        gains: What the levels of the query are worth to the loss.
        profile: A over the ranks of the query.
        tails: Sums over documents in score order.
        order: Places of the documents of a state in score order.
    """

    value: FloatArray
    came: IntArray
    seen: IntArray
    reached: IntArray
    following: IntArray
    falls: FloatArray
    heads: FloatArray
    free: BoolArray
    positions: IntArray
    above: IntArray
    passed: IntArray
    costs: FloatArray
    sums: FloatArray
    gains: FloatArray
    profile: FloatArray
    tails: FloatArray
    order: IntArray


@njit()
def _scale_falls(total, scale, n, score, gain, falls):  # type: ignore[no-untyped-def]
    """Write the falls of a list of n documents, with a margin for the rounding of scores and gains up to these."""
    unscaled, profile, discounts = total.falls, total.profile, total.discounts
    for rank in range(len(falls)):
        for at in range(6):
            falls[rank, at] = unscaled[rank, at]
        if n > len(falls):
            # Behind the ranks that count D is 0: of the falls to these, the one to the last rank has the least ratio.
            a, d = profile[rank] - profile[n - 1], discounts[rank]
            if d * falls[rank, 0] < falls[rank, 1] * a:
                falls[rank, 0], falls[rank, 1] = a, d
        for at in range(0, 6, 2):
            falls[rank, at] *= scale
        falls[rank, 6] = ROUNDING * (falls[rank, 2] * score + falls[rank, 3] * gain)
        falls[rank, 7] = ROUNDING * (falls[rank, 4] * score + falls[rank, 5] * gain)


@njit()
def _tabulate(ranked, by_score, buffers):  # type: ignore[no-untyped-def]
    """Prepare for a linear profile: what it costs to place each document first, and what is above it.

    A document that moves to the front by itself costs slope·Σ (score of a document above it − its score).
    """
    scores, starts, depth, passed = ranked.scores, ranked.starts, ranked.depth, buffers.passed
    sums, costs, above = buffers.sums, buffers.costs, buffers.above
    n_levels, total, left = len(starts) - 1, 0.0, 0
    for level in range(n_levels):
        passed[level], sums[level, 0] = 0, 0.0
        left += min(depth, starts[level + 1] - starts[level])
    m = 0
    while left > 0:
        place, level = by_score[m], 0
        for other in range(1, n_levels):
            level += place >= starts[other]
        score, i = scores[place], passed[level]
        if i < depth:
            costs[level, i] = ranked.slope * (total - m * score)
            sums[level, i + 1] = sums[level, i] + score
            for other in range(n_levels):
                above[level, i, other] = passed[other]
            left -= 1
        passed[level] += 1
        total += score
        m += 1


@njit()
def _overtaking(level, n_levels, counts, state, score, slope, tables):  # type: ignore[no-untyped-def]
    """Return the cost of placing the next document of a level if those of a state are no longer overtaken."""
    above, sums, costs = tables
    i, saved = counts[state, level], 0.0
    for other in range(n_levels):
        gone = min(counts[state, other], above[level, i, other])
        saved += sums[other, gone] - gone * score
    return costs[level, i] - slope * saved


@njit()
def _place_greedily(ranked, states, buffers):  # type: ignore[no-untyped-def]
    """Place the document that costs least, rank by rank, and return the sum: the best one is no less."""
    tables, counts, successors = (buffers.above, buffers.sums, buffers.costs), states.counts, states.successors
    scores, starts, discounts, gains = ranked.scores, ranked.starts, ranked.discounts, buffers.gains
    state, total, n_levels = 0, 0.0, len(starts) - 1
    for rank in range(ranked.depth):
        best, most = 0, -np.inf
        for level in range(n_levels):
            place = starts[level] + counts[state, level]
            if place < starts[level + 1]:
                cost = _overtaking(level, n_levels, counts, state, scores[place], ranked.slope, tables)
                value = -cost - discounts[rank] * gains[level]
                if value > most:
                    best, most = level, value
        total += most
        state = successors[state, best]
    return total


@njit()
def _tail_sums(scores, by_score, profile, depth, tails):  # type: ignore[no-untyped-def]
    """Sum the values [m, c] of the first m documents by score, at ranks from ``depth`` on, when c of them are gone."""
    last = len(profile) - 1
    for c in range(depth + 1):
        tails[0, c] = 0.0
    for m in range(tails.shape[0] - 1):
        score = scores[by_score[m]]
        for c in range(depth + 1):
            tails[m + 1, c] = tails[m, c] + profile[min(depth + m - c, last)] * score


@njit()
def _tail(counts, state, n_levels, positions, order, tails):  # type: ignore[no-untyped-def]
    """Sum the ranks after a state, which go to the other documents in score order, up to a constant.

    Taken out in score order, the c-th document of a state, at position m of the list, changes the sum by
    tails[m, c − 1] − tails[m + 1, c].
    """
    n, total = 0, 0.0
    for level in range(n_levels):
        for i in range(counts[state, level]):
            m, at = positions[level, i], n
            while at > 0 and order[at - 1] > m:
                order[at] = order[at - 1]
                at -= 1
            order[at] = m
            n += 1
    for at in range(n):
        total += tails[order[at], at] - tails[order[at] + 1, at + 1]
    return total


@njit()
def _best_merge(query, ranked, enough, states, buffers):  # type: ignore[no-untyped-def]
    """Reach the states that some best ranking passes through, up to the last rank that counts; return their number.

    ``buffers.reached`` has them, and ``buffers.came`` tells how they were reached. With a ``slope``, the sums have the
    ranks after them in them, and those that do not come to ``enough`` are left out.
    """
    value, came, falls, heads, free = buffers.value, buffers.came, buffers.falls, buffers.heads, buffers.free
    reached, following, gains, seen, profile = (
        buffers.reached,
        buffers.following,
        buffers.gains,
        buffers.seen,
        buffers.profile,
    )
    tables, counts, successors = (buffers.above, buffers.sums, buffers.costs), states.counts, states.successors
    scores, starts, discounts, slope, n_levels = (
        ranked.scores,
        ranked.starts,
        ranked.discounts,
        ranked.slope,
        len(ranked.starts) - 1,
    )
    value[0], reached[0], n_reached = 0.0, 0, 1
    for rank in range(ranked.depth):
        a, d, n_following = profile[rank], discounts[rank], 0
        enough += d * gains[n_levels - 1]
        least_a, least_d, most_a, most_d = falls[rank, 0], falls[rank, 1], falls[rank, 2], falls[rank, 3]
        near_a, near_d, most_error, near_error = falls[rank, 4], falls[rank, 5], falls[rank, 6], falls[rank, 7]
        for at in range(n_reached):
            state = reached[at]
            before = value[state]
            top = -np.inf
            for back in range(n_levels):
                level = n_levels - 1 - back
                place = starts[level] + counts[state, level]
                free[level] = False
                if place < starts[level + 1]:
                    heads[level] = scores[place]
                    worth = least_a * scores[place] - least_d * gains[level]
                    free[level] = worth > top
                    top = max(top, worth)
            top, last, limit = -np.inf, -1, np.inf
            if rank > 0:
                last = came[state]
                limit = near_a * scores[starts[last] + counts[state, last] - 1] - near_d * gains[last] + near_error
            for level in range(n_levels):
                if not free[level]:
                    continue
                score = heads[level]
                worth = most_a * score - most_d * gains[level]
                if top > worth + most_error:
                    continue
                top = max(top, worth)
                if level != last and near_a * score - near_d * gains[level] > limit:
                    continue
                there = before - d * gains[level]
                if slope > 0.0:
                    there -= _overtaking(level, n_levels, counts, state, score, slope, tables)
                    if there < enough:
                        continue
                else:
                    there += a * score
                to = successors[state, level]
                if seen[to] != query:
                    seen[to], value[to], came[to] = query, there, level
                    following[n_following] = to
                    n_following += 1
                elif there > value[to]:
                    value[to], came[to] = there, level
        for at in range(n_following):
            reached[at] = following[at]
        n_reached = n_following
    return n_reached


@njit()
def most_violated_merge(ordered, layout, lattice, weights, buffers, violations, first, end):  # type: ignore[no-untyped-def]
    """Sum over the first ranks: merge the sorted levels by dynamic programming, then the rest in score order.

    ``lattice`` is what is summed, and the states.
    """
    ordered, layout, buffers, violations = (
        SortedDocuments(*ordered),
        Layout(*layout),
        MergeBuffers(*buffers),
        Violations(*violations),
    )
    total, states = RankSum(*lattice[0]), States(*lattice[1])
    scores, ranks = ordered.scores, violations.ranks
    gains, scaled, positions, seen = buffers.gains, buffers.profile, buffers.positions, buffers.seen
    level_gains, profile, discounts = total.gains, total.profile, total.discounts
    for state in range(len(seen)):
        seen[state] = -1
    for query in range(first, end):
        if not layout.active[query]:
            continue
        low, high, begin = layout.of_query[query], layout.of_query[query + 1], layout.queries[query]
        n_levels, n, scale = high - low, layout.queries[query + 1] - begin, total.scales[query]
        depth = min(len(total.discounts), n)
        starts, by_score = layout.offsets[low : high + 1], ordered.places[begin : begin + n]
        rows = slice(states.tables[n_levels], states.tables[n_levels + 1])
        table = MergeTable(states.counts[rows], states.successors[rows], states.predecessors[rows])
        for level in range(n_levels):
            gains[level] = weights[query] * level_gains[low + level]
        for rank in range(n):
            scaled[rank] = scale * profile[rank]
            ranks[begin + rank] = -1
        largest = max(abs(scores[by_score[0]]), abs(scores[by_score[n - 1]]))
        _scale_falls(total, scale, n, largest, gains[0], buffers.falls)
        ranked = MergeList(scores, starts, discounts, depth, scale * total.slope)
        enough, tails = -np.inf, buffers.tails[:1]
        if ranked.slope > 0.0:
            _tabulate(ranked, by_score, buffers)
            enough = _place_greedily(ranked, table, buffers)
            enough -= ROUNDING * (abs(enough) + ranked.slope * n * depth * largest)
            for rank in range(depth):
                enough -= discounts[rank] * gains[n_levels - 1]
        elif total.has_tail and depth < n:
            furthest, predicted = 0, ordered.predicted
            for level in range(n_levels):
                for i in range(min(depth, starts[level + 1] - starts[level])):
                    positions[level, i] = predicted[starts[level] + i]
                    furthest = max(furthest, positions[level, i])
            tails = buffers.tails[: furthest + 2]
            _tail_sums(scores, by_score, scaled[:n], depth, tails)
        n_reached = _best_merge(query, ranked, enough, table, buffers)
        reached, values, counts, order = buffers.reached, buffers.value, table.counts, buffers.order
        best, most = reached[0], -np.inf
        for at in range(n_reached):
            value = values[reached[at]]
            if len(tails) > 1:
                value += _tail(counts, reached[at], n_levels, positions, order, tails)
            if value > most:
                best, most = reached[at], value
        violations.deltas[query] = _read_ranking(best, ranked, table, buffers, by_score, ranks)


@njit()
def _read_ranking(state, ranked, states, buffers, by_score, ranks):  # type: ignore[no-untyped-def]
    """Rank the documents of the last state as they were placed and the others by score; return weight·Δ."""
    delta, rank, starts, discounts, depth = 0.0, 0, ranked.starts, ranked.discounts, ranked.depth
    gains, came, counts, predecessors = buffers.gains, buffers.came, states.counts, states.predecessors
    for level in range(len(starts) - 1):
        for _ in range(min(starts[level + 1] - starts[level], depth - rank)):
            delta += discounts[rank] * gains[level]
            rank += 1
    for back in range(depth):
        level, rank = came[state], depth - 1 - back
        ranks[starts[level] + counts[state, level] - 1] = rank
        delta -= discounts[rank] * gains[level]
        state = predecessors[state, level]
    rank = depth
    for at in range(len(by_score)):
        if ranks[by_score[at]] < 0:
            ranks[by_score[at]] = rank
            rank += 1
    return delta


@njit()
def most_violated_path(scores, layout, total, weights, violations, first, end):  # type: ignore[no-untyped-def]
    """Two levels, any credits: the best path through the grid of (i relevant, j irrelevant documents placed)."""
    layout, total, violations = Layout(*layout), CreditSum(*total), Violations(*violations)
    profile, ranks = total.profile, violations.ranks
    for query in range(first, end):
        if not layout.active[query]:
            continue
        start, stop = layout.queries[query], layout.queries[query + 1]
        end_rel = layout.offsets[layout.of_query[query] + 1]
        n_rel, n_irr = end_rel - start, stop - end_rel
        begin = total.starts[query]
        table = total.table[begin : begin + n_rel * (n_irr + 1)].reshape(n_rel, n_irr + 1)
        scale, weight = total.scales[query], weights[query]
        relevant_last = np.empty((n_rel + 1, n_irr + 1), dtype=np.bool_)
        row = np.empty(n_irr + 1)
        row[0] = 0.0
        for j in range(1, n_irr + 1):
            row[j] = row[j - 1] + scale * profile[j - 1] * scores[end_rel + j - 1]
            relevant_last[0, j] = False
        for i in range(1, n_rel + 1):
            for j in range(n_irr + 1):
                a = scale * profile[i + j - 1]
                with_relevant = row[j] + a * scores[start + i - 1] - weight * table[i - 1, j]
                with_irrelevant = row[j - 1] + a * scores[end_rel + j - 1] if j > 0 else -np.inf
                relevant_last[i, j] = with_relevant > with_irrelevant
                row[j] = max(with_relevant, with_irrelevant)
        i, j = n_rel, n_irr
        delta = 0.0
        for placed in range(n_rel):
            delta += table[placed, 0]
        while i + j > 0:
            if i > 0 and relevant_last[i, j]:
                delta -= table[i - 1, j]
                i -= 1
                ranks[start + i] = i + j
            else:
                j -= 1
                ranks[end_rel + j] = i + j
        violations.deltas[query] = weight * delta
