"""Upper bound on the number of cutting planes that training needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marginrank.bounds.dominating_loss import check_queries, losses_of
from marginrank.bounds.lipschitz import lipschitz_constants
from marginrank.bounds.stability import largest_loss_at_zero
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.solvers.solution import Solution


@dataclass(frozen=True)
class PlaneBound:
    """The bound of `plane_bound`, and what it depends on.

    Args:
        n: Number of slacks: of the queries with an order, or 1 if they share one.
        largest_loss: Δ̄, the largest loss of a ranking.
        radius: R̄, the largest ‖Ψ(y*) − Ψ(y)‖.
        C: As in ½‖w‖² + (C/n)·Σξ.
        epsilon: Violation above which a plane is added.
    """

    n: int
    largest_loss: float
    radius: float
    C: float
    epsilon: float

    @property
    def gain(self) -> float:
        """Minimum that each plane adds to the lower bound: min{C·ε/(2n), ε²/(8R̄²)}."""
        by_curvature = self.epsilon**2 / (8.0 * self.radius**2) if self.radius > 0 else np.inf
        return min(self.C * self.epsilon / (2.0 * self.n), by_curvature)

    @property
    def total(self) -> float:
        """The number of planes: max{2n·Δ̄/ε, 8C·Δ̄·R̄²/ε²}."""
        return self.C * self.largest_loss / self.gain

    def beside(self, solution: Solution) -> str:
        """Return the number of planes of a solution and the bound, as text."""
        taken = "an unknown number of" if solution.n_planes is None else f"{solution.n_planes:,}"
        return f"{taken} planes, of at most {self.total:,.0f}"


def plane_bound(
    queries: Queries,
    loss: Loss,
    C: float,
    epsilon: float,
    *,
    shared: bool = False,
    radius: float | None = None,
    largest_loss: float | None = None,
) -> PlaneBound:
    """Bound the number of planes of Algorithm 1 of Yue et al. (SIGIR 2007), their Theorem 1.

    The method adds a plane of a query whenever it is violated by more than ε, and solves the program over all planes
    so far, as `NSlack` does. It ends after at most max{2n·Δ̄/ε, 8C·Δ̄·R̄²/ε²} planes: each raises the minimum of the
    program, which is between 0 and C·Δ̄, by min{C·ε/(2n), ε²/(8R̄²)} or more. For moving the weight β ≤ C/n from the
    planes of a query to the new one raises the dual by β·ε − ½β²·‖d‖² or more, and the difference d of their gradients
    has norm 2R̄ at most.

    Le and Smola (2008) §2.4 state the same bound with three slips: n stands for the number of queries, which they call
    m; their objective has C·Σξ, so that the second term needs a factor m; and R has to bound the norm of the difference
    Φ(z_i) − Φ(z), not of Φ(z).

    Args:
        queries: The training queries.
        loss: A convex loss that `lipschitz_constants` knows.
        C: As in ½‖w‖² + (C/n)·Σξ.
        epsilon: Violation above which a plane is added. Its solution is at most C·ε above the minimum.
        shared: Whether the queries share one slack, their mean: then n is 1.
        radius: R̄; by default the largest of `lipschitz_constants`.
        largest_loss: Δ̄; by default the largest ξ of ``queries`` at w = 0.

    >>> from marginrank.losses.structured import StructuredLoss
    >>> queries = Queries.from_arrays([[0.5], [0.0]] * 2, [1, 0] * 2, group=[2, 2])
    >>> bound = plane_bound(queries, StructuredLoss("auc"), C=4.0, epsilon=0.5)
    >>> bound.n, bound.largest_loss, bound.radius, bound.total           # max{2·2/0.5, 8·4·1²/0.5²}
    (2, 1.0, 1.0, 128.0)
    """
    if not loss.convex:
        raise ValueError(f"{loss} is not convex, and its planes do not lie below it; use bound='hinge'")
    if not (epsilon > 0 and C > 0):
        raise ValueError(f"C is {C} and epsilon {epsilon}; give numbers above 0")
    _, active = losses_of(check_queries(queries), loss, np.zeros(queries.n_features))
    reach = float(lipschitz_constants(loss, queries).max()) if radius is None else radius
    largest = largest_loss_at_zero(queries, loss) if largest_loss is None else largest_loss
    return PlaneBound(1 if shared else int(active.sum()), largest, reach, C, epsilon)
