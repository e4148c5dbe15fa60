"""The step that improves the factors of users: one small convex problem per user, many at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.losses.base import PreparedLoss
from marginrank.recommend.ratings import Ratings
from marginrank.runtime.threads import for_chunks
from marginrank.typing import BoolArray, FloatArray, IntArray

#: Share of the decrease predicted by the gradient that a Newton step has to achieve (Armijo's condition).
_DECREASE: Final = 1e-4
_MOST_HALVINGS: Final = 40
#: Step size towards the minimizer of the planes if the minimizer itself was no better.
_PART: Final = 0.3
#: Objectives differ by rounding errors below this share of them.
_ROUNDING: Final = 1e-14


@dataclass(frozen=True, eq=False)
class UserSolution:
    """Factors of all users, and each user's objective with a lower bound."""

    factors: FloatArray
    objectives: FloatArray
    bounds: FloatArray

    @property
    def gaps(self) -> FloatArray:
        """Upper bound on the distance of each user's objective from its optimum."""
        return np.asarray(self.objectives - self.bounds)


@dataclass(frozen=True, eq=False)
class UserProblem:
    """Minimize ½‖U_u‖² + c_u·ξ_u(base_u + X_u·U_u) for each user u, with the features X_u of the items rated.

    Args:
        ratings: Who rated what.
        loss: The loss of these ratings, prepared, with ξ convex.
        weights: c_u, one per user.
        features: One row per item.
        base: Score of each rating if all U are 0.
        n_jobs: Number of threads; all cores by default.
    """

    ratings: Ratings
    loss: PreparedLoss
    weights: FloatArray
    features: FloatArray
    base: FloatArray
    n_jobs: int | None = None

    def solve(self, start: FloatArray | None = None, tol: float = 1e-6, max_iter: int = 200) -> UserSolution:
        """Minimize until every gap is at most ``tol`` times the objective.

        Losses with a Hessian are minimized by Newton's method with the Hessian of each user, others by cutting planes.
        No objective is above that of the start.
        """
        n, width = len(self.ratings.users), self.features.shape[1]
        factors = np.zeros((n, width)) if start is None else np.array(start, dtype=np.float64)
        objectives, bounds = np.zeros(n), np.zeros(n)
        rows = np.arange(self.ratings.n_ratings)
        scores, score_gradients, room = (np.zeros(self.ratings.n_ratings) for _ in range(3))
        minimize = _newton if self.loss.definition.smooth else _cutting_planes

        def work(first: int, end: int) -> None:
            users = _Users(self, first, end, rows, scores, score_gradients, room)
            reached = minimize(users, factors[first:end], tol, max_iter)
            factors[first:end], objectives[first:end], bounds[first:end] = reached

        for_chunks(work, self.ratings.offsets, self.n_jobs)
        if not self.loss.exact:
            bounds[:] = -np.inf
        return UserSolution(factors, objectives, bounds)


@dataclass(frozen=True, eq=False)
class _Users:
    """Consecutive users, whose problems are solved together: a pass over their ratings serves all of them."""

    problem: UserProblem
    first: int
    end: int
    rows: IntArray
    scores: FloatArray
    score_gradients: FloatArray
    room: FloatArray

    @property
    def weights(self) -> FloatArray:
        return self.problem.weights[self.first : self.end]

    @property
    def _span(self) -> slice:
        offsets = self.problem.ratings.offsets
        return slice(int(offsets[self.first]), int(offsets[self.end]))

    def evaluate(self, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return c·ξ of each user, and its gradient."""
        from marginrank.recommend.factors_kernel import add_scores  # noqa: PLC0415

        problem, ratings = self.problem, self.problem.ratings
        self.scores[self._span] = problem.base[self._span]
        add_scores(factors, problem.features, ratings.item, ratings.offsets, self.scores, self.first, self.end)
        xi = np.zeros(len(ratings.users))
        problem.loss.evaluate(self.scores, xi, self.score_gradients, self.first, self.end)
        return self.weights * xi[self.first : self.end], self.weights[:, None] * self._sum(self.score_gradients)

    def hessians(self) -> FloatArray:
        """Return the Hessian of c·ξ of each user at the point of the last evaluation."""
        problem, span, width = self.problem, self._span, self.problem.features.shape[1]
        hessians = np.empty((self.end - self.first, width, width))
        for factor in range(width):
            self.room[span] = problem.features[problem.ratings.item[span], factor]
            problem.loss.curve(self.scores, self.room, self.score_gradients, self.first, self.end)
            hessians[:, factor] = self.weights[:, None] * self._sum(self.score_gradients)
        return hessians

    def _sum(self, weights: FloatArray) -> FloatArray:
        from marginrank.recommend.factors_kernel import add_factors  # noqa: PLC0415

        ratings = self.problem.ratings
        sums = np.zeros((self.end - self.first, self.problem.features.shape[1]))
        features, offsets = self.problem.features, ratings.offsets
        add_factors(weights, self.rows, ratings.item, features, offsets, sums, self.first, self.end)
        return sums


def _newton(users: _Users, start: FloatArray, tol: float, max_iter: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Minimize by Newton's method; F − ½‖∇F‖² is a lower bound, since F is ½‖U‖² plus a convex function."""
    factors = start.copy()
    risks, risk_gradients = users.evaluate(factors)
    objectives, gradients = 0.5 * _squares(factors) + risks, factors + risk_gradients
    stuck = np.zeros(len(factors), dtype=np.bool_)
    for _ in range(max_iter):
        active = ~stuck & (0.5 * _squares(gradients) > tol * objectives)
        if not active.any():
            break
        hessians = users.hessians() + np.eye(factors.shape[1])
        steps = np.where(active[:, None], np.linalg.solve(hessians, -gradients[:, :, None])[:, :, 0], 0.0)
        moved = _descend(users, factors, steps, objectives, gradients)
        stuck |= active & ~moved
    return factors, objectives, np.maximum(objectives - 0.5 * _squares(gradients), 0.0)


def _descend(
    users: _Users, factors: FloatArray, steps: FloatArray, objectives: FloatArray, gradients: FloatArray
) -> BoolArray:
    """Halve the step of each user until the objective falls; return who moved."""
    promised = np.einsum("uk,uk->u", gradients, steps)
    waiting, lengths, origin = promised < 0, np.ones(len(factors)), factors.copy()
    moved = np.zeros(len(factors), dtype=np.bool_)
    for _ in range(_MOST_HALVINGS):
        factors[waiting] = origin[waiting] + lengths[waiting, None] * steps[waiting]
        risks, risk_gradients = users.evaluate(factors)
        values, there = 0.5 * _squares(factors) + risks, factors + risk_gradients
        good = waiting & (values <= objectives + _DECREASE * lengths * promised)
        # Below rounding errors, values say nothing; a convex function has not risen if its gradient still points down.
        close = np.abs(values - objectives) <= _ROUNDING * np.abs(objectives)
        good |= waiting & close & (np.einsum("uk,uk->u", there, steps) <= 0)
        objectives[good], gradients[good] = values[good], there[good]
        moved |= good
        waiting &= ~good
        if not waiting.any():
            return moved
        lengths[waiting] *= 0.5
    factors[waiting] = origin[waiting]
    users.evaluate(factors)
    return moved


def _cutting_planes(
    users: _Users, start: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Minimize by cutting planes of c·ξ; the minimum over the planes of a user is a lower bound."""
    from marginrank.recommend.factors_kernel import minimize_planes  # noqa: PLC0415

    bundle = _UserPlanes(*start.shape)
    best, trial = start.copy(), start.copy()
    objectives, bounds = np.full(len(start), np.inf), np.zeros(len(start))
    active, minimizer = np.ones(len(start), dtype=np.bool_), np.zeros_like(start)
    partly = np.zeros(len(start), dtype=np.bool_)
    for _ in range(max_iter):
        risks, gradients = users.evaluate(trial)
        values = 0.5 * _squares(trial) + risks
        better = active & (values < objectives)
        best[better], objectives[better] = trial[better], values[better]
        bundle.add(trial, risks, gradients, active)
        allowed = 0.1 * tol * objectives
        minimize_planes(*bundle.arrays, active, allowed, minimizer, bounds)
        active &= objectives - bounds > tol * objectives
        if not active.any():
            break
        partly = ~better & ~partly
        trial = np.where(partly[:, None], best + _PART * (minimizer - best), minimizer)
    return best, objectives, np.minimum(bounds, objectives)


class _UserPlanes:
    """Cutting planes of many small problems; plane 0 of each says that the risk is not negative."""

    def __init__(self, n: int, width: int) -> None:
        most = 2 * width + 30
        self._planes, self._offsets = np.zeros((n, most, width)), np.zeros((n, most))
        self._gram, self._alpha = np.zeros((n, most, most)), np.zeros((n, most))
        self._alpha[:, 0] = 1.0
        self._n = np.ones(n, dtype=np.int64)

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, IntArray]:
        """Gradients, offsets, Gram matrices, weights and numbers of the planes."""
        return self._planes, self._offsets, self._gram, self._alpha, self._n

    def add(self, factors: FloatArray, risks: FloatArray, gradients: FloatArray, active: BoolArray) -> None:
        """Add the plane that touches the risk of each active problem."""
        from marginrank.recommend.factors_kernel import add_planes  # noqa: PLC0415

        offsets = risks - np.einsum("uk,uk->u", gradients, factors)
        add_planes(*self.arrays, active, gradients, offsets)


def _squares(factors: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("uk,uk->u", factors, factors))
