"""The step that improves the factors of items: one convex problem in all of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, cast

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.losses.base import PreparedLoss
from marginrank.recommend.ratings import Ratings
from marginrank.runtime.threads import chunk_bounds, for_chunks, for_each
from marginrank.runtime.tuned_constants import CHUNKS
from marginrank.solvers.problem import Capability, Problem
from marginrank.typing import FloatArray, IntArray

#: Most parts that the risk is given in, and numbers in all subgradients of an evaluation.
_PARTS: Final = 16
_ROOM: Final = 1 << 20


class ItemRisk(Problem):
    """Σ_u c_u·ξ_u as a function of the factors of items and of weights of item features that all users share.

    The score of a rating is base + A_u·B_i + z_i·w, with the given factors A_u of its user, the factors B_i of its
    item, and the features z_i of the item. θ is B, row by row, and then w.

    Args:
        ratings: Who rated what.
        loss: The loss of these ratings, prepared, with ξ convex.
        weights: c_u, one per user.
        users: A, one row per user.
        features: z, one row per item.
        base: Score of each rating if θ is 0.
        n_jobs: Number of threads; all cores by default.
    """

    def __init__(
        self,
        ratings: Ratings,
        loss: PreparedLoss,
        weights: FloatArray,
        users: FloatArray,
        features: FloatArray,
        base: FloatArray,
        n_jobs: int | None = None,
    ) -> None:
        self.ratings, self.loss, self.weights = ratings, loss, weights
        self._users, self._features, self._base = np.ascontiguousarray(users), features, base
        self._shape = len(ratings.items), users.shape[1]
        self.n_parameters = self._shape[0] * self._shape[1] + features.shape[1]
        self._row_weights = np.repeat(weights, np.diff(ratings.offsets))
        self._n_jobs = n_jobs
        self._scores, self._moves, self._gradient = (np.zeros(ratings.n_ratings) for _ in range(3))
        self._at: FloatArray | None = None

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]
        """Products with the Hessian, for smooth losses."""
        return cast("frozenset[Capability]", frozenset({"hessian"} if self.loss.definition.smooth else ()))

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether all values so far were computed exactly."""
        return self.loss.exact

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at θ and a subgradient."""
        return float(self._evaluate(theta).sum()), self._collect(self._gradient)

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the risk of each of a fixed number of chunks of users, and its subgradient."""
        from marginrank.recommend.factors_kernel import spread_factors  # noqa: PLC0415

        values = self._evaluate(theta)
        weighted = self._gradient * self._row_weights
        chunks = _runs(self.ratings.offsets, max(1, min(_PARTS, _ROOM // self.n_parameters)))
        gradients = np.zeros((len(chunks), self.n_parameters))
        item, offsets = self.ratings.item, self.ratings.offsets

        def work(part: int, first: int, end: int) -> None:
            items, shared = self._split(gradients[part])
            spread_factors(weighted, self._users, item, offsets, items, first, end)
            rows = slice(offsets[first], offsets[end])
            shared += np.bincount(item[rows], weighted[rows], minlength=self._shape[0]) @ self._features

        for_each(work, [(part, *run) for part, run in enumerate(chunks)], self._n_jobs)
        return np.array([values[first:end].sum() for first, end in chunks]), gradients

    def _evaluate(self, theta: FloatArray) -> FloatArray:
        """Return c·ξ of each user, and store scores and gradients."""
        xi = np.zeros(len(self.ratings.users))
        self._scores[:] = self._base
        self._add_scores(theta, self._scores)
        self._at = np.array(theta)

        def work(first: int, end: int) -> None:
            self.loss.evaluate(self._scores, xi, self._gradient, first, end)

        for_chunks(work, self.ratings.offsets, self._n_jobs)
        return self.weights * xi

    def _move_to(self, theta: FloatArray) -> None:
        if self._at is None or not np.array_equal(self._at, theta):
            self._evaluate(theta)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of the risk at θ times a direction."""
        self._move_to(theta)
        self._moves[:] = 0.0
        self._add_scores(direction, self._moves)
        product = np.zeros_like(self._moves)

        def work(first: int, end: int) -> None:
            self.loss.curve(self._scores, self._moves, product, first, end)

        for_chunks(work, self.ratings.offsets, self._n_jobs)
        return self._collect(product)

    def preconditioner_passes(self, C: float) -> float:  # noqa: ARG002
        """Return 0: the diagonal of the Hessian of the loss is all that is needed."""
        return 0.0

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return products with the inverse of I + C·Hessian, of which it takes the block of each item.

        Items with no more ratings than parameters, and the weights that all users share, have the diagonal alone: the
        blocks of so many items would need more room than the ratings.
        """
        self._move_to(theta)
        weighted = C * self._row_weights * self.loss.diagonal(self._scores)
        rich = np.flatnonzero(self.ratings.item_counts > self._shape[1])
        inverses = np.linalg.inv(np.eye(self._shape[1]) + self._blocks(weighted, rich))
        diagonal = 1.0 + self._sums(weighted, self._users**2, self._features**2)

        def solve(vector: FloatArray) -> FloatArray:
            solved = vector / diagonal
            (items, _), (given, _) = self._split(solved), self._split(vector)
            items[rich] = np.einsum("ikj,ij->ik", inverses, given[rich])
            return solved

        return solve

    def _blocks(self, weighted: FloatArray, chosen: IntArray) -> FloatArray:
        """Return Σ A_u·A_u' over the ratings of each chosen item, times their weights."""
        from marginrank.recommend.factors_kernel import add_products  # noqa: PLC0415

        ratings, width = self.ratings, self._shape[1]
        blocks, offsets = np.zeros((len(chosen), width, width)), ratings.item_offsets

        def work(first: int, end: int) -> None:
            add_products(weighted, ratings.by_item, ratings.user, self._users, offsets, chosen, blocks, first, end)

        for_each(work, _runs(offsets_from_sizes(ratings.item_counts[chosen])), self._n_jobs)
        return blocks

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        n = self._shape[0] * self._shape[1]
        return theta[:n].reshape(self._shape), theta[n:]

    def _add_scores(self, theta: FloatArray, scores: FloatArray) -> None:
        from marginrank.recommend.factors_kernel import add_scores  # noqa: PLC0415

        items, shared = self._split(np.ascontiguousarray(theta))
        if len(shared):
            scores += (self._features @ shared)[self.ratings.item]
        item, offsets = self.ratings.item, self.ratings.offsets

        def work(first: int, end: int) -> None:
            add_scores(self._users[first:end], items, item, offsets, scores, first, end)

        for_chunks(work, offsets, self._n_jobs)

    def _collect(self, gradients: FloatArray) -> FloatArray:
        """Return the gradient with respect to θ, given that of each ξ with respect to the scores."""
        return self._sums(gradients * self._row_weights, self._users, self._features)

    def _sums(self, weighted: FloatArray, users: FloatArray, features: FloatArray) -> FloatArray:
        """Sum the rows of the users of each item, and the features of items, always in the same order."""
        from marginrank.recommend.factors_kernel import add_factors  # noqa: PLC0415

        ratings, total = self.ratings, np.zeros(self.n_parameters)
        items, shared = self._split(total)
        offsets, order = ratings.item_offsets, ratings.by_item

        def work(first: int, end: int) -> None:
            add_factors(weighted, order, ratings.user, users, offsets, items[first:end], first, end)

        for_each(work, _runs(offsets), self._n_jobs)
        if len(shared):
            shared[:] = np.bincount(ratings.item, weighted, minlength=self._shape[0]) @ features
        return total


def _runs(offsets: IntArray, most: int = CHUNKS) -> list[tuple[int, int]]:
    return list(pairwise(chunk_bounds(offsets, most).tolist()))
