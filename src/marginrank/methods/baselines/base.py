"""What a baseline is: a method that gets better by rounds, and needs nothing of the solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.scorers.bins import Bins
from marginrank.scorers.forms import Form
from marginrank.scorers.linear import Linear
from marginrank.typing import Features, FloatArray, IntArray

#: Most grades that are taken for classes.
_MOST_CLASSES: Final = 64


@dataclass(frozen=True, eq=False)
class Stage:
    """Where a baseline stands after a round.

    Args:
        form: How documents are scored.
        theta: The parameters of the form.
        objective: What the method itself brings down, in its own terms.
    """

    form: Form
    theta: FloatArray
    objective: float


@dataclass(frozen=True)
class Setting:
    """What a baseline is told beside the queries; see `Ranker` for what each means."""

    C: float = 1.0
    random_state: int | None = None
    n_jobs: int | None = None
    bins: Bins | None = None
    #: When to end, by the clock of `time.perf_counter`.
    deadline: float = np.inf


class Baseline(ABC):
    """A method by which rankers are trained in its own way; there is no gap, and no certificate."""

    #: Whether it has a C.
    takes_C: ClassVar[bool] = False  # noqa: N815
    #: Whether it learns weights, and so step functions as well.
    linear: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    #: Whether all rounds are trained before the first stage; it then looks at the deadline itself.
    at_once: ClassVar[bool] = False
    #: Whether queries can weigh differently.
    takes_weights: ClassVar[bool] = False

    @property
    def takes_nan(self) -> bool:
        """Whether features may be missing."""
        return False

    @property
    def scaling(self) -> str | None:
        """The scaling that is part of the method, by name."""
        return None

    @abstractmethod
    def stages(self, queries: Queries, setting: Setting) -> Iterator[Stage]:
        """Train, a round at a time; the last stage is the result."""

    def check(self, queries: Queries) -> None:
        """Refuse queries that the method cannot learn from."""
        if queries.is_sparse and not self.takes_sparse:
            raise DataError(f"{type(self).__name__} takes no sparse X; pass X.toarray()")
        if queries.query_weights is not None and not self.takes_weights:
            raise DataError(f"{type(self).__name__} knows no weights of queries; leave out weighting and query_weights")


class LinearBaseline(Baseline):
    """A baseline that learns weights of features, or of the thresholds that they exceed."""

    linear: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = True

    @abstractmethod
    def weights(self, X: Features, queries: Queries, setting: Setting) -> Iterator[tuple[FloatArray, float]]:
        """Give weights of the columns of X and the objective, a round at a time."""

    def bins(self, n_features: int) -> Bins | None:  # noqa: ARG002
        """Thresholds that are part of the method."""
        return None

    def stages(self, queries: Queries, setting: Setting) -> Iterator[Stage]:
        """Train on the features, or on their indicators."""
        bins = self.bins(queries.n_features) or setting.bins
        form = Linear(queries.n_features) if bins is None else bins
        X = queries.X if bins is None else bins.columns(queries.X, setting.n_jobs)
        for weights, objective in self.weights(X, queries, setting):
            yield Stage(form, weights, objective)


def document_weights(queries: Queries) -> FloatArray:
    """What each document weighs: as much as its query, together 1.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [1, 0, 0], group=[2, 1], query_weights=[1.0, 2.0])
    >>> document_weights(queries).tolist()
    [0.25, 0.25, 0.5]
    """
    own = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
    weights = np.repeat(own, queries.lengths)
    return np.asarray(weights / weights.sum())


def grade_classes(queries: Queries) -> tuple[FloatArray, IntArray]:
    """Grades that occur, the lowest first, and which of them each document has.

    >>> queries = Queries.from_arrays([[0.0]] * 3, [4, 0, 4], group=[3])
    >>> [part.tolist() for part in grade_classes(queries)]
    [[0.0, 4.0], [1, 0, 1]]
    """
    grades, classes = np.unique(queries.grades, return_inverse=True)
    if len(grades) > _MOST_CLASSES:
        raise DataError(f"there are {len(grades)} different grades; a class for each is for at most {_MOST_CLASSES}")
    return grades, classes.astype(np.int64)
