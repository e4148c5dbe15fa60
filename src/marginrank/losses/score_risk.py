"""The risk of a loss as a function of the scores themselves."""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from marginrank.data.grouping import offsets_from_sizes, rows_of
from marginrank.data.queries import Queries
from marginrank.losses.base import Loss, PreparedLoss
from marginrank.losses.torch.base import QuerySubset, TorchLoss
from marginrank.runtime.threads import for_each, thread_count
from marginrank.runtime.torch_device import Device
from marginrank.typing import FloatArray, IntArray


class ScoreRisk:
    """Mean loss over the queries with an order, as a function of the scores of their documents.

    For scorers that are trained in stages: they need the gradient with respect to scores, of all queries or of some.

    >>> from marginrank.losses import StructuredLoss
    >>> risk = ScoreRisk(StructuredLoss("auc"), Queries.from_arrays([[0.0]] * 3, [1, 0, 0], group=[2, 1]))
    >>> value, gradient = risk(np.array([0.25, 0.0, 3.0]))
    >>> value, gradient.tolist()
    (0.5, [-2.0, 2.0, 0.0])

    Args:
        loss: The loss.
        queries: The judged queries; their weights are taken into account.
        n_jobs: Number of threads; all cores by default.
    """

    def __init__(self, loss: Loss, queries: Queries, n_jobs: int | None = None) -> None:
        self.queries, self.loss = queries, loss.prepare(queries, n_jobs=n_jobs)
        #: Weight of each query in the risk.
        self.weights = self.loss.shares(queries.query_weights)
        #: Scores that the documents have before training.
        self.start = np.zeros(queries.n_documents)
        self._n_jobs = n_jobs
        n = queries.n_documents
        self._scores, self._gradient, self._xi = np.zeros(n), np.zeros(n), np.zeros(len(queries))

    def starting_at(self, scores: FloatArray) -> ScoreRisk:
        """Return the same risk for training that starts at other scores."""
        risk = copy(self)
        risk.start = scores
        return risk

    @property
    def active(self) -> IntArray:
        """The numbers of the queries that count."""
        return np.flatnonzero(self.weights)

    @property
    def at_zero(self) -> float:
        """The risk if all scores are equal."""
        return self(np.zeros(self.queries.n_documents))[0]

    def __call__(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk and its gradient with respect to the scores."""
        xi, gradient = self.loss(scores, self._n_jobs)
        return float(self.weights @ xi), gradient * np.repeat(self.weights, self.queries.lengths)

    def rows(self, numbers: IntArray) -> IntArray:
        """Return the documents of some queries, one query after the other."""
        return rows_of(self.queries.offsets, numbers)

    def batch(self, numbers: IntArray, scores: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean loss of some queries, and its gradient with respect to their scores.

        The mean over all batches of a partition into batches of the same size is the risk.

        Args:
            numbers: The queries.
            scores: Scores of their documents, in the order of their rows.
        """
        rows = self.rows(numbers)
        self._scores[rows] = scores
        chunks = np.array_split(numbers, max(1, min(thread_count(self._n_jobs), len(numbers))))
        for_each(self._evaluate, [(chunk,) for chunk in chunks], self._n_jobs)
        shares = self.weights[numbers] * (len(self.active) / max(1, len(numbers)))
        gradient = self._gradient[rows] * np.repeat(shares, self.queries.lengths[numbers])
        return float(shares @ self._xi[numbers]), gradient

    def in_torch(self, device: Device) -> TorchScoreRisk | None:
        """Return the same risk for scores on a PyTorch device; None if the loss is not computed there."""
        loss = self.loss.torch_loss(device) if device.computes_losses else None
        return None if loss is None else TorchScoreRisk(self, loss)

    def _evaluate(self, numbers: IntArray) -> None:
        for number in numbers.tolist():
            self.loss.evaluate(self._scores, self._xi, self._gradient, number, number + 1)


class TorchScoreRisk:
    """Mean loss over the queries with an order, as a function of scores on a PyTorch device.

    Args:
        risk: The risk with NumPy.
        loss: The loss in PyTorch.
    """

    def __init__(self, risk: ScoreRisk, loss: TorchLoss) -> None:
        self._loss, self._lengths = loss, risk.queries.lengths
        self._shares, self._n_active = loss.device.tensor(risk.weights), len(risk.active)

    def __call__(self, scores: Any) -> float:
        """Return the risk."""
        return float(self._shares @ self._loss(scores)[0])

    def gradient(self, numbers: IntArray, documents: Any, scores: Any) -> Any:
        """Return the gradient of the mean loss of some queries, as `ScoreRisk.batch` does."""
        queries, offsets = self._loss.device.tensor(numbers), offsets_from_sizes(self._lengths[numbers])
        loss = self._loss.take(QuerySubset(queries, documents, offsets))
        shares = self._shares[queries] * (self._n_active / len(numbers))
        return loss(scores)[1] * shares[loss.segments.numbers]


def derivatives(
    prepared: PreparedLoss, scores: FloatArray, curvature: Curvature, n_jobs: int | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the slack of each query, and gradient and curvature of each document."""
    xi, gradient = prepared(scores, n_jobs)
    return xi, gradient, np.abs(gradient) if curvature == "gradient" else prepared.diagonal(scores)


def check_curvature(loss: Loss, curvature: str) -> None:
    """Refuse an unknown curvature, and one that the loss does not have."""
    if curvature not in get_args(Curvature):
        raise ValueError(f"curvature is {curvature!r}; choose 'gradient' or 'hessian'")
    if curvature == "hessian" and not loss.smooth:
        raise ValueError(f"{loss} is not smooth, so it has no Hessian; use curvature='gradient'")


#: Divisor of the gradients of a leaf: their absolute values, or the diagonal of the Hessian.
Curvature: TypeAlias = Literal["gradient", "hessian"]
