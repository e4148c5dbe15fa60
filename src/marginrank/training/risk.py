"""The risk of a loss as a function of the parameters of a scorer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias, cast

import numpy as np

from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.runtime.threads import chunk_bounds, for_each, thread_count
from marginrank.runtime.tuned_constants import (
    FEW_PARAMETERS,
    MAX_BLOCK_BYTES,
    MAX_PARTS,
    N_BLOCKS,
    PARTS,
    PROGRAM_BYTES,
    SIGNED_PARTS,
    WIDE_NUMBERS,
    WIDE_PARTS,
)
from marginrank.scorers.base import Prepared, PreparedScorer
from marginrank.solvers.problem import Capability, Problem, Segment
from marginrank.solvers.stopping import summed
from marginrank.training.intercept import center_scorer
from marginrank.training.preconditioner import SampledHessian, draw, sampled_hessian
from marginrank.typing import FloatArray, IntArray

#: Consecutive queries: the first of each chunk, and the one after its last.
Chunks: TypeAlias = Sequence[tuple[int, int]]

#: Bytes that planes may take, whatever the features take.
_PLANE_BYTES: Final = 1 << 26


def count_parts(scorer: Prepared) -> int:
    """Return the number of parts of the risk: some twenty planes of each take no more memory than the features.

    Wide data, with no more documents than parameters, has few: a pass over it takes less time than a program.
    """
    n = max(1, scorer.n_parameters)
    if n > FEW_PARAMETERS and isinstance(scorer, PreparedScorer) and scorer.queries.n_documents <= n:
        return max(1, min(WIDE_PARTS, WIDE_NUMBERS // n))
    signed = scorer.signs is not None and bool(scorer.signs.any())
    at_hand = isinstance(scorer, PreparedScorer) and scorer.gpu_rows is None
    most = SIGNED_PARTS if signed else PARTS
    if n <= FEW_PARAMETERS and at_hand and not signed:
        # The number of passes falls with the root of the parts, so that passes and programs should take the same time.
        most = min(MAX_PARTS, max(PARTS, scorer.n_bytes // (PROGRAM_BYTES * n * n)))
    room = max(_PLANE_BYTES, scorer.n_bytes // 4)
    return max(1, min(most, room // (20 * 8 * n)))


def cut(scorer: PreparedScorer) -> tuple[list[tuple[int, int]], IntArray]:
    """Return chunks of queries whose gradients are summed separately, and the first chunk of each part."""
    queries, n_parts = scorer.queries, count_parts(scorer)
    # The gradient sums of all chunks are in memory until the end of an evaluation, when they are added up.
    most = max(8, scorer.n_bytes // (16 * 8 * max(1, scorer.n_parameters)))
    n_chunks = max(n_parts, min(scorer.n_bytes // _block_bytes(scorer), most))
    bounds, starts = [0], []
    part_bounds = chunk_bounds(queries.offsets, n_parts)
    for first, end in pairwise(part_bounds.tolist()):
        starts.append(len(bounds) - 1)
        inside = chunk_bounds(queries.offsets[first : end + 1], -(-n_chunks // n_parts))
        bounds.extend((first + inside[1:]).tolist())
    return list(pairwise(bounds)), np.array(starts, dtype=np.int64)


def _block_bytes(scorer: PreparedScorer) -> int:
    """Return the bytes of features that a thread scores and pulls back together."""
    return max(scorer.block_bytes, min(scorer.n_bytes // N_BLOCKS, MAX_BLOCK_BYTES))


def join(chunks: Chunks, offsets: IntArray, scorer: PreparedScorer) -> list[tuple[int, int]]:
    """Return ranges of chunks that are evaluated together: as many as fit into a block."""
    bytes_per_row, most = scorer.n_bytes / max(1, int(offsets[-1])), _block_bytes(scorer)
    tasks, first = [], 0
    for number in range(1, len(chunks) + 1):
        together = number < len(chunks) and offsets[chunks[number][1]] - offsets[chunks[first][0]]
        if number == len(chunks) or together * bytes_per_row > most:
            tasks.append((first, number))
            first = number
    return tasks


class RankingRisk(Problem):
    """Mean loss over the queries with more than one grade, and its gradient, as a function of parameters θ.

    Each evaluation reads the features once: a few queries at a time are scored, and the gradient with respect to their
    scores is pulled back to the parameters while the features are still in the cache. Results do not depend on the
    number of threads.

    Args:
        scorer: A scorer prepared for the queries.
        loss: The loss.
        n_jobs: Number of threads; all cores by default.
        center: Minimizer of the regularizer; 0 by default.
        base: Scores that are added to those of the scorer; none by default.

    >>> from marginrank.data import Queries
    >>> from marginrank.losses import StructuredLoss
    >>> from marginrank.training import empirical_risk
    >>> queries = Queries.from_arrays([[1.0, 0.0], [0.0, 1.0]], [1, 0], group=[2])
    >>> value, gradient = empirical_risk(queries, StructuredLoss("auc", "po"))(np.array([0.25, 0.0]))
    >>> value, gradient.tolist()
    (0.5, [-2.0, 2.0])
    """

    def __init__(
        self,
        scorer: PreparedScorer,
        loss: Loss,
        n_jobs: int | None = None,
        center: FloatArray | None = None,
        base: FloatArray | None = None,
    ) -> None:
        self.queries = queries = scorer.queries
        self.scorer = scorer
        self.definition = loss
        self.loss = loss.prepare(queries, n_jobs=n_jobs)
        self.weights = self.loss.shares(queries.query_weights)
        #: Total weight of the queries that have an order.
        self.weight = float(self.loss.counted(queries.query_weights).sum())
        self.n_parameters = scorer.n_parameters
        self.n_blocks = len(queries)
        self.center, self.signs = center, scorer.signs
        self._base = base
        self.convex = loss.convex
        self._n_jobs = thread_count(n_jobs)
        self._chunks, self._part_starts = cut(scorer)
        self._tasks = join(self._chunks, queries.offsets, scorer)
        self._scores, self._gradient, self._score_direction = (np.empty(queries.n_documents) for _ in range(3))
        self._xi = np.zeros(len(queries))
        #: The θ of the current scores, so that products with the Hessian there need not compute them again.
        self._scored_at: FloatArray | None = None
        self._curvature: SampledHessian | None = None

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]
        """Blocks, one per query; Hessian products of smooth losses; a majorant of losses that are not convex."""
        capabilities = {
            "blocks",
            *(["hessian"] if self.definition.smooth else []),
            *([] if self.convex else ["majorant"]),
        }
        return cast("frozenset[Capability]", frozenset(capabilities))

    @property
    def exact(self) -> bool:  # type: ignore[override]
        """Whether all values so far were computed exactly."""
        return self.loss.exact

    @cached_property
    def majorant(self) -> Problem | None:  # type: ignore[override]
        """The risk of the convex loss above this one; None if this one is convex."""
        above = self.definition.majorant
        return None if above is None else self._with_loss(above)

    def _with_loss(self, loss: Loss) -> RankingRisk:
        return RankingRisk(self.scorer, loss, self._n_jobs, self.center, self._base)

    def with_intercept(self, *sums: FloatArray) -> RankingRisk:
        """Return the risk minimized over a constant added to all scores, given the sums of `constant_sums`."""
        scorer, base = center_scorer(self.scorer, sums)
        return RankingRisk(scorer, self.definition, self._n_jobs, self.center, base)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return risk and gradient at θ."""
        sums = self._evaluate(theta)
        return float(self.weights @ self._xi), self.scorer.gradient(sums.sum(axis=0))

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient at θ in a fixed number of parts, which add up to them."""
        return self._in_parts(self._evaluate(theta))

    def _in_parts(self, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        first_queries = np.array([self._chunks[start][0] for start in self._part_starts], dtype=np.int64)
        values = np.add.reduceat(self.weights * self._xi, first_queries)
        return values, self.scorer.gradient(summed(sums, self._part_starts))

    def segment(self, start: FloatArray, end: FloatArray) -> Segment | None:
        """Return the risk on the segment between two points, if scores take longer than the loss."""
        return ScoreSegment(self, start, end) if self.scorer.expensive else None

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the term of one query in the risk and in its gradient."""
        table = self.scorer.weights(self._check(theta))
        sums, self._scored_at = np.zeros_like(table), None
        self._work(table, sums[None], [(number, number + 1)])
        return float(self.weights[number] * self._xi[number]), self.scorer.gradient(sums)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian of the risk at θ times a direction; for losses that have one."""
        table = self.scorer.weights(self._check(direction))
        if self._scored_at is None or not np.array_equal(self._scored_at, theta):
            self._evaluate(theta)
        sums = self._add_up(lambda sums, chunks: self._curve(table, sums, chunks), len(table))
        return self.scorer.gradient(sums.sum(axis=0))

    def preconditioner_passes(self, C: float) -> float:
        """Return the fraction of the documents in the sample that a preconditioner is computed from."""
        sample = draw(self.scorer, self.weights, C)
        return np.inf if sample is None else len(sample.documents) / self.queries.n_documents

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return products with the inverse of I + C·Hessian, with the Hessian of a sample of the documents."""
        curvature = self.curvature(C)
        return super().preconditioner(theta, C) if curvature is None else curvature.inverse(self._check(theta), C)

    def curvature(self, C: float) -> SampledHessian | None:
        """Return the Hessian on a sample of the documents that is large enough for C; None if memory is too small."""
        sample = draw(self.scorer, self.weights, C)
        if sample is None:
            return None
        if self._curvature is None or not np.array_equal(self._curvature.sample.documents, sample.documents):
            self._curvature = sampled_hessian(self.scorer, self.definition, self.weights, sample, self._base)
        return self._curvature

    def take_part(self, total: float) -> RankingRisk:
        """Return this risk as a part of one over more queries, whose total weight is given."""
        self.weights = self.loss.shares(self.queries.query_weights, total)
        self.__dict__.pop("_document_weights", None)
        return self

    def scores(self, theta: FloatArray) -> FloatArray:
        """Return the scores of all documents."""
        table = self.scorer.weights(self._check(theta))
        scores = np.empty(self.queries.n_documents)
        for_each(
            lambda first, end: self.scorer.score(table, scores, *self._rows(first, end)), self._chunks, self._n_jobs
        )
        return scores if self._base is None else scores + self._base

    def at_scores(self, scores: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """Return the risk at given scores, and its derivative in a direction of the scores."""
        derivatives = np.zeros(len(self.queries))

        def work(first: int, end: int) -> None:
            first, end = self._chunks[first][0], self._chunks[end - 1][1]
            start, stop = self._rows(first, end)
            self.loss.evaluate(scores, self._xi, self._gradient, first, end)
            self._gradient[start:stop] *= self._document_weights[start:stop]
            derivatives[first] = self._gradient[start:stop] @ direction[start:stop]

        for_each(work, self._tasks, self._n_jobs)
        return float(self.weights @ self._xi), float(derivatives.sum())

    def parts_at_scores(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient in parts, given the scores."""

        def work(sums: FloatArray, chunks: Chunks) -> None:
            self.loss.evaluate(scores, self._xi, self._gradient, chunks[0][0], chunks[-1][1])
            self._pull_back(sums, chunks)

        return self._in_parts(self._add_up(work, len(self.scorer.weights(self.origin))))

    def _evaluate(self, theta: FloatArray) -> FloatArray:
        point, self._scored_at = self._check(theta), None
        table = self.scorer.weights(point)
        sums = self._add_up(lambda sums, chunks: self._work(table, sums, chunks), len(table))
        self._scored_at = point.copy()
        return sums

    def _add_up(self, work: Callable[[FloatArray, Chunks], None], width: int) -> FloatArray:
        """Sum the gradient of each chunk separately, so that the total does not depend on the order of threads."""
        sums = np.zeros((len(self._chunks), width))
        for_each(lambda first, end: work(sums[first:end], self._chunks[first:end]), self._tasks, self._n_jobs)
        return sums

    @cached_property
    def _document_weights(self) -> FloatArray:
        """The weight of the query of each document."""
        return np.repeat(self.weights, self.queries.lengths)

    def _rows(self, first: int, end: int) -> tuple[int, int]:
        return int(self.queries.offsets[first]), int(self.queries.offsets[end])

    def _check(self, theta: FloatArray) -> FloatArray:
        parameters = np.asarray(theta, dtype=np.float64)
        if parameters.shape != (self.n_parameters,):
            raise DataError(
                f"w has shape {parameters.shape} for {self.n_parameters} features; give one weight per feature"
            )
        if not np.isfinite(parameters).all():
            raise DataError(f"w[{int(np.argmin(np.isfinite(parameters)))}] is not finite")
        return np.ascontiguousarray(parameters)

    def _work(self, table: FloatArray, sums: FloatArray, chunks: Chunks) -> None:
        first, end = chunks[0][0], chunks[-1][1]
        start, stop = self._rows(first, end)
        self.scorer.score(table, self._scores, start, stop)
        if self._base is not None:
            self._scores[start:stop] += self._base[start:stop]
        finite = np.isfinite(self._scores[start:stop])
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise DataError(
                f"document {row} has score {self._scores[row]}; its features are missing, or w is too large"
            )
        self.loss.evaluate(self._scores, self._xi, self._gradient, first, end)
        self._pull_back(sums, chunks)

    def _curve(self, table: FloatArray, sums: FloatArray, chunks: Chunks) -> None:
        first, end = chunks[0][0], chunks[-1][1]
        self.scorer.score(table, self._score_direction, *self._rows(first, end))
        self.loss.curve(self._scores, self._score_direction, self._gradient, first, end)
        self._pull_back(sums, chunks)

    def _pull_back(self, sums: FloatArray, chunks: Chunks) -> None:
        start, stop = self._rows(chunks[0][0], chunks[-1][1])
        self._gradient[start:stop] *= self._document_weights[start:stop]
        for total, chunk in zip(sums, chunks, strict=True):
            self.scorer.pull_back(self._gradient, total, *self._rows(*chunk))


class ScoreSegment(Segment):
    """The risk between two points: scores are linear in θ, so those of the endpoints give all others.

    Args:
        risk: The risk.
        start: The first point.
        end: The last point.
        before: The segment that the start lies on, and its step size there; None if its scores are not known.
    """

    def __init__(
        self, risk: RankingRisk, start: FloatArray, end: FloatArray, before: tuple[ScoreSegment, float] | None = None
    ) -> None:
        super().__init__(start, end)
        self._risk, self._before = risk, before
        #: Scores at the start, and their difference to those at the end.
        self._scores: tuple[FloatArray, FloatArray] | None = None

    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a step size, and its derivative."""
        scores, direction = self._endpoint_scores()
        return self._risk.at_scores(scores + t * direction, direction)

    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk there, and a subgradient of each."""
        scores, direction = self._endpoint_scores()
        return self._risk.parts_at_scores(scores + t * direction)

    def then(self, t: float, end: FloatArray) -> ScoreSegment:
        """Return the segment from there to another point."""
        return ScoreSegment(self._risk, self.point(t), end, (self, t))

    def _endpoint_scores(self) -> tuple[FloatArray, FloatArray]:
        # Scores are computed late, since a resumed fit asks for few of them; and without recursion.
        segments = [self]
        while (before := segments[-1]._before) is not None:
            segments.append(before[0])
        while len(segments) > 1:
            segments.pop()._compute()
        return self._compute()

    def _compute(self) -> tuple[FloatArray, FloatArray]:
        if self._scores is None:
            if self._before is None:
                scores = self._risk.scores(self.start)
            else:
                segment, t = self._before
                first, direction = segment._compute()
                scores = first + t * direction
            self._scores, self._before = (scores, self._risk.scores(self.end) - scores), None
        return self._scores
