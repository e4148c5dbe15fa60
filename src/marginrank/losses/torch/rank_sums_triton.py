"""Merging sorted levels in Triton: the dynamic programming of `oracles.lattice_kernel`, one warp for each query.

A layer holds the states after a rank that some best ranking can pass through; `oracles.lattice_kernel` says which. All
layers of a query stand in one list. ``slots`` tells where a state stands, if it is there: what was never written, or is
left from another query, points to no place of the layer that has the state.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,assignment"
from __future__ import annotations

import triton
import triton.language as tl

#: Relative error of what is compared, with room to spare.
_ROUNDING = tl.constexpr(1e-12)


@triton.jit
def _placed(key, level, BITS: tl.constexpr):
    """Return how many documents of a level are placed in a state, whose key has BITS bits for each level."""
    return ((key >> (level * BITS)) & ((1 << BITS) - 1)).to(tl.int32)


@triton.jit
def _by_level(pointer, n_levels, LEVELS: tl.constexpr):
    """Load a number for each level; 0 for levels that a query does not have."""
    numbers = ()
    for level in tl.static_range(LEVELS):
        numbers = numbers + (tl.load(pointer + level, mask=level < n_levels, other=0),)  # noqa: RUF005
    return numbers


@triton.jit
def _falls(falls, drop, discount, rank, largest, gain):
    """Return the falls of A and D at a rank, as `grade_lattice.falls` has them, and errors of the last two pairs.

    ``drop`` is the fall of A to the last rank of the list, if that does not count. D is 0 there: of the falls to ranks
    that do not count, it has the least ratio.
    """
    least_a, least_d = tl.load(falls + 6 * rank), tl.load(falls + 6 * rank + 1)
    most_a, most_d = tl.load(falls + 6 * rank + 2), tl.load(falls + 6 * rank + 3)
    near_a, near_d = tl.load(falls + 6 * rank + 4), tl.load(falls + 6 * rank + 5)
    further = discount * least_a < least_d * drop
    least_a, least_d = tl.where(further, drop, least_a), tl.where(further, discount, least_d)
    most_error, near_error = most_a * largest + most_d * gain, near_a * largest + near_d * gain
    return least_a, least_d, most_a, most_d, near_a, near_d, _ROUNDING * most_error, _ROUNDING * near_error


@triton.jit
def _reach(
    scores, starts, sizes, gains, level_starts, level_gains, slope, discount, falls, successors, room, rank, first,
    stop, LEVELS: tl.constexpr, WIDTH: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Append the states after a rank to the list, whose last layer is ``first:stop``; return where they end."""
    least_a, least_d, most_a, most_d, near_a, near_d, most_error, near_error = falls
    keys, values, states, trails, slots = room
    end = stop
    for begin in range(first, stop, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        key = tl.load(keys + at, mask=at < stop, other=-1)
        state, value = tl.load(states + at, mask=at < stop, other=0), tl.load(values + at, mask=at < stop, other=0.0)
        last = tl.load(trails + at, mask=at < stop, other=0) & ((1 << WIDTH) - 1)
        came = (at < stop) & (rank > 0)
        score = tl.load(scores + tl.load(level_starts + last) + _placed(key, last, BITS) - 1, mask=came, other=0.0)
        limit = tl.where(came, near_a * score - near_d * tl.load(level_gains + last) + near_error, float("inf"))
        heads, free, top = (), (), tl.full([BLOCK], float("-inf"), tl.float64)
        for level in tl.static_range(LEVELS - 1, -1, -1):
            placed = _placed(key, level, BITS)
            # No comparison with NaN holds, so that a level without another document is not free.
            head = tl.load(scores + starts[level] + placed, mask=placed < sizes[level], other=float("nan"))
            worth = least_a * head - least_d * gains[level]
            heads, free = (head,) + heads, (worth > top,) + free  # noqa: RUF005
            top = tl.where(worth > top, worth, top)
        top, ways, ahead = tl.full([BLOCK], float("-inf"), tl.float64), (), ()
        for level in tl.static_range(LEVELS):
            worth = most_a * heads[level] - most_d * gains[level]
            goes = free[level] & (top <= worth + most_error)
            top = tl.where(goes & (worth > top), worth, top)
            goes = goes & ((last == level) | (near_a * heads[level] - near_d * gains[level] <= limit))
            # Of all levels together, since each load is long in coming.
            to = tl.load(successors + state * LEVELS + level, mask=goes, other=0)
            ways, ahead = ways + (goes,), ahead + (to,)  # noqa: RUF005
        for level in tl.static_range(LEVELS):
            goes, to = ways[level], ahead[level]
            if tl.max(goes.to(tl.int32), 0) > 0:
                # One level leads from different states to different ones, and so do different levels from one state.
                slot = tl.load(slots + to, mask=goes & (end > stop) & (stop - first > 1), other=-1)
                known = goes & (slot >= stop) & (slot < end)
                found, best = (
                    tl.load(states + slot, mask=known, other=-1),
                    tl.load(values + slot, mask=known, other=0.0),
                )
                known = known & (found == to)
                reached = value + slope * heads[level] - discount * gains[level]
                new = goes & (known == 0)
                place = tl.where(known, slot, end - 1 + tl.cumsum(new.to(tl.int32), 0))
                tl.store(keys + place, key + (1 << (level * BITS)), mask=new)
                tl.store(states + place, to, mask=new)
                tl.store(slots + to, place, mask=new)
                better = new | (known & (reached > best))
                tl.store(values + place, reached, mask=better)
                tl.store(trails + place, (at << WIDTH) + level, mask=better)
                end += tl.sum(new.to(tl.int32), 0)
                tl.debug_barrier()
    return end


@triton.jit
def _tail(
    by_score, seats, positions, starts, n_levels, profile, key, there, ranked,
    WIDTH: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """Sum the ranks after a state, which go to the other documents in score order, less the sum without a state."""
    furthest = tl.full(key.shape, -1, tl.int32)
    for level in range(n_levels):
        placed = _placed(key, level, BITS)
        position = tl.load(positions + tl.load(starts + level) + placed - 1, mask=there & (placed > 0), other=-1)
        furthest = tl.maximum(furthest, position)
    total, gone = tl.zeros(key.shape, tl.float64), tl.zeros(key.shape, tl.int32)
    for m in range(tl.max(furthest, 0) + 1):
        seat = tl.load(seats + m)
        chosen = _placed(key, seat & ((1 << WIDTH) - 1), BITS) > (seat >> WIDTH)
        after = tl.load(profile + ranked + m - gone, mask=there & (chosen == 0), other=0.0)
        total += (after - tl.load(profile + m)) * tl.load(by_score + m)
        gone += chosen.to(tl.int32)
    return total


@triton.jit
def _best_state(
    by_score, seats, positions, starts, n_levels, profile, room, first, end, n, ranked,
    TAIL: tl.constexpr, WIDTH: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the state of the last layer that is worth most."""
    keys, values, _states, _trails, _slots = room
    most, best = tl.full([], float("-inf"), tl.float64), first
    for begin in range(first, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        value = tl.load(values + at, mask=at < end, other=float("-inf"))
        if TAIL and ranked < n:
            key = tl.load(keys + at, mask=at < end, other=0)
            value += _tail(by_score, seats, positions, starts, n_levels, profile, key, at < end, ranked, WIDTH, BITS)
        top = tl.max(value, 0)
        best = tl.where(top > most, begin + tl.argmax(value, 0), best)
        most = tl.maximum(top, most)
    return best


@triton.jit
def _trace_back(at, positions, starts, gains, discounts, room, ranked, chosen, WIDTH: tl.constexpr, BITS: tl.constexpr):
    """Write the position by score of the document at each of the first ranks; return what these gain."""
    keys, _values, _states, trails, _slots = room
    total, key = tl.full([], 0.0, tl.float64), tl.load(keys + at)
    for back in range(ranked):
        rank, trail = ranked - 1 - back, tl.load(trails + at)
        level, at = trail & ((1 << WIDTH) - 1), trail >> WIDTH
        place = tl.load(starts + level) + _placed(key, level, BITS) - 1
        tl.store(chosen + rank, tl.load(positions + place))
        total += tl.load(discounts + rank) * tl.load(gains + level)
        key -= tl.full([], 1, tl.int64) << (level * BITS)
    return total


@triton.jit
def _read_off(
    scores, positions, documents, ideal, profile, scale, n, ranked, chosen, slopes,
    IDEAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rank the chosen documents as they were placed and the others by score after them; return slopes times scores."""
    total = tl.zeros([BLOCK], tl.float64)
    for first in range(0, n, BLOCK):
        place = first + tl.arange(0, BLOCK)
        there = place < n
        position, document = tl.load(positions + place, mask=there, other=0), tl.load(documents + place, mask=there)
        before, own = tl.zeros([BLOCK], tl.int32), tl.full([BLOCK], -1, tl.int32)
        for rank in range(ranked):
            taken = tl.load(chosen + rank)
            before += (taken < position).to(tl.int32)
            own = tl.where(taken == position, rank, own)
        own = tl.where(own < 0, ranked + position - before, own)
        reference = tl.load(ideal + document, mask=there, other=0) if IDEAL else place
        slope = tl.load(profile + own, mask=there, other=0.0) - tl.load(profile + reference, mask=there, other=0.0)
        slope *= scale
        tl.store(slopes + document, slope, mask=there)
        total += slope * tl.load(scores + place, mask=there, other=0.0)
    return tl.sum(total, 0)


@triton.jit
def merge_levels(
    scores, documents, positions, by_score, seats, active, offsets, lows, n_levels, level_starts, level_sizes, gains,
    scales, ideal_gains, ideal, discounts, profile, falls, tables, successors, keys, values, states, trails, slots,
    chosen, xi, slopes, n_active, n_states, depth,
    TAIL: tl.constexpr, IDEAL: tl.constexpr, LEVELS: tl.constexpr, WIDTH: tl.constexpr, BITS: tl.constexpr,
    BLOCK: tl.constexpr, DOCUMENTS: tl.constexpr,
):  # fmt: skip
    """Merge the sorted levels of each query rank by rank, so that Δ and the profile times the scores sum to the most.

    A program works on one query after the other, in room of its own.
    """
    program = tl.program_id(0).to(tl.int64)
    own = program * n_states
    room, chosen = (keys + own, values + own, states + own, trails + own, slots + own), chosen + program * depth
    tl.store(keys + own, 0)
    tl.store(values + own, 0.0)
    tl.store(states + own, 0)
    tl.store(trails + own, 0)
    tl.debug_barrier()
    for number in range(tl.program_id(0), n_active, tl.num_programs(0)):
        query = tl.load(active + number)
        begin, low, levels = tl.load(offsets + query), tl.load(lows + query), tl.load(n_levels + query).to(tl.int32)
        n, scale = (tl.load(offsets + query + 1) - begin).to(tl.int32), tl.load(scales + query)
        starts, of_levels = level_starts + low, gains + low
        each = _by_level(starts, levels, LEVELS)
        sizes, worths = _by_level(level_sizes + low, levels, LEVELS), _by_level(of_levels, levels, LEVELS)
        after = successors + tl.load(tables + levels) * LEVELS
        largest = tl.maximum(tl.abs(tl.load(by_score + begin)), tl.abs(tl.load(by_score + begin + n - 1)))
        end_of_profile = tl.load(profile + n - 1)
        ranked, first, end = tl.minimum(depth, n), 0, 1
        for rank in range(ranked):
            slope, discount = tl.load(profile + rank), tl.load(discounts + rank)
            drop = tl.where(n > depth, slope - end_of_profile, 0.0)
            changes = _falls(falls, drop, discount, rank, largest, worths[0])
            stop = end
            end = _reach(
                scores + begin, each, sizes, worths, starts, of_levels, slope, discount, changes, after, room, rank,
                first, stop, LEVELS, WIDTH, BITS, BLOCK,
            )  # fmt: skip
            first = stop
        # Infinite scores may reach no state.
        ranked = tl.where(first < end, ranked, 0)
        best = _best_state(
            by_score + begin, seats + begin, positions + begin, starts, levels, profile, room, first, end, n, ranked,
            TAIL, WIDTH, BITS, BLOCK,
        )  # fmt: skip
        gained = _trace_back(best, positions + begin, starts, of_levels, discounts, room, ranked, chosen, WIDTH, BITS)
        tl.debug_barrier()
        moved = _read_off(
            scores + begin, positions + begin, documents + begin, ideal, profile, scale, n, ranked, chosen, slopes,
            IDEAL, DOCUMENTS,
        )  # fmt: skip
        tl.store(xi + query, tl.maximum(moved + tl.load(ideal_gains + query) - scale * gained, 0.0))
        tl.debug_barrier()
