"""Sums over all ranks, or many, of several levels: the merge of sorted levels, through few of its states."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.losses.oracles.assignment import prepare_assignment
from marginrank.losses.oracles.base import ArgmaxProblem, Ranker, SortedDocuments, Violations
from marginrank.runtime.threads import PerThread
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: Maximum number of states of a query, and of those at one rank; beyond, the query is solved as an assignment. On
#: OHSUMED (lists of up to 320 documents, three levels) at most 26,000 and 500 are reached.
MAX_STATES: Final = 1 << 20
MAX_WIDTH: Final = 1 << 14
#: Lists whose lengths differ by less than this share have the same table of falls.
_LENGTH_STEP: Final = 1.25
#: Logarithm of the largest number of states that can be numbered.
_MAX_BITS: Final = 62.0


def prepare_pruned_merge(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
    """Prepare any sum over ranks: O(L²) for each state that some best ranking may pass through.

    Queries with too many such states are solved as an assignment.
    """
    from marginrank.losses.oracles.pruned_merge_kernel import (  # noqa: PLC0415
        LongSum,
        PrunedStates,
        most_violated_long_merge,
    )

    assign, levels = prepare_assignment(problem, ordered, violations), problem.levels
    falls, falls_of = _tabulate_falls(problem)
    total = tuple(LongSum(problem.discounts, levels.gains, problem.profile, problem.scales, falls, falls_of))
    lists, layout, worst = tuple(ordered), tuple(levels.layout), tuple(violations)
    numbered, unsolved = _can_be_numbered(problem), np.zeros(len(levels.counts), dtype=np.bool_)
    n_levels = int(levels.counts[numbered].max(initial=1))

    def make_states() -> tuple[AnyArray, ...]:
        return tuple(
            PrunedStates(
                keys=np.empty(MAX_STATES, dtype=np.int64),
                values=np.empty(MAX_STATES),
                parents=np.empty(MAX_STATES, dtype=np.int32),
                came=np.empty(MAX_STATES, dtype=np.int16),
                next_keys=np.empty((n_levels, MAX_WIDTH), dtype=np.int64),
                next_values=np.empty((n_levels, MAX_WIDTH)),
                next_parents=np.empty((n_levels, MAX_WIDTH), dtype=np.int32),
            )
        )

    states = PerThread(make_states)

    def rank(weights: FloatArray, first: int, end: int) -> None:
        np.logical_not(numbered[first:end], out=unsolved[first:end])
        most_violated_long_merge(lists, layout, total, (weights, unsolved), states(), worst, first, end)
        for query in (np.flatnonzero(unsolved[first:end]) + first).tolist():
            assign(weights, query, query + 1)

    return rank


def _tabulate_falls(problem: ArgmaxProblem) -> tuple[FloatArray, IntArray]:
    """Return the falls of A and D, table after table for some lengths of lists, and the first row of each query.

    A list is given the table of the next longer length: falls to ranks that it does not have rule out less.
    """
    from marginrank.losses.oracles.pruned_merge_kernel import write_falls  # noqa: PLC0415

    longest = problem.levels.longest
    sizes = [longest]
    while sizes[-1] > 2:
        sizes.append(max(2, min(sizes[-1] - 1, int(sizes[-1] / _LENGTH_STEP))))
    lengths = np.array(sizes[::-1])
    table_of = np.searchsorted(lengths, np.minimum(problem.levels.lengths, longest))
    used = np.unique(table_of)
    tables = [np.zeros((int(lengths[table]), 6)) for table in used.tolist()]
    for table in tables:
        write_falls(problem.profile, problem.discounts, table)
    first_rows = np.cumsum([0] + [len(table) for table in tables])
    return np.concatenate([*tables, np.zeros((0, 6))]), first_rows[np.searchsorted(used, table_of)]


def _can_be_numbered(problem: ArgmaxProblem) -> BoolArray:
    """Return which queries have so few states that 64 bits number them."""
    levels = problem.levels
    bits = np.zeros(len(levels.counts))
    np.add.at(bits, np.repeat(np.arange(len(bits)), levels.counts), np.log2(np.diff(levels.offsets) + 1.0))
    return np.asarray(bits < _MAX_BITS)
