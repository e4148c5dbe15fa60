"""Plans of training: the parameters of a ranker, resolved once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginrank.data.partitions import AnyQueries
from marginrank.data.unjudged import UnjudgedRule
from marginrank.evaluation.criterion import Criterion
from marginrank.losses.base import Loss
from marginrank.model.model import Model, Provenance
from marginrank.runtime.array_file import array_digest
from marginrank.scorers.base import Scorer
from marginrank.solvers.base import Callback, Solver
from marginrank.training.checkpoint import Log, identifying_parameters
from marginrank.training.query_weighting import Weighting
from marginrank.training.tight_bound import BoundChoice
from marginrank.typing import FloatArray

if TYPE_CHECKING:
    from marginrank.training.trainer import Trainer


@dataclass(frozen=True)
class Plan:
    """Resolved parameters of training; nothing below it reads a spelling.

    Args:
        trainer: What trains: a `ConvexTrainer`, a `StagedTrainer` or a baseline.
        label: What is trained, for messages.
        criterion: The measure to evaluate the ranker by.
        loss: The loss to minimize; None for a baseline.
        bound: The bound of the loss to minimize.
        scorer: How parameters and features give scores.
        solver: What minimizes; its seed is the ranker's unless it has its own.
        scaling: Name of the scaling, or ``auto``.
        weighting: How queries are weighted.
        unjudged: What becomes of unjudged documents, in training and on validation queries.
        C: Weight of the losses against the regularizer.
        seed: Seed of whatever is drawn at random.
        time_limit: Maximum number of seconds.
        patience: Iterations without improvement after which training with validation queries stops.
        n_jobs: Number of threads.
        preset: The name of the preset, if any.
        silent: Whether to leave out the warning about a loss that is minimal at θ = 0.
        parameters: The parameters of the ranker in plain values, for model files and checkpoints.
    """

    trainer: Trainer
    label: str
    criterion: Criterion
    loss: Loss | None
    bound: BoundChoice
    scorer: Scorer
    solver: Solver
    scaling: str | None = "auto"
    weighting: Weighting | None = None
    unjudged: UnjudgedRule = "skip"
    C: float = 1.0
    seed: int | None = 0
    time_limit: float = np.inf
    patience: int | None = None
    n_jobs: int | None = None
    preset: str | None = None
    silent: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needed_loss(self) -> Loss:
        """The loss; an error if there is none."""
        if self.loss is None:
            raise TypeError(f"{self.label} is a baseline and has no loss")
        return self.loss

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the trainer for this plan."""
        return self.trainer.capabilities(self)

    def identity(
        self,
        queries: AnyQueries,
        Cs: Sequence[float] = (),
        validation: AnyQueries | None = None,
        start: Start | None = None,
    ) -> dict[str, Any]:
        """Identify a training run, so that a checkpoint is resumed by the same run only."""
        values = Cs or (self.C,)
        return {
            **identifying_parameters(self.parameters),
            "C": values[0] if len(values) == 1 else list(values),
            "training data": Provenance.of(queries).fingerprint,
            "validation data": None if validation is None else Provenance.of(validation).fingerprint,
            "start": None if start is None else start.digest,
        }


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a trainer for a plan.

    Args:
        takes_nan: Whether features may be missing.
        nan_advice: The fix if they may not.
        takes_sparse: Whether features may be sparse.
        takes_C: Whether C changes the result.
        resumes: Whether training can resume from a checkpoint.
        continues: Whether training can continue from a model.
        gil_bound: Whether training on few documents is mostly Python, so that threads wait for each other.
    """

    takes_nan: bool = False
    nan_advice: str = "fill it"
    takes_sparse: bool = False
    takes_C: bool = True  # noqa: N815
    resumes: bool = False
    continues: bool = False
    gil_bound: bool = False


@dataclass(frozen=True)
class Deadline:
    """The moment at which work has to end, by the clock of `time.perf_counter`; never by default."""

    at: float = np.inf

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the moment a number of seconds from now."""
        return cls(time.perf_counter() + seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least a little."""
        return max(self.at - time.perf_counter(), 1e-9)

    def limit(self, solver: Solver) -> Solver:
        """Return a solver that ends by the deadline."""
        return replace(solver, time_limit=self.seconds_left)


@dataclass(frozen=True, eq=False)
class FitContext:
    """Arguments of one call of training, besides the plan.

    Args:
        Cs: Values of C to train for; that of the plan by default.
        validation: Validation queries.
        start: The starting point.
        time_limit: Maximum number of seconds, beside the limit of the plan.
        callback: Called after every iteration; True stops.
        log: The checkpoint.
    """

    Cs: Sequence[float] = ()
    validation: AnyQueries | None = None
    start: Start | None = None
    time_limit: float = np.inf
    callback: Callback | None = None
    log: Log | None = None


@dataclass(frozen=True, eq=False)
class Start:
    """A starting point of training.

    Args:
        theta: The parameters to start from.
        model: The model that they belong to, whose form and scaling are reused; None if these are learned again.
        centered: Whether the regularizer is minimal at these parameters.
    """

    theta: FloatArray
    model: Model | None = None
    centered: bool = False

    @classmethod
    def of(cls, start: Any, center: Any) -> Start | None:
        """Read the arguments of `fit`: models, or fitted rankers."""
        if start is None and center is None:
            return None
        if start is not None and center is not None:
            raise TypeError("give start or center, not both; training with a center starts there")
        name, given = ("start", start) if center is None else ("center", center)
        model = given if isinstance(given, Model) else getattr(given, "model_", None)
        if not isinstance(model, Model):
            raise TypeError(f"{name} is {given!r}; give a Model or a fitted ranker, such as load('model.safetensors')")
        return cls(model.theta, model, center is not None)

    @property
    def digest(self) -> str:
        """A digest of the parameters, and the arrays of the model they belong to."""
        arrays = {"theta": self.theta} if self.model is None else self.model.arrays()
        # The trace holds the times of another fit.
        parts = [f"{name} {array_digest(array)}" for name, array in sorted(arrays.items()) if name != "trace"]
        return hashlib.sha256(f"{self.centered} {' '.join(parts)}".encode()).hexdigest()[:16]
