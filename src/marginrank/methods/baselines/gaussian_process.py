"""Regression on the grades by a Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.methods.baselines.base import Baseline, Setting, Stage
from marginrank.methods.presets import Preset
from marginrank.scorers.expansion import Expansion

#: Most documents: training takes the cube of their number, and a model keeps them all.
MOST_DOCUMENTS: Final = 10_000


@dataclass(eq=False, repr=False)
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

    def stages(self, queries: Queries, setting: Setting) -> Iterator[Stage]:  # noqa: ARG002
        """Train once."""
        X, y = np.array(queries.X, dtype=np.float64), queries.grades - queries.grades.mean()
        rng = np.random.default_rng(self.random_state)
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


PRESETS: Final = (
    Preset(
        "gp-regression",
        "Gaussian process on the grades",
        "Le, Smola (2008) §6.6",
        lambda _: GaussianProcess(),
        kind="baseline",
    ),
)
