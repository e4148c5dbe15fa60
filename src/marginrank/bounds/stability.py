"""The stability bound, which does not grow with the length of lists."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from marginrank.bounds.dominating_loss import check_queries, losses_of
from marginrank.bounds.lipschitz import lipschitz_constants, norm_bound
from marginrank.bounds.population import BoundTerms, check_delta
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class StabilityBound(BoundTerms):
    """The bound of `stability_bound`, term by term.

    ``complexity`` is 2β, which also bounds the mean of the gap over all samples; ``confidence`` is
    (4nβ + L)·√(ln(1/δ)/(2n)).

    Args:
        approximation: 2G·√(2ε), what a gap ε of the solver costs.
        beta: β = C·G²/n, how much ξ of any query may change when a query is left out.
        lipschitz: G.
        largest: L, the largest ξ at a minimizer.
    """

    approximation: float
    beta: float
    lipschitz: float
    largest: float

    @property
    def excess(self) -> float:
        """The largest possible excess of the risk over the empirical risk."""
        return self.complexity + self.confidence + self.approximation


def stability_bound(
    queries: Queries,
    loss: Loss,
    w: FloatArray,
    C: float,
    *,
    gap: float = 0.0,
    delta: float = 0.05,
    lipschitz: float | None = None,
    at_zero: float | None = None,
) -> StabilityBound:
    """Bound the risk of weights that minimize ½‖w‖² + C·mean ξ, by uniform stability.

    With probability 1 − δ over n queries,

        risk ≤ empirical risk + 2β + (4nβ + L)·√(ln(1/δ)/(2n)) + 2G·√(2ε),   β = C·G²/n,   L = at_zero + G·B,

    after Bousquet and Elisseeff (2002). What is assumed: queries drawn alike and independently (those that carry an
    order, which n counts); a convex ξ ≥ 0 with ξ(w) − ξ(v) ≤ G·‖w − v‖ and ξ(0) ≤ at_zero for every query that can
    be drawn; the regularizer ½‖w‖², centered at 0; C fixed beforehand, not chosen by these queries.

    Why: the objectives F and F' of two samples that differ in one query are 1-strongly convex, so for their minimizers
    w and v, ‖w − v‖² ≤ F(v) − F(w) + F'(w) − F'(v) ≤ (C/n)·2G·‖w − v‖. Hence ‖w − v‖ ≤ 2CG/n, and ξ of any query
    changes by at most 2CG²/n = 2β, which bounds the mean gap. One query changes the gap by at most 4β + L/n, and
    McDiarmid's inequality gives the rest. A solution of gap ε is at most √(2ε) away from the minimizer, and risk and
    empirical risk change by at most G times that. For φpo neither G nor at_zero grows with the length of the lists.

    Args:
        queries: The queries that w was learned from.
        loss: The loss it was learned with.
        w: Weights.
        C: As in the objective; λ = 1/C.
        gap: How far the objective may be from its minimum, such as ``solution.gap``.
        delta: Probability that the bound may fail.
        lipschitz: G; by default the largest of `lipschitz_constants` over ``queries``, which then stand for all.
        at_zero: The largest ξ at w = 0; by default that of ``queries``.

    >>> from marginrank.losses.structured import StructuredLoss
    >>> queries = Queries.from_arrays([[0.5], [0.0]] * 2, [1, 0] * 2, group=[2, 2])
    >>> bound = stability_bound(queries, StructuredLoss("auc"), np.array([0.25]), 0.25, delta=np.exp(-4))
    >>> bound.lipschitz, bound.beta, bound.largest      # 2·0.5; 0.25·1²/2; 1 + 1·min(√0.5, 0.25)
    (1.0, 0.125, 1.25)
    >>> bound.empirical, bound.complexity, bound.confidence, bound.total      # 1 − 2·0.5·0.25; 2β; (8β + 1.25)·√1
    (0.75, 0.25, 2.25, 3.25)
    """
    if not loss.convex:
        raise ValueError(f"{loss} is not convex, and then training is not stable; use bound='hinge'")
    if not gap >= 0:
        raise ValueError(f"gap is {gap}; give how far the objective may be from its minimum, 0 for exact")
    xi, active = losses_of(check_queries(queries), loss, w)
    n = int(active.sum())
    G = float(lipschitz_constants(loss, queries).max()) if lipschitz is None else lipschitz
    zero = largest_loss_at_zero(queries, loss) if at_zero is None else at_zero
    beta, largest = C * G * G / n, zero + G * norm_bound(C, zero, G)
    return StabilityBound(
        empirical=float(xi[active].mean()),
        complexity=2.0 * beta,
        confidence=(4.0 * n * beta + largest) * sqrt(log(1.0 / check_delta(delta)) / (2.0 * n)),
        approximation=2.0 * G * sqrt(2.0 * gap),
        beta=beta,
        lipschitz=G,
        largest=largest,
    )


def largest_loss_at_zero(queries: Queries, loss: Loss) -> float:
    """Return the largest ξ of a query if all scores are 0."""
    return float(losses_of(queries, loss, np.zeros(queries.n_features))[0].max())
