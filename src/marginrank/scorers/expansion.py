"""Sums over training documents: what is left of a Gaussian process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np

from marginrank.errors import DataError
from marginrank.scorers.forms import Form, stored
from marginrank.sparse import sp
from marginrank.threads import for_each
from marginrank.typing import AnyArray, Features, FloatArray

#: Values of the kernel that are in memory at a time.
_BLOCK_VALUES: Final = 1 << 22


@dataclass(frozen=True, eq=False)
class Expansion(Form):
    """A sum over training documents z: s(x) = Σ_z θ_z exp(−‖x − z‖² / 2ℓ²).

    >>> form = Expansion(np.array([[0.0], [2.0]]), length=1.0)
    >>> form.score(np.array([1.0, 1.0]), np.array([[0.0]])).round(4).tolist()        # 1 + e⁻²
    [1.1353]

    Args:
        documents: The training documents.
        length: ℓ, the distance over which scores change.
    """

    kind: ClassVar[str] = "kernel"
    sized_by: ClassVar[str] = "size"
    documents: FloatArray
    length: float

    def __post_init__(self) -> None:
        if self.documents.ndim != 2 or not (self.length > 0 and np.isfinite(self.length)):
            raise ValueError("a kernel has documents and a length above 0")
        if not np.isfinite(self.documents).all():
            raise ValueError("a document of the kernel is not finite")

    @property
    def n_parameters(self) -> int:
        """One for each training document."""
        return len(self.documents)

    def score(self, theta: FloatArray, X: Features, n_jobs: int | None = None) -> FloatArray:
        """Score documents, a block at a time."""
        from scipy.spatial.distance import cdist  # noqa: PLC0415

        if sp.issparse(X):
            raise DataError("a Gaussian process takes no sparse X; pass X.toarray()")
        scores, scaled = np.empty(X.shape[0]), self.documents / self.length
        step = max(1, _BLOCK_VALUES // max(1, len(self.documents)))

        def work(start: int) -> None:
            rows = np.asarray(X[start : start + step], dtype=np.float64)
            scores[start : start + len(rows)] = np.exp(-0.5 * cdist(rows / self.length, scaled, "sqeuclidean")) @ theta

        for_each(work, [(start,) for start in range(0, len(scores), step)], n_jobs)
        return scores

    def sizes(self, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """Features cannot be told apart: all have the same length."""
        return np.zeros(0)

    def arrays(self) -> dict[str, AnyArray]:
        """Documents and length."""
        return {"kernel.documents": self.documents, "kernel.length": np.array(self.length)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], n_features: int) -> Self:
        """Make a kernel of what `arrays` gave."""
        documents = stored(arrays, "kernel.documents", np.float64, ndim=2)
        if documents.shape[1:] != (n_features,):
            raise ValueError(f"documents of shape {documents.shape} for {n_features} features")
        return cls(documents, float(stored(arrays, "kernel.length", np.float64, ndim=0)))
