"""Products with factors of users and items, and the dual solver of small cutting-plane problems."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

#: Share of the values below which the gap of a small problem is rounding error.
_ROUNDING = 1e-14


@njit()
def add_scores(users, items, item, offsets, scores, first, end):  # type: ignore[no-untyped-def]
    """Add the product of the factors of user and item to the score of each rating; users are numbered from first."""
    for user in range(first, end):
        for row in range(offsets[user], offsets[user + 1]):
            at, total = item[row], 0.0
            for factor in range(users.shape[1]):
                total += users[user - first, factor] * items[at, factor]
            scores[row] += total


@njit()
def add_factors(weights, order, opposite, factors, offsets, sums, first, end):  # type: ignore[no-untyped-def]
    """Add to each user, or item, the factors on the opposite side of its ratings times the weights of the ratings."""
    for entity in range(first, end):
        for place in range(offsets[entity], offsets[entity + 1]):
            row = order[place]
            weight, at = weights[row], opposite[row]
            for factor in range(factors.shape[1]):
                sums[entity - first, factor] += weight * factors[at, factor]


@njit()
def spread_factors(weights, users, item, offsets, sums, first, end):  # type: ignore[no-untyped-def]
    """Add to the items that some users rated the factors of these users times the weights of the ratings."""
    for user in range(first, end):
        for row in range(offsets[user], offsets[user + 1]):
            weight, at = weights[row], item[row]
            for factor in range(users.shape[1]):
                sums[at, factor] += weight * users[user, factor]


@njit()
def add_products(weights, order, opposite, factors, offsets, chosen, sums, first, end):  # type: ignore[no-untyped-def]
    """Add to some users, or items, x·x' times the weight of each rating, with the factors x on its opposite side."""
    width = factors.shape[1]
    for number in range(first, end):
        entity = chosen[number]
        for place in range(offsets[entity], offsets[entity + 1]):
            row = order[place]
            weight, at = weights[row], opposite[row]
            for left in range(width):
                scaled = weight * factors[at, left]
                for right in range(left + 1):
                    sums[number, left, right] += scaled * factors[at, right]
        for left in range(width):
            for right in range(left):
                sums[number, right, left] = sums[number, left, right]


@njit()
def add_planes(planes, offsets, gram, alpha, n_planes, active, gradients, heights):  # type: ignore[no-untyped-def]
    """Add a plane to each active problem; if there is no room, it replaces the plane with the smallest weight."""
    most = planes.shape[1]
    for number in range(len(active)):
        if not active[number]:
            continue
        place = n_planes[number]
        if place == most:
            # Plane 0 stays: it says that the risk is not negative.
            place = 1
            for plane in range(2, most):
                if alpha[number, plane] < alpha[number, place]:
                    place = plane
            alpha[number, 0] += alpha[number, place]
            alpha[number, place] = 0.0
        else:
            n_planes[number] += 1
        for factor in range(planes.shape[2]):
            planes[number, place, factor] = gradients[number, factor]
        offsets[number, place] = heights[number]
        for plane in range(n_planes[number]):
            product = 0.0
            for factor in range(planes.shape[2]):
                product += planes[number, plane, factor] * gradients[number, factor]
            gram[number, place, plane] = product
            gram[number, plane, place] = product


@njit()
def minimize_planes(planes, offsets, gram, alpha, n_planes, active, tol, theta, bounds):  # type: ignore[no-untyped-def]
    """Minimize ½‖θ‖² + max_j (a_j·θ + b_j) for each active problem; a dual point bounds the minimum from below.

    In the dual, weights α of the planes sum to 1 and θ = −Σ α_j a_j. Weight is moved from the lowest plane that has
    some to the highest, as far as helps, until the highest is no higher than the mean by more than ``tol``.
    """
    heights = np.empty(planes.shape[1])
    for number in range(len(active)):
        if not active[number]:
            continue
        n = n_planes[number]
        for plane in range(n):
            heights[plane] = offsets[number, plane]
            for second in range(n):
                heights[plane] -= gram[number, plane, second] * alpha[number, second]
        for _ in range(200 * n):
            highest, lowest, mean = 0, -1, 0.0
            for plane in range(n):
                if heights[plane] > heights[highest]:
                    highest = plane
                if alpha[number, plane] > 0.0:
                    mean += alpha[number, plane] * heights[plane]
                    if lowest < 0 or heights[plane] < heights[lowest]:
                        lowest = plane
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
            for plane in range(n):
                heights[plane] -= moved * (gram[number, plane, highest] - gram[number, plane, lowest])
        bound = 0.0
        theta[number] = 0.0
        for plane in range(n):
            if alpha[number, plane] > 0.0:
                bound += alpha[number, plane] * offsets[number, plane]
                for factor in range(planes.shape[2]):
                    theta[number, factor] -= alpha[number, plane] * planes[number, plane, factor]
        for factor in range(planes.shape[2]):
            bound -= 0.5 * theta[number, factor] ** 2
        bounds[number] = max(bounds[number], bound)
