"""A pass over all queries in compiled code, for scorers and losses that consist of kernels."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.losses.base import PreparedLoss
from marginrank.risk_parts import Runs
from marginrank.scorers.base import PreparedScorer
from marginrank.threads import PerThread, for_each
from marginrank.typing import FloatArray, IntArray

#: Fewest tasks for threads that are worth compiling a pass for, which takes about a second.
LEAST_TASKS: Final = 16
#: Shares of the runs that a thread takes: the more, the less one thread waits for another at the end.
_SHARES: Final = 16


class PassArrays(NamedTuple):
    """What a pass writes: scores and slopes by document, and the slacks of the queries."""

    scores: FloatArray
    slopes: FloatArray
    xi: FloatArray


class CompiledPass:
    """Scores, slacks, slopes and cells of all runs, by a few calls of one kernel on each thread.

    The result is the same as when Python calls one kernel after the other. But then a thread needs Python's global lock
    between any two kernels, and waiting for it takes a third of a pass on two threads.

    Args:
        scorer: The scorer.
        loss: The loss.
        arrays: What is written.
        runs: The queries, in runs.
    """

    def __init__(self, scorer: PreparedScorer, loss: PreparedLoss, arrays: PassArrays, runs: Runs) -> None:
        from marginrank.risk_kernel import evaluate_runs  # noqa: PLC0415

        self._kernel = evaluate_runs
        self._arrays, self._offsets = arrays, loss.offsets
        self._table = table = np.empty_like(scorer.table(np.zeros(scorer.n_parameters)))
        self._runs: IntArray = np.array([runs[0][0], *(end for _, end in runs)], dtype=np.int64)
        self._steps = PerThread(lambda: _steps(scorer, loss, arrays, table))

    @classmethod
    def of(cls, scorer: PreparedScorer, loss: PreparedLoss, arrays: PassArrays, runs: Runs) -> CompiledPass | None:
        """Return a pass over the queries; None where scorer or loss do not consist of kernels."""
        compiled = cls(scorer, loss, arrays, runs)
        return None if compiled._steps() is None else compiled

    def __call__(self, table: FloatArray, weights: FloatArray, n_jobs: int) -> tuple[FloatArray, int | None]:
        """Return the cells of each run, and the first run found with a score that is not finite; None where all are.

        Args:
            table: What rows are scored from.
            weights: The weight of each query.
            n_jobs: Number of threads.
        """
        self._table[:] = table
        n, wrong = len(self._runs) - 1, [-1]
        cells = np.empty((n, len(table)))
        state = self._arrays.scores, self._arrays.slopes, weights

        def work(first: int, end: int) -> None:
            score, evaluate, add, slots = self._steps()
            cut = self._offsets, self._runs
            wrong.append(self._kernel(score, evaluate, add, slots, cells, state, cut, first, end))

        size = -(-n // (_SHARES * n_jobs))
        for_each(work, [(first, min(first + size, n)) for first in range(0, n, size)], n_jobs)
        found = [run for run in wrong if run >= 0]
        return cells, min(found) if found else None


def _steps(scorer: PreparedScorer, loss: PreparedLoss, arrays: PassArrays, table: FloatArray) -> Any:
    """Return the steps of a thread, with room of its own; None where scorer or loss do not consist of kernels."""
    from marginrank.kernels import pointers  # noqa: PLC0415

    slots = np.empty_like(table)
    rows = scorer.steps(table, arrays.scores, arrays.slopes, slots)
    evaluate = loss.steps(arrays.scores, arrays.xi, arrays.slopes)
    steps = pointers([*rows, *evaluate]) if rows is not None and evaluate else None
    return None if steps is None else (steps[:1], steps[2:], steps[1:2], slots)
