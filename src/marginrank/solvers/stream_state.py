"""Training on batches of a stream: what is remembered of the batches before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from marginrank.typing import AnyArray, FloatArray

_LAST: Final = "stream.last"
_ORIGIN: Final = "stream.origin"


@dataclass(frozen=True, eq=False)
class StreamState:
    """Weight of the stream so far, and state of the steps over its batches.

    The objective is ½‖θ − origin‖² + C·risk(θ), with the mean risk of all batches, which are seen once. With weight W
    before and a batch of weight m, let ρ = m / (W + m). A step minimizes

        ½‖θ − origin − (1 − ρ)(last − origin)‖² + ρ·C·(risk of the batch)(θ)

    which is the objective of all batches with a plane below the risk in place of those before: the subgradient that
    ``last`` solves their problem with. The parameters are an average of the steps, with more weight on later ones.

    Args:
        weight: Total weight of the blocks seen.
        last: The last step; None where the parameters are no average, but a solution for all that was seen.
        origin: Where the regularizer is minimal; None for 0.
    """

    weight: float
    last: FloatArray | None = None
    origin: FloatArray | None = None

    def share(self, weight: float) -> float:
        """Return the share of a batch in all that was seen, itself included."""
        return weight / (self.weight + weight)

    def center(self, theta: FloatArray, weight: float) -> FloatArray:
        """Return the center of the step that a batch of some weight takes, given the parameters.

        >>> StreamState(30.0).center(np.array([2.0, -4.0]), weight=10.0).tolist()
        [1.5, -3.0]
        """
        last = theta if self.last is None else self.last
        kept = 1.0 - self.share(weight)
        return kept * last if self.origin is None else self.origin + kept * (last - self.origin)

    def after(self, step: FloatArray, theta: FloatArray, weight: float) -> tuple[FloatArray, StreamState]:
        """Return the parameters after a step, and what to remember.

        With batches of one weight, the average counts step t with weight t.

        >>> theta, stream = StreamState(10.0).after(np.array([2.0]), np.array([5.0]), 10.0)        # (1·5 + 2·2) / 3
        >>> theta.tolist(), stream.weight, stream.last.tolist()
        ([3.0], 20.0, [2.0])
        """
        total = self.weight + weight
        share = 2.0 * weight / (total + weight)
        return (1.0 - share) * theta + share * step, StreamState(total, step, self.origin)

    def describe(self) -> dict[str, Any]:
        """Return the plain values, for a file."""
        return {"weight": self.weight}

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays, for a file."""
        parts = {_LAST: self.last, _ORIGIN: self.origin}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_parts(
        cls, described: Mapping[str, Any] | None, arrays: Mapping[str, AnyArray], n_parameters: int
    ) -> Self | None:
        """Build a stream from what `describe` and `arrays` returned; None from None."""
        if described is None:
            return None
        weight = described["weight"]
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < np.inf:
            raise ValueError(f"the weight of the stream is {weight!r}, which is not a number above 0")
        parts = [arrays.get(name) for name in (_LAST, _ORIGIN)]
        for part in parts:
            if part is not None and not (
                part.dtype == np.float64 and part.shape == (n_parameters,) and np.isfinite(part).all()
            ):
                raise ValueError(f"a stream needs {n_parameters} finite numbers")
        return cls(float(weight), *parts)
