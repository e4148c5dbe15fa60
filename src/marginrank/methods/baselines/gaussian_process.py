"""Regression on the grades by a Gaussian process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError, NumericalError
from marginrank.methods.baselines.base import Baseline
from marginrank.methods.presets import Preset
from marginrank.runtime.threads import one_blas_thread
from marginrank.scorers.kernel.form import KernelForm, Rbf
from marginrank.scorers.staged_scorer import Stage, StageLimits
from marginrank.training.plan import Plan
from marginrank.typing import FloatArray

#: Training time grows with the cube of the number of documents, and the model contains them all.
MAX_DOCUMENTS: Final = 10_000
_LARGEST_GRADE: Final = 1e100
#: Added to the diagonal of kernel matrices; scikit-learn's default.
_JITTER: Final = 1e-10


@dataclass(frozen=True)
class GaussianProcess(Baseline):
    """Gaussian-process regression on the grades (GPR in Le and Smola (2008) §6.6), by scikit-learn.

    The kernel is a·exp(−‖x − z‖² / 2ℓ²), with noise of variance b: the score is the posterior mean of the grade, less
    the mean grade. a, ℓ and b maximize the marginal likelihood of at most ``sample`` documents, drawn at random; the
    weights of all documents then follow from these; if the time limit is too short for that, those of the sample.
    The objective is −log marginal likelihood per document.

    Args:
        sample: Maximum number of documents that a, ℓ and b are learned from.
    """

    name = "gp-regression"
    draws: ClassVar[bool] = True
    sample: int = 1000

    def check(self, plan: Plan, queries: Queries) -> None:
        """Refuse more documents than can be trained on."""
        super().check(plan, queries)
        if queries.n_documents > MAX_DOCUMENTS:
            raise DataError(
                f"{queries.n_documents:,} documents; a Gaussian process takes at most {MAX_DOCUMENTS:,}, use fewer"
            )
        if queries.grades.max() > _LARGEST_GRADE:
            raise NumericalError(f"grade {queries.grades.max():g} cannot be squared; rescale the features, or grades")

    def stages(self, plan: Plan, queries: Queries, limits: StageLimits) -> Iterator[Stage]:
        """Train once."""
        X, y = np.array(queries.X, dtype=np.float64), queries.grades - queries.grades.mean()
        rng = np.random.default_rng(plan.seed)
        drawn = np.sort(rng.permutation(len(y))[: self.sample])
        with one_blas_thread():
            search = _TimedLBFGS(limits)
            learned = _regressor(search).fit(X[drawn], y[drawn]).kernel_
            # One step of the search takes about as long as solving for as many documents.
            if search.seconds * (len(y) / len(drawn)) ** 3 > limits.seconds_left:
                X, y = X[drawn], y[drawn]
            alpha, objective = _posterior(learned(X), y)
        scale, length = learned.k1.k1.constant_value, learned.k1.k2.length_scale
        yield Stage(KernelForm(X, Rbf(0.5 / float(length) ** 2)), scale * alpha, objective)


class _TimedLBFGS:
    """L-BFGS with a deadline, as an optimizer of scikit-learn."""

    def __init__(self, limits: StageLimits) -> None:
        self._limits = limits
        #: Duration of the last step.
        self.seconds = 0.0

    def __call__(self, objective: Any, start: FloatArray, bounds: FloatArray) -> tuple[FloatArray, float]:
        from scipy.optimize import minimize  # noqa: PLC0415

        best: tuple[float, FloatArray] = np.inf, start

        def timed(theta: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best
            if np.isfinite(best[0]) and self._limits.late:
                raise StopIteration
            began = time.perf_counter()
            value, gradient = objective(theta)
            self.seconds = time.perf_counter() - began
            if value < best[0]:
                best = value, theta.copy()
            return value, gradient

        with suppress(StopIteration):
            minimize(timed, start, method="L-BFGS-B", jac=True, bounds=bounds.tolist())
        return best[1], best[0]


def _regressor(optimizer: Any) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel  # noqa: PLC0415

    return GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), alpha=_JITTER, optimizer=optimizer)


def _posterior(kernel: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights of the documents, and −log marginal likelihood per document, from one factorization.

    scikit-learn's ``fit`` factorizes the matrix twice, and training takes little else.
    """
    from scipy.linalg import cho_solve, cholesky  # noqa: PLC0415

    kernel[np.diag_indices_from(kernel)] += _JITTER
    # The transpose of a symmetric matrix in C order is in Fortran order, and is overwritten without a copy.
    lower = cholesky(kernel.T, lower=True, overwrite_a=True, check_finite=False)
    alpha = np.asarray(cho_solve((lower, True), y, check_finite=False))
    half_log = float(np.log(np.diag(lower)).sum()) + 0.5 * len(y) * float(np.log(2.0 * np.pi))
    return alpha, (0.5 * float(y @ alpha) + half_log) / len(y)


PRESETS: Final = (
    Preset(
        "gp-regression",
        "Gaussian process on the grades",
        "Le, Smola (2008) §6.6",
        lambda _: GaussianProcess(),
    ),
)
