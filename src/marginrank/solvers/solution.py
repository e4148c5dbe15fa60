"""The result of a solver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from marginrank.typing import FloatArray

#: Why a solver stopped: ``converged`` is proven by the gap, ``stationary`` means no further progress without a proof.
Reason: TypeAlias = Literal["converged", "stationary", "max_iter", "time_limit", "callback", "interrupted"]


@dataclass(frozen=True)
class Step:
    """The state of a solver after an iteration: the best objective so far, the lower bound, and their cost.

    ``passes`` counts evaluations of the whole risk; a block counts as a fraction. Files do not hold ``C``.
    """

    primal: float
    dual: float
    seconds: float
    passes: float
    C: float | None = field(default=None, compare=False, repr=False)

    @property
    def gap(self) -> float:
        """Upper bound on the distance of the best objective from the optimum."""
        return self.primal - self.dual


@dataclass(frozen=True, eq=False)
class Solution:
    """The best θ found, with its certificate: the optimum of the objective lies between ``dual`` and ``primal``.

    If the risk is not convex, or its values come from a search, there is no lower bound: ``dual`` is −inf.
    """

    theta: FloatArray
    C: float
    primal: float
    dual: float
    risk: float
    reason: Reason
    trace: tuple[Step, ...]
    #: The risk at the center, if the solver evaluated it.
    risk_at_center: float | None = None
    #: Number of cutting planes that were taken, if the solver takes any; files do not hold it.
    n_planes: int | None = None

    @property
    def gap(self) -> float:
        """Upper bound on the distance of the objective from the optimum."""
        return self.primal - self.dual

    @property
    def converged(self) -> bool:
        """Whether the gap proves that the tolerance was met."""
        return self.reason == "converged"

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.trace)

    @property
    def passes(self) -> float:
        """Number of evaluations of the whole risk."""
        return self.trace[-1].passes

    def __repr__(self) -> str:
        state = self.reason if self.reason in ("converged", "stationary") else f"stopped: {self.reason}"
        figures = f"C={self.C:g}, objective={self.primal:.6g}, gap={self.gap:.2g}, {self.n_iter} iterations"
        return f"Solution({figures}, {state})"
