"""Ranking matrix factorization by alternating convex steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from marginrank.losses.base import Loss
from marginrank.recommend.item_step import ItemRisk
from marginrank.recommend.ratings import Ratings
from marginrank.recommend.user_step import UserProblem
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.threads import for_chunks
from marginrank.solvers.base import Solver
from marginrank.solvers.solution import Reason
from marginrank.typing import BoolArray, FloatArray

#: The side that a half step improves.
Side: TypeAlias = Literal["start", "users", "items"]
#: Returns better factors, the objective, and its gap, given factors and their objective.
Step: TypeAlias = Callable[["Factors", float], tuple["Factors", float, float]]
#: Lengths to try for the start along the leading singular vectors of the gradient.
_LENGTHS: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True, eq=False)
class Factors:
    """The parameters and fixed columns that scores are computed from.

    With fixed columns x_u of users and z_i of items, the score is x_u·A_i + z_i·(w + B_u) + U_u·V_i. A row of ``users``
    is B_u and then U_u, a row of ``items`` is A_i and then V_i. Item biases are the A_i of a constant column of users.
    """

    user_columns: FloatArray
    item_columns: FloatArray
    users: FloatArray
    items: FloatArray
    shared: FloatArray

    @classmethod
    def zero(cls, user_columns: FloatArray, item_columns: FloatArray, n_factors: int) -> Factors:
        """Return factors that give every item the score 0."""
        (n_users, n_x), (n_items, n_z) = user_columns.shape, item_columns.shape
        return cls(
            np.ascontiguousarray(user_columns, dtype=np.float64),
            np.ascontiguousarray(item_columns, dtype=np.float64),
            np.zeros((n_users, n_z + n_factors)),
            np.zeros((n_items, n_x + n_factors)),
            np.zeros(n_z),
        )

    @property
    def user_rows(self) -> FloatArray:
        """A row for each user; its product with the row of an item is the score."""
        n = len(self.shared)
        return np.hstack([self.user_columns, self.users[:, :n] + self.shared, self.users[:, n:]])

    @property
    def item_rows(self) -> FloatArray:
        """A row for each item; its product with the row of a user is the score."""
        n = self.user_columns.shape[1]
        return np.hstack([self.items[:, :n], self.item_columns, self.items[:, n:]])

    @property
    def features(self) -> FloatArray:
        """The multipliers of users' parameters: fixed columns and factors of each item."""
        return np.hstack([self.item_columns, self.items[:, self.user_columns.shape[1] :]])

    @property
    def norm(self) -> float:
        """½ of the sum of all squares of what is learned."""
        return 0.5 * float(sum(np.vdot(part, part) for part in (self.users, self.items, self.shared)))

    def base(self, ratings: Ratings) -> FloatArray:
        """Return the scores of ratings without the own parameters of users, who are those of the fixed columns."""
        fixed = products(ratings, self.user_columns, self.items[:, : self.user_columns.shape[1]])
        return np.asarray(fixed + (self.item_columns @ self.shared)[ratings.item])


@dataclass(frozen=True)
class HalfStep:
    """The objective after a half step, and an upper bound on its distance from the optimum of the half step."""

    side: Side
    objective: float
    gap: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Factorization:
    """Minimize ½‖B‖² + ½‖U‖² + ½‖A‖² + ½‖V‖² + ½‖w‖² + C·Σ_u n_u·ξ_u: Le and Smola (2008) §5.2, with columns.

    n_u is the number of ratings of user u, times the weight of the user if there are weights.

    The paper alternates: with the factors of items given, every user has a small convex problem; with those of users
    given, there is one convex problem in the factors of items. Both come with certificates, and neither step ever
    raises the objective. It is convex in either but not in both, so the result depends on the start: the leading
    singular vectors of the gradient of the loss, at the optimum of biases and fixed columns alone.

    Args:
        ratings: Who rated what.
        loss: A convex loss.
        C: Weight of the loss, for each rating of a user.
        solver: How the problem of the items is solved; its tolerance is that of the users too.
        max_iter: Maximum number of rounds, of two half steps each.
        tol: Relative fall of the objective in a round at which to stop.
        time_limit: Maximum number of seconds.
        seed: Seed of the start of the singular vectors.
        n_jobs: Number of threads; all cores by default.
        callback: Called after every half step; True stops.
    """

    ratings: Ratings
    loss: Loss
    C: float
    solver: Solver
    max_iter: int = 30
    tol: float = 1e-4
    time_limit: float = np.inf
    seed: int | None = 0
    n_jobs: int | None = None
    callback: Callable[[HalfStep], bool | None] | None = None

    def run(self, factors: Factors, *, warm: bool = False) -> tuple[Factors, tuple[HalfStep, ...], Reason]:
        """Alternate from given factors; without ``warm``, they are 0 and a start is computed.

        Ctrl-C, the time limit or a callback that returns True ends with the factors reached.

        Returns:
            The factors, the objective after every half step, and why it ended.
        """
        work = _Work(self, time.perf_counter())
        trace = [HalfStep("start", work.objective(factors), np.inf, work.seconds)]
        try:
            for side, step in work.steps(warm):
                reached, objective, gap = step(factors, trace[-1].objective)
                # A step without progress may differ by a rounding error; it is not taken.
                if objective < trace[-1].objective:
                    factors = reached
                objective = min(objective, trace[-1].objective)
                trace.append(HalfStep(side, objective, gap, work.seconds))
                reason = self._reason(work, trace)
                if reason is not None:
                    return factors, tuple(trace), reason
        except KeyboardInterrupt:
            if len(trace) < 2:
                raise
            return factors, tuple(trace), "interrupted"
        return factors, tuple(trace), "max_iter"

    def _reason(self, work: _Work, trace: Sequence[HalfStep]) -> Reason | None:
        """Return why to stop after a half step; None to continue."""
        if self.callback is not None and self.callback(trace[-1]):
            return "callback"
        if work.interrupted:
            return "interrupted"
        if work.late:
            return "time_limit"
        return "stationary" if trace[-1].side == "items" and self._settled(trace) else None

    def _settled(self, trace: Sequence[HalfStep]) -> bool:
        """Tell whether the last round, of users and items, made hardly any progress."""
        if len(trace) < 3 or trace[-2].side != "users":
            return False
        before = trace[-3].objective
        return before - trace[-1].objective <= self.tol * abs(before)


class _Work:
    """The half steps of one training, with the loss prepared once."""

    def __init__(self, task: Factorization, began: float) -> None:
        ratings = task.ratings
        self.task, self.began = task, began
        self.interrupted = False
        self.loss = task.loss.prepare(ratings.values, ratings.offsets)
        self.weights = user_weights(task.C, ratings, self.loss.active)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def late(self) -> bool:
        return self.seconds > self.task.time_limit

    def steps(self, warm: bool) -> Iterator[tuple[Side, Step]]:
        """Yield the half steps in order: a start if there is none, then rounds."""
        if not warm:
            yield "items", self.item_step
            yield "start", self.begin
        for _ in range(self.task.max_iter):
            yield "users", self.user_step
            yield "items", self.item_step

    def _users(self, factors: Factors) -> UserProblem:
        ratings = self.task.ratings
        base, features = factors.base(ratings), factors.features
        return UserProblem(ratings, self.loss, self.weights, features, base, self.task.n_jobs)

    def _items(self, factors: Factors) -> ItemRisk:
        ratings, n = self.task.ratings, len(factors.shared)
        columns = np.hstack([factors.user_columns, factors.users[:, n:]])
        base = products(ratings, factors.users[:, :n], factors.item_columns, self.task.n_jobs)
        return ItemRisk(ratings, self.loss, self.weights, columns, factors.item_columns, base, self.task.n_jobs)

    def objective(self, factors: Factors) -> float:
        return factors.norm + self._items(factors)(_theta(factors))[0]

    def user_step(self, factors: Factors, _: float) -> tuple[Factors, float, float]:
        """Return better factors of users, the objective, and its gap to the optimum for these items."""
        solution = self._users(factors).solve(factors.users, self.task.solver.tol)
        reached = replace(factors, users=solution.factors)
        rest = reached.norm - 0.5 * float(np.vdot(reached.users, reached.users))
        return reached, rest + float(solution.objectives.sum()), float(solution.gaps.sum())

    def item_step(self, factors: Factors, _: float) -> tuple[Factors, float, float]:
        """Return better factors of items, the objective, and its gap to the optimum for these users."""
        problem = self._items(factors)
        left = max(self.task.time_limit - self.seconds, 1e-3)
        solver = replace(self.task.solver, time_limit=min(self.task.solver.time_limit, left))
        solution = solver.minimize(problem, 1.0, _theta(factors))
        self.interrupted = solution.reason == "interrupted"
        items = factors.items.size
        reached = replace(
            factors, items=solution.theta[:items].reshape(factors.items.shape), shared=solution.theta[items:]
        )
        users = 0.5 * float(np.vdot(factors.users, factors.users))
        return reached, users + solution.primal, solution.gap

    def begin(self, factors: Factors, objective: float) -> tuple[Factors, float, float]:
        """Return a start for factors that are 0: a step along the leading singular vectors of the gradient.

        A product of factors t·uv' costs t in the regularizer and gains t·σ at first, where σ is the singular value of
        the gradient. So the factors stay 0 if no σ is above 1.
        """
        left, values, right = self._leading(factors)
        n_factors = factors.users.shape[1] - len(factors.shared)
        room = np.sqrt(np.maximum(values - 1.0, 0.0) / np.maximum(values.max(initial=0.0), 1e-300))
        best = factors
        for length in _LENGTHS if room.any() else ():
            users, items = factors.users.copy(), factors.items.copy()
            users[:, -n_factors:][:, : len(room)] = length * room * left
            items[:, -n_factors:][:, : len(room)] = length * room * right
            trial = replace(factors, users=users, items=items)
            reached = self.objective(trial)
            if reached >= objective:
                break
            best, objective = trial, reached
        return best, objective, np.inf

    def _leading(self, factors: Factors) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return leading singular vectors and values of the matrix of −∂/∂s, users × items."""
        ratings = self.task.ratings
        shape = len(ratings.users), len(ratings.items)
        scores = products(ratings, factors.user_rows, factors.item_rows, self.task.n_jobs)
        gradient = -self.loss(scores, self.task.n_jobs)[1] * np.repeat(self.weights, np.diff(ratings.offsets))
        matrix = sp.csr_array((gradient, ratings.item, ratings.offsets), shape=shape)
        n_factors = factors.users.shape[1] - len(factors.shared)
        return leading_singular(matrix, n_factors, self.task.seed)


def products(ratings: Ratings, users: FloatArray, items: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Return the product of the rows of user and item of each rating.

    >>> mine = Ratings.of((["ann", "bob"], ["x", "y"], [1, 1]))
    >>> products(mine, np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])).tolist()
    [17.0, 53.0]
    """
    from marginrank.recommend.factors_kernel import add_scores  # noqa: PLC0415

    rows, columns = np.ascontiguousarray(users), np.ascontiguousarray(items)
    scores = np.zeros(ratings.n_ratings)

    def work(first: int, end: int) -> None:
        add_scores(rows[first:end], columns, ratings.item, ratings.offsets, scores, first, end)

    for_chunks(work, ratings.offsets, n_jobs)
    return scores


def user_weights(C: float, ratings: Ratings, active: BoolArray, unit: float | None = None) -> FloatArray:
    """Return the weight of the loss of each user: C per rating, times the user's weight; 0 if all ratings are equal.

    ξ is a mean over the items of a user, so users with few ratings keep closer to what all users share.

    Args:
        C: Weight of the loss for each rating.
        ratings: Who rated what.
        active: Which users have items of different rating.
        unit: Weight of a user that counts once; the mean by default.
    """
    weights = ratings.weights
    given = np.ones(len(ratings.users)) if weights is None else weights / (weights.mean() if unit is None else unit)
    return np.where(active, C * given * np.diff(ratings.offsets), 0.0)


def leading_singular(matrix: sp.csr_array, rank: int, seed: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the leading left singular vectors, singular values and right singular vectors, in columns.

    >>> left, values, right = leading_singular(sp.csr_array(np.diag([3.0, 0.0, 5.0])), 2, seed=0)
    >>> values.round(6).tolist(), np.abs(left).round(6).tolist()
    ([5.0, 3.0], [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    """
    few = min(matrix.shape)
    if rank >= few - 1 or few <= 2:
        left, values, right = np.linalg.svd(matrix.toarray(), full_matrices=False)
    else:
        from scipy.sparse.linalg import svds  # noqa: PLC0415

        start = np.random.default_rng(seed).standard_normal(few)
        left, values, right = svds(matrix, k=rank, v0=start)
        order = np.argsort(-values, kind="stable")
        left, values, right = left[:, order], values[order], right[order]
    left, values, right = left[:, :rank], values[:rank], right[:rank].T
    # The sign of a singular vector is arbitrary; make its largest entry positive.
    signs = np.sign(left[np.argmax(np.abs(left), axis=0), np.arange(left.shape[1])])
    signs[signs == 0] = 1.0
    return left * signs, values, right * signs


def _theta(factors: Factors) -> FloatArray:
    return np.concatenate([factors.items.ravel(), factors.shared])
