"""What a solver is given: a risk as a function of θ, and what θ has to keep to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from marginrank.typing import FloatArray, IntArray

#: What a problem may have beyond its risk: single blocks, products with the Hessian, a convex majorant.
Capability: TypeAlias = Literal["blocks", "hessian", "majorant"]


class Segment(ABC):
    """The risk on the way between two points, as a problem knows it that can tell more of it than of points elsewhere.

    Args:
        start: Where the way begins, at 0.
        end: Where it ends, at 1.
    """

    def __init__(self, start: FloatArray, end: FloatArray) -> None:
        self.start, self.end = start, end

    def point(self, t: float) -> FloatArray:
        """Return the point at a share of the way."""
        return np.asarray(self.start + t * (self.end - self.start))

    @abstractmethod
    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a share of the way, and its slope by that share.

        The first takes half a pass over the data for each end that is not known yet, others take none.
        """

    @abstractmethod
    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk there, and a subgradient of each; half a pass."""

    @abstractmethod
    def then(self, t: float, end: FloatArray) -> Segment:
        """Return the way from there, which is known, to another point."""


class Problem(ABC):
    """Minimise ½‖θ − center‖² + C·risk(θ) over θ with given signs, for a risk that is never negative.

    Calling the problem returns the risk at θ and a subgradient. ``parts`` returns the same as a sum of parts, which
    tells a solver more for one evaluation; ``block`` evaluates one of ``n_blocks`` terms of the sum on its own.
    """

    n_parameters: int
    n_blocks: int = 1
    #: Where the regulariser is minimal; 0 where None.
    center: FloatArray | None = None
    #: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free; all free where None.
    signs: IntArray | None = None
    #: Whether the risk is convex.
    convex: bool = True
    #: Whether the risk is computed exactly, not by a search that may miss part of it.
    exact: bool = True
    #: A convex problem whose risk is never below this one, with a convex difference; None where there is none.
    majorant: Problem | None = None
    #: What a solver may use beyond the risk.
    capabilities: frozenset[Capability] = frozenset()

    @abstractmethod
    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts that the risk is a sum of, and a subgradient of each, one row per part."""
        value, slope = self(theta)
        return np.array([value]), slope[None, :]

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the share of one block in the risk, and in its subgradient."""
        raise NotImplementedError

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian of the risk at θ times a direction."""
        raise NotImplementedError

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:  # noqa: ARG002
        """Return a function that multiplies with about (I + C·Hessian)⁻¹ at θ, symmetric and positive definite.

        The closer, the fewer products with the Hessian a solver takes. One that takes no passes is made for every step
        of a solver, others where conjugate gradients are slow without. By default it changes nothing.
        """
        return lambda vector: vector

    def preconditioner_passes(self, C: float) -> float:  # noqa: ARG002
        """Return how many passes over the data it takes to make a preconditioner; infinite where there is none."""
        return np.inf

    def line(self, start: FloatArray, end: FloatArray) -> Segment | None:  # noqa: ARG002
        """Return the risk on the way between two points; None where evaluating one point after the other is cheaper."""
        return None

    @property
    def certifiable(self) -> bool:
        """Whether planes that touch the risk are lower bounds of it, and its values are its values."""
        return self.convex and self.exact

    @property
    def origin(self) -> FloatArray:
        """Where the regulariser is minimal."""
        return np.zeros(self.n_parameters) if self.center is None else self.center

    @cached_property
    def risk_at_center(self) -> float:
        """The risk where the regulariser is minimal, as far as the signs allow."""
        return float(self(self.inside(self.origin))[0])

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return a copy of θ with 0 where its sign is not the one asked for."""
        point = np.array(theta, dtype=np.float64)
        return point if self.signs is None else np.where(self.signs * point < 0, 0.0, point)

    def objective(self, theta: FloatArray, risk: float, C: float) -> float:
        """Return ½‖θ − center‖² + C·risk."""
        away = theta if self.center is None else theta - self.center
        return 0.5 * float(away @ away) + C * risk


@dataclass(frozen=True, eq=False)
class FunctionProblem(Problem):
    """A problem from a function that returns the risk and a subgradient, or parts with one subgradient each.

    >>> distance = FunctionProblem(lambda w: (abs(w[0] - 3.0), np.sign(w - 3.0)), n_parameters=1)
    >>> distance(np.array([1.0]))
    (2.0, array([-1.]))
    """

    function: Callable[[FloatArray], tuple[float | FloatArray, FloatArray]]
    n_parameters: int
    center: FloatArray | None = None
    signs: IntArray | None = None
    convex: bool = True
    exact: bool = True
    majorant: Problem | None = None

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]
        """A majorant, where it has one."""
        return frozenset() if self.majorant is None else frozenset({"majorant"})

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""
        values, slopes = self.parts(theta)
        return float(values.sum()), slopes.sum(axis=0)

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the function returns, as parts."""
        value, slope = self.function(theta)
        return np.atleast_1d(np.asarray(value, dtype=np.float64)), np.atleast_2d(slope)
