"""`Loss`, a function of grades and scores, and `PreparedLoss`, the same for given grades."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_document_weights, as_grades
from marginrank.data.grouping import check_offsets, offsets_from_sizes, rows_of
from marginrank.data.queries import Queries
from marginrank.data.unjudged import SOME_UNJUDGED
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.runtime.option_objects import OptionObject
from marginrank.runtime.threads import default_threads, for_chunks, thread_count
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray, KeyArray

if TYPE_CHECKING:
    from marginrank.losses.torch.base import TorchLoss
    from marginrank.runtime.torch_device import Device

#: ``hinge`` is convex; ``tight`` is not, and lies between it and the loss of the measure.
Bound: TypeAlias = Literal["hinge", "tight"]


class Judgements(NamedTuple):
    """Judged documents that a loss is prepared for, those of one query next to each other."""

    grades: FloatArray
    #: Start of each query, and end of the last.
    offsets: IntArray
    #: Group label of each document; None if documents have none.
    groups: AnyArray | None
    #: Returns the key of each document; a function, since few losses need keys and features have to be read for them.
    keys: Callable[[], KeyArray]
    #: How much each document counts as a relevant one; None if documents have no weights.
    weights: FloatArray | None = None

    @classmethod
    def of_arrays(cls, grades: FloatArray, offsets: IntArray, groups: AnyArray | None = None) -> Judgements:
        """Take documents without features, whose key is their position in the query.

        >>> Judgements.of_arrays(np.zeros(3), np.array([0, 1, 3])).keys().tolist()
        [0, 0, 1]
        """

        def positions() -> KeyArray:
            return (np.arange(len(grades)) - np.repeat(offsets[:-1], np.diff(offsets))).astype(np.uint64)

        return cls(grades, offsets, groups, positions)

    def select(self, queries: IntArray) -> tuple[IntArray, Judgements]:
        """Return the documents of some queries, and their judgements.

        >>> judged = Judgements.of_arrays(np.array([1.0, 0.0, 2.0]), np.array([0, 1, 3]))
        >>> documents, part = judged.select(np.array([1]))
        >>> documents.tolist(), part.grades.tolist(), part.offsets.tolist()
        ([1, 2], [0.0, 2.0], [0, 2])
        """
        offsets, documents = offsets_from_sizes(np.diff(self.offsets)[queries]), rows_of(self.offsets, queries)
        groups = None if self.groups is None else self.groups[documents]
        weights = None if self.weights is None else self.weights[documents]
        return documents, Judgements(self.grades[documents], offsets, groups, lambda: self.keys()[documents], weights)


class Loss(OptionObject, ABC):
    """A loss: computes the slack ξ of each query and its gradient ∂ξ/∂s with respect to the scores.

    A loss is prepared for judged queries once, and then evaluated at any number of scores.
    """

    family = "loss"
    example = "name(parameter=value)"

    @abstractmethod
    def _prepare(self, judged: Judgements) -> PreparedLoss:
        """Prepare all that depends on the judgements alone; they have been checked."""

    def prepare(
        self,
        grades: Queries | npt.ArrayLike,
        offsets: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        n_jobs: int | None = 1,
    ) -> PreparedLoss:
        """Precompute what depends on the judgements alone.

        Args:
            grades: Judged queries, which bring their offsets and groups, or one grade per document.
            offsets: With grades, the start of each query and the end of the last; one query by default.
            groups: With grades, one group label per document.
            weights: With grades, one weight per document, NaN in queries that are judged; see
                `Queries.document_weights`.
            n_jobs: Number of threads; all cores for None.
        """
        if isinstance(grades, Queries):
            if offsets is not None or groups is not None or weights is not None:
                raise TypeError("queries have their own offsets and document_groups; give only the queries")
            queries = grades
            return self._of(
                Judgements(
                    queries.grades,
                    queries.offsets,
                    queries.document_groups,
                    lambda: queries.document_keys,
                    queries.document_weights,
                ),
                n_jobs,
            )
        flat = as_grades(grades)
        starts = np.array([0, len(flat)]) if offsets is None else check_offsets(np.asarray(offsets), len(flat))
        labels = None if groups is None else np.asarray(groups)
        if labels is not None and labels.shape != flat.shape:
            raise DataError(f"groups have shape {labels.shape} for {len(flat)} documents; give one label per document")
        judged = Judgements.of_arrays(flat, starts, labels)
        return self._of(judged._replace(weights=as_document_weights(weights, len(flat), allow_nan=True)), n_jobs)

    def _of(self, judged: Judgements, n_jobs: int | None = None) -> PreparedLoss:
        if np.isnan(judged.grades).any():
            raise DataError(SOME_UNJUDGED)
        # Kernels would be compiled again for read-only offsets, such as those of a file on disk.
        judged = judged._replace(offsets=np.require(judged.offsets, requirements="W"))
        with default_threads(thread_count(n_jobs)):
            if judged.weights is None:
                prepared = self._prepare(judged)
            else:
                from marginrank.losses.relevant_documents import prepare_weighted  # noqa: PLC0415

                prepared = prepare_weighted(self, judged, judged.weights)
        prepared.definition = self
        return prepared

    @property
    @abstractmethod
    def criterion(self) -> str:
        """The measure, or mix of measures, to evaluate a ranker by that is trained with this loss."""

    @property
    def convex(self) -> bool:
        """Whether ξ is a convex function of the scores."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether ξ has a gradient everywhere, and a Hessian almost everywhere, computed by `PreparedLoss.curve`."""
        return False

    @property
    def exact(self) -> bool:
        """Whether ξ is computed exactly for lists of any length; see `PreparedLoss.exact` for given lists."""
        return True

    @property
    def sums_relevant(self) -> bool:
        """Whether ξ bounds a sum over relevant documents, so that it can be trained with document weights."""
        return False

    @property
    def takes_pairs(self) -> bool:
        """Whether ξ is a loss of pairs, so that it can be trained on preferences between two documents."""
        return False

    @property
    def depends_on_rows(self) -> bool:
        """Whether ξ depends on the order of the rows of a query, so that training may not sort them."""
        return False

    @property
    def of_clicks(self) -> Loss:
        """The loss of queries with document weights; it must be a sum over relevant documents."""
        return self

    @property
    def majorant(self) -> Loss | None:
        """A convex loss, never below this one, that differs from it by a convex function; None if this one is convex.

        What the concave-convex procedure minimizes, with the difference linearized.
        """
        if self.convex:
            return None
        raise ValueError(f"{self} has no convex majorant; use a convex loss, or a StructuredLoss")

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The bounds that `bounded` accepts."""
        return ("hinge",)

    def bounded(self, bound: Bound) -> Loss:
        """Return the same loss with another bound, ``hinge`` (convex) or ``tight``."""
        if bound == "hinge":
            return self
        raise ParameterError(f"{self} has no tight bound; use ", Parameter("bound", "hinge"), ", or a structured loss")

    def __call__(
        self,
        grades: npt.ArrayLike,
        scores: npt.ArrayLike,
        offsets: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the slack of each query and its derivative with respect to the score of each document.

        Args:
            grades: One grade per document.
            scores: One score per document.
            offsets: Start of each query, and end of the last; one query by default.
            groups: One group label per document, for losses that use groups.
        """
        return self.prepare(grades, offsets, groups)(scores)

    def __repr__(self) -> str:
        """Name the parameters that differ from their defaults."""
        parameters = sorted(fields(cast("Any", self)), key=lambda parameter: bool(parameter.kw_only))
        chosen = ((f.name, repr(getattr(self, f.name)), repr(f.default)) for f in parameters)
        changed = (f"{name}={value}" for name, value, default in chosen if value != default)
        return f"{type(self).__name__}({', '.join(changed)})"


class SmoothLoss(Loss):
    """A smooth loss of grades."""

    @property
    def smooth(self) -> bool:
        """True."""
        return True

    @property
    def criterion(self) -> str:
        """NDCG, which uses graded relevance."""
        return "ndcg"


class PreparedLoss(ABC):
    """A loss of given queries, as a function of the scores of their documents.

    It holds buffers, and the order of the documents at the last evaluation. Threads of one evaluation share it; two
    evaluations at the same time may not.
    """

    #: The loss that was prepared.
    definition: Loss
    offsets: IntArray
    #: Queries whose documents have an order; the others have ξ = 0 and do not count in means.
    active: BoolArray

    def counted(self, query_weights: FloatArray | None) -> FloatArray:
        """Return the weight of each query, 0 without an order."""
        return np.where(self.active, 1.0 if query_weights is None else query_weights, 0.0)

    def shares(self, query_weights: FloatArray | None, total: float | None = None) -> FloatArray:
        """Return the share of each query in the mean loss: by its weight, 0 without an order, all together 1.

        If the mean is over more queries than these, ``total`` is the weight of all.
        """
        counted = self.counted(query_weights)
        return counted / (counted.sum() if total is None else total) if counted.any() else counted

    @property
    def exact(self) -> bool:
        """Whether ξ is computed exactly for these queries; otherwise ξ is a lower bound of the loss."""
        return True

    @property
    def constant_terms(self) -> tuple[FloatArray, FloatArray] | None:
        """Terms c and t of each document if training adds an intercept; None for losses that ignore it, as most do.

        The derivative of ξ with respect to a constant added to the scores of a query is Σ_i (c_i·s_i − t_i).
        """
        return None

    @abstractmethod
    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Write the slacks of queries ``first`` to ``end`` and their gradient with respect to the scores."""

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:  # noqa: ARG002
        """Write the generalized Hessian of queries ``first`` to ``end`` at the scores, times the direction.

        The direction has one number per document, as the scores have. Losses with kinks have no Hessian and refuse.
        """
        raise TypeError(
            f"{type(self.definition).__name__} has kinks, and so no Hessian; minimize it with the solver 'bundle', "
            "or take a smooth loss such as PairwiseHinge(power=2)"
        )

    def torch_loss(self, device: Device) -> TorchLoss | None:  # noqa: ARG002
        """Return the same loss for scores on a PyTorch device; None if it is computed with NumPy alone."""
        return None

    def diagonal(self, scores: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the diagonal of the generalized Hessian at the scores, for losses that have one."""
        raise TypeError(f"{type(self.definition).__name__} has kinks, and so no Hessian; use a smooth loss")

    def __call__(self, scores: npt.ArrayLike, n_jobs: int | None = 1) -> tuple[FloatArray, FloatArray]:
        """Return slacks and gradient of all queries, given one score per document in the order they are stored."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        if scores.shape != (self.offsets[-1],):
            raise DataError(f"scores have shape {scores.shape} for {self.offsets[-1]} documents; give one per document")
        if not np.isfinite(scores).all():
            first = int(np.argmin(np.isfinite(scores)))
            raise DataError(f"score {first} is {scores[first]}; the scores of a loss must be finite")
        xi, gradient = np.zeros(len(self.offsets) - 1), np.zeros(len(scores))
        for_chunks(lambda first, end: self.evaluate(scores, xi, gradient, first, end), self.offsets, n_jobs)
        return xi, gradient
