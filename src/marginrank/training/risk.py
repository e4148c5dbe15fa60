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
from marginrank.scorers.base import Prepared, PreparedScorer
from marginrank.solvers.problem import Capability, Problem, Segment
from marginrank.solvers.stopping import FEW_PARAMETERS, summed
from marginrank.training.preconditioner import SampledHessian, draw, sampled_hessian
from marginrank.typing import FloatArray, IntArray

#: Queries one after the other: the first of each run, and the one after its last.
Runs: TypeAlias = Sequence[tuple[int, int]]

#: Most parts that the risk is given in, for solvers that make use of them. With signs, a program is a sequence of
#: programs; on tiny data, a program takes longer than a pass.
PARTS: Final = 64
_PARTS_OF_FEW: Final = 32
_PARTS_OF_SIGNED: Final = 16
_TINY_BYTES: Final = 1 << 18
_PARTS_OF_TINY: Final = 16
#: Most parts with few parameters where rows are at hand, and bytes that are read in the time that a program takes for
#: each part and for the square of each parameter. Passes fall with the root of the parts, so both should take as long.
_MANY_PARTS: Final = 128
_PROGRAM_BYTES: Final = 150
#: Bytes that planes may take, whatever the features take.
_PLANE_BYTES: Final = 1 << 26


def count_parts(scorer: Prepared) -> int:
    """Parts that the risk is given in: a solver keeps some twenty planes of each, in no more room than the features."""
    n = max(1, scorer.n_parameters)
    signed = scorer.signs is not None and bool(scorer.signs.any())
    at_hand = isinstance(scorer, PreparedScorer) and scorer.rows is None
    if n > FEW_PARAMETERS:
        most = _PARTS_OF_SIGNED if signed else PARTS
    else:
        balanced = scorer.n_bytes // (_PROGRAM_BYTES * n * n) if at_hand and not signed else 0
        most = min(_MANY_PARTS, max(_PARTS_OF_FEW, balanced))
    if scorer.n_bytes <= _TINY_BYTES:
        most = min(most, _PARTS_OF_TINY)
    room = max(_PLANE_BYTES, scorer.n_bytes // 4)
    return max(1, min(most, room // (20 * 8 * n)))


def cut(scorer: PreparedScorer) -> tuple[list[tuple[int, int]], IntArray]:
    """Runs of queries that have cells of their own, and the first run of each part."""
    queries, cell_bytes = scorer.queries, 8 * max(1, scorer.n_parameters)
    n_parts = count_parts(scorer)
    # Each run has cells of its own until the end of an evaluation, when they are added up.
    most = max(8, scorer.n_bytes // (16 * cell_bytes))
    n_runs = max(n_parts, min(scorer.n_bytes // scorer.run_bytes, most))
    bounds, starts = [0], []
    part_bounds = chunk_bounds(queries.offsets, n_parts)
    for first, end in pairwise(part_bounds.tolist()):
        starts.append(len(bounds) - 1)
        inside = chunk_bounds(queries.offsets[first : end + 1], -(-n_runs // n_parts))
        bounds.extend((first + inside[1:]).tolist())
    return list(pairwise(bounds)), np.array(starts, dtype=np.int64)


def join(runs: Runs, offsets: IntArray, scorer: PreparedScorer) -> list[tuple[int, int]]:
    """Numbers of the runs that are worked on together: as many as a core has room for in its cache."""
    bytes_per_row, most = scorer.n_bytes / max(1, int(offsets[-1])), max(PreparedScorer.run_bytes, scorer.run_bytes)
    tasks, first = [], 0
    for number in range(1, len(runs) + 1):
        together = number < len(runs) and offsets[runs[number][1]] - offsets[runs[first][0]]
        if number == len(runs) or together * bytes_per_row > most:
            tasks.append((first, number))
            first = number
    return tasks


class RankingRisk(Problem):
    """Mean loss over the queries with more than one grade, and its gradient, as a function of parameters θ.

    Each evaluation reads the features once: a few queries at a time are scored, and their slopes are pulled back to the
    parameters while the features are still in the cache. Results do not depend on the number of threads.

    Args:
        scorer: A scorer prepared for the queries.
        loss: The loss.
        n_jobs: Number of threads; all cores by default.
        center: Where the regulariser is minimal; 0 by default.
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
        self.loss = loss.prepare(queries)
        self.weights = self.loss.shares(queries.query_weights)
        #: Total weight of the queries that have an order.
        self.weight = float(
            np.where(self.loss.active, 1.0 if (own := queries.query_weights) is None else own, 0.0).sum()
        )
        self.n_parameters = scorer.n_parameters
        self.n_blocks = len(queries)
        self.center, self.signs = center, scorer.signs
        self._base = base
        self.convex = loss.convex
        self._n_jobs = thread_count(n_jobs)
        self._chunks, self._part_starts = cut(scorer)
        self._tasks = join(self._chunks, queries.offsets, scorer)
        self._scores, self._slopes = (scorer.empty(queries.n_documents) for _ in range(2))
        self._xi, self._moves = np.zeros(len(queries)), scorer.empty(queries.n_documents)
        #: Where all scores were computed last, so that products with the Hessian there need not do so again.
        self._at: FloatArray | None = None
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
        """The risk of the convex loss above this one; None where it is convex itself."""
        above = self.definition.majorant
        return None if above is None else self._with_loss(above)

    def _with_loss(self, loss: Loss) -> RankingRisk:
        return RankingRisk(self.scorer, loss, self._n_jobs, self.center, self._base)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return risk and gradient at θ."""
        cells = self._evaluate(theta)
        return float(self.weights @ self._xi), self.scorer.gradient(cells.sum(axis=0))

    def parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient at θ in a fixed number of parts, which add up to them."""
        return self._in_parts(self._evaluate(theta))

    def _in_parts(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        first_queries = np.array([self._chunks[start][0] for start in self._part_starts], dtype=np.int64)
        values = np.add.reduceat(self.weights * self._xi, first_queries)
        return values, self.scorer.gradient(summed(cells, self._part_starts))

    def line(self, start: FloatArray, end: FloatArray) -> Segment | None:
        """Return the risk on the way between two points, where scores take longer than the loss."""
        return ScoreSegment(self, start, end) if self.scorer.dear else None

    def block(self, number: int, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the share of one query in the risk and in its gradient."""
        table = self.scorer.table(self._check(theta))
        cells, self._at = np.zeros_like(table), None
        self._work(table, cells[None], [(number, number + 1)])
        return float(self.weights[number] * self._xi[number]), self.scorer.gradient(cells)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian of the risk at θ times a direction; for losses that have one."""
        moves = self.scorer.table(self._check(direction))
        if self._at is None or not np.array_equal(self._at, theta):
            self._evaluate(theta)
        cells = self._add_up(lambda cells, runs: self._curve(moves, cells, runs), len(moves))
        return self.scorer.gradient(cells.sum(axis=0))

    def preconditioner_passes(self, C: float) -> float:
        """Return the share of the documents in the sample that a preconditioner is made of."""
        sample = draw(self.scorer, self.weights, C)
        return np.inf if sample is None else len(sample.documents) / self.queries.n_documents

    def preconditioner(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return products with the inverse of I + C·Hessian, with the Hessian of a sample of the documents."""
        curvature = self.curvature(C)
        return super().preconditioner(theta, C) if curvature is None else curvature.inverse(self._check(theta), C)

    def curvature(self, C: float) -> SampledHessian | None:
        """Return the Hessian on a sample of the documents that is large enough for C; None where there is no room."""
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
        table = self.scorer.table(self._check(theta))
        scores = np.empty(self.queries.n_documents)
        for_each(
            lambda first, end: self.scorer.score(table, scores, *self._rows(first, end)), self._chunks, self._n_jobs
        )
        return scores if self._base is None else scores + self._base

    def at_scores(self, scores: FloatArray, moves: FloatArray) -> tuple[float, float]:
        """Return the risk at given scores, and how fast it rises where these move."""
        rises = np.zeros(len(self.queries))

        def work(first: int, end: int) -> None:
            first, end = self._chunks[first][0], self._chunks[end - 1][1]
            start, stop = self._rows(first, end)
            self.loss.evaluate(scores, self._xi, self._slopes, first, end)
            self._slopes[start:stop] *= self._document_weights[start:stop]
            rises[first] = self._slopes[start:stop] @ moves[start:stop]

        for_each(work, self._tasks, self._n_jobs)
        return float(self.weights @ self._xi), float(rises.sum())

    def parts_at_scores(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return risk and gradient in parts where the scores are given."""

        def work(cells: FloatArray, runs: Runs) -> None:
            self.loss.evaluate(scores, self._xi, self._slopes, runs[0][0], runs[-1][1])
            self._pull_back(cells, runs)

        return self._in_parts(self._add_up(work, len(self.scorer.table(self.origin))))

    def _evaluate(self, theta: FloatArray) -> FloatArray:
        point, self._at = self._check(theta), None
        table = self.scorer.table(point)
        cells = self._add_up(lambda cells, runs: self._work(table, cells, runs), len(table))
        self._at = point.copy()
        return cells

    def _add_up(self, work: Callable[[FloatArray, Runs], None], n_cells: int) -> FloatArray:
        """Let each run of queries add to cells of its own, so that the sum does not depend on who comes first."""
        cells = np.zeros((len(self._chunks), n_cells))
        for_each(lambda first, end: work(cells[first:end], self._chunks[first:end]), self._tasks, self._n_jobs)
        return cells

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

    def _work(self, table: FloatArray, cells: FloatArray, runs: Runs) -> None:
        first, end = runs[0][0], runs[-1][1]
        self._score(table, first, end)
        self.loss.evaluate(self._scores, self._xi, self._slopes, first, end)
        self._pull_back(cells, runs)

    def _curve(self, moves: FloatArray, cells: FloatArray, runs: Runs) -> None:
        first, end = runs[0][0], runs[-1][1]
        self.scorer.score(moves, self._moves, *self._rows(first, end))
        self.loss.curve(self._scores, self._moves, self._slopes, first, end)
        self._pull_back(cells, runs)

    def _score(self, table: FloatArray, first: int, end: int) -> None:
        start, stop = self._rows(first, end)
        self.scorer.score(table, self._scores, start, stop)
        if self._base is not None:
            self._scores[start:stop] += self._base[start:stop]
        self._check_scores(self._scores, start, stop)

    def _check_scores(self, scores: FloatArray, start: int, stop: int) -> None:
        finite = np.isfinite(scores[start:stop])
        if not finite.all():
            at = start + int(np.argmin(finite))
            raise DataError(f"document {at} has score {scores[at]}; its features are missing, or w is too large")

    def _pull_back(self, cells: FloatArray, runs: Runs) -> None:
        start, stop = self._rows(runs[0][0], runs[-1][1])
        self._slopes[start:stop] *= self._document_weights[start:stop]
        for own, run in zip(cells, runs, strict=True):
            self.scorer.pull_back(self._slopes, own, *self._rows(*run))


class ScoreSegment(Segment):
    """The risk between two points by their scores: scores are linear in θ, so those of all points between are known.

    Args:
        risk: The risk.
        start: Where the way begins.
        end: Where it ends.
        before: The way on which the start lies, and how far along it; None where its scores are not known.
    """

    def __init__(
        self, risk: RankingRisk, start: FloatArray, end: FloatArray, before: tuple[ScoreSegment, float] | None = None
    ) -> None:
        super().__init__(start, end)
        self._risk, self._before = risk, before
        #: Scores at the start, and how they move on the way to the end.
        self._ends: tuple[FloatArray, FloatArray] | None = None

    def __call__(self, t: float) -> tuple[float, float]:
        """Return the risk at a share of the way, and its slope by that share."""
        scores, moves = self._known()
        return self._risk.at_scores(scores + t * moves, moves)

    def parts(self, t: float) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the risk there, and a subgradient of each."""
        scores, moves = self._known()
        return self._risk.parts_at_scores(scores + t * moves)

    def then(self, t: float, end: FloatArray) -> ScoreSegment:
        """Return the way from there to another point."""
        return ScoreSegment(self._risk, self.point(t), end, (self, t))

    def _known(self) -> tuple[FloatArray, FloatArray]:
        # A run that goes on from a checkpoint asks for none of the scores before.
        ways = [self]
        while (before := ways[-1]._before) is not None:
            ways.append(before[0])
        while len(ways) > 1:
            ways.pop()._find()
        return self._find()

    def _find(self) -> tuple[FloatArray, FloatArray]:
        if self._ends is None:
            if self._before is None:
                scores = self._risk.scores(self.start)
            else:
                way, t = self._before
                begin, moves = way._find()
                scores = begin + t * moves
            self._ends, self._before = (scores, self._risk.scores(self.end) - scores), None
        return self._ends
