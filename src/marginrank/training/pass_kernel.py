"""A pass over the queries, without going back to Python between them."""

from __future__ import annotations

from marginrank.runtime.kernels import call_each, njit


@njit(nogil=True, cache=True, allocates=False, fastmath={"reassoc"})
def all_finite(scores, start, stop):  # type: ignore[no-untyped-def]
    """Tell whether no score from ``start`` to ``stop`` is infinite or NaN: then 0 times each of them is 0."""
    own, total = scores[start:stop], 0.0
    for at in range(len(own)):
        total += 0.0 * own[at]
    return total == 0.0


@njit(nogil=True, cache=True, allocates=False)
def weigh_queries(slopes, weights, offsets, first, end):  # type: ignore[no-untyped-def]
    """Multiply the slopes of queries ``first`` to ``end`` with the weights of these."""
    for query in range(first, end):
        own, weight = slopes[offsets[query] : offsets[query + 1]], weights[query]
        for at in range(len(own)):
            own[at] *= weight


@njit(nogil=True, cache=True, allocates=False)
def evaluate_runs(score, evaluate, add, slots, cells, state, cut, first, end):  # type: ignore[no-untyped-def]
    """Score runs of queries, evaluate their loss, and add the slopes of each run to cells of its own.

    Returns the first run that has a score which is infinite or NaN, or −1.

    Args:
        score: Steps that write scores, by row.
        evaluate: Steps that write slacks and slopes, by query.
        add: Steps that add slopes of rows to ``slots``.
        slots: Where these are added up.
        cells: Where they go, a row for each run.
        state: Scores and slopes by row, and the weights of the queries.
        cut: Where queries begin, by row, and runs, by query.
        first: First run.
        end: The run after the last.
    """
    scores, slopes, weights = state
    offsets, runs = cut
    for run in range(first, end):
        low, high = runs[run], runs[run + 1]
        start, stop = offsets[low], offsets[high]
        call_each(score, start, stop)
        if not all_finite(scores, start, stop):
            return run
        call_each(evaluate, low, high)
        weigh_queries(slopes, weights, offsets, low, high)
        for cell in range(len(slots)):
            slots[cell] = 0.0
        call_each(add, start, stop)
        for cell in range(len(slots)):
            cells[run, cell] = slots[cell]
    return -1
