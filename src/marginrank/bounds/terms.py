"""What every bound is a sum of, and checks that all share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Terms:
    """A bound on a risk, term by term.

    Args:
        empirical: Mean loss over the queries.
        complexity: What learning costs: the size of the class of rankers, or how far it may follow one query.
        confidence: What being right with probability 1 − δ costs.
    """

    empirical: float
    complexity: float
    confidence: float

    @property
    def excess(self) -> float:
        """How much larger than the empirical risk the risk may be; inf beyond the range of floats."""
        return self.complexity + self.confidence

    @property
    def total(self) -> float:
        """The bound; inf beyond the range of floats."""
        return self.empirical + self.excess


def check_norm(w: FloatArray, B: float | None) -> float:
    """Return B, or ‖w‖ where it is None, and refuse a B that w is outside of."""
    norm = float(np.linalg.norm(w))
    if B is None:
        return norm
    # A B that comes from a formula may be a rounding error below the norm that it is meant for.
    if not norm <= B * (1.0 + 1e-9):
        raise ValueError(f"B is {B:g} and ‖w‖ is {norm:.6g}; the bound is for weights of norm at most B, give a larger")
    return float(B)


def check_delta(delta: float) -> float:
    """Refuse what is no probability of failing."""
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; give a probability between 0 and 1, such as 0.05")
    return float(delta)
