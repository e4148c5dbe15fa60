"""Slack rescaling, exactly: the largest product of loss and margin over all ways to merge sorted levels.

A state says how many documents of each level are placed. Both the loss Δ and the margin 1 + (a(y) − a(y*))·s are sums
of steps from state to state, and if both are positive their product rises in both. So of the ways to reach a state
only those matter that no other beats in both sums, and of these only those that could still end above the best product
known. What a way can still reach is bounded by the best ends for the loss, for the margin, and for the weighted sum of
both that touches the hull of all rankings where the product peaks: λx + y ≤ b leaves xy ≤ b²/4λ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from marginrank.runtime.kernels import njit
from marginrank.typing import FloatArray, IntArray

#: Products closer than this, relative to the largest possible, count as equal.
TOLERANCE = 1e-14
#: Ratio of the extreme weights of the loss that the hull is searched between, to that of the largest sums.
EXTREME = 1e9
#: Most edges of the hull that are looked at.
EDGES = 60
#: Most labels of a query, about 32 MB.
MOST_LABELS = 1 << 20


class FrontierLattice(NamedTuple):
    """States of one query, those with the same number of documents placed next to each other."""

    #: Documents of each level that are placed in each state.
    counts: Any
    #: States by the number of documents placed, and the first of each number.
    order: IntArray
    layers: IntArray
    strides: IntArray
    sizes: IntArray
    #: What placing the next document of a level adds to the loss and to the margin.
    losses: FloatArray
    margins: FloatArray
    #: Margin of the documents after the last rank that counts, in score order.
    tails: FloatArray


class Ends(NamedTuple):
    """The best ends from each state: for the loss, for the margin, and for the weighted sum of both."""

    loss: FloatArray
    margin: FloatArray
    weighted: FloatArray


@njit()
def _tail(ranked, starts, placed, begin, stop, depth, profile):  # type: ignore[no-untyped-def]
    """Margin of the documents that are not placed, in score order from rank ``depth`` on."""
    total, rank = 0.0, depth
    for at in range(begin, stop):
        place = ranked.places[at]
        level = len(starts) - 1
        while starts[level] > place:
            level -= 1
        if place - starts[level] >= placed[level]:
            total += profile[rank] * ranked.scores[place]
            rank += 1
    return total


@njit()
def _lay_out(layout, task, ranked, query, depth):  # type: ignore[no-untyped-def]
    """All states of a query with up to ``depth`` documents placed, and what each step from them adds."""
    low, high = layout.of_query[query], layout.of_query[query + 1]
    begin, stop = layout.queries[query], layout.queries[query + 1]
    starts = layout.offsets[low:high]
    n_levels, scale = high - low, task.scales[query]
    # Arithmetic with whole arrays would take as long to compile as the rest of the kernel.
    sizes, strides = np.empty(n_levels, dtype=np.int64), np.empty(n_levels, dtype=np.int64)
    total = 1
    for level in range(n_levels):
        sizes[level] = layout.offsets[low + level + 1] - starts[level]
        strides[level] = total
        total *= min(sizes[level], depth) + 1
    counts = np.empty((total, n_levels), dtype=np.int32)
    layers = np.zeros(depth + 2, dtype=np.int64)
    for state in range(total):
        placed = 0
        for level in range(n_levels):
            counts[state, level] = (state // strides[level]) % (min(sizes[level], depth) + 1)
            placed += counts[state, level]
        if placed <= depth:
            layers[placed + 1] += 1
    for placed in range(depth + 1):
        layers[placed + 1] += layers[placed]
    order, filled = np.empty(layers[depth + 1], dtype=np.int64), layers.copy()
    losses, margins, tails = np.zeros((total, n_levels)), np.zeros((total, n_levels)), np.zeros(total)
    for state in range(total):
        placed = 0
        for level in range(n_levels):
            placed += counts[state, level]
        if placed > depth:
            continue
        order[filled[placed]] = state
        filled[placed] += 1
        if placed == depth:
            if stop - begin > depth:
                tails[state] = scale * _tail(ranked, starts, counts[state], begin, stop, depth, task.profile)
            continue
        for level in range(n_levels):
            at = counts[state, level]
            if at == sizes[level]:
                continue
            margins[state, level] = scale * task.profile[placed] * ranked.scores[starts[level] + at]
            if len(task.discounts) > 0:
                losses[state, level] = -task.gains[low + level] * task.discounts[placed]
            elif level == 0:
                losses[state, level] = -task.credit[task.credit_starts[query] + at * (sizes[1] + 1) + counts[state, 1]]
    return FrontierLattice(counts, order, layers, strides, sizes, losses, margins, tails)


@njit()
def _best_ends(lattice, on_loss, on_margin, value):  # type: ignore[no-untyped-def]
    """Largest ``on_loss``·loss + ``on_margin``·margin from each state to the end."""
    depth, n_levels = len(lattice.layers) - 2, len(lattice.sizes)
    for at in range(lattice.layers[depth], lattice.layers[depth + 1]):
        value[lattice.order[at]] = on_margin * lattice.tails[lattice.order[at]]
    for at in range(lattice.layers[depth] - 1, -1, -1):
        state = lattice.order[at]
        best = -np.inf
        for level in range(n_levels):
            if lattice.counts[state, level] < lattice.sizes[level]:
                step = on_loss * lattice.losses[state, level] + on_margin * lattice.margins[state, level]
                best = max(best, step + value[state + lattice.strides[level]])
        value[state] = best


@njit()
def _follow(lattice, on_loss, value, path):  # type: ignore[no-untyped-def]
    """Follow the best way from the start; gives what it adds to the loss and to the margin."""
    state, loss, margin = 0, 0.0, 0.0
    for rank in range(len(path)):
        chosen, best = -1, -np.inf
        for level in range(len(lattice.sizes)):
            if lattice.counts[state, level] < lattice.sizes[level]:
                step = on_loss * lattice.losses[state, level] + lattice.margins[state, level]
                if chosen < 0 or step + value[state + lattice.strides[level]] > best:
                    chosen, best = level, step + value[state + lattice.strides[level]]
        path[rank] = chosen
        loss += lattice.losses[state, chosen]
        margin += lattice.margins[state, chosen]
        state += lattice.strides[chosen]
    return loss, margin + lattice.tails[state]


@njit()
def _largest_product(most_loss, most_margin, weighted, weight):  # type: ignore[no-untyped-def]
    """Largest x·y for x ≤ ``most_loss``, y ≤ ``most_margin`` and weight·x + y ≤ ``weighted``."""
    if most_loss <= 0.0 or most_margin <= 0.0 or weighted <= 0.0:
        return 0.0
    x = min(weighted / (2.0 * weight), most_loss)
    y = weighted - weight * x
    if y > most_margin:
        y = most_margin
        x = min(most_loss, (weighted - y) / weight)
    return x * y


@njit()
def _search_hull(lattice, start_loss, start_margin, ends_loss, ends_margin, ends, path):  # type: ignore[no-untyped-def]
    """Find the edge of the hull of (loss, margin) at which the product peaks.

    Returns the largest product at a corner, whose ``path`` is stored, and the weight of the loss for which the sum with
    the margin bounds products best; ``ends`` has the best ends for that weight.
    """
    most_loss, most_margin = start_loss + ends_loss[0], start_margin + ends_margin[0]
    corner = np.empty_like(path)
    best = 0.0
    scale = most_margin / most_loss
    sides = np.empty((2, 2))
    for side in range(2):
        weight = scale / EXTREME if side == 0 else scale * EXTREME
        _best_ends(lattice, weight, 1.0, ends)
        loss, margin = _follow(lattice, weight, ends, corner)
        sides[side, 0], sides[side, 1] = start_loss + loss, start_margin + margin
        if sides[side, 0] * sides[side, 1] > best and sides[side, 1] > 0.0:
            best = sides[side, 0] * sides[side, 1]
            for rank in range(len(path)):
                path[rank] = corner[rank]
    weight = scale
    for _ in range(EDGES):
        rise, width = sides[0, 1] - sides[1, 1], sides[1, 0] - sides[0, 0]
        if width <= 0.0 or rise <= 0.0:
            break
        weight = rise / width
        _best_ends(lattice, weight, 1.0, ends)
        loss, margin = _follow(lattice, weight, ends, corner)
        loss, margin = start_loss + loss, start_margin + margin
        if loss * margin > best and margin > 0.0:
            best = loss * margin
            for rank in range(len(path)):
                path[rank] = corner[rank]
        line = weight * sides[0, 0] + sides[0, 1]
        if weight * loss + margin <= line + 1e-12 * abs(line):
            break
        side = 0 if margin > weight * loss else 1
        sides[side, 0], sides[side, 1] = loss, margin
    # Between two corners the bound is least for the weight of the edge, at a corner for the ratio of its two sums.
    peak = (weight * sides[0, 0] + sides[0, 1]) / (2.0 * weight)
    if peak < sides[0, 0] and sides[0, 0] > 0.0 and sides[0, 1] > 0.0:
        weight = sides[0, 1] / sides[0, 0]
    elif peak > sides[1, 0] and sides[1, 0] > 0.0 and sides[1, 1] > 0.0:
        weight = sides[1, 1] / sides[1, 0]
    _best_ends(lattice, weight, 1.0, ends)
    return best, weight


@njit()
def _grown(array):  # type: ignore[no-untyped-def]
    larger = np.empty(2 * len(array), dtype=array.dtype)
    for place in range(len(array)):
        larger[place] = array[place]
    return larger


@njit()
def _search_inside(lattice, start_loss, start_margin, ends, weight, best, path):  # type: ignore[no-untyped-def]
    """Look for larger products inside the hull; gives the largest, whose ``path`` replaces that of ``best``.

    Labels of a state are sums of loss and margin on some way to it, the loss falling and the margin rising. Also gives
    whether they were enough.
    """
    n_levels, depth = len(lattice.sizes), len(path)
    tolerance = TOLERANCE * (start_loss + ends.loss[0]) * (start_margin + ends.margin[0])
    losses, margins = np.empty(256), np.empty(256)
    parents, steps = np.empty(256, dtype=np.int64), np.empty(256, dtype=np.int64)
    first, end = np.zeros(len(lattice.tails), dtype=np.int64), np.zeros(len(lattice.tails), dtype=np.int64)
    losses[0], margins[0], parents[0], steps[0] = start_loss, start_margin, -1, -1
    end[0], n_labels, final, enough = 1, 1, -1, True
    heads = np.empty(n_levels, dtype=np.int64)
    for number in range(1, len(lattice.order)):
        state = lattice.order[number]
        first[state] = n_labels
        for level in range(n_levels):
            if lattice.counts[state, level] > 0:
                heads[level] = first[state - lattice.strides[level]]
        highest = -np.inf
        while True:
            chosen, loss, margin = -1, 0.0, 0.0
            for level in range(n_levels):
                before = state - lattice.strides[level]
                if lattice.counts[state, level] == 0 or heads[level] == end[before]:
                    continue
                its_loss = losses[heads[level]] + lattice.losses[before, level]
                its_margin = margins[heads[level]] + lattice.margins[before, level]
                if chosen < 0 or its_loss > loss or (its_loss == loss and its_margin > margin):
                    chosen, loss, margin = level, its_loss, its_margin
            if chosen < 0:
                break
            label = heads[chosen]
            heads[chosen] += 1
            if margin <= highest:
                continue
            highest = margin
            most_loss, most_margin = loss + ends.loss[state], margin + ends.margin[state]
            weighted = weight * loss + margin + ends.weighted[state]
            if _largest_product(most_loss, most_margin, weighted, weight) <= best + tolerance:
                continue
            if n_labels == MOST_LABELS:
                enough = False
                break
            if n_labels == len(losses):
                losses, margins, parents, steps = _grown(losses), _grown(margins), _grown(parents), _grown(steps)
            losses[n_labels], margins[n_labels], parents[n_labels], steps[n_labels] = loss, margin, label, chosen
            if number >= lattice.layers[depth]:
                best, final = loss * (margin + lattice.tails[state]), n_labels
            n_labels += 1
        end[state] = n_labels
        if not enough:
            break
    if final >= 0:
        for rank in range(depth - 1, -1, -1):
            path[rank] = steps[final]
            final = parents[final]
    return best, enough


@njit()
def _rank(layout, ranked, query, path, ranks):  # type: ignore[no-untyped-def]
    """Ranks by place of the documents of a path and, after it, of the others in score order."""
    begin, stop = layout.queries[query], layout.queries[query + 1]
    heads = layout.offsets[layout.of_query[query] : layout.of_query[query + 1]].copy()
    ranks[:] = -1
    for rank in range(len(path)):
        ranks[heads[path[rank]] - begin] = rank
        heads[path[rank]] += 1
    rank = len(path)
    for at in range(begin, stop):
        if ranks[ranked.places[at] - begin] < 0:
            ranks[ranked.places[at] - begin] = rank
            rank += 1


@njit()
def rescaled_frontier(layout, task, ranked, xi, gradient, complete, first, end):  # type: ignore[no-untyped-def]
    """Slack max_y Δ(y)·(1 + (a(y) − a(y*))·s) and gradient of queries ``first`` to ``end``.

    ``complete`` is set to False for queries that ran out of labels; what is found is then a lower bound.
    """
    for query in range(first, end):
        begin, stop = layout.queries[query], layout.queries[query + 1]
        xi[query] = 0.0
        for place in range(begin, stop):
            gradient[ranked.documents[place]] = 0.0
        if not layout.active[query]:
            continue
        n, scale = stop - begin, task.scales[query]
        depth = min(n, len(task.discounts)) if len(task.discounts) > 0 else n
        lattice = _lay_out(layout, task, ranked, query, depth)
        margin, loss, state = 1.0, 0.0, 0
        ideal = np.empty(n)
        for place in range(begin, stop):
            rank = task.ideal[ranked.documents[place]] if len(task.ideal) > 0 else place - begin
            ideal[place - begin] = task.profile[rank]
            margin -= scale * task.profile[rank] * ranked.scores[place]
        placed = 0
        for level in range(len(lattice.sizes)):
            for _ in range(min(lattice.sizes[level], depth - placed)):
                loss -= lattice.losses[state, level]
                state += lattice.strides[level]
                placed += 1
        n_states = len(lattice.tails)
        ends_loss, ends_margin, ends = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
        _best_ends(lattice, 1.0, 0.0, ends_loss)
        _best_ends(lattice, 0.0, 1.0, ends_margin)
        if loss + ends_loss[0] <= 0.0 or margin + ends_margin[0] <= 0.0:
            continue
        path = np.empty(depth, dtype=np.int64)
        best, weight = _search_hull(lattice, loss, margin, ends_loss, ends_margin, ends, path)
        best, enough = _search_inside(lattice, loss, margin, Ends(ends_loss, ends_margin, ends), weight, best, path)
        complete[query] &= enough
        if best <= 0.0:
            continue
        ranks = np.empty(n, dtype=np.int64)
        _rank(layout, ranked, query, path, ranks)
        lost, slack = loss, 1.0
        state = 0
        for rank in range(depth):
            lost += lattice.losses[state, path[rank]]
            state += lattice.strides[path[rank]]
        for place in range(begin, stop):
            coefficient = scale * (task.profile[ranks[place - begin]] - ideal[place - begin])
            slack += coefficient * ranked.scores[place]
            gradient[ranked.documents[place]] = lost * coefficient
        xi[query] = lost * slack


class FrontierTask(NamedTuple):
    """Terms of the objective: profile, scales and y* of the map; gains and discounts, or credits, of the measure."""

    profile: FloatArray
    scales: FloatArray
    ideal: IntArray
    gains: FloatArray
    discounts: FloatArray
    credit: FloatArray
    credit_starts: IntArray
