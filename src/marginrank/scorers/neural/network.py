"""A feed-forward network in training, on a PyTorch device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from marginrank.errors import NumericalError
from marginrank.runtime.torch_device import Device
from marginrank.scorers.neural.form import NeuralForm
from marginrank.typing import AnyArray, FloatArray, IntArray

_Numbers = TypeVar("_Numbers", float, FloatArray)
#: Rows that are scored together, so that layers of many units need no more room than features.
_ROWS: Final = 1 << 16


class Network:
    """Weights and biases on a device, and steps along the gradient of a loss.

    Nothing is drawn from PyTorch's own generator, so that whatever else uses it sees no difference.

    Args:
        torch: The module.
        form: The layers.
        device: PyTorch device, or ``auto``.
        dropout: Share of the units that are left out at random in training.
        seed: Seed of the first weights and of dropout.
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
            # As PyTorch does it for torch.nn.Linear.
            limit = weights.shape[1] ** -0.5
            for part in (weights, biases):
                self.tensors.append(self.tensor(rng.uniform(-limit, limit, part.shape)).requires_grad_())
        self.optimizer: Any = None

    def tensor(self, values: AnyArray) -> Any:
        """Return an array as a tensor of float32 on the device."""
        return self._torch.from_numpy(np.array(values, dtype=np.float32)).to(self.device.device)

    def rows(self, numbers: IntArray) -> Any:
        """Return row numbers as a tensor on the device."""
        return self._torch.from_numpy(numbers).to(self.device.device)

    @contextmanager
    def single_thread(self) -> Iterator[None]:
        """Let PyTorch work on one thread: for layers as small as these more cost time, and sums would differ."""
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
            parts = [self._forward(X[start : start + _ROWS]) for start in range(0, len(X), _ROWS)]
            return self._torch.cat([X[:0, 0], *parts]).double()

    def theta(self) -> FloatArray:
        """Return the parameters, as `NeuralForm` has them."""
        return np.concatenate([part.detach().cpu().double().numpy().ravel() for part in self.tensors])

    def _forward(self, X: Any, dropout: float = 0.0) -> Any:
        linear = self._torch.nn.functional.linear
        for weights, biases in zip(self.tensors[:-2:2], self.tensors[1:-2:2], strict=True):
            X = self._activate(linear(X, weights, biases))
            if dropout:
                kept = self._torch.rand(X.shape, generator=self._generator, device=self.device.device) >= dropout
                X = X * kept / (1.0 - dropout)
        return linear(X, *self.tensors[-2:])[:, 0]


def on_host(scores: Any) -> FloatArray:
    """Copy scores to the memory of this machine."""
    values: FloatArray = scores.cpu().numpy()
    return check_finite(values)


def check_finite(values: _Numbers) -> _Numbers:
    """Return scores of a network, or what is computed from them, if they are finite."""
    if not np.isfinite(values).all():
        raise NumericalError("scores of the network are not finite; lower learning_rate, or scale the features")
    return values
