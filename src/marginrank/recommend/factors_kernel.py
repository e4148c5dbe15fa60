"""Scores of users and items from their factors, what slopes add up to, and small problems of planes."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Share of the values below which the gap of a small problem is rounding error.
_ROUNDING = 1e-14


@njit(nogil=True, cache=True, allocates=False)
def add_scores(users, items, item, offsets, scores, first, end):  # type: ignore[no-untyped-def]
    """Add the product of the factors of user and item to the score of each rating; users are numbered from first."""
    for user in range(first, end):
        for row in range(offsets[user], offsets[user + 1]):
            at, total = item[row], 0.0
            for factor in range(users.shape[1]):
                total += users[user - first, factor] * items[at, factor]
            scores[row] += total


@njit(nogil=True, cache=True, allocates=False)
def add_slopes(slopes, order, other, factors, offsets, sums, first, end):  # type: ignore[no-untyped-def]
    """Add to each user, or item, the factors on the other side of its ratings times their slopes."""
    for one in range(first, end):
        for place in range(offsets[one], offsets[one + 1]):
            row = order[place]
            slope, at = slopes[row], other[row]
            for factor in range(factors.shape[1]):
                sums[one - first, factor] += slope * factors[at, factor]


@njit(nogil=True, cache=True, allocates=False)
def spread_slopes(slopes, users, item, offsets, sums, first, end):  # type: ignore[no-untyped-def]
    """Add to the items that some users rated the factors of these users times the slopes of the ratings."""
    for user in range(first, end):
        for row in range(offsets[user], offsets[user + 1]):
            slope, at = slopes[row], item[row]
            for factor in range(users.shape[1]):
                sums[at, factor] += slope * users[user, factor]


@njit(nogil=True, cache=True, allocates=False)
def add_products(weights, order, other, factors, offsets, chosen, sums, first, end):  # type: ignore[no-untyped-def]
    """Add to some users, or items, x·x' times the weight of each rating, with the factors x on its other side."""
    width = factors.shape[1]
    for number in range(first, end):
        one = chosen[number]
        for place in range(offsets[one], offsets[one + 1]):
            row = order[place]
            weight, at = weights[row], other[row]
            for left in range(width):
                scaled = weight * factors[at, left]
                for right in range(left + 1):
                    sums[number, left, right] += scaled * factors[at, right]
        for left in range(width):
            for right in range(left):
                sums[number, right, left] = sums[number, left, right]


@njit(nogil=True, cache=True, allocates=False)
def add_planes(planes, offsets, gram, alpha, n_planes, active, slopes, heights):  # type: ignore[no-untyped-def]
    """Add a plane to each active problem; where there is no room, in the place of the one with the least weight."""
    most = planes.shape[1]
    for number in range(len(active)):
        if not active[number]:
            continue
        place = n_planes[number]
        if place == most:
            # Plane 0 stays: it says that the risk is not negative.
            place = 1
            for other in range(2, most):
                if alpha[number, other] < alpha[number, place]:
                    place = other
            alpha[number, 0] += alpha[number, place]
            alpha[number, place] = 0.0
        else:
            n_planes[number] += 1
        for factor in range(planes.shape[2]):
            planes[number, place, factor] = slopes[number, factor]
        offsets[number, place] = heights[number]
        for other in range(n_planes[number]):
            product = 0.0
            for factor in range(planes.shape[2]):
                product += planes[number, other, factor] * slopes[number, factor]
            gram[number, place, other] = product
            gram[number, other, place] = product


@njit(nogil=True, cache=True)
def minimize_planes(planes, offsets, gram, alpha, n_planes, active, tol, theta, bounds):  # type: ignore[no-untyped-def]
    """Minimise ½‖θ‖² + max_j (a_j·θ + b_j) for each active problem; a dual point bounds the minimum from below.

    In the dual, weights α of the planes sum to 1 and θ = −Σ α_j a_j. Weight is moved from the lowest plane that has
    some to the highest, as far as helps, until the highest is no higher than the mean by more than ``tol``.
    """
    heights = np.empty(planes.shape[1])
    for number in range(len(active)):
        if not active[number]:
            continue
        n = n_planes[number]
        for one in range(n):
            heights[one] = offsets[number, one]
            for other in range(n):
                heights[one] -= gram[number, one, other] * alpha[number, other]
        for _ in range(200 * n):
            highest, lowest, mean = 0, -1, 0.0
            for one in range(n):
                if heights[one] > heights[highest]:
                    highest = one
                if alpha[number, one] > 0.0:
                    mean += alpha[number, one] * heights[one]
                    if lowest < 0 or heights[one] < heights[lowest]:
                        lowest = one
            if heights[highest] - mean <= tol[number] or highest == lowest:
                break
            curve = gram[number, highest, highest] - 2.0 * gram[number, highest, lowest]
            curve += gram[number, lowest, lowest]
            moved = alpha[number, lowest]
            rise = heights[highest] - heights[lowest]
            if curve * moved > rise:
                moved = rise / curve
            if moved <= _ROUNDING * alpha[number, lowest]:
                break
            alpha[number, highest] += moved
            alpha[number, lowest] -= moved
            for one in range(n):
                heights[one] -= moved * (gram[number, one, highest] - gram[number, one, lowest])
        bound = 0.0
        theta[number] = 0.0
        for one in range(n):
            if alpha[number, one] > 0.0:
                bound += alpha[number, one] * offsets[number, one]
                for factor in range(planes.shape[2]):
                    theta[number, factor] -= alpha[number, one] * planes[number, one, factor]
        for factor in range(planes.shape[2]):
            bound -= 0.5 * theta[number, factor] ** 2
        bounds[number] = max(bounds[number], bound)
