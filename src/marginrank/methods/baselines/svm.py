"""Classification SVMs whose scores rank: documents on their own, with squared hinges."""

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

#: The intercept is the weight of a constant feature, and regularised; the larger the constant, the less.
_INTERCEPT: Final = 10.0
_TOL: Final = 1e-12
_THRESHOLDS: Final = np.arange(1, 51) / 51


@dataclass(frozen=True)
class AccuracySVM(LinearBaseline):
    """SVM_acc and its variants, Yue et al. (SIGIR 2007) §5.2.1: relevant or not, ranked by the distance to the plane.

    Minimises ½‖w‖² + C · Σ c_i max(0, 1 − y_i (w·x_i + b))² with y = 1 for grades above 0, else −1, and the costs c_i
    together 1; b is 10 times the weight of a constant feature 10, which is regularised too, as in liblinear. The paper
    has the hinge of SVM-light; the squared hinge is what Newton's method finds the optimum of for any scale of the
    features. All documents cost the same, and in a weighted query as much as the query weighs.

    Args:
        balanced: SVM_acc2: what a relevant document costs, over what another costs, is the number of the others over
            the number of the relevant.
        relative: ``query-percentile`` for SVM_acc3, ``query-minmax`` for SVM_acc4: features relative to the query, of
            which 50 thresholds evenly spaced between 0 and 1 are learned.
    """

    name = "accuracy-svm"
    takes_C: ClassVar[bool] = True  # noqa: N815
    judged_by: ClassVar[str] = "ap"
    takes_weights: ClassVar[bool] = True
    balanced: bool = False
    relative: str | None = None

    @property
    def own_scaling(self) -> str | None:
        """Percentiles for SVM_acc3, the range of the query for SVM_acc4."""
        return self.relative

    def capabilities(self, plan: Plan) -> Capabilities:
        """Return what the method can do; a missing value exceeds none of its own thresholds."""
        able = super().capabilities(plan)
        return able if self.relative is None else replace(able, takes_nan=True)

    def own_bins(self, n_features: int) -> AdditiveForm | None:
        """50 thresholds between 0 and 1 where the features lie there."""
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
        shares = np.where(relevant, costs[~relevant].sum(), costs[relevant].sum())
        return np.asarray(costs * shares / (costs @ shares))


@dataclass(frozen=True)
class MulticlassSVM(LinearBaseline):
    """The multiclass SVM of Le and Smola (2008) §6.3: one class per grade, one against the rest.

    Each grade g has weights w_g, which minimise the objective of `AccuracySVM` for that grade against all others. The
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
        for place in range(len(grades)):
            share = StageLimits(limits.C, time.perf_counter() + limits.seconds_left / (len(grades) - place))
            plane = _separate(X, np.where(classes == place, 1.0, -1.0), costs, share)
            theta += place * plane.theta[:-1]
            errors += plane.risk
        yield theta, errors


def _separate(X: Features, sides: FloatArray, costs: FloatArray, limits: StageLimits) -> Solution:
    """Find the weights, and the intercept over 10 as the last of them."""
    return Newton(tol=_TOL, time_limit=limits.seconds_left).minimize(SquaredHinges(X, sides, costs), limits.C)


class SquaredHinges(Problem):
    """Σ c_i max(0, 1 − y_i (w·x_i + 10·v))² as a function of w and v.

    >>> value, slope = SquaredHinges(np.array([[1.0], [0.0]]), np.array([1.0, -1.0]), np.array([0.5, 0.5]))(np.zeros(2))
    >>> value, slope.tolist()                       # both are 1 short: ½·1 + ½·1, and −2·½·(1, 10) + 2·½·(0, 10)
    (1.0, [-1.0, 0.0])
    """

    capabilities = frozenset({"hessian"})

    def __init__(self, X: Features, sides: FloatArray, costs: FloatArray) -> None:
        self._X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        self._sides, self._costs = sides, costs
        self.n_parameters = X.shape[1] + 1

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the sum and its gradient."""
        short = np.maximum(0.0, 1.0 - self._sides * self._scores(theta))
        return float(self._costs @ short**2), self._back(-2.0 * self._costs * self._sides * short)

    def hessian_product(self, theta: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the generalised Hessian times a direction."""
        inside = self._sides * self._scores(theta) < 1.0
        return self._back(2.0 * self._costs * inside * self._scores(direction))

    def _scores(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self._X @ theta[:-1] + _INTERCEPT * theta[-1])

    def _back(self, slopes: FloatArray) -> FloatArray:
        return np.append(self._X.T @ slopes, _INTERCEPT * slopes.sum())


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
