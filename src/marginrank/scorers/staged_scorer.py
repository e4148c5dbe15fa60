"""Scorers that are trained in stages: trees one after the other, a network epoch by epoch."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from marginrank.data.queries import Queries
from marginrank.losses.score_risk import ScoreRisk
from marginrank.scorers.base import PreparedScorer, Scorer
from marginrank.scorers.form import Form
from marginrank.typing import FloatArray

#: What refitted leaves are regularized towards: the values they were grown with, or 0.
Towards: TypeAlias = Literal["grown", "zero"]


@dataclass(frozen=True, eq=False)
class Stage:
    """A trained model after a round.

    Args:
        form: How documents are scored.
        theta: The parameters of the form.
        objective: The risk of the loss, or whatever a baseline minimizes.
    """

    form: Form
    theta: FloatArray
    objective: float


class GrownStage(Stage):
    """A stage that adds a form to the previous stage; the form of the whole is built on first use."""

    grow: Callable[[], Form]
    #: The form that was added, and its parameters.
    added: tuple[Form, FloatArray]

    def __init__(
        self, grow: Callable[[], Form], theta: FloatArray, objective: float, added: tuple[Form, FloatArray]
    ) -> None:
        vars(self).update(grow=grow, theta=theta, objective=objective, added=added)

    @cached_property
    def form(self) -> Form:
        """The scoring of documents."""
        return self.grow()


@dataclass(frozen=True)
class StageLimits:
    """C, deadline, seed and threads of training in stages."""

    C: float
    #: When to stop, by `time.perf_counter`.
    deadline: float = np.inf
    random_state: int | None = 0
    n_jobs: int | None = None

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self.deadline

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, always positive."""
        return max(self.deadline - time.perf_counter(), 1e-9)


@dataclass(frozen=True)
class StagedScorer(Scorer):
    """A scorer that is trained stage by stage, on gradients of a loss with respect to the scores.

    It replaces the solver: there is no regularizer ½‖θ‖², and no certificate.
    """

    #: Stages without improvement on validation queries after which training stops, unless `Ranker` has a patience.
    patience: ClassVar[int] = 50
    takes_C: ClassVar[bool] = False  # noqa: N815

    @property
    def start_scorer(self) -> Scorer | None:
        """A scorer that is trained first, whose scores ``risk.start`` the stages add to; None to start from 0."""
        return None

    def on_top_of(self, start: Scorer) -> StagedScorer:  # noqa: ARG002
        """Return the scorer with another one to start from, unless it has one; itself if it starts on its own."""
        return self

    @property
    def refits(self) -> Towards | None:
        """The values that a final refit of the best stage regularizes the leaves towards; None for no refit."""
        return None

    @property
    def max_stages(self) -> int | None:
        """Number of stages if training does not end before; None if the number is always the same."""
        return None

    @abstractmethod
    def stages(self, risk: ScoreRisk, limits: StageLimits) -> Iterator[Stage]:
        """Train on the queries of a risk, stage by stage.

        The best stage on validation queries becomes the model or, without these, the stage of the lowest objective.
        """

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedScorer:  # noqa: ARG002
        """Raise TypeError, since scores are not a linear function of the parameters."""
        raise TypeError(f"the {self.name} scorer is trained in stages, and no solver takes it; train it with a Ranker")
