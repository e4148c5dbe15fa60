"""Oracles of average precision, and of other measures with two levels, under φpo."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marginrank.losses.oracles.base import (
    ArgmaxProblem,
    Ranker,
    SortedDocuments,
    Violations,
)
from marginrank.losses.torch.average_precision import TorchInterleaving
from marginrank.losses.torch.base import TorchLoss
from marginrank.losses.torch.pair_hinges import TorchPairHinges
from marginrank.runtime.threads import PerThread
from marginrank.runtime.torch_device import Device
from marginrank.typing import FloatArray, IntArray


class PairCosts(NamedTuple):
    """Cost of a pair in the wrong order, and scale of φpo, per query."""

    costs: FloatArray
    scales: FloatArray


def prepare_pairs(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
    """Prepare measures that sum over pairs: each pair is decided on its own, in O(n) after sorting."""
    from marginrank.losses.oracles.average_precision_kernel import most_violated_pairs  # noqa: PLC0415

    scores, layout, worst = ordered.scores, tuple(problem.levels.layout), tuple(violations)
    pairs = tuple(PairCosts(pair_costs(problem), problem.scales))

    return lambda weights, *bounds: most_violated_pairs(scores, layout, pairs, weights, worst, *bounds)


def prepare_interleaving(problem: ArgmaxProblem, ordered: SortedDocuments, violations: Violations) -> Ranker:
    """Prepare credits that are a share times a convex discount: O(n log n)."""
    from marginrank.losses.oracles.average_precision_kernel import most_violated_interleaving  # noqa: PLC0415

    scores, layout, worst = ordered.scores, tuple(problem.levels.layout), tuple(violations)
    placement = tuple(problem.credit_shares)
    longest = problem.levels.longest
    buffers = PerThread(lambda: (np.empty((2, longest + 1), dtype=np.int64), np.zeros((2, longest + 1))))

    return lambda weights, *bounds: most_violated_interleaving(
        scores, layout, placement, weights, buffers(), worst, *bounds
    )


def pairs_in_torch(problem: ArgmaxProblem, ideal: IntArray, device: Device) -> TorchLoss:  # noqa: ARG001
    """Prepare for scores on a PyTorch device: cost − 2·scale·(s_i − s_j) is a hinge of margin cost / (2·scale)."""
    heights, twice = np.zeros(len(problem.levels.gains)), 2.0 * problem.scales
    return TorchPairHinges.of(device, problem.levels, heights, pair_costs(problem) / twice, twice)


def interleaving_in_torch(problem: ArgmaxProblem, ideal: IntArray, device: Device) -> TorchLoss:  # noqa: ARG001
    """Prepare for scores on a PyTorch device."""
    return TorchInterleaving.of(device, problem.levels, problem.credit_shares)


def pair_costs(problem: ArgmaxProblem) -> FloatArray:
    """Return what a pair in the wrong order costs, by query."""
    two = problem.two_levels()
    # The last irrelevant document passed: there the difference of credits is exact.
    before, behind = (problem.measure.credits(np.ones_like(j), j, two) for j in (two.n_irr - 1, two.n_irr))
    if before is None or behind is None:
        raise TypeError(f"{problem.measure} declares no credits")
    costs = np.zeros(len(problem.active))
    costs[problem.active] = before - behind
    return costs
