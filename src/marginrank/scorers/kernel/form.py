"""Sums over stored documents: the form of kernel rankers and Gaussian processes after training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.threads import for_each, one_blas_thread
from marginrank.scorers.form import NAN_ADVICE, Form, stored
from marginrank.scorers.terms import KernelTerm
from marginrank.typing import AnyArray, FloatArray

#: Values of the kernel in a block of rows.
_BLOCK_VALUES: Final = 1 << 22
#: Rows of a block of the diagonal of a custom kernel.
_DIAGONAL_ROWS: Final = 64
_LARGEST_DEGREE: Final = 100
#: Takes a matrix, and returns a function that multiplies rows by its rows: ``left @ right.T``.
Products: TypeAlias = Callable[[FloatArray], Callable[[FloatArray], FloatArray]]


def _all_products(right: FloatArray) -> Callable[[FloatArray], FloatArray]:
    return lambda left: np.asarray(left @ right.T)


class KernelFunction(ABC):
    """A positive semi-definite function of two documents."""

    #: Name in model files; empty if no file can hold it.
    name: ClassVar[str]

    def __call__(self, rows: FloatArray, columns: FloatArray) -> FloatArray:
        """Return the kernel of every row with every column, as rows × columns."""
        return self.against(columns)(rows)

    @abstractmethod
    def against(self, columns: FloatArray, products: Products = _all_products) -> Callable[[FloatArray], FloatArray]:
        """Return a function that computes the kernel of rows with these columns, from products of two matrices."""

    @abstractmethod
    def diagonal(self, rows: FloatArray) -> FloatArray:
        """Return the kernel of every row with itself."""

    @abstractmethod
    def parameters(self) -> FloatArray:
        """Return the parameters of the function."""


@dataclass(frozen=True)
class Rbf(KernelFunction):
    """k(x, z) = exp(−γ‖x − z‖²).

    >>> Rbf(0.5)(np.array([[0.0], [2.0]]), np.array([[0.0]])).round(4).tolist()        # e⁰ and e⁻²
    [[1.0], [0.1353]]
    """

    name: ClassVar[str] = "rbf"
    gamma: float

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=0.0)

    def against(self, columns: FloatArray, products: Products = _all_products) -> Callable[[FloatArray], FloatArray]:
        """Return a function that computes the kernel of rows with these columns."""
        # ‖x − z‖² is computed as a difference of squares, which is accurate if these are small.
        center = columns.mean(axis=0)
        right = columns - center
        multiply, squares = products(right), np.einsum("ij,ij->i", right, right)

        def values(rows: FloatArray) -> FloatArray:
            left = rows - center
            values = multiply(left)
            values *= -2.0
            values += np.einsum("ij,ij->i", left, left)[:, None]
            values += squares
            np.maximum(values, 0.0, out=values)
            values *= -self.gamma
            return np.exp(values, out=values)

        return values

    def diagonal(self, rows: FloatArray) -> FloatArray:
        """Return ones."""
        return np.ones(len(rows))

    def parameters(self) -> FloatArray:
        """Return γ."""
        return np.array([self.gamma])


@dataclass(frozen=True)
class Poly(KernelFunction):
    """k(x, z) = (γ x·z + c)^degree.

    >>> Poly(1.0, 2, 1.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]])).tolist()     # (5 + 1)²
    [[36.0]]
    """

    name: ClassVar[str] = "poly"
    gamma: float
    degree: int
    coef0: float

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=0.0)
        check_number("coef0", self.coef0, least=0.0)
        if self.degree != int(self.degree) or not 1 <= self.degree <= _LARGEST_DEGREE:
            raise ValueError(f"degree is {self.degree}; it must be a whole number from 1 to {_LARGEST_DEGREE}")

    def against(self, columns: FloatArray, products: Products = _all_products) -> Callable[[FloatArray], FloatArray]:
        """Return a function that computes the kernel of rows with these columns."""
        multiply = products(columns)
        return lambda rows: self._power(multiply(rows))

    def diagonal(self, rows: FloatArray) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self._power(np.einsum("ij,ij->i", rows, rows))

    def _power(self, products: FloatArray) -> FloatArray:
        products *= self.gamma
        products += self.coef0
        return np.asarray(products**self.degree)

    def parameters(self) -> FloatArray:
        """Return γ, degree and c."""
        return np.array([self.gamma, self.degree, self.coef0], dtype=np.float64)


@dataclass(frozen=True)
class CustomKernel(KernelFunction):
    """A user's function of two arrays of documents that returns the kernel of every row with every column."""

    name: ClassVar[str] = ""
    function: Callable[[FloatArray, FloatArray], Any]

    def against(
        self,
        columns: FloatArray,
        products: Products = _all_products,  # noqa: ARG002
    ) -> Callable[[FloatArray], FloatArray]:
        """Return a function that calls the user's, and refuses values of another shape."""

        def values(rows: FloatArray) -> FloatArray:
            values = np.array(self.function(rows, columns), dtype=np.float64)
            if values.shape != (len(rows), len(columns)):
                sizes = f"{len(rows)} and {len(columns)} documents"
                raise DataError(
                    f"the kernel function returned shape {values.shape} for {sizes}; return one value for every pair"
                )
            return values

        return values

    def diagonal(self, rows: FloatArray) -> FloatArray:
        """Return the kernel of every row with itself."""
        starts = range(0, len(rows), _DIAGONAL_ROWS)
        blocks = [rows[start : start + _DIAGONAL_ROWS] for start in starts]
        return np.concatenate([np.zeros(0), *(np.diagonal(self(block, block)) for block in blocks)])

    def parameters(self) -> FloatArray:
        """Raise TypeError, since no file can hold a function."""
        raise TypeError("a kernel that is a function cannot be written to a file; use kernel='rbf' or 'poly' to save")


@dataclass(frozen=True, eq=False)
class KernelForm(Form):
    """A sum over stored documents z: s(x) = Σ_z β_z k(x, z).

    The coefficients β are θ itself, or with a factor L they are L⁻ᵀθ: then θ are weights of the features L⁻¹k(z, x),
    whose products are k itself if x is a stored document.

    >>> form = KernelForm(np.array([[0.0], [2.0]]), Rbf(0.5))
    >>> form.score(np.array([1.0, 1.0]), np.array([[0.0]])).round(4).tolist()        # 1 + e⁻²
    [1.1353]
    >>> half = KernelForm(np.array([[0.0], [2.0]]), Rbf(0.5), factor=np.array([2.0, 0.0, 1.0]))
    >>> half.score(np.array([1.0, 1.0]), np.array([[0.0]])).round(4).tolist()        # ½ + e⁻²
    [0.6353]

    Args:
        documents: The stored documents.
        kernel: k.
        factor: The lower triangle L, row after row; None for the identity.
    """

    kind: ClassVar[str] = "kernel"
    sized_by: ClassVar[str] = "size"
    nan_advice: ClassVar[str] = NAN_ADVICE
    documents: FloatArray
    kernel: KernelFunction
    factor: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.documents.ndim != 2 or not len(self.documents):
            raise ValueError("a kernel has documents")
        if not np.isfinite(self.documents).all():
            raise ValueError("a document of the kernel is not finite")
        if self.factor is not None:
            _check_factor(self.factor, len(self.documents))

    @property
    def n_parameters(self) -> int:
        """One for each stored document."""
        return len(self.documents)

    def terms(self, theta: FloatArray) -> tuple[KernelTerm, ...]:
        """Return the stored documents with their coefficients."""
        name = getattr(self.kernel, "name", "")
        parameters = tuple(self.kernel.parameters().tolist()) if name else ()
        return (KernelTerm(self.documents, self.coefficients(theta), name, parameters, self.kernel),)

    def features(self, X: AnyArray, n_jobs: int | None = None) -> FloatArray:
        """Return the features that θ weights, one row per document.

        >>> half = KernelForm(np.array([[0.0], [2.0]]), Rbf(0.5), factor=np.array([2.0, 0.0, 1.0]))
        >>> half.features(np.array([[0.0]])).round(4).tolist()                           # ½ and e⁻²
        [[0.5, 0.1353]]
        """
        from scipy.linalg import solve_triangular  # noqa: PLC0415

        features, lower = np.empty((len(X), len(self.documents))), self._lower()
        step = max(1, _BLOCK_VALUES // len(self.documents))

        def work(start: int) -> None:
            rows = slice(start, start + step)
            values = self.kernel(np.asarray(X[rows], dtype=np.float64), self.documents)
            features[rows] = solve_triangular(lower, values.T, lower=True, check_finite=False).T

        with one_blas_thread():
            for_each(work, [(start,) for start in range(0, len(X), step)], n_jobs)
        return features

    def _lower(self) -> FloatArray:
        """Return L as a matrix."""
        if self.factor is None:
            return np.eye(len(self.documents))
        lower = np.zeros((len(self.documents), len(self.documents)))
        lower[np.tril_indices(len(lower))] = self.factor
        return lower

    def coefficients(self, theta: FloatArray) -> FloatArray:
        """Return β, one number for each stored document."""
        if self.factor is None:
            return theta
        beta, start = theta.copy(), len(self.factor)
        # Lᵀβ = θ, from the last row up: row i of L holds what β_i takes from the rows above it.
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(len(theta) - 1, -1, -1):
                start -= i + 1
                row = self.factor[start : start + i + 1]
                beta[i] /= row[i]
                beta[:i] -= beta[i] * row[:i]
        return beta

    def sizes(self, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return an empty array, since the kernel depends on all features together."""
        return np.zeros(0)

    def arrays(self) -> dict[str, AnyArray]:
        """Return documents, parameters of the kernel, and factor."""
        arrays = {"kernel.documents": self.documents, f"kernel.{self.kernel.name}": self.kernel.parameters()}
        return arrays if self.factor is None else {**arrays, "kernel.factor": self.factor}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Build the form from what `arrays` returned."""
        documents = stored(arrays, "kernel.documents", np.float64, ndim=2)
        if documents.shape[1:] != (n_features,):
            raise ValueError(f"documents of shape {documents.shape} for {n_features} features")
        factor = stored(arrays, "kernel.factor", np.float64) if "kernel.factor" in arrays else None
        return cls(documents, _stored_kernel(arrays), factor)


def _stored_kernel(arrays: Mapping[str, AnyArray]) -> KernelFunction:
    if "kernel.rbf" in arrays:
        (gamma,) = stored(arrays, "kernel.rbf", np.float64).tolist()
        return Rbf(gamma)
    gamma, degree, coef0 = stored(arrays, "kernel.poly", np.float64).tolist()
    check_number("degree", degree, least=1.0)
    return Poly(gamma, int(degree) if degree == int(degree) else degree, coef0)


def _check_factor(factor: FloatArray, n: int) -> None:
    """Refuse anything but a lower triangle with a positive diagonal."""
    if factor.shape != (n * (n + 1) // 2,) or not np.isfinite(factor).all():
        raise ValueError(f"the factor of {n} documents is not a triangle of finite numbers")
    if (factor[np.cumsum(np.arange(1, n + 1)) - 1] <= 0).any():
        raise ValueError("the factor of the kernel has a diagonal that is not above 0")


def check_number(name: str, value: Any, *, above: float = -np.inf, least: float = -np.inf) -> None:
    """Refuse anything but a finite number in a range.

    >>> check_number("gamma", 0.0, above=0.0)
    Traceback (most recent call last):
    ...
    ValueError: gamma is 0.0; it must be a finite number above 0
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and value > above and value >= least):
        bounds = f" above {above:g}" if above > -np.inf else f" of at least {least:g}" if least > -np.inf else ""
        raise ValueError(f"{name} is {value!r}; it must be a finite number{bounds}")
