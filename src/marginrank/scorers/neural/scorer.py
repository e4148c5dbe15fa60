"""The neural scorer: a feed-forward network, trained with PyTorch and scored without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np

from marginrank.errors import NumericalError
from marginrank.losses.score_risk import ScoreRisk
from marginrank.runtime.device_features import DeviceFeatures, on_device
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.text import suggest
from marginrank.runtime.torch_device import Device, import_torch
from marginrank.scorers.neural.form import NeuralForm
from marginrank.scorers.staged_scorer import Stage, StagedScorer, StageLimits
from marginrank.scorers.terms import ACTIVATIONS
from marginrank.typing import AnyArray, Features, FloatArray, IntArray

_Numbers = TypeVar("_Numbers", float, FloatArray)
#: Rows of a block that is scored at a time, so that wide layers need little memory.
_ROWS: Final = 1 << 16


@dataclass(frozen=True)
class Neural(StagedScorer):
    """A feed-forward network of the features of a document; training needs PyTorch, the extra ``neural``.

    AdamW takes a step for each batch of whole queries, redrawn in every epoch. With validation queries, the best
    epoch is the model. ``weight_decay``, ``dropout`` and the number of epochs regularize; C has no effect. The trained
    network is made of arrays and needs no PyTorch to score. On a CPU, PyTorch runs on one thread, and the same seed
    gives the same network.

    Args:
        hidden: Number of units of each hidden layer: a number, a tuple, or text such as ``64x32``.
        activation: ``relu``, ``tanh``, ``sigmoid``, ``elu`` or ``silu``.
        dropout: Share of the units that are dropped at random in training.
        epochs: Number of passes over the queries; with validation queries, the maximum.
        batch: Number of queries per step.
        learning_rate: Learning rate of AdamW.
        weight_decay: Weight decay of AdamW.
        device: ``cpu``, ``cuda`` or any other device of PyTorch; ``auto`` for CUDA if it is available.
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
                raise ValueError(f"{name} is {getattr(self, name)}; give a whole number of at least 1")
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

    def place(self, X: Features) -> Features:
        """Return features on the device, unless that is the CPU."""
        device = Device.find(import_torch("the neural scorer"), self.device)
        on_cpu = device.device.type == "cpu" or sp.issparse(X)
        return super().place(X) if on_cpu else cast("Features", on_device(cast("AnyArray", X), device))

    def stages(self, risk: ScoreRisk, limits: StageLimits) -> Iterator[Stage]:
        """Train epoch by epoch."""
        network = self._network(import_torch("the neural scorer"), risk.queries.n_features, limits.random_state)
        X, active = network.features(risk.queries.X), risk.active
        tensor_risk = risk.in_torch(network.device) or _HostRisk(risk)
        rng = np.random.default_rng(limits.random_state)
        for _ in range(self.epochs):
            batches = np.array_split(rng.permutation(active), math.ceil(len(active) / self.batch))
            with network.single_thread():
                for numbers in batches:
                    rows = network.rows(risk.rows(numbers))
                    network.step(X[rows], partial(tensor_risk.gradient, numbers, rows))
                    if limits.late:
                        break
                value = _check_finite(tensor_risk(network.scores(X)))
            yield Stage(network.form, network.theta(), value)

    def _network(self, torch: Any, n_features: int, seed: int | None) -> Network:
        form = NeuralForm((n_features, *self.widths, 1), self.activation)
        network = Network(torch, form, self.device, self.dropout, seed)
        network.optimizer = torch.optim.AdamW(network.tensors, lr=self.learning_rate, weight_decay=self.weight_decay)
        return network


class Network:
    """Weights and biases on a device, and steps along the gradient of a loss.

    PyTorch's global random generator is not used.

    Args:
        torch: The module.
        form: The layers.
        device: PyTorch device, or ``auto``.
        dropout: Share of the units that are dropped at random in training.
        seed: Seed of the initial weights and of dropout.
    """

    def __init__(self, torch: Any, form: NeuralForm, device: str, dropout: float, seed: int | None) -> None:
        self.form, self._torch, self._dropout = form, torch, dropout
        self.device = Device.find(torch, device)
        rng = np.random.default_rng(seed)
        self._generator = torch.Generator(self.device.device).manual_seed(int(rng.integers(2**62)))
        self._activate = getattr(torch, form.activation, None) or getattr(torch.nn.functional, form.activation)
        #: Weights and biases of the layers, in turn.
        self.tensors: list[Any] = []
        for weights, biases in form.layers(np.zeros(form.n_parameters)):
            # Like torch.nn.Linear.
            limit = weights.shape[1] ** -0.5
            for array in (weights, biases):
                self.tensors.append(self.tensor(rng.uniform(-limit, limit, array.shape)).requires_grad_())
        self.optimizer: Any = None

    def tensor(self, values: AnyArray) -> Any:
        """Return an array as a tensor of float32 on the device."""
        return self._torch.from_numpy(np.array(values, dtype=np.float32)).to(self.device.device)

    def features(self, X: Features) -> Any:
        """Return features as a tensor of float32 on the device."""
        if isinstance(X, DeviceFeatures):
            return on_device(cast("DeviceFeatures", X), self.device).values.float()
        return self.tensor(cast("AnyArray", X))

    def rows(self, numbers: IntArray) -> Any:
        """Return row numbers as a tensor on the device."""
        return self._torch.from_numpy(numbers).to(self.device.device)

    @contextmanager
    def single_thread(self) -> Iterator[None]:
        """Run PyTorch on one thread: layers are too small for more, and sums would differ."""
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(1)
        try:
            yield
        finally:
            self._torch.set_num_threads(before)

    def step(self, X: Any, gradient: Callable[[Any], Any]) -> None:
        """Take a step along the gradient of a loss, given as a function of the scores of some documents in float64."""
        scores = self._forward(X, dropout=self._dropout)
        by_scores = gradient(scores.detach().double())
        self.optimizer.zero_grad()
        scores.backward(by_scores.to(scores))
        self.optimizer.step()

    def scores(self, X: Any) -> Any:
        """Return the scores of documents, in float64 on the device."""
        with self._torch.inference_mode():
            blocks = [self._forward(X[start : start + _ROWS]) for start in range(0, len(X), _ROWS)]
            return self._torch.cat([X[:0, 0], *blocks]).double()

    def theta(self) -> FloatArray:
        """Return the parameters in the order of `NeuralForm`."""
        return np.concatenate([tensor.detach().cpu().double().numpy().ravel() for tensor in self.tensors])

    def _forward(self, X: Any, dropout: float = 0.0) -> Any:
        linear = self._torch.nn.functional.linear
        for weights, biases in zip(self.tensors[:-2:2], self.tensors[1:-2:2], strict=True):
            X = self._activate(linear(X, weights, biases))
            if dropout:
                mask = self._torch.rand(X.shape, generator=self._generator, device=self.device.device) >= dropout
                X = X * mask / (1.0 - dropout)
        return linear(X, *self.tensors[-2:])[:, 0]


class _HostRisk:
    """The risk with NumPy, for scores on a PyTorch device."""

    def __init__(self, risk: ScoreRisk) -> None:
        self._risk = risk

    def __call__(self, scores: Any) -> float:
        """Return the risk."""
        return self._risk(_on_host(scores))[0]

    def gradient(self, numbers: IntArray, documents: Any, scores: Any) -> Any:  # noqa: ARG002
        """Return the gradient of the mean loss of some queries."""
        return scores.new_tensor(self._risk.batch(numbers, _on_host(scores))[1])


def _on_host(scores: Any) -> FloatArray:
    """Copy scores to the memory of this machine."""
    values: FloatArray = scores.cpu().numpy()
    return _check_finite(values)


def _check_finite(values: _Numbers) -> _Numbers:
    """Return scores of a network, or their risk, and refuse values that are not finite."""
    if not np.isfinite(values).all():
        raise NumericalError("scores of the network are not finite; lower learning_rate, or scale the features")
    return values
