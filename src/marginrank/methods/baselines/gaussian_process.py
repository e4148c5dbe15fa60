"""Regression on the grades by a Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.methods.baselines.base import Baseline, Setting, Stage
from marginrank.scorers.forms import Form
from marginrank.threads import for_each
from marginrank.typing import AnyArray, Features, FloatArray

#: Most documents: training takes the cube of their number, and a model keeps them all.
MOST_DOCUMENTS: Final = 10_000
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
        documents = np.asarray(arrays["kernel.documents"], dtype=np.float64)
        if documents.shape[1:] != (n_features,):
            raise ValueError(f"documents of shape {documents.shape} for {n_features} features")
        return cls(documents, float(arrays["kernel.length"]))


@dataclass(frozen=True)
class GaussianProcess(Baseline):
    """Gaussian-process regression on the grades (GPR in Le and Smola (2008) §6.6), by scikit-learn.

    The kernel is a·exp(−‖x − z‖² / 2ℓ²), with noise of variance b: the score is the posterior mean of the grade, less
    the mean grade. a, ℓ and b maximise the marginal likelihood of at most ``sample`` documents, drawn at random; the
    weights of all documents then follow from these. The objective is −log marginal likelihood per document.

    Args:
        sample: Most documents that a, ℓ and b are learned from.
    """

    sample: int = 1000

    def check(self, queries: Queries) -> None:
        """Refuse more documents than it takes."""
        super().check(queries)
        if queries.n_documents > MOST_DOCUMENTS:
            raise DataError(
                f"{queries.n_documents:,} documents; a Gaussian process takes at most {MOST_DOCUMENTS:,}, use fewer"
            )

    def stages(self, queries: Queries, setting: Setting) -> Iterator[Stage]:
        """Train once."""
        X, y = np.array(queries.X, dtype=np.float64), queries.grades - queries.grades.mean()
        rng = np.random.default_rng(setting.random_state)
        drawn = np.sort(rng.permutation(len(y))[: self.sample])
        # More threads would change the last digits.
        with threadpool_limits(1, "blas"):
            learned = _regressor(None, "fmin_l_bfgs_b").fit(X[drawn], y[drawn]).kernel_
            fitted = _regressor(learned, None).fit(X, y)
        scale, length = learned.k1.k1.constant_value, learned.k1.k2.length_scale
        objective = -float(fitted.log_marginal_likelihood_value_) / len(y)
        yield Stage(Expansion(X, float(length)), scale * np.ravel(fitted.alpha_), objective)


def _regressor(kernel: Any, optimizer: str | None) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel  # noqa: PLC0415

    own = ConstantKernel() * RBF() + WhiteKernel() if kernel is None else kernel
    return GaussianProcessRegressor(own, optimizer=optimizer)
