"""Preconditioners: the Hessian of a risk on a sample of its documents."""

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

#: Maximum number of parameters for which the Hessian is a matrix, and documents of a sample for each of them.
_MATRIX_PARAMETERS: Final = 256
_DOCUMENTS_PER_PARAMETER: Final = 50
#: With more parameters: documents of a sample for each unit of √C, and their minimum and maximum.
_DOCUMENTS_PER_ROOT: Final = 30.0
_MIN_DOCUMENTS, _MAX_DOCUMENTS = 100, 3000
#: Maximum number of numbers in the rows of a sample.
_MAX_NUMBERS: Final = 1 << 24
#: The same for sparse rows, which are never all dense at the same time.
_MAX_SPARSE_NUMBERS: Final = 1 << 25
#: Documents to keep of a list that is thinned out.
_DOCUMENTS_PER_LIST: Final = 8
#: Stands for the curvature that a sample of fewer documents than parameters does not see.
_UNSEEN_CURVATURE: Final = 8.0
#: Negligible curvature of a query, relative to its largest.
_NEGLIGIBLE: Final = 1e-3
#: Maximum number of rows in a block.
_BLOCK_ROWS: Final = 256
#: Maximum number of rows whose tables are in a block.
_TABLE_ROWS: Final = 32
#: Maximum number of numbers in either block.
_BLOCK_NUMBERS: Final = 1 << 22
#: How much faster a product of dense rows is than one of sparse rows, for each number.
_DENSE_SPEEDUP: Final = 32


class Sample(NamedTuple):
    """Documents of some queries: the queries, their documents, and the offsets of the queries in these."""

    queries: IntArray
    documents: IntArray
    offsets: IntArray


def draw(scorer: PreparedScorer, weights: FloatArray, C: float) -> Sample | None:
    """Choose documents at equal distances in queries at equal distances; None if too few fit in memory.

    Lists are thinned out rather than left out, since documents of other queries tell more than those of the same.

    Args:
        scorer: A scorer prepared for the queries.
        weights: Weight of each query in the risk.
        C: Weight of the risk: the larger, the more directions have more curvature than the regularizer.
    """
    lengths = scorer.queries.lengths
    counting = np.flatnonzero((weights > 0) & (lengths > 0))
    # The spread reads all features.
    scaled = C * scorer.spread**2 if scorer.n_parameters > _MATRIX_PARAMETERS else C
    most = _sample_size(scorer.n_parameters, scaled, _MAX_SPARSE_NUMBERS if scorer.sparse_table else _MAX_NUMBERS)
    if not len(counting) or not most:
        return None
    gaps = np.maximum(-(-lengths // max(_DOCUMENTS_PER_LIST, most // len(counting))), 1)
    sizes = -(-lengths // gaps)
    chosen = counting[:: -(-int(sizes[counting].sum()) // most)]
    sizes, offsets = sizes[chosen], offsets_from_sizes(sizes[chosen])
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    documents = np.repeat(scorer.queries.offsets[chosen], sizes) + places * np.repeat(gaps[chosen], sizes)
    return Sample(chosen, documents, offsets)


def _sample_size(n_parameters: int, C: float, max_numbers: int = _MAX_NUMBERS) -> int:
    """Return the maximum number of documents in a sample; 0 if too few fit in memory.

    >>> _sample_size(46, 1.0), _sample_size(5000, 100.0), _sample_size(5000, 1e9), _sample_size(10**6, 1.0)
    (2300, 300, 3000, 0)
    """
    if n_parameters <= _MATRIX_PARAMETERS:
        return _DOCUMENTS_PER_PARAMETER * n_parameters
    most = min(max_numbers // n_parameters, _MAX_DOCUMENTS)
    return 0 if most < _MIN_DOCUMENTS else int(np.clip(_DOCUMENTS_PER_ROOT * C**0.5, _MIN_DOCUMENTS, most))


class SampledHessian(ABC):
    """The Hessian ΦᵀLΦ of the risk on a sample of its documents, with L the Hessian of the loss by their scores.

    Byrd, Chin, Neveitt and Nocedal (2011) take Hessians of samples for those of all, and Zhang and Xiao (2015) that of
    the data of one machine as a preconditioner, which leaves the solution exact. The rows Φ come from the scorer; L,
    with a block for each query, from the loss.

    Args:
        scorer: A scorer prepared for all documents.
        loss: The loss.
        weights: Weight of each query in the risk.
        sample: The documents of the sample.
        base: Scores that are added to those of the scorer, for all documents.
    """

    def __init__(
        self, scorer: PreparedScorer, loss: Loss, weights: FloatArray, sample: Sample, base: FloatArray | None = None
    ) -> None:
        queries, (chosen, documents, self._offsets) = scorer.queries, sample
        self.sample, self._scorer = sample, scorer
        groups = None if queries.document_groups is None else queries.document_groups[documents]
        by_document = None if queries.document_weights is None else queries.document_weights[documents]
        self._loss = loss.prepare(queries.grades[documents], self._offsets, groups, by_document)
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
        self._rows = scorer.gradient(scorer.design_matrix(sample.documents))

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
        self._coefficients = _coefficients(scorer, sample.documents)
        # What is too large for single precision is infinite, and noticed by `_solver`.
        with np.errstate(over="ignore", invalid="ignore"):
            self._products = _products(scorer, self._coefficients)

    def inverse(self, theta: FloatArray, C: float) -> Callable[[FloatArray], FloatArray]:
        """Return (μI + C·ΦᵀRRᵀΦ)⁻¹ = (I − ΦᵀR(μ/C·I + RᵀΦΦᵀR)⁻¹RᵀΦ)/μ, with L = RRᵀ: Woodbury's formula.

        μ is above 1, for the curvature in directions that the sample does not have.
        """
        root = sp.csr_array(sp.block_diag(self._roots(self._scores(theta) + self._base)))
        solve = _solver(root.T @ (root.T @ self._products).T, _UNSEEN_CURVATURE / C)
        if solve is None:
            return lambda vector: vector

        def precondition(vector: FloatArray) -> FloatArray:
            left = root @ solve(root.T @ self._scores(vector))
            return np.asarray((vector - self._scorer.gradient(self._coefficients.T @ left)) / _UNSEEN_CURVATURE)

        return precondition

    def _scores(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self._coefficients @ self._scorer.weights(theta))

    def _roots(self, scores: FloatArray) -> list[FloatArray]:
        """Return R with L = RRᵀ for each query, without negligible curvature."""
        lengths = np.diff(self._offsets)
        blocks = [np.zeros((n, n)) for n in lengths]
        # L is block diagonal, so one product gives a column of each block.
        for column in range(int(lengths.max())):
            longer = np.flatnonzero(lengths > column)
            unit = np.zeros(len(scores))
            unit[self._offsets[longer] + column] = 1.0
            image = self._curve(scores, unit)
            for query in longer:
                blocks[query][:, column] = image[self._offsets[query] : self._offsets[query + 1]]
        return [_root(block) for block in blocks]


def _coefficients(scorer: PreparedScorer, documents: IntArray) -> Any:
    """Return the sparse matrix whose product with the table is the scores of some documents."""
    step = _block_rows(scorer.n_parameters, _BLOCK_ROWS)
    blocks = (scorer.design_matrix(documents[start : start + step]) for start in range(0, len(documents), step))
    return sp.csr_array(sp.vstack([sp.csr_array(block) for block in blocks]))


def _block_rows(n_parameters: int, most: int) -> int:
    """Return the number of rows of a block.

    >>> _block_rows(1000, 256), _block_rows(100_000, 256)
    (256, 41)
    """
    return max(1, min(most, _BLOCK_NUMBERS // n_parameters))


def _products(scorer: PreparedScorer, coefficients: Any) -> FloatArray:
    """Return ΦΦᵀ in single precision.

    Rows of curves are long, but have few coefficients: the product of two rows is that of the coefficients of one with
    the table of the other, that is, the scores with the other row as θ.
    """
    n, n_columns = coefficients.shape
    if coefficients.nnz * _DENSE_SPEEDUP > n * n_columns:
        rows = np.empty((n, scorer.n_parameters), dtype=np.float32)
        step = _block_rows(scorer.n_parameters, _BLOCK_ROWS)
        for start in range(0, n, step):
            rows[start : start + step] = scorer.gradient(coefficients[start : start + step].toarray())
        return rows @ rows.T
    products, single = np.empty((n, n), dtype=np.float32), coefficients.astype(np.float32)
    step = _block_rows(scorer.n_parameters, _TABLE_ROWS)
    for start in range(0, n, step):
        block = slice(start, start + step)
        tables = scorer.weights(scorer.gradient(coefficients[block].toarray()))
        products[start:, block] = single[start:] @ np.ascontiguousarray(tables.T, dtype=np.float32)
        products[block, start:] = products[start:, block].T
    return products


def sampled_hessian(
    scorer: PreparedScorer, loss: Loss, weights: FloatArray, sample: Sample, base: FloatArray | None = None
) -> SampledHessian:
    """Return the Hessian on a sample, by parameters or by documents, whichever are fewer."""
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
    large = values > _NEGLIGIBLE * values[-1]
    return np.asarray(vectors[:, large] * np.sqrt(values[large]), dtype=np.float32)


def _solver(matrix: FloatArray, added: float) -> Callable[[FloatArray], FloatArray] | None:
    """Return products with the inverse of a matrix, with a number added to its diagonal.

    If that number would be lost in rounding, more is added. None if features are so large that products overflow:
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
