"""The problem that a solver minimizes: a risk as a function of θ, with constraints on θ."""

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
    """The risk on the segment between two points, for problems where it is cheaper than elsewhere.

    Args:
        start: The point at step size 0.
        end: The point at step size 1.
    """

    def __init__(self, start: FloatArray, end: FloatArray) -> None:
        self.start, self.end = start, end

    def point(self, t: float) -> FloatArray:
        """Return the point at a step size."""
        return np.asarray(self.start + t * (self.end - self.start))

    @abstractmethod
    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a step size, and its derivative with respect to the step size.

        The first call takes half a pass over the data for each end that is not known yet, others take none.
        """

    @abstractmethod
    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk at a step size, and a subgradient of each; half a pass."""

    @abstractmethod
    def then(self, t: float, end: FloatArray) -> Segment:
        """Return the segment from the point at a step size to another point."""


class Problem(ABC):
    """Minimize ½‖θ − center‖² + C·risk(θ) over θ with given signs, for a risk that is never negative.

    Calling the problem returns the risk at θ and a subgradient. ``parts`` returns the same as a sum of parts, which
    tells a solver more for one evaluation; ``block`` evaluates one of ``n_blocks`` terms of the sum on its own.
    """

    n_parameters: int
    n_blocks: int = 1
    #: The minimizer of the regularizer; None for 0.
    center: FloatArray | None = None
    #: 1 where θ may not be negative, −1 where it may not be positive, 0 where it is free; None if all are free.
    signs: IntArray | None = None
    #: Whether the risk is convex.
    convex: bool = True
    #: Whether the risk is computed exactly, not by a search that may miss part of it.
    exact: bool = True
    #: A convex problem whose risk is never below this one, with a convex difference; None if there is none.
    majorant: Problem | None = None
    #: What a solver may use beyond the risk.
    capabilities: frozenset[Capability] = frozenset()

    @abstractmethod
    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts that the risk is a sum of, and a subgradient of each, one row per part."""
        value, gradient = self(theta)
        return np.array([value]), gradient[None, :]

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return one block of the risk at θ, and a subgradient of it."""
        raise NotImplementedError

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of the risk at θ times a direction."""
        raise NotImplementedError

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:  # noqa: ARG002
        """Return a function that multiplies with about (I + C·Hessian)⁻¹ at θ, symmetric and positive definite.

        The closer, the fewer products with the Hessian a solver takes. One that takes no passes is made for every step
        of a solver, others when conjugate gradients are slow without. By default it is the identity.
        """
        return lambda vector: vector

    def preconditioner_passes(self, C: float) -> float:  # noqa: ARG002
        """Return how many passes over the data it takes to make a preconditioner; infinite if there is none."""
        return np.inf

    def segment(self, start: FloatArray, end: FloatArray) -> Segment | None:  # noqa: ARG002
        """Return the risk on the segment between two points; None if evaluating single points is cheaper."""
        return None

    @property
    def certifiable(self) -> bool:
        """Whether planes that touch the risk are lower bounds of it, and its values are its values."""
        return self.convex and self.exact

    @property
    def origin(self) -> FloatArray:
        """The minimizer of the regularizer."""
        return np.zeros(self.n_parameters) if self.center is None else self.center

    @cached_property
    def risk_at_center(self) -> float:
        """The risk at the minimizer of the regularizer, projected onto the signs."""
        return float(self(self.inside(self.origin))[0])

    def inside(self, theta: FloatArray) -> FloatArray:
        """Return a copy of θ with 0 where its sign is wrong."""
        point = np.array(theta, dtype=np.float64)
        return point if self.signs is None else np.where(self.signs * point < 0, 0.0, point)

    def objective(self, theta: FloatArray, risk: float, C: float) -> float:
        """Return ½‖θ − center‖² + C·risk."""
        v = theta if self.center is None else theta - self.center
        return 0.5 * float(v @ v) + C * risk


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
        """A majorant, if it has one."""
        return frozenset() if self.majorant is None else frozenset({"majorant"})

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""
        values, gradients = self.parts(theta)
        return float(values.sum()), gradients.sum(axis=0)

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the function returns, as parts."""
        value, gradient = self.function(theta)
        return np.atleast_1d(np.asarray(value, dtype=np.float64)), np.atleast_2d(gradient)
