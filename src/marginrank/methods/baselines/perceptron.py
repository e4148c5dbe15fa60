"""Ranking perceptrons: one direction, and thresholds between the grades."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.methods.baselines.base import LinearBaseline, check_rounds, grade_classes
from marginrank.methods.presets import Preset
from marginrank.runtime.lazy_imports import sp
from marginrank.scorers.staged_scorer import StageLimits
from marginrank.typing import Features, FloatArray


@dataclass(frozen=True)
class PRank(LinearBaseline):
    """PRank of Crammer and Singer (NIPS 2001): weights w and thresholds b_1, ..., b_{k−1} between the k grades.

    A document x of the y-th grade should have w·x above b_r for r < y and below it for the others. For every
    violated r, with the side y_r = ±1 that it should be on, w moves by y_r·x and b_r by −y_r.

    Documents come in a new random order in every epoch. The result is the average of w over all steps, which
    varies less than the last w. The objective is the mean number of thresholds on the wrong side during an epoch; a
    document exactly on a threshold counts as wrong.

    Args:
        epochs: Passes over all documents.
    """

    name = "prank"
    draws: ClassVar[bool] = True
    epochs: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self.epochs, "epochs")

    def weights(
        self,
        X: Features,
        queries: Queries,
        limits: StageLimits,
    ) -> Iterator[tuple[FloatArray, float]]:
        """Train and yield the weights after each epoch."""
        from marginrank.methods.baselines import perceptron_kernel as kernel  # noqa: PLC0415

        grades, classes = grade_classes(queries)
        rows, rng = sp.csr_array(X), np.random.default_rng(limits.random_state)
        n, width = rows.shape
        query, clock = np.repeat(np.arange(len(queries)), queries.lengths), 1
        documents = kernel.Documents(rows.data, rows.indices, rows.indptr, classes, query)
        by_query, thresholds = np.zeros((self._n_weighted(queries), width)), np.zeros(len(grades) - 1)
        learned = kernel.Learned(np.zeros(width), by_query, thresholds, np.zeros(width))
        for _ in range(self.epochs):
            missed, clock = kernel.perceptron_epoch(documents, learned, rng.permutation(n), clock)
            yield learned.w - learned.late / clock, missed / n

    def _n_weighted(self, queries: Queries) -> int:  # noqa: ARG002
        """Return the number of queries with additional weights."""
        return 0


@dataclass(frozen=True)
class JRank(PRank):
    """The perceptron of JRank, Basilico and Hofmann (ICML 2004), with linear kernels.

    JRank is PRank with a joint kernel over pairs of a user and an item, here of a query and a document:
    K((q, x), (q', x')) = K_Q(q, q') · x·x', with the thresholds shared by all. Queries here have no features, so K_Q is
    1 + [q = q'], a constant and the identity: the score in training is (w + w_q)·x, and every step moves both. What
    is specific to a training query goes into w_q, and new queries are ranked by w. With K_Q = 1 it is `PRank`.
    """

    name = "jrank"

    def _n_weighted(self, queries: Queries) -> int:
        return len(queries)


PRESETS: Final = (
    Preset("prank", "perceptron with thresholds", "Crammer, Singer (NIPS 2001)", PRank, 30),
    Preset(
        "jrank",
        "perceptron with thresholds, and weights for each query",
        "Basilico, Hofmann (ICML 2004)",
        JRank,
        30,
    ),
)
