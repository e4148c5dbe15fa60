"""The neural scorer: a feed-forward network, trained with PyTorch and scored without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from marginrank.losses.score_risk import ScoreRisk
from marginrank.runtime.text import suggest
from marginrank.runtime.torch_device import import_torch
from marginrank.scorers.neural.form import NeuralForm
from marginrank.scorers.neural.network import Network, check_finite, on_host
from marginrank.scorers.staged_scorer import Stage, StagedScorer, StageLimits
from marginrank.scorers.terms import ACTIVATIONS
from marginrank.typing import IntArray


@dataclass(frozen=True)
class Neural(StagedScorer):
    """A feed-forward network of the features of a document; training needs PyTorch, the extra ``neural``.

    Batches of whole queries, drawn anew in every epoch, are stepped along by AdamW. With validation queries the best
    epoch is kept. ``weight_decay``, ``dropout`` and the number of epochs regularise; C has no effect. The trained
    network is made of arrays and needs no PyTorch to score. On a CPU, where PyTorch works on one thread, the same seed
    gives the same network.

    Args:
        hidden: Number of units of each hidden layer: a number, a tuple, or text such as ``64x32``.
        activation: ``relu``, ``tanh``, ``sigmoid``, ``elu`` or ``silu``.
        dropout: Share of the units that are left out at random in training.
        epochs: Number of passes over the queries; with validation queries, the most.
        batch: Number of queries per step.
        learning_rate: Length of steps.
        weight_decay: What shrinks the weights in each step, times the learning rate.
        device: ``cpu``, ``cuda`` or any other device of PyTorch; ``auto`` takes CUDA where there is any.
    """

    name = "neural"
    patience: ClassVar[int] = 10
    draws: ClassVar[bool] = True

    hidden: int | str | Sequence[int] = (64,)
    activation: str = "relu"
    dropout: float = 0.0
    epochs: int = 50
    batch: int = 32
    learning_rate: float = 0.001
    weight_decay: float = 0.01
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}; {suggest(str(self.activation), ACTIVATIONS)}")
        if any(width < 1 for width in self.widths):
            raise ValueError(f"hidden is {self.hidden!r}; every layer needs at least one unit")
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a whole number from 1 up")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it lies between 0 and 1")
        if not (0 < self.learning_rate < np.inf and 0 <= self.weight_decay < np.inf):
            raise ValueError("learning_rate must be positive, and weight_decay must not be negative")

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of units of each hidden layer.

        >>> Neural("64x32").widths, Neural(8).widths, Neural(()).widths
        ((64, 32), (8,), ())
        """
        words = self.hidden.split("x") if isinstance(self.hidden, str) else self.hidden
        try:
            return tuple(int(word) for word in (words if isinstance(words, Sequence) else [words]))
        except (TypeError, ValueError):
            raise ValueError(f"hidden is {self.hidden!r}; give a number, a tuple, or text such as '64x32'") from None

    def stages(self, risk: ScoreRisk, setting: StageLimits) -> Iterator[Stage]:
        """Train, an epoch at a time."""
        network = self._network(import_torch("the neural scorer"), risk.queries.n_features, setting.random_state)
        X, active = network.tensor(risk.queries.dense()), risk.active
        tensor_risk = risk.in_torch(network.device) or _HostRisk(risk)
        rng = np.random.default_rng(setting.random_state)
        for _ in range(self.epochs):
            batches = np.array_split(rng.permutation(active), math.ceil(len(active) / self.batch))
            with network.single_thread():
                for numbers in batches:
                    rows = network.rows(risk.rows(numbers))
                    network.step(X[rows], partial(tensor_risk.gradient, numbers, rows))
                    if setting.late:
                        break
                value = check_finite(tensor_risk(network.scores(X)))
            yield Stage(network.form, network.theta(), value)

    def _network(self, torch: Any, n_features: int, seed: int | None) -> Network:
        form = NeuralForm((n_features, *self.widths, 1), self.activation)
        network = Network(torch, form, self.device, self.dropout, seed)
        network.optimizer = torch.optim.AdamW(network.tensors, lr=self.learning_rate, weight_decay=self.weight_decay)
        return network


class _HostRisk:
    """The risk with NumPy, for scores on a PyTorch device."""

    def __init__(self, risk: ScoreRisk) -> None:
        self._risk = risk

    def __call__(self, scores: Any) -> float:
        """Return the risk."""
        return self._risk(on_host(scores))[0]

    def gradient(self, numbers: IntArray, documents: Any, scores: Any) -> Any:  # noqa: ARG002
        """Return the gradient of the mean loss of some queries."""
        return scores.new_tensor(self._risk.batch(numbers, on_host(scores))[1])
