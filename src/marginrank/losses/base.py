"""What a loss is: a function of grades and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.grouping import check_offsets
from marginrank.data.queries import Queries, as_grades
from marginrank.errors import DataError
from marginrank.threads import for_chunks
from marginrank.typing import BoolArray, FloatArray, IntArray

#: ``hinge`` is convex; ``tight`` is not, and lies between it and the loss of the measure.
Bound: TypeAlias = Literal["hinge", "tight"]


class Loss(ABC):
    """ξ and ∂ξ/∂s of rankings by score, for every query on its own.

    A loss is bound to judged queries once, and then evaluated at any number of scores.
    """

    @abstractmethod
    def _prepare(self, grades: FloatArray, offsets: IntArray) -> PreparedLoss:
        """Prepare all that depends on the grades alone; they have been checked."""

    def prepare(self, grades: Queries | npt.ArrayLike, offsets: npt.ArrayLike | None = None) -> PreparedLoss:
        """Prepare all that depends on the grades alone.

        Args:
            grades: Judged queries, or one grade per document.
            offsets: With grades, where each query begins and the last ends; one query by default.
        """
        if isinstance(grades, Queries):
            flat, bounds = grades.grades, grades.offsets
        else:
            flat = as_grades(grades)
            bounds = np.array([0, len(flat)]) if offsets is None else check_offsets(np.asarray(offsets), len(flat))
        bound = self._prepare(flat, bounds)
        bound.definition = self
        return bound

    @property
    def convex(self) -> bool:
        """Whether ξ is a convex function of the scores."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether ξ has a gradient everywhere, and a Hessian almost everywhere that `PreparedLoss.curve` knows."""
        return False

    def bounded(self, bound: Bound) -> Loss:
        """Give the same loss with another bound, ``hinge`` (convex) or ``tight``."""
        if bound == "hinge":
            return self
        raise ValueError(f"{self} has no tight bound; use bound='hinge', or a StructuredLoss")

    def __call__(
        self, grades: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Slack of each query and its derivative by the score of each document.

        Args:
            grades: One grade per document.
            scores: One score per document.
            offsets: Where each query begins and ends; one query by default.
        """
        return self.prepare(grades, offsets)(scores)


class TwoBoundLoss(Loss):
    """A loss of a measure with a ``bound`` to choose: the hinge is convex, the tight bound is not."""

    bound: Bound

    @property
    def convex(self) -> bool:
        """The hinge is."""
        return self.bound == "hinge"

    def bounded(self, bound: Bound) -> Loss:
        """Give the same loss with another bound."""
        return cast("Loss", replace(cast("Any", self), bound=bound))


class PreparedLoss(ABC):
    """A loss of given queries, as a function of the scores of their documents.

    It keeps room to work in, and the order of the documents from one evaluation to the next. Threads of one evaluation
    share it; two evaluations at the same time may not.
    """

    #: The loss that was bound.
    definition: Loss
    offsets: IntArray
    #: Queries whose documents carry an order; the others have ξ = 0, and means run over these.
    active: BoolArray

    @abstractmethod
    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Write the slacks of queries ``first`` to ``end`` and the derivatives by the scores of their documents."""

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:  # noqa: ARG002
        """Write the generalised Hessian of queries ``first`` to ``end`` at the scores, times the direction.

        The direction has one number per document, as the scores have. Losses with kinks have no Hessian and refuse.
        """
        raise TypeError(
            f"{type(self.definition).__name__} has kinks, and so no Hessian; minimise it with the solver 'bundle', "
            "or take a smooth loss such as PairwiseHinge(power=2)"
        )

    def __call__(self, scores: npt.ArrayLike, n_jobs: int | None = 1) -> tuple[FloatArray, FloatArray]:
        """Slacks and derivatives of all queries, for one score per document in the order they are stored."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        if scores.shape != (self.offsets[-1],):
            raise DataError(f"scores have shape {scores.shape} for {self.offsets[-1]} documents; give one per document")
        if not np.isfinite(scores).all():
            at = int(np.argmin(np.isfinite(scores)))
            raise DataError(f"score {at} is {scores[at]}; the scores of a loss must be finite")
        xi, gradient = np.zeros(len(self.offsets) - 1), np.zeros(len(scores))
        for_chunks(lambda first, end: self.evaluate(scores, xi, gradient, first, end), self.offsets, n_jobs)
        return xi, gradient
