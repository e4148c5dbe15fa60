"""Generalization bounds: those of Riezler and De Bona (2009), as printed and repaired, and two that stay small."""

from __future__ import annotations

from marginrank.bounds.argmax import argmax_bound, pair_reach, softmax_gap
from marginrank.bounds.dominating_loss import ap_loss, binary_grades, dominating_loss, mean_loss, zero_one_loss
from marginrank.bounds.iterations import PlaneBound, plane_bound
from marginrank.bounds.lipschitz import lipschitz_constants, norm_bound
from marginrank.bounds.population import BoundTerms, Population
from marginrank.bounds.rademacher import (
    BoundVariants,
    RiskBound,
    corollary_1,
    corollary_2,
    corollary_3,
    theorem_3,
    theorem_4,
)
from marginrank.bounds.stability import StabilityBound, largest_loss_at_zero, stability_bound

__all__ = [
    "BoundTerms",
    "BoundVariants",
    "PlaneBound",
    "Population",
    "RiskBound",
    "StabilityBound",
    "ap_loss",
    "argmax_bound",
    "binary_grades",
    "corollary_1",
    "corollary_2",
    "corollary_3",
    "dominating_loss",
    "largest_loss_at_zero",
    "lipschitz_constants",
    "mean_loss",
    "norm_bound",
    "pair_reach",
    "plane_bound",
    "softmax_gap",
    "stability_bound",
    "theorem_3",
    "theorem_4",
    "zero_one_loss",
]
