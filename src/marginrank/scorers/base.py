"""`Scorer`, the way from parameters and features to scores and back, and `PreparedScorer` for given features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

import numpy as np

from marginrank.data.partitions import AnyQueries, PartitionedQueries, Partitions
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.preparation.standardization import Standardize
from marginrank.runtime.option_objects import OptionObject, parse_spelling
from marginrank.runtime.torch_device import Device
from marginrank.scorers.form import Form
from marginrank.scorers.linear.form import has_nan
from marginrank.typing import Features, FloatArray, IntArray

SomeForm = TypeVar("SomeForm", bound=Form)

#: Spelling of a scorer that is chosen on held-out queries.
CHOSEN: Final = "auto"


@dataclass(frozen=True)
class Scorer(OptionObject, ABC):
    """How parameters θ and features determine scores.

    A subclass is a frozen dataclass of its options, in a module of this folder; its ``name`` is its spelling.
    """

    family = "scorer"
    example = "linear or additive(bins=64)"
    #: Whether features may be NaN.
    takes_nan: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    #: Whether scores change with the scale of the features, so that scaling them matters.
    scale_matters: ClassVar[bool] = True
    #: Whether C means something to it.
    takes_C: ClassVar[bool] = True  # noqa: N815
    #: Whether a ranker's seed changes what it learns.
    draws: ClassVar[bool] = False
    #: Whether small fits are bound by the GIL.
    gil_bound: ClassVar[bool] = False

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X

    def within(self, time_limit: float) -> Scorer:  # noqa: ARG002
        """Return the scorer with a time limit for `prepare`; itself where that takes a pass over the features."""
        return self

    @abstractmethod
    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedScorer:
        """Prepare for scoring the documents of given queries repeatedly."""

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedScorer:  # noqa: ARG002
        """Prepare for scoring other queries with a form that was learned before."""
        raise TypeError(f"the {self.name} scorer cannot be trained further; train it anew on all queries")

    def learn_in(self, queries: PartitionedQueries) -> Form:  # noqa: ARG002
        """Learn from queries in partitions what depends on all of them."""
        raise DataError(
            f"the {self.name} scorer is not trained on partitions; use the linear or the additive one, or train on "
            "queries in the memory of one machine"
        )


class Prepared(ABC):
    """What training asks of a scorer that is prepared for given queries."""

    #: What is left of the scorer once θ is found.
    form: Form
    n_parameters: int
    #: Bytes that one pass over all rows reads.
    n_bytes: int
    #: How far the inputs of the parameters spread: C·spread² has no unit, and tells a large C from a small one.
    spread: float = 1.0
    #: Signs that parameters have to keep to: 1, −1, or 0 where free; None where all are free.
    signs: IntArray | None = None


class GpuRows(Protocol):
    """Rows on a PyTorch device, scored and summed there: tables, scores and gradients are on the device."""

    device: Device

    def scores(self, table: Any, /) -> Any:
        """Return the scores of all rows, given the table."""

    def sums(self, gradient: Any, bounds: IntArray, /) -> Any:
        """Return the gradient with respect to the table for each part of the rows, given that by the scores."""


class PreparedScorer(Prepared):
    """Scores of the documents of given queries as a linear function of parameters θ, some rows at a time.

    Rows are scored from a table, which is computed from θ once per evaluation. Their slopes are added to cells of the
    same shape, from which the gradient is computed once. For the linear scorer, the table is θ and the cells are the
    gradient.
    """

    queries: Queries
    #: Bytes to read in one go, between scores and slopes: by default few enough to stay in a core's cache.
    run_bytes: int = 1 << 21
    #: Whether scoring takes much longer than a loss, and a pass may as well read the rows twice.
    dear: bool = False
    #: Whether a row is scored from few cells of the table, however many there are.
    few_cells: bool = False
    #: The rows on a PyTorch device, if they are kept there.
    rows: GpuRows | None = None

    @abstractmethod
    def table(self, theta: FloatArray) -> FloatArray:
        """Return what rows are scored from, given θ along the last axis."""

    @abstractmethod
    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the scores of the rows from ``start`` to ``stop``."""

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the scores of all documents."""
        scores = np.empty(self.queries.n_documents)
        self.score(self.table(theta), scores, 0, len(scores))
        return scores

    def empty(self, n: int) -> FloatArray:
        """Make room for scores or slopes."""
        return np.empty(n)

    @abstractmethod
    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add the slopes of the rows from ``start`` to ``stop`` to the cells of the table."""

    @abstractmethod
    def gradient(self, cells: FloatArray) -> FloatArray:
        """Return derivatives by θ, given those by the cells, along the last axis."""

    def cells(self, documents: IntArray) -> FloatArray:
        """Return what the table is multiplied with to give the scores of some documents, one row for each."""
        ones = np.ones(self.queries.n_documents)
        cells = np.zeros((len(documents), len(self.table(np.zeros(self.n_parameters)))))
        for row, document in zip(cells, documents.tolist(), strict=True):
            self.pull_back(ones, row, document, document + 1)
        return cells


class PreparedPartitions(Prepared):
    """A scorer prepared for the documents of each partition, where the partition is.

    Args:
        queries: The queries.
        scorer: The scorer.
        form: What it learned from all queries, or before.
        n_jobs: Number of threads; for partitions on other machines, theirs count.
    """

    def __init__(self, queries: PartitionedQueries, scorer: Scorer, form: Form, n_jobs: int | None = None) -> None:
        self.queries, self.form = queries, form
        self.n_parameters = form.n_parameters
        self.parts: Partitions[PreparedScorer] = queries.partitions.derive(
            _resumed, scorer, form, queries.partitions.threads(n_jobs)
        )
        sizes = self.parts.map(_size)
        self.n_bytes, self.signs = sum(n_bytes for n_bytes, _ in sizes), sizes[0][1]

    @cached_property
    def spread(self) -> float:  # type: ignore[override]
        """Root of the mean square distance of the documents from their mean, as for one partition."""
        if self.form.kind != "linear":
            return 1.0
        return float(np.linalg.norm(Standardize().fit(self.queries).scale_))


def prepare(scorer: Scorer, queries: AnyQueries, n_jobs: int | None = None, form: Form | None = None) -> Prepared:
    """Prepare a scorer for queries, in partitions or not, with a form that was learned before or anew."""
    if isinstance(queries, Queries):
        return scorer.prepare(queries, n_jobs) if form is None else scorer.resume(queries, form, n_jobs)
    return PreparedPartitions(queries, scorer, scorer.learn_in(queries) if form is None else form, n_jobs)


def _resumed(queries: Queries, scorer: Scorer, form: Form, n_jobs: int | None) -> PreparedScorer:
    return scorer.resume(queries, form, n_jobs)


def _size(prepared: PreparedScorer) -> tuple[int, IntArray | None]:
    return prepared.n_bytes, prepared.signs


def same_kind(scorer: Scorer, form: Form, kind: type[SomeForm]) -> SomeForm:
    """Return a form, unless it is not of the kind that a scorer learns."""
    if not isinstance(form, kind):
        raise DataError(f"the model is {form.kind} and the scorer {scorer.name}; go on with the scorer of the model")
    return form


def parse_scorer(spec: str | Scorer) -> Scorer:
    """Read the spelling of a scorer, such as ``linear`` or ``additive(bins=64)``.

    >>> parse_scorer("additive(bins=64)").bins
    64
    """
    if spec == CHOSEN:
        raise ValueError("scorer 'auto' is chosen on held-out queries: call tune(ranker, ...), or name a scorer")
    return cast("Scorer", parse_spelling(Scorer, spec))


def scorers_to_try(queries: Queries | PartitionedQueries) -> list[str]:
    """Return the scorers that ``auto`` stands for on given queries.

    >>> scorers_to_try(Queries.from_arrays([[1.0], [2.0]], [0, 1], group=[2]))
    ['linear', 'additive']
    """
    if queries.is_sparse:
        return ["linear"]
    gaps = queries.missing.any() if isinstance(queries, PartitionedQueries) else has_nan(queries.dense())
    return ["linear(missing=mean)" if gaps else "linear", "additive"]
