"""What a solver gives back, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from marginrank.typing import FloatArray

#: Risk at θ and a subgradient there.
Risk: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True)
class Step:
    """Where a solver stood after an iteration: the best objective so far, the lower bound, and the time."""

    primal: float
    dual: float
    seconds: float

    @property
    def gap(self) -> float:
        """How far the best objective can be from the optimum."""
        return self.primal - self.dual


@dataclass(frozen=True, eq=False)
class Solution:
    """The best θ found, with its certificate: the optimum of the objective lies between ``dual`` and ``primal``."""

    theta: FloatArray
    C: float
    primal: float
    dual: float
    risk: float
    converged: bool
    trace: tuple[Step, ...]

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.primal - self.dual

    @property
    def n_iter(self) -> int:
        """Iterations, of one or two evaluations of the risk each."""
        return len(self.trace)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "stopped early"
        figures = f"C={self.C:g}, objective={self.primal:.6g}, gap={self.gap:.2g}, {self.n_iter} iterations"
        return f"Solution({figures}, {state})"
