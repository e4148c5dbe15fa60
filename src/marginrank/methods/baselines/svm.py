"""Classification SVMs with squared hinges, whose decision values rank documents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.methods.baselines.base import LinearBaseline, document_weights, grade_classes
from marginrank.methods.presets import Preset
from marginrank.runtime.lazy_imports import sp
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.staged_scorer import StageLimits
from marginrank.solvers.newton import Newton
from marginrank.solvers.problem import Problem
from marginrank.solvers.solution import Solution
from marginrank.training.plan import Capabilities, Plan
from marginrank.typing import Features, FloatArray

#: Value of the constant feature whose weight is the intercept: the larger, the less the intercept is regularized.
_INTERCEPT: Final = 10.0
_TOL: Final = 1e-12
_THRESHOLDS: Final = np.arange(1, 51) / 51


@dataclass(frozen=True)
class AccuracySVM(LinearBaseline):
    """SVM_acc and its variants, Yue et al. (SIGIR 2007) §5.2.1: relevant or not, ranked by the distance to the plane.

    Minimizes ½‖w‖² + C · Σ c_i max(0, 1 − y_i (w·x_i + b))² with y = 1 for grades above 0, else −1, and the costs c_i
    together 1; b is 10 times the weight of a constant feature 10, which is regularized too, as in liblinear. The paper
    has the hinge of SVM-light; with the squared hinge, Newton's method finds the optimum for any scale of the features.
    All documents cost the same, or the weight of their query.

    Args:
        balanced: SVM_acc2: the costs of relevant and irrelevant documents have the inverse ratio of their numbers.
        relative: ``query-percentile`` for SVM_acc3, ``query-minmax`` for SVM_acc4: features relative to the query, as
            indicators of 50 evenly spaced thresholds between 0 and 1.
    """

    name = "accuracy-svm"
    takes_C: ClassVar[bool] = True  # noqa: N815
    default_criterion: ClassVar[str] = "ap"
    takes_weights: ClassVar[bool] = True
    balanced: bool = False
    relative: str | None = None

    @property
    def fixed_scaling(self) -> str | None:
        """Percentiles for SVM_acc3, min–max scaling by query for SVM_acc4."""
        return self.relative

    def capabilities(self, plan: Plan) -> Capabilities:
        """Return what the method can do; a missing value exceeds none of its own thresholds."""
        capabilities = super().capabilities(plan)
        return capabilities if self.relative is None else replace(capabilities, takes_nan=True)

    def fixed_bins(self, n_features: int) -> AdditiveForm | None:
        """Return 50 thresholds between 0 and 1 if the features are relative to the query."""
        if self.relative is None:
            return None
        return AdditiveForm((_THRESHOLDS,) * n_features, np.zeros(n_features, dtype=np.bool_))

    def weights(self, X: Features, queries: Queries, limits: StageLimits) -> Iterator[tuple[FloatArray, float]]:
        """Train once."""
        sides = np.where(queries.grades > 0, 1.0, -1.0)
        if sides.min() == sides.max():
            raise DataError("all documents are relevant, or none is; a classifier needs both")
        costs = self._costs(sides, document_weights(queries))
        plane = _separate(X, sides, costs, limits)
        theta = plane.theta[:-1].copy()
        yield theta, 0.5 * float(theta @ theta) + limits.C * plane.risk

    def _costs(self, sides: FloatArray, costs: FloatArray) -> FloatArray:
        if not self.balanced:
            return costs
        relevant = sides > 0
        factors = np.where(relevant, costs[~relevant].sum(), costs[relevant].sum())
        return np.asarray(costs * factors / (costs @ factors))


@dataclass(frozen=True)
class MulticlassSVM(LinearBaseline):
    """The multiclass SVM of Le and Smola (2008) §6.3: one class per grade, one against the rest.

    Each grade g has weights w_g, which minimize the objective of `AccuracySVM` for that grade against all others. The
    paper does not say how classes rank; here the score is Σ_g g · w_g·x, with the grades counted 0, 1, ... upwards.
    """

    name = "multiclass-svm"
    takes_C: ClassVar[bool] = True  # noqa: N815
    takes_weights: ClassVar[bool] = True

    def weights(self, X: Features, queries: Queries, limits: StageLimits) -> Iterator[tuple[FloatArray, float]]:
        """Train once for each grade."""
        grades, classes = grade_classes(queries)
        costs = document_weights(queries)
        theta, errors = np.zeros(X.shape[1]), 0.0
        for grade in range(len(grades)):
            grade_limits = StageLimits(limits.C, time.perf_counter() + limits.seconds_left / (len(grades) - grade))
            plane = _separate(X, np.where(classes == grade, 1.0, -1.0), costs, grade_limits)
            theta += grade * plane.theta[:-1]
            errors += plane.risk
        yield theta, errors


def _separate(X: Features, sides: FloatArray, costs: FloatArray, limits: StageLimits) -> Solution:
    """Return the solution, whose last weight is a tenth of the intercept."""
    return Newton(tol=_TOL, time_limit=limits.seconds_left).minimize(SquaredHinges(X, sides, costs), limits.C)


class SquaredHinges(Problem):
    """Σ c_i max(0, 1 − y_i (w·x_i + 10·v))² as a function of w and v.

    >>> hinges = SquaredHinges(np.array([[1.0], [0.0]]), np.array([1.0, -1.0]), np.array([0.5, 0.5]))
    >>> value, gradient = hinges(np.zeros(2))
    >>> value, gradient.tolist()                    # both are 1 short: ½·1 + ½·1, and −2·½·(1, 10) + 2·½·(0, 10)
    (1.0, [-1.0, 0.0])
    """

    capabilities = frozenset({"hessian"})

    def __init__(self, X: Features, sides: FloatArray, costs: FloatArray) -> None:
        self._X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        self._sides, self._costs = sides, costs
        self.n_parameters = X.shape[1] + 1

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum and its gradient."""
        slacks = np.maximum(0.0, 1.0 - self._sides * self._scores(theta))
        return float(self._costs @ slacks**2), self._pull_back(-2.0 * self._costs * self._sides * slacks)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalized Hessian times a direction."""
        active = self._sides * self._scores(theta) < 1.0
        return self._pull_back(2.0 * self._costs * active * self._scores(direction))

    def _scores(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self._X @ theta[:-1] + _INTERCEPT * theta[-1])

    def _pull_back(self, by_score: FloatArray) -> FloatArray:
        return np.append(self._X.T @ by_score, _INTERCEPT * by_score.sum())


_YUE: Final = "Yue, Finley, Radlinski, Joachims (SIGIR 2007)"
PRESETS: Final = (
    Preset("svmacc", "relevant or not, squared hinge", f"{_YUE} §5.2", lambda _: AccuracySVM()),
    Preset(
        "svmacc2",
        "relevant or not, squared hinge, both classes at equal cost",
        f"{_YUE} §5.2.1",
        lambda _: AccuracySVM(balanced=True),
    ),
    Preset(
        "svmacc3",
        "svmacc of step functions of percentiles",
        f"{_YUE} §5.2.1",
        lambda _: AccuracySVM(relative="query-percentile"),
    ),
    Preset(
        "svmacc4",
        "svmacc of step functions of each query's range",
        f"{_YUE} §5.2.1",
        lambda _: AccuracySVM(relative="query-minmax"),
    ),
    Preset("svm-multiclass", "one class per grade", "Le, Smola (2008) §6.3", lambda _: MulticlassSVM()),
)
