"""The kernel scorer: a linear scorer in features whose products are a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.runtime.memory import check_memory, max_memory
from marginrank.runtime.threads import for_each, one_blas_thread
from marginrank.scorers.base import Scorer, check_form
from marginrank.scorers.form import Form
from marginrank.scorers.kernel.form import CustomKernel, KernelForm, KernelFunction, Poly, Rbf, check_number
from marginrank.scorers.linear.scorer import PreparedLinear
from marginrank.typing import AnyArray, FloatArray, IntArray

KernelName: TypeAlias = Literal["rbf", "poly"]
KernelChoice: TypeAlias = KernelName | Callable[[FloatArray, FloatArray], Any]
#: Minimum and maximum number of landmarks that are drawn together.
_MIN_PANEL: Final = 16
_MAX_PANEL: Final = 128
#: A random number is the fractional part of a unit-size product times this factor, far above rounding errors.
_DIGITS: Final = 1e4
#: The golden ratio, whose multiples are evenly spread modulo 1.
_GOLDEN: Final = 0.6180339887498949
#: Rows of a block.
_ROWS: Final = 2048
#: Largest rounding error of a residual, relative to the largest value of the kernel.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class Kernel(Scorer):
    """A function in the Hilbert space of a kernel: the score is a sum over landmarks, Σ β_z k(x, z).

    Landmarks are training documents, chosen by a pivoted incomplete Cholesky factorization K ≈ ΦΦᵀ of the kernel matrix
    of all training documents. The scores of these are Φθ, so that the problem is that of a linear scorer with features
    Φ, and keeps its solvers and its certificate. With as many landmarks as distinct documents it is the problem of the
    whole kernel; Chapelle, Le and Smola (2007) §6, Le and Smola (2008) eqs (6) and (7).

    Args:
        kernel: ``rbf`` for exp(−γ‖x − z‖²), ``poly`` for (γ x·z + coef0)^degree, or a function of two arrays that
            returns the kernel of every row of the first with every row of the second. A model with a function cannot be
            saved.
        gamma: γ, or ``scale`` for 1 / (number of features · variance of all their values), as in scikit-learn.
        degree: Degree of ``poly``.
        coef0: Constant of ``poly``.
        rank: Maximum number of landmarks; None for as many as the tolerance requires.
        tol: Trace of K − ΦΦᵀ at which no more landmarks are added, as a share of the trace of K.
        time_limit: Seconds after which no more landmarks are added; the first ones always are. A `Ranker` with a time
            limit leaves half of it for the solver.

    >>> queries = Queries.from_arrays([[0.0], [2.0], [0.0]], [1, 0, 1], group=[3])
    >>> prepared = Kernel(gamma=0.5, tol=0.0).prepare(queries)
    >>> prepared.n_parameters                                   # two distinct documents
    2
    >>> (prepared.queries.X @ prepared.queries.X.T)[0].round(4).tolist()        # e⁰, e⁻², e⁰
    [1.0, 0.1353, 1.0]
    """

    name = "kernel"
    kernel: KernelChoice = "rbf"
    gamma: float | Literal["scale"] = "scale"
    degree: int = 3
    coef0: float = 1.0
    rank: int | None = 500
    tol: float = 1e-3
    time_limit: float = np.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma != "scale":
            check_number("gamma", self.gamma, above=0.0)
        Poly(1.0, self.degree, self.coef0)
        if self.rank is not None and self.rank < 1:
            raise ValueError(f"rank is {self.rank}; it must be a positive whole number, or None")
        check_number("tol", self.tol, least=0.0)
        if not self.time_limit > 0:
            raise ValueError(f"time_limit is {self.time_limit}; it must be positive")

    def with_time_limit(self, time_limit: float) -> Kernel:
        """Return the scorer with a time limit for choosing landmarks."""
        return replace(self, time_limit=min(self.time_limit, time_limit))

    def prepare(self, queries: Queries, n_jobs: int | None = None) -> PreparedLinear:
        """Choose the landmarks, and prepare for scoring the documents of given queries."""
        limits = FactorLimits(self.rank, self.tol, time.perf_counter() + self.time_limit)
        X = np.asarray(queries.X)
        kernel = self.function(X)
        features, landmarks = incomplete_cholesky(X, kernel, limits, n_jobs)
        prepared = PreparedLinear(queries.with_features(features))
        documents, factor = np.array(X[landmarks], dtype=np.float64), features[landmarks]
        prepared.form = KernelForm(documents, kernel, factor[np.tril_indices(len(landmarks))])
        return prepared

    def resume(self, queries: Queries, form: Form, n_jobs: int | None = None) -> PreparedLinear:
        """Prepare for scoring queries with landmarks that were chosen before."""
        kernel_form = check_form(self, form, KernelForm)
        prepared = PreparedLinear(queries.with_features(kernel_form.features(np.asarray(queries.X), n_jobs)))
        prepared.form = kernel_form
        return prepared

    def function(self, X: AnyArray) -> KernelFunction:
        """Return the kernel for given documents."""
        if callable(self.kernel):
            return CustomKernel(self.kernel)
        gamma = _scale(X) if self.gamma == "scale" else float(self.gamma)
        return Rbf(gamma) if self.kernel == "rbf" else Poly(gamma, int(self.degree), float(self.coef0))


class FactorLimits(NamedTuple):
    """Stopping criteria of a factorization.

    Args:
        rank: Maximum number of pivots; None for no limit.
        tol: Trace of the residual at which to stop, as a share of the trace of K.
        deadline: When to stop, by `time.perf_counter`; the first pivots are always finished.
    """

    rank: int | None = None
    tol: float = 0.0
    deadline: float = np.inf

    @property
    def late(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() > self.deadline


def incomplete_cholesky(
    X: AnyArray, kernel: KernelFunction, limits: FactorLimits, n_jobs: int | None = None
) -> tuple[FloatArray, IntArray]:
    """Return Φ with ΦΦᵀ ≈ K, and the rows it was made from: there ΦΦᵀ is K, and Φ is lower triangular.

    Each pivot is drawn with a probability proportional to its residual, on the diagonal of K − ΦΦᵀ. The largest
    residuals are those of the documents farthest from all others, which say little about them. Several are drawn at a
    time, and each is accepted with the probability that the pivots before it left its residual, so that all work on all
    rows is matrix products. Random numbers are functions of the documents, not of their order.

    Args:
        X: The documents.
        kernel: The kernel.
        limits: Stopping criteria.
        n_jobs: Number of threads; results do not depend on it.
    """
    n, (rank, tol, _) = len(X), limits
    limit = n if rank is None else min(n, int(rank))
    what = f"{n:,} documents with {limit:,} landmarks"
    check_memory(8 * (n + limit) * limit, what, max_memory(), remedy="lower the rank of the kernel")
    residuals = _diagonal(X, kernel)
    trace = trace_left = float(residuals.sum())
    largest = float(residuals.max())
    # What is left below this is rounding error.
    floor = n * np.finfo(np.float64).eps * largest
    features, landmarks = np.empty((n, limit)), np.empty(0, dtype=np.int64)
    random_numbers = _RandomNumbers(X)
    with one_blas_thread():
        while len(landmarks) < limit and trace_left > tol * trace and residuals.max() > floor:
            done = len(landmarks)
            width = min(max(_MIN_PANEL, done), _MAX_PANEL, limit - done)
            candidates = _draw(residuals, random_numbers.draw(), floor, width)
            rows, known = _float_rows(X, candidates), features[candidates, :done]
            block = kernel(rows, rows)
            _check_symmetric(block, largest)
            accepted, factor = _accept(block - known @ known.T, random_numbers.draw(candidates), floor)
            chosen = candidates[accepted]
            if not _extend(X, kernel, features, residuals, (done, chosen, factor), limits, n_jobs):
                break
            if residuals.min() < -_ROUNDING * largest:
                raise DataError("the kernel function is not positive semi-definite on these documents; use another")
            n_needed = _count_needed(features[:, done : done + len(chosen)], trace_left - tol * trace)
            landmarks = np.concatenate([landmarks, chosen[:n_needed]])
            np.maximum(residuals, 0.0, out=residuals)
            residuals[chosen] = 0.0
            trace_left = 0.0 if n_needed < len(chosen) else float(residuals.sum())
    return _narrow(features, len(landmarks)), landmarks


class _RandomNumbers:
    """Random numbers from 0 to 1 for documents, whatever their order: digits of their products with random weights."""

    def __init__(self, X: AnyArray) -> None:
        self._X = X
        self._rng = np.random.default_rng(0)
        self._mean = sum(_float_rows(X, rows).sum(axis=0) for rows in _blocks(len(X))) / len(X)
        squares = sum(((_float_rows(X, rows) - self._mean) ** 2).sum() for rows in _blocks(len(X)))
        self._scale = _DIGITS / max(float(np.sqrt(squares / len(X))), 1e-300)
        self._shifts = _GOLDEN * _number_copies(X)

    def draw(self, rows: IntArray | None = None) -> FloatArray:
        """Return new numbers for all documents or for some of them."""
        weights, shift = self._scale * self._rng.standard_normal(self._X.shape[1]), self._rng.random()
        blocks = _blocks(len(self._X)) if rows is None else [rows]
        products = [(_float_rows(self._X, block) - self._mean) @ weights for block in blocks]
        shifts = shift + (self._shifts if rows is None else self._shifts[rows])
        return np.asarray(np.mod(np.concatenate(products) + shifts, 1.0))


def _number_copies(X: AnyArray) -> IntArray:
    """Return the number of equal documents before each document.

    >>> _number_copies(np.array([[1.0], [2.0], [1.0], [1.0]])).tolist()
    [0, 0, 1, 2]
    """
    words = np.random.default_rng(0).integers(1 << 63, size=X.shape[1], dtype=np.uint64)
    # Adding 0 turns −0 into 0.
    hashes = np.concatenate(
        [((_float_rows(X, rows) + 0.0).view(np.uint64) * words).sum(axis=1) for rows in _blocks(len(X))]
    )
    order = np.argsort(hashes, kind="stable")
    first = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[:1]]))
    copies = np.empty(len(X), dtype=np.int64)
    copies[order] = np.arange(len(X)) - np.repeat(first, np.diff(first, append=len(X)))
    return copies


def _draw(residuals: FloatArray, uniform: FloatArray, floor: float, n: int) -> IntArray:
    """Draw documents with probabilities proportional to their residuals, without repeating one."""
    possible = np.flatnonzero(residuals > floor)
    # The smallest of exponential waiting times with these rates comes first.
    waits = -np.log1p(-uniform[possible]) / residuals[possible]
    if n < len(possible):
        possible = possible[waits <= np.partition(waits, n - 1)[n - 1]]
        waits = -np.log1p(-uniform[possible]) / residuals[possible]
    return possible[np.argsort(waits, kind="stable")[:n]]


def _accept(block: FloatArray, uniform: FloatArray, floor: float) -> tuple[IntArray, FloatArray]:
    """Return the accepted candidates, given the residuals of all pairs of them, and the factor of the accepted ones."""
    before, accepted = np.diagonal(block).copy(), [0]
    columns = [block[:, 0] / np.sqrt(block[0, 0])]
    for number in range(1, len(block)):
        column = block[:, number] - np.array(columns).T @ np.array(columns)[:, number]
        if column[number] > max(floor, uniform[number] * before[number]):
            accepted.append(number)
            columns.append(column / np.sqrt(column[number]))
    numbers = np.array(accepted)
    return numbers, np.tril(np.array(columns).T[numbers])


def _extend(
    X: AnyArray,
    kernel: KernelFunction,
    features: FloatArray,
    residuals: FloatArray,
    panel: tuple[int, IntArray, FloatArray],
    limits: FactorLimits,
    n_jobs: int | None,
) -> bool:
    """Append the features of new landmarks, and subtract their squares from the residuals.

    Return whether all were computed: after the deadline, only those of the first landmarks are.
    """
    from scipy.linalg import solve_triangular  # noqa: PLC0415

    done, chosen, factor = panel
    end = done + len(chosen)
    pivots, known = _float_rows(X, chosen), features[chosen, :done]

    skipped: list[slice] = []

    def work(rows: slice) -> None:
        if done and limits.late:
            skipped.append(rows)
            return
        values = kernel(_float_rows(X, rows), pivots)
        values -= features[rows, :done] @ known.T
        new = solve_triangular(factor, values.T, lower=True, check_finite=False)
        features[rows, done:end] = new.T
        residuals[rows] -= np.einsum("ij,ij->j", new, new)

    for_each(work, [(rows,) for rows in _blocks(len(X))], n_jobs)
    return not skipped


def _count_needed(new: FloatArray, excess: float) -> int:
    """Return the number of new features that reduce the trace by the excess; all if they do not."""
    reductions = np.cumsum(np.einsum("ij,ij->j", new, new))
    return min(int(np.searchsorted(reductions, excess)) + 1, len(reductions))


def _diagonal(X: AnyArray, kernel: KernelFunction) -> FloatArray:
    with np.errstate(over="ignore"):
        values = np.concatenate([kernel.diagonal(_float_rows(X, rows)) for rows in _blocks(len(X))])
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise DataError(f"the kernel of document {at} with itself is {values[at]}; scale the features, or lower gamma")
    if (values < 0).any():
        raise DataError(f"the kernel of document {int(np.argmax(values < 0))} with itself is negative; use another")
    if not values.any():
        raise DataError("the kernel of every document with itself is 0, so there is nothing to learn; use another")
    return values


def _check_symmetric(block: FloatArray, largest: float) -> None:
    if not np.abs(block - block.T).max() <= _ROUNDING * largest:
        raise DataError("the kernel function is not symmetric, or not finite, on these documents; use another")


def _scale(X: AnyArray) -> float:
    """Return 1 / (number of features · variance of all their values); 1 for constant features."""
    mean = sum(float(_float_rows(X, rows).sum()) for rows in _blocks(len(X))) / max(1, X.size)
    variance = sum(float(((_float_rows(X, rows) - mean) ** 2).sum()) for rows in _blocks(len(X))) / max(1, X.size)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _narrow(features: FloatArray, rank: int) -> FloatArray:
    """Return the first columns, in the same memory."""
    n, width = features.shape
    if rank == width:
        return features
    flat = features.reshape(-1)
    for rows in _blocks(n):
        block = features[rows, :rank].copy()
        flat[rows.start * rank : rows.start * rank + block.size] = block.reshape(-1)
    return flat[: n * rank].reshape(n, rank)


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(n, start + _ROWS)) for start in range(0, n, _ROWS))


def _float_rows(X: AnyArray, rows: slice | IntArray) -> FloatArray:
    return np.asarray(X[rows], dtype=np.float64)
