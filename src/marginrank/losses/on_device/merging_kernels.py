"""Merging sorted levels in Triton: the dynamic programming of `oracles.lattice_kernel`, a layer of states at a time."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tail_sums(by_score, profile, scale, n, ranked, sums, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    """Sum the values [m, c] of the first m documents by score, at the ranks after the last that counts, without c."""
    columns = tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float64)
    tl.store(sums + columns, total)
    for first in range(0, n, STEP):
        m = first + tl.arange(0, STEP)[:, None]
        rank = tl.maximum(tl.minimum(ranked + m - columns[None, :], n - 1), 0)
        term = scale * tl.load(profile + rank) * tl.load(by_score + m, mask=m < n, other=0.0)
        row = sums + (m + 1) * COLUMNS + columns[None, :]
        tl.store(row, total[None, :] + tl.cumsum(term, 0), mask=m + 0 * columns[None, :] < n)
        total += tl.sum(term, 0)


@triton.jit
def _best_state(value, tail, start, stop, TAIL: tl.constexpr, BLOCK: tl.constexpr):
    """Find the state of the last layer that is worth most."""
    most, state = tl.full([], float("-inf"), tl.float64), start
    for first in range(start, stop, BLOCK):
        at = first - start + tl.arange(0, BLOCK)
        reached = tl.load(value + at, mask=at < stop - start, other=float("-inf"))
        if TAIL:
            reached += tl.load(tail + at, mask=at < stop - start, other=0.0)
        top = tl.max(reached, 0)
        state = tl.where(top > most, first + tl.argmax(reached, 0), state)
        most = tl.maximum(top, most)
    return state


@triton.jit
def _trace_back(
    state,
    layer,
    came,
    counts,
    predecessors,
    level_starts,
    positions,
    discounts,
    gains,
    n_states,
    ranked,
    chosen,
    gained,
):
    """Write the position by score of the document at each of the first ranks, and what these gain."""
    total = tl.full([], 0.0, tl.float64)
    for back in range(ranked):
        rank = ranked - 1 - back
        level = tl.load(came + state)
        place = tl.load(level_starts + level) + tl.load(counts + level * n_states + state) - 1
        tl.store(chosen + rank, tl.load(positions + place))
        total += tl.load(discounts + rank) * tl.load(gains + level)
        state = tl.load(layer + rank) + tl.load(predecessors + level * n_states + state)
    tl.store(gained, total)


@triton.jit
def _read_off(predicted, chosen, n, ranked, ranks, BLOCK: tl.constexpr):
    """Rank the chosen documents as they were placed, and the others by score after them."""
    for first in range(0, n, BLOCK):
        place = first + tl.arange(0, BLOCK)
        position = tl.load(predicted + place, mask=place < n, other=0)
        before, own = tl.zeros([BLOCK], tl.int64), tl.full([BLOCK], -1, tl.int64)
        for rank in range(ranked):
            taken = tl.load(chosen + rank)
            before += tl.where(taken < position, 1, 0)
            own = tl.where(taken == position, rank, own)
        tl.store(ranks + place, tl.where(own < 0, ranked + position - before, own), mask=place < n)


@triton.jit
def merge_levels(
    values, predicted, by_score, active, offsets, lows, n_levels, level_starts, level_sizes, gains, scales, discounts,
    profile, layers, counts, predecessors, value, tail, came, sums, chosen, ranks, gained,
    n_active, n_states, width, longest, depth,
    TAIL: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Merge the sorted levels of each query rank by rank, so that Δ and the profile times the scores sum to the most.

    The states after each rank form a layer, which is computed from the layer before. A program works on one query after
    the other, in room of its own: two layers of values, and the level of the last document of every state.
    """
    program = tl.program_id(0).to(tl.int64)
    value, tail, came = value + 2 * program * width, tail + 2 * program * width, came + program * n_states
    sums, chosen = sums + program * (longest + 1) * COLUMNS, chosen + program * depth
    for number in range(program, n_active, tl.num_programs(0)):
        query = tl.load(active + number)
        begin = tl.load(offsets + query)
        n = tl.load(offsets + query + 1) - begin
        ranked = tl.minimum(depth, n)
        low, most, scale = tl.load(lows + query), tl.load(n_levels + query).to(tl.int32), tl.load(scales + query)
        layer, scores, positions = layers + most * (depth + 2), values + begin, predicted + begin
        with_tail = tl.where(ranked < n, n, 0)
        if TAIL:
            _tail_sums(by_score + begin, profile, scale, n, ranked, sums, COLUMNS, STEP)
        tl.store(value, 0.0)
        tl.store(tail, 0.0)
        tl.debug_barrier()
        for rank in range(ranked):
            slope, discount = scale * tl.load(profile + rank), tl.load(discounts + rank)
            start, stop = tl.load(layer + rank + 1), tl.load(layer + rank + 2)
            here, there = (rank % 2) * width, ((rank + 1) % 2) * width
            for first in range(start, stop, BLOCK):
                state = first + tl.arange(0, BLOCK)
                best, last = tl.full([BLOCK], float("-inf"), tl.float64), tl.zeros([BLOCK], tl.int32)
                position, rest = tl.full([BLOCK], -1, tl.int64), tl.zeros([BLOCK], tl.int32)
                for level in range(most):
                    gain, size = tl.load(gains + low + level), tl.load(level_sizes + low + level)
                    count = tl.load(counts + level * n_states + state, mask=state < stop, other=0)
                    fits = (count > 0) & (count <= size)
                    place = tl.load(level_starts + low + level) + count - 1
                    without = tl.load(predecessors + level * n_states + state, mask=fits, other=0)
                    reached = tl.load(value + here + without, mask=fits, other=float("-inf"))
                    reached += slope * tl.load(scores + place, mask=fits, other=0.0) - discount * gain
                    last = tl.where(reached > best, level, last)
                    best = tl.maximum(reached, best)
                    if TAIL:
                        m = tl.load(positions + place, mask=fits, other=-1)
                        rest = tl.where(m > position, without, rest)
                        position = tl.maximum(m, position)
                tl.store(value + there + state - start, best, mask=state < stop)
                tl.store(came + state, last, mask=state < stop)
                if TAIL:
                    # What comes after a state changes with its last document in score order.
                    counted = (position >= 0) & (position < with_tail)
                    after = tl.load(tail + here + rest, mask=counted, other=0.0)
                    after += tl.load(sums + position * COLUMNS + rank, mask=counted, other=0.0)
                    after -= tl.load(sums + (position + 1) * COLUMNS + rank + 1, mask=counted, other=0.0)
                    tl.store(tail + there + state - start, after, mask=state < stop)
            tl.debug_barrier()
        start, stop, there = tl.load(layer + ranked), tl.load(layer + ranked + 1), (ranked % 2) * width
        state = _best_state(value + there, tail + there, start, stop, TAIL, BLOCK)
        _trace_back(
            state, layer, came, counts, predecessors, level_starts + low, positions, discounts, gains + low,
            n_states, ranked, chosen, gained + query,
        )  # fmt: skip
        tl.debug_barrier()
        _read_off(positions, chosen, n, ranked, ranks + begin, BLOCK)
        tl.debug_barrier()
