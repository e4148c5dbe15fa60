"""A pass over the queries, without going back to Python between them."""

from __future__ import annotations

from marginrank.kernels import call_each, njit
from marginrank.losses.slopes_kernel import all_finite, weigh_queries


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
