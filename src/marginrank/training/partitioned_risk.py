"""A loss and a scorer as a problem for solvers, with queries in partitions or not."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np

from marginrank.data.partitions import Arrays, Partitions, group_bounds
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.scorers.base import Prepared, PreparedPartitions, PreparedScorer, Scorer
from marginrank.scorers.linear.scorer import Linear
from marginrank.solvers.problem import Capability, Problem
from marginrank.solvers.stopping import summed
from marginrank.training.gpu_risk import GpuRisk
from marginrank.training.intercept import constant_sums
from marginrank.training.risk import RankingRisk, count_parts
from marginrank.typing import FloatArray


class PartitionedRisk(Problem):
    """The risk over queries in partitions: θ goes to the partitions, and parts of risk and gradient come back.

    They are added up in an order that depends on the number of partitions alone, so that the result does not depend on
    the machines that hold them. Single blocks cannot be evaluated.

    Args:
        scorer: A scorer prepared for the partitions.
        loss: The loss.
        n_jobs: Number of threads, for partitions in this process.
        center: Minimizer of the regularizer; 0 by default.
    """

    def __init__(
        self,
        scorer: PreparedPartitions,
        loss: Loss,
        n_jobs: int | None = None,
        center: FloatArray | None = None,
    ) -> None:
        self.scorer, self.definition = scorer, loss
        self.n_parameters, self.signs = scorer.n_parameters, scorer.signs
        self.center, self.convex = center, loss.convex
        self._n_jobs = n_jobs
        risks = scorer.parts.derive(RankingRisk, loss, scorer.parts.threads(n_jobs))
        kinds = risks.map(_kind)
        #: Total weight of the queries that have an order.
        self.weight = float(sum(weight for weight, _, _ in kinds))
        self.exact = all(exact for _, exact, _ in kinds)
        if any(has_intercept for _, _, has_intercept in kinds):
            risks = risks.derive(RankingRisk.with_intercept, *risks.add(_constant_sums)[0])
        self._risks: Partitions[RankingRisk] = risks.derive(RankingRisk.take_part, self.weight)
        n_parts = count_parts(scorer)
        self._groups, self._parts_of_each = min(n_parts, len(risks)), max(1, n_parts // len(risks))

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]
        """Hessian products of smooth losses, and a majorant of losses that are not convex."""
        capabilities = {*(["hessian"] if self.definition.smooth else []), *([] if self.convex else ["majorant"])}
        return cast("frozenset[Capability]", frozenset(capabilities))

    @cached_property
    def majorant(self) -> Problem | None:  # type: ignore[override]
        """The risk of the convex loss above this one; None if this one is convex."""
        above = self.definition.majorant
        return None if above is None else PartitionedRisk(self.scorer, above, self._n_jobs, self.center)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return risk and gradient at θ."""
        values, gradients = self._add(theta, 1, 1)
        return float(values[0]), gradients[0]

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient at θ in a fixed number of parts, which add up to them."""
        return self._add(theta, self._groups, self._parts_of_each)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of the risk at θ times a direction; for losses that have one."""
        ((product,),) = self._risks.add(_hessian_product, theta, direction)
        return np.asarray(product)

    def _add(self, theta: FloatArray, groups: int, parts_of_each: int) -> tuple[FloatArray, FloatArray]:
        sums = self._risks.add(_parts, np.asarray(theta, dtype=np.float64), parts_of_each, groups=groups)
        self.exact = self.exact and not any(inexact[0] for _, _, inexact in sums)
        return np.concatenate([values for values, _, _ in sums]), np.concatenate(
            [gradients for _, gradients, _ in sums]
        )


def _kind(risk: RankingRisk) -> tuple[float, bool, bool]:
    return risk.weight, risk.exact, risk.loss.constant_terms is not None


def _constant_sums(risk: RankingRisk) -> Arrays:
    return constant_sums(risk.scorer, risk.loss) or ()


def _parts(risk: RankingRisk, theta: FloatArray, n_parts: int) -> Arrays:
    """Return risk and gradient of one partition in about ``n_parts`` parts, and whether they are inexact."""
    if n_parts == 1:
        value, gradient = risk(theta)
        values, gradients = np.array([value]), gradient[None, :]
    else:
        values, gradients = risk.parts(theta)
    if n_parts < len(values):
        starts = np.array(group_bounds(len(values), n_parts)[:-1])
        values, gradients = np.add.reduceat(values, starts), summed(gradients, starts)
    return values, gradients, np.array([0 if risk.exact else 1])


def _hessian_product(risk: RankingRisk, theta: FloatArray, direction: FloatArray) -> Arrays:
    return (risk.hessian_product(theta, direction),)


def ranking_risk(
    scorer: Prepared, loss: Loss, n_jobs: int | None = None, center: FloatArray | None = None
) -> RankingRisk | PartitionedRisk:
    """Return the risk of a loss with a prepared scorer."""
    if isinstance(scorer, PreparedPartitions):
        return PartitionedRisk(scorer, loss, n_jobs, center)
    if not isinstance(scorer, PreparedScorer):
        raise TypeError(f"{type(scorer).__name__} has no risk")
    if scorer.gpu_rows is None:
        risk = RankingRisk(scorer, loss, n_jobs, center)
    else:
        risk = GpuRisk(scorer, scorer.gpu_rows, loss, n_jobs, center)
    sums = constant_sums(scorer, risk.loss)
    return risk if sums is None else risk.with_intercept(*sums)


def empirical_risk(
    queries: Queries, loss: Loss, scorer: Scorer | None = None, n_jobs: int | None = None
) -> RankingRisk:
    """Return the risk of a loss on queries in memory, with a linear scorer by default."""
    if not isinstance(queries, Queries) or not isinstance(loss, Loss):
        raise TypeError("empirical_risk(queries, loss) takes Queries and a Loss, such as StructuredLoss('ap')")
    return cast("RankingRisk", ranking_risk((scorer or Linear()).prepare(queries, n_jobs), loss, n_jobs))
