"""A pass over all queries in compiled code, for scorers and losses that consist of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from marginrank.risk_parts import Runs
from marginrank.scorers.base import PreparedScorer
from marginrank.threads import PerThread, for_each
from marginrank.typing import FloatArray, IntArray, Step

#: Fewest tasks for threads that are worth compiling a pass for, which takes about a second.
LEAST_TASKS: Final = 16
Evaluate: TypeAlias = Callable[[], tuple[Step, ...]]
#: Shares of the runs that a thread takes: the more, the less one thread waits for another at the end.
_SHARES: Final = 16


class CompiledPass:
    """Scores, slopes and cells of all runs, by a few calls of one kernel on each thread.

    The result is the same as when Python calls one kernel after the other. But then a thread needs Python's global lock
    between any two kernels, and waiting for it takes a third of a pass on two threads.

    Args:
        scorer: The scorer.
        evaluate: Returns the kernels that turn scores into slopes, for the thread that asks.
        scores: Room for the scores.
        slopes: Room for the slopes.
        runs: The queries, in runs.
    """

    def __init__(
        self, scorer: PreparedScorer, evaluate: Evaluate, scores: FloatArray, slopes: FloatArray, runs: Runs
    ) -> None:
        from marginrank.risk_kernel import evaluate_runs  # noqa: PLC0415

        self._kernel = evaluate_runs
        # Those of a file on disk cannot be written to, and the kernel would be compiled anew for them.
        self._offsets = np.require(scorer.queries.offsets, requirements="W")
        self._scores, self._slopes = scores, slopes
        self._table = table = np.empty_like(scorer.table(np.zeros(scorer.n_parameters)))
        self._runs: IntArray = np.array([runs[0][0], *(end for _, end in runs)], dtype=np.int64)
        self._steps = PerThread(lambda: _steps(scorer, evaluate, scores, slopes, table))

    @classmethod
    def of(
        cls, scorer: PreparedScorer, evaluate: Evaluate, scores: FloatArray, slopes: FloatArray, runs: Runs
    ) -> CompiledPass | None:
        """Return a pass over the queries; None where scorer or loss do not consist of kernels."""
        compiled = cls(scorer, evaluate, scores, slopes, runs)
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
        state = self._scores, self._slopes, weights

        def work(first: int, end: int) -> None:
            score, evaluate, add, slots = self._steps()
            cut = self._offsets, self._runs
            wrong.append(self._kernel(score, evaluate, add, slots, cells, state, cut, first, end))

        size = -(-n // (_SHARES * n_jobs))
        for_each(work, [(first, min(first + size, n)) for first in range(0, n, size)], n_jobs)
        found = [run for run in wrong if run >= 0]
        return cells, min(found) if found else None


def _steps(
    scorer: PreparedScorer, evaluate: Evaluate, scores: FloatArray, slopes: FloatArray, table: FloatArray
) -> Any:
    """Return the steps of a thread, with room of its own; None where scorer or loss do not consist of kernels."""
    from marginrank.kernels import pointers  # noqa: PLC0415

    slots, between = np.empty_like(table), evaluate()
    rows = scorer.steps(table, scores, slopes, slots)
    steps = pointers([*rows, *between]) if rows is not None and between else None
    return None if steps is None else (steps[:1], steps[2:], steps[1:2], slots)
