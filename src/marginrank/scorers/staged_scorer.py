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

#: What refitted leaves are regularised towards: the values they were grown with, or 0.
Towards: TypeAlias = Literal["grown", "zero"]


@dataclass(frozen=True, eq=False)
class Stage:
    """Where training stands after a round.

    Args:
        form: How documents are scored.
        theta: The parameters of the form.
        objective: What is minimised: the risk of the loss, or what a baseline minimises in its own terms.
    """

    form: Form
    theta: FloatArray
    objective: float


class GrownStage(Stage):
    """A stage that adds something to the one before; its own form is put together when it is asked for."""

    grow: Callable[[], Form]
    #: What was added to the scores of the stage before: a form, and its parameters.
    added: tuple[Form, FloatArray]

    def __init__(
        self, grow: Callable[[], Form], theta: FloatArray, objective: float, added: tuple[Form, FloatArray]
    ) -> None:
        vars(self).update(grow=grow, theta=theta, objective=objective, added=added)

    @cached_property
    def form(self) -> Form:
        """How documents are scored."""
        return self.grow()


@dataclass(frozen=True)
class StageLimits:
    """What rounds are told beside the queries."""

    C: float
    #: When to end, by the clock of `time.perf_counter`.
    deadline: float = np.inf
    random_state: int | None = 0
    n_jobs: int | None = None

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self.deadline

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least a little."""
        return max(self.deadline - time.perf_counter(), 1e-9)


@dataclass(frozen=True)
class StagedScorer(Scorer):
    """A scorer that is trained in its own way, a stage at a time, from slopes of a loss by the scores.

    It takes the place of the solver: there is no regulariser ½‖θ‖², and no certificate.
    """

    #: Stages without an improvement on validation queries after which training stops, unless `Ranker` is told.
    patience: ClassVar[int] = 50
    takes_C: ClassVar[bool] = False  # noqa: N815

    @property
    def start_scorer(self) -> Scorer | None:
        """A scorer that is trained first, for the stages to add to ``risk.start``, its scores; None for no other."""
        return None

    @property
    def refits(self) -> Towards | None:
        """What the leaves of the kept stage are regularised towards in a refit at the end; None for no refit."""
        return None

    @property
    def most_stages(self) -> int | None:
        """How many stages there are unless nothing is left to learn before; None if there are always as many."""
        return None

    @abstractmethod
    def stages(self, risk: ScoreRisk, setting: StageLimits) -> Iterator[Stage]:
        """Train on the queries of a risk, a stage at a time.

        The stage that is best on validation queries is kept or, without any, the one of the lowest objective.
        """

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedScorer:  # noqa: ARG002
        """Refuse: scores are no linear function of parameters."""
        raise TypeError(f"the {self.name} scorer is trained in stages, and no solver takes it; train it with a Ranker")
