"""Layers of a feed-forward network: the form of the neural scorer after training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Self

import numpy as np

from marginrank.scorers.form import Form, stored
from marginrank.scorers.terms import ACTIVATIONS, NetworkTerm
from marginrank.typing import AnyArray, FloatArray

_MOST_LAYERS: Final = 100


@dataclass(frozen=True, eq=False)
class NeuralForm(Form):
    """A feed-forward network: s(x) = W_L a(… a(W_1 x + b_1) …) + b_L.

    θ has the weights and then the biases of each layer, layer after layer; weights go row by row, one for each output.

    >>> form = NeuralForm((1, 2, 1), "relu")
    >>> theta = np.array([1.0, -1.0, 0.0, 0.5, 1.0, 2.0, 0.25])
    >>> form.score(theta, np.array([[3.0], [-1.0]])).tolist()                # 3 + 0 + ¼ and 0 + 2·1½ + ¼
    [3.25, 3.25]

    Args:
        widths: Number of features, number of units of each hidden layer, and 1.
        activation: Activation between two layers; one of `marginrank.scorers.terms.ACTIVATIONS`.
    """

    kind: ClassVar[str] = "neural"
    sized_by: ClassVar[str] = "size"
    widths: tuple[int, ...]
    activation: str

    def __post_init__(self) -> None:
        if not 2 <= len(self.widths) <= _MOST_LAYERS or min(self.widths) < 1 or self.widths[-1] != 1:
            raise ValueError("a network has at least one layer, no layer without units, and one output")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {self.activation!r}; known: {', '.join(ACTIVATIONS)}")

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases of all layers."""
        return sum((n_in + 1) * n_out for n_in, n_out in pairwise(self.widths))

    def layers(self, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return weights (outputs × inputs) and biases of each layer, as views of θ."""
        layers, start = [], 0
        for n_in, n_out in pairwise(self.widths):
            middle = start + n_in * n_out
            layers.append((theta[start:middle].reshape(n_out, n_in), theta[middle : middle + n_out]))
            start = middle + n_out
        return layers

    def terms(self, theta: FloatArray) -> tuple[NetworkTerm, ...]:
        """Return the layers."""
        return (NetworkTerm(tuple(self.layers(theta)), self.activation),)

    def sizes(self, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return an empty array, since features have no separate contributions."""
        return np.zeros(0)

    def arrays(self) -> dict[str, AnyArray]:
        """Return the sizes of the layers, and the letters of the activation."""
        letters = np.frombuffer(self.activation.encode("ascii"), dtype=np.uint8)
        return {"neural.widths": np.array(self.widths, dtype=np.int64), "neural.activation": letters}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the form from what `arrays` returned, and refuse widths that do not fit."""
        widths = tuple(stored(arrays, "neural.widths", np.int64).tolist())
        if widths[:1] != (n_features,):
            raise ValueError(f"a network of {list(widths[:1])} inputs for {n_features} features")
        letters = stored(arrays, "neural.activation", np.uint8)
        return cls(widths, bytes(letters[:20]).decode("ascii", "replace"))
