"""Oracles of average precision, and of other measures with two levels, under φpo."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.losses.oracles.base import (
    ArgmaxProblem,
    CreditShares,
    Ranker,
    SortedDocuments,
    Violations,
)
from marginrank.losses.torch.average_precision import TorchInterleaving
from marginrank.losses.torch.base import TorchLoss
from marginrank.losses.torch.pair_hinges import TorchPairHinges
from marginrank.runtime.threads import PerThread, chunk_bounds
from marginrank.runtime.torch_device import Device
from marginrank.typing import FloatArray, IntArray

#: Relative difference between numbers that are the same but for rounding.
_EVEN: Final = 1e-12
#: Relevant documents whose shares are computed together. 1.9 million, of 31,500 queries: 41 ms at once, 18 ms for 2^15
#: and 2^17, 31 ms for 2^12.
_BLOCK: Final = 1 << 15


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
    placement = tuple(_placement(problem))
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
    return TorchInterleaving.of(device, problem.levels, _placement(problem))


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


def _placement(problem: ArgmaxProblem) -> CreditShares:
    (shares, rises), discounts = _shares(problem), problem.discounts
    sums = np.array([discounts, np.cumsum(discounts)])
    return CreditShares(shares, discounts, -np.diff(discounts), sums, rises, problem.scales)


def _shares(problem: ArgmaxProblem) -> tuple[FloatArray, FloatArray]:
    """Return the share of each relevant document by place, 0 at all other places, and the rises of `CreditShares`."""
    two, out = problem.two_levels(), np.zeros(len(problem.levels.documents))
    starts, ends = problem.levels.queries[:-1][problem.active], offsets_from_sizes(two.n_rel)
    slopes = np.zeros(len(starts))
    for first, end in pairwise(chunk_bounds(ends, 1 + int(ends[-1]) // _BLOCK).tolist()):
        n_rel, offsets = two.n_rel[first:end], ends[first : end + 1] - ends[first]
        query = np.repeat(np.arange(end - first), n_rel)
        before = np.arange(len(query)) - offsets[query]
        shares = problem.measure.shares(before + 1, two.take(first + query))
        if shares is None:
            raise TypeError(f"{problem.measure} declares no shares")
        out[starts[first + query] + before] = shares
        lowest, highest = shares[offsets[:-1]], shares[offsets[1:] - 1]
        rise = (highest - lowest) / np.maximum(n_rel - 1, 1)
        off_line = np.abs(lowest[query] + rise[query] * before - shares)
        rise[query[off_line > _EVEN * np.abs(shares)]] = np.nan
        slopes[first:end] = rise
    rises = np.zeros(len(problem.active))
    rises[problem.active] = slopes
    return out, rises
