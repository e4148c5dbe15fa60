"""What a solver gives back, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from marginrank.typing import FloatArray

#: Risk at θ and a subgradient there; or the parts it is a sum of, with one subgradient each.
Risk: TypeAlias = Callable[[FloatArray], tuple[float | FloatArray, FloatArray]]

#: Why a solver stopped.
Reason: TypeAlias = Literal["converged", "max_iter", "time_limit", "callback", "interrupted"]


class BlockRisk(Protocol):
    """A risk that is a sum over blocks, each of which can be asked on its own."""

    n_blocks: int

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Risk and subgradient of all blocks together."""

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Share of one block in the risk, and in its subgradient."""


class SmoothRisk(Protocol):
    """A risk with a gradient and a generalised Hessian."""

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Risk and gradient."""

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Generalised Hessian at θ, times a direction."""


@dataclass(frozen=True)
class Step:
    """Where a solver stood after an iteration: the best objective so far, the lower bound, and what they cost.

    ``passes`` counts evaluations of the whole risk, and of single blocks as a share of it.
    """

    primal: float
    dual: float
    seconds: float
    passes: float

    @property
    def gap(self) -> float:
        """How far the best objective can be from the optimum."""
        return self.primal - self.dual


@dataclass(frozen=True, eq=False)
class Solution:
    """The best θ found, with its certificate: the optimum of the objective lies between ``dual`` and ``primal``.

    Where the risk is not convex there is no lower bound to be had, and ``dual`` is −inf.
    """

    theta: FloatArray
    C: float
    primal: float
    dual: float
    risk: float
    reason: Reason
    trace: tuple[Step, ...]

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.primal - self.dual

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""
        return self.reason == "converged"

    @property
    def n_iter(self) -> int:
        """Iterations."""
        return len(self.trace)

    @property
    def passes(self) -> float:
        """Evaluations of the whole risk that it took."""
        return self.trace[-1].passes

    def __repr__(self) -> str:
        state = "converged" if self.converged else f"stopped: {self.reason}"
        figures = f"C={self.C:g}, objective={self.primal:.6g}, gap={self.gap:.2g}, {self.n_iter} iterations"
        return f"Solution({figures}, {state})"
