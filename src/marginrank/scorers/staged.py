"""What a scorer is that is trained in stages: trees one after the other, a network epoch by epoch."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from marginrank.data.queries import Queries
from marginrank.losses.score_risk import ScoreRisk
from marginrank.scorers.base import PreparedScorer, Scorer
from marginrank.scorers.forms import Form
from marginrank.typing import FloatArray


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


@dataclass(frozen=True)
class Setting:
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
    #: Whether C means something to it.
    takes_C: ClassVar[bool] = False  # noqa: N815

    @abstractmethod
    def stages(self, risk: ScoreRisk, setting: Setting) -> Iterator[Stage]:
        """Train on the queries of a risk, a stage at a time.

        The stage that is best on validation queries is kept or, without any, the one of the lowest objective.
        """

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedScorer:  # noqa: ARG002
        """Refuse: scores are no linear function of parameters."""
        raise TypeError(f"the {self.name} scorer is trained in stages, and no solver takes it; train it with a Ranker")
