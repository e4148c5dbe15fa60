"""The curvature of a risk on a sample of its documents, from which preconditioners are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.data.grouping import offsets_from_sizes
from marginrank.losses.base import Loss
from marginrank.runtime.lazy_imports import sp
from marginrank.scorers.base import PreparedScorer
from marginrank.typing import FloatArray, IntArray

#: Most parameters for whose Hessian there is room as a matrix, and documents of a sample for each of them.
_SMALL: Final = 256
_PER_PARAMETER: Final = 50
#: With more parameters: documents of a sample for each unit of √C, and the fewest and the most.
_PER_ROOT: Final = 30.0
_FEWEST, _MOST = 100, 3000
#: Most numbers in the rows of a sample.
_ROOM: Final = 1 << 24
#: The same where rows have few cells, and are never all made at the same time.
_ROOM_OF_FEW: Final = 1 << 25
#: Documents of a list that say enough of it, where lists are thinned out.
_LIST: Final = 8
#: What stands for the curvature that a sample of fewer documents than parameters does not see.
_UNSEEN: Final = 8.0
#: Curvature of a query, as a share of its largest, that makes no difference.
_NOTHING: Final = 1e-3
#: Most rows that are made at a time.
_BLOCK: Final = 256
#: Most rows whose tables are made at a time.
_TABLES: Final = 32
#: Most numbers in either.
_NUMBERS: Final = 1 << 22
#: Times that a product of dense rows is quicker than one of sparse rows, for each number.
_FEW: Final = 32


class Sample(NamedTuple):
    """Documents of some queries: the queries, their documents, and where those of each begin and the last end."""

    queries: IntArray
    documents: IntArray
    offsets: IntArray


def draw(scorer: PreparedScorer, weights: FloatArray, C: float) -> Sample | None:
    """Choose documents at equal distances in queries at equal distances; None where only a few have room.

    Lists are thinned out rather than left out, since documents of other queries tell more than those of the same.

    Args:
        scorer: A scorer prepared for the queries.
        weights: Share of each query in the risk.
        C: Weight of the risk: the larger, the more directions have more curvature than the regulariser.
    """
    lengths = scorer.queries.lengths
    counted = np.flatnonzero((weights > 0) & (lengths > 0))
    # The spread takes a look at all features.
    scaled = C * scorer.spread**2 if scorer.n_parameters > _SMALL else C
    most = _n_documents(scorer.n_parameters, scaled, _ROOM_OF_FEW if scorer.few_cells else _ROOM)
    if not len(counted) or not most:
        return None
    gaps = np.maximum(-(-lengths // max(_LIST, most // len(counted))), 1)
    sizes = -(-lengths // gaps)
    chosen = counted[:: -(-int(sizes[counted].sum()) // most)]
    sizes, offsets = sizes[chosen], offsets_from_sizes(sizes[chosen])
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    documents = np.repeat(scorer.queries.offsets[chosen], sizes) + places * np.repeat(gaps[chosen], sizes)
    return Sample(chosen, documents, offsets)


def _n_documents(n_parameters: int, C: float, room: int = _ROOM) -> int:
    """Return the documents that a sample should have at most, and 0 where there is no room for enough.

    >>> _n_documents(46, 1.0), _n_documents(5000, 100.0), _n_documents(5000, 1e9), _n_documents(10**6, 1.0)
    (2300, 300, 3000, 0)
    """
    if n_parameters <= _SMALL:
        return _PER_PARAMETER * n_parameters
    most = min(room // n_parameters, _MOST)
    return 0 if most < _FEWEST else int(np.clip(_PER_ROOT * C**0.5, _FEWEST, most))


class SampledHessian(ABC):
    """The Hessian ΦᵀLΦ of the risk on a sample of its documents, with L the Hessian of the loss by their scores.

    Byrd, Chin, Neveitt and Nocedal (2011) take Hessians of samples for those of all, and Zhang and Xiao (2015) that of
    the data of one machine as a preconditioner, which leaves the solution exact. The rows Φ come from the scorer; L,
    with a block for each query, from the loss.

    Args:
        scorer: A scorer prepared for all documents.
        loss: The loss.
        weights: Share of each query in the risk.
        sample: The documents of the sample.
        base: Scores that are added to those of the scorer, for all documents.
    """

    def __init__(
        self, scorer: PreparedScorer, loss: Loss, weights: FloatArray, sample: Sample, base: FloatArray | None = None
    ) -> None:
        queries, (chosen, documents, self._offsets) = scorer.queries, sample
        self.sample, self._scorer = sample, scorer
        groups = None if queries.document_groups is None else queries.document_groups[documents]
        self._loss = loss.prepare(queries.grades[documents], self._offsets, groups)
        self._weights = weights[chosen] * (weights.sum() / weights[chosen].sum())
        self._base = 0.0 if base is None else base[documents]

    @abstractmethod
    def inverse(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return products with the inverse of I + C·ΦᵀLΦ at θ, or of a matrix with more than I."""

    def _curve(self, scores: FloatArray, direction: FloatArray) -> FloatArray:
        """Return L times a direction, with the weights of the queries."""
        image = np.empty(len(scores))
        self._loss.curve(scores, np.ascontiguousarray(direction), image, 0, len(self._weights))
        return np.repeat(self._weights, np.diff(self._offsets)) * image


class HessianByParameters(SampledHessian):
    """The Hessian as a matrix, for few parameters.

    Args: see `SampledHessian`.
    """

    def __init__(
        self, scorer: PreparedScorer, loss: Loss, weights: FloatArray, sample: Sample, base: FloatArray | None = None
    ) -> None:
        super().__init__(scorer, loss, weights, sample, base)
        self._rows = scorer.gradient(scorer.cells(sample.documents))

    def inverse(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return products with the inverse of I + C·ΦᵀLΦ at θ."""
        return inverse(self.hessian(theta), C)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return ΦᵀLΦ at θ."""
        scores = self._rows @ theta + self._base
        return np.asarray(self._rows.T @ np.column_stack([self._curve(scores, column) for column in self._rows.T]))


class HessianByDocuments(SampledHessian):
    """The Hessian by the products of the rows ΦΦᵀ, for more parameters than documents.

    Args: see `SampledHessian`.
    """

    def __init__(
        self, scorer: PreparedScorer, loss: Loss, weights: FloatArray, sample: Sample, base: FloatArray | None = None
    ) -> None:
        super().__init__(scorer, loss, weights, sample, base)
        self._cells = _cells(scorer, sample.documents)
        # What is too large for single precision is infinite, and noticed by `_solver`.
        with np.errstate(over="ignore", invalid="ignore"):
            self._products = _products(scorer, self._cells)

    def inverse(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return (μI + C·ΦᵀRRᵀΦ)⁻¹ = (I − ΦᵀR(μ/C·I + RᵀΦΦᵀR)⁻¹RᵀΦ)/μ, with L = RRᵀ: Woodbury's formula.

        μ is above 1, for the curvature in directions that the sample does not have.
        """
        root = sp.csr_array(sp.block_diag(self._roots(self._scores(theta) + self._base)))
        solve = _solver(root.T @ (root.T @ self._products).T, _UNSEEN / C)
        if solve is None:
            return lambda vector: vector

        def precondition(vector: FloatArray) -> FloatArray:
            left = root @ solve(root.T @ self._scores(vector))
            return np.asarray((vector - self._scorer.gradient(self._cells.T @ left)) / _UNSEEN)

        return precondition

    def _scores(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self._cells @ self._scorer.table(theta))

    def _roots(self, scores: FloatArray) -> list[FloatArray]:
        """Return R with L = RRᵀ for each query, without curvature that is next to nothing."""
        lengths = np.diff(self._offsets)
        blocks = [np.zeros((n, n)) for n in lengths]
        # Queries know nothing of each other, so one product has a column of each block.
        for column in range(int(lengths.max())):
            longer = np.flatnonzero(lengths > column)
            unit = np.zeros(len(scores))
            unit[self._offsets[longer] + column] = 1.0
            image = self._curve(scores, unit)
            for query in longer:
                blocks[query][:, column] = image[self._offsets[query] : self._offsets[query + 1]]
        return [_root(block) for block in blocks]


def _cells(scorer: PreparedScorer, documents: IntArray) -> Any:
    """Return what the table is multiplied with to give the scores of documents, as a sparse matrix."""
    step = _rows_of(scorer.n_parameters, _BLOCK)
    blocks = (scorer.cells(documents[start : start + step]) for start in range(0, len(documents), step))
    return sp.csr_array(sp.vstack([sp.csr_array(block) for block in blocks]))


def _rows_of(n_parameters: int, most: int) -> int:
    """Return how many rows are made at a time.

    >>> _rows_of(1000, 256), _rows_of(100_000, 256)
    (256, 41)
    """
    return max(1, min(most, _NUMBERS // n_parameters))


def _products(scorer: PreparedScorer, cells: Any) -> FloatArray:
    """Return ΦΦᵀ in single precision.

    Of curves, a row of Φ is long and its cells are few: the product of two rows is that of the cells of one with the
    table of the other, the scores that it gives as θ.
    """
    n, n_cells = cells.shape
    if cells.nnz * _FEW > n * n_cells:
        rows = np.empty((n, scorer.n_parameters), dtype=np.float32)
        step = _rows_of(scorer.n_parameters, _BLOCK)
        for start in range(0, n, step):
            rows[start : start + step] = scorer.gradient(cells[start : start + step].toarray())
        return rows @ rows.T
    products, single = np.empty((n, n), dtype=np.float32), cells.astype(np.float32)
    step = _rows_of(scorer.n_parameters, _TABLES)
    for start in range(0, n, step):
        block = slice(start, start + step)
        tables = scorer.table(scorer.gradient(cells[block].toarray()))
        products[start:, block] = single[start:] @ np.ascontiguousarray(tables.T, dtype=np.float32)
        products[block, start:] = products[start:, block].T
    return products


def sampled_hessian(
    scorer: PreparedScorer, loss: Loss, weights: FloatArray, sample: Sample, base: FloatArray | None = None
) -> SampledHessian:
    """Return the curvature on a sample, by parameters or by documents, whichever are fewer."""
    kind = HessianByDocuments if len(sample.documents) < scorer.n_parameters else HessianByParameters
    return kind(scorer, loss, weights, sample, base)


def inverse(hessian: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
    """Return products with the inverse of I + C·H.

    >>> inverse(np.array([[1.0, 0.0], [0.0, 0.0]]), 3.0)(np.array([8.0, 5.0])).tolist()
    [2.0, 5.0]
    """
    return _solver(C * hessian, 1.0) or (lambda vector: vector)


def _root(block: FloatArray) -> FloatArray:
    """Return R with RRᵀ = L, in columns.

    >>> np.abs(_root(np.array([[4.0, 0.0], [0.0, 0.0]]))).tolist()
    [[2.0], [0.0]]
    """
    values, vectors = np.linalg.eigh(0.5 * (block + block.T))
    large = values > _NOTHING * values[-1]
    return np.asarray(vectors[:, large] * np.sqrt(values[large]), dtype=np.float32)


def _solver(matrix: FloatArray, added: float) -> Callable[[FloatArray], FloatArray] | None:
    """Return products with the inverse of a matrix, with a number added to its diagonal.

    Where that number would be lost in rounding, more is added. None if features are so large that products overflow:
    solvers do without, or refuse them.
    """
    from scipy.linalg import cho_factor, cho_solve  # noqa: PLC0415

    largest = float(np.abs(matrix.diagonal()).max(initial=0.0))
    if not np.isfinite(largest):
        return None
    total, rounding = np.array(matrix, order="F"), 100.0 * float(np.finfo(matrix.dtype).eps)
    total.flat[:: len(total) + 1] += max(added, rounding * largest)
    try:
        factor = cho_factor(total, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return lambda vector: cho_solve(factor, vector.astype(total.dtype), check_finite=False).astype(np.float64)
