"""`Scorer`, which maps parameters and features to scores, and `PreparedScorer` for given features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

import numpy as np

from marginrank.data.partitions import AnyQueries, PartitionedQueries, Partitions
from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.preparation.standardization import Standardize
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.runtime.option_objects import OptionObject, parse_spelling
from marginrank.runtime.torch_device import Device
from marginrank.scorers.form import Form
from marginrank.scorers.linear.form import has_nan
from marginrank.typing import Features, FloatArray, IntArray

SomeForm = TypeVar("SomeForm", bound=Form)

#: Curves that ``auto`` chooses from: lines, and steps for curves that are far from straight.
_CURVES: Final = ("additive", "additive(bins=32, shape=steps)")
#: Spelling of the scorer that `tune` chooses on held-out queries.
CHOSEN: Final = "auto"


@dataclass(frozen=True)
class Scorer(OptionObject, ABC):
    """A scorer: how parameters θ and features determine scores.

    A subclass is a frozen dataclass of its options, in a module of this folder; its ``name`` is its spelling.
    """

    family = "scorer"
    example = "linear or additive(bins=64)"
    #: Whether features may be NaN.
    takes_nan: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    #: Whether scores change with the scale of the features, so that scaling them matters.
    scale_matters: ClassVar[bool] = True
    #: Whether scores are weighted sums of the features themselves, so that weights can be scaled instead of features.
    weights_features: ClassVar[bool] = False
    #: Whether C has an effect.
    takes_C: ClassVar[bool] = True  # noqa: N815
    #: Whether a ranker's seed changes what it learns.
    draws: ClassVar[bool] = False
    #: Whether small fits are bound by the GIL.
    gil_bound: ClassVar[bool] = False
    #: Whether a large C takes long and overfits, so that `tune` goes up from the smallest.
    slow_for_large_C: ClassVar[bool] = False  # noqa: N815
    #: Options that `tune` tries if they have their default value and C has no effect, each with the values to try.
    tuned_options: ClassVar[Mapping[str, Sequence[Any]]] = {}
    #: The option with the number of stages, which `tune` then chooses by early stopping on held-out queries.
    stages_option: ClassVar[str | None] = None

    def before_scaling(self, X: Features) -> Features:
        """Return the features to scale."""
        return X

    def place(self, X: Features) -> Features:
        """Return features where training reads them: in the memory of this machine, or on a device."""
        return np.asarray(X) if isinstance(X, DeviceFeatures) else X

    def with_time_limit(self, time_limit: float) -> Scorer:  # noqa: ARG002
        """Return the scorer with a time limit for `prepare`; itself if it takes one pass over the features."""
        return self

    @abstractmethod
    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedScorer:
        """Prepare for scoring the documents of given queries many times."""

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedScorer:  # noqa: ARG002
        """Prepare for scoring queries with a form that was learned before."""
        raise TypeError(f"the {self.name} scorer cannot be trained further; retrain it on all queries")

    def learn_partitioned(self, queries: PartitionedQueries) -> Form:  # noqa: ARG002
        """Learn the form from the queries of all partitions."""
        raise DataError(
            f"the {self.name} scorer is not trained on partitions; use the linear or the additive one, or train on "
            "queries in the memory of one machine"
        )


class Prepared(ABC):
    """A scorer prepared for given queries, in memory or in partitions."""

    #: The form of the scorer after training.
    form: Form
    n_parameters: int
    #: Bytes read by one pass over all rows.
    n_bytes: int
    #: Standard deviation of the inputs of the parameters; C·spread² has no unit, and tells a large C from a small one.
    spread: float = 1.0
    #: Required signs of the parameters, 1, −1, or 0 for free ones; None if all are free.
    signs: IntArray | None = None


class GpuRows(Protocol):
    """Rows on a PyTorch device; weights, scores and gradients are on the device too."""

    device: Device

    def scores(self, weights: Any, /) -> Any:
        """Return the scores of all rows."""

    def sums(self, gradient: Any, bounds: IntArray, /) -> Any:
        """Return the gradient with respect to the weights of each part, given that with respect to the scores."""


class PreparedScorer(Prepared):
    """Scores of the documents of given queries as a linear function of parameters θ, computed by blocks of rows.

    Rows are scored with weights, which are computed from θ once per evaluation. The gradients with respect to the
    scores are added to sums of the same shape, one for each weight, from which the gradient with respect to θ is
    computed once. For the linear scorer, the weights are θ, and the sums are the gradient.
    """

    queries: Queries
    #: Bytes of a block of rows, which is scored and then read again for the gradient; by default it fits into a cache.
    block_bytes: int = 1 << 21
    #: Whether scoring takes much longer than the loss, so that a pass may read the rows twice.
    expensive: bool = False
    #: Whether each row is scored with only a few of the weights.
    sparse_table: bool = False
    #: The rows on a PyTorch device, if they are kept there.
    gpu_rows: GpuRows | None = None

    @abstractmethod
    def weights(self, theta: FloatArray) -> FloatArray:
        """Return the weights that rows are scored with, along the last axis, given θ along its last axis."""

    @abstractmethod
    def score(self, weights: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the scores of the rows from ``start`` to ``stop``."""

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the scores of all documents."""
        scores = np.empty(self.queries.n_documents)
        self.score(self.weights(theta), scores, 0, len(scores))
        return scores

    @abstractmethod
    def pull_back(self, gradient: FloatArray, gradient_sums: FloatArray, start: int, stop: int) -> None:
        """Add the gradient of the rows from ``start`` to ``stop`` to the sum of each weight."""

    @abstractmethod
    def gradient(self, gradient_sums: FloatArray) -> FloatArray:
        """Return the gradient with respect to θ, given that with respect to the weights, along the last axis."""

    def design_matrix(self, documents: IntArray) -> FloatArray:
        """Return what the weights are multiplied by to score some documents, one row for each document."""
        ones = np.ones(self.queries.n_documents)
        matrix = np.zeros((len(documents), len(self.weights(np.zeros(self.n_parameters)))))
        for row, document in zip(matrix, documents.tolist(), strict=True):
            self.pull_back(ones, row, document, document + 1)
        return matrix


class PreparedPartitions(Prepared):
    """A scorer prepared for each partition, on the machine that holds it.

    Args:
        queries: The queries.
        scorer: The scorer.
        form: The form that was learned from all queries, or before.
        n_jobs: Number of threads on this machine; other machines use their own number.
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
        """Root mean square distance of the documents from their mean."""
        if self.form.kind != "linear":
            return 1.0
        return float(np.linalg.norm(Standardize().fit(self.queries).scale_))


def prepare(scorer: Scorer, queries: AnyQueries, n_jobs: int | None = None, form: Form | None = None) -> Prepared:
    """Prepare a scorer for queries, in partitions or not, with a given form or one that is learned now."""
    if isinstance(queries, Queries):
        return scorer.prepare(queries, n_jobs) if form is None else scorer.resume(queries, form, n_jobs)
    return PreparedPartitions(queries, scorer, scorer.learn_partitioned(queries) if form is None else form, n_jobs)


def _resumed(queries: Queries, scorer: Scorer, form: Form, n_jobs: int | None) -> PreparedScorer:
    return scorer.resume(queries, form, n_jobs)


def _size(prepared: PreparedScorer) -> tuple[int, IntArray | None]:
    return prepared.n_bytes, prepared.signs


def check_form(scorer: Scorer, form: Form, kind: type[SomeForm]) -> SomeForm:
    """Return the form, and refuse one that another scorer learned."""
    if not isinstance(form, kind):
        raise DataError(f"the model is {form.kind} and the scorer {scorer.name}; continue with the scorer of the model")
    return form


def parse_scorer(spec: str | Scorer) -> Scorer:
    """Parse the spelling of a scorer, such as ``linear`` or ``additive(bins=64)``.

    >>> parse_scorer("additive(bins=64)").bins
    64
    """
    if spec == CHOSEN:
        raise ValueError("scorer 'auto' is chosen on held-out queries: call tune(ranker, ...), or name a scorer")
    return cast("Scorer", parse_spelling(Scorer, spec))


def scorers_to_try(queries: Queries | PartitionedQueries) -> list[str]:
    """Return the scorers that ``auto`` chooses from.

    >>> scorers_to_try(Queries.from_arrays([[1.0], [2.0]], [0, 1], group=[2]))
    ['linear', 'additive', 'additive(bins=32, shape=steps)']
    """
    if queries.is_sparse:
        return ["linear"]
    gaps = queries.missing.any() if isinstance(queries, PartitionedQueries) else has_nan(queries.dense())
    return ["linear(missing=mean)" if gaps else "linear", *_CURVES]
