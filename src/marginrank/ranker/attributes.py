"""Attributes of fitted rankers, read from the model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from marginrank.model.model import Health, Model
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.form import Form
from marginrank.solvers.solution import Solution
from marginrank.typing import FloatArray


class FittedAttributes:
    """Attributes of a fitted ranker, in the names of scikit-learn."""

    model_: Model

    @property
    def coef_(self) -> FloatArray:
        """The learned parameters."""
        return self._fitted.theta

    @property
    def solution_(self) -> Solution:
        """The result of the solver."""
        return self._fitted.solution

    @property
    def gap_(self) -> float:
        """Upper bound on the distance of the objective from the optimum; inf without a certificate."""
        return self.solution_.gap

    @property
    def objective_(self) -> float:
        """Value of the objective."""
        return self.solution_.primal

    @property
    def n_iter_(self) -> int:
        """Iterations of the solver, or rounds of a baseline."""
        return self.solution_.n_iter

    @property
    def health_(self) -> Health | None:
        """The fit of the loss to the data."""
        return self._fitted.health

    @property
    def measure_(self) -> str:
        """The measure, or mix, that the ranker is evaluated with."""
        return self._fitted.method.measure

    @property
    def trained_on_(self) -> dict[str, Any]:
        """Counts and fingerprint of the training data."""
        return asdict(self._fitted.provenance)

    @property
    def form_(self) -> Form:
        """The form of the scoring function."""
        return self._fitted.form

    @property
    def bins_(self) -> AdditiveForm | None:
        """Thresholds of the curves; None if there are none."""
        return self.form_ if isinstance(self.form_, AdditiveForm) else None

    @property
    def _fitted(self) -> Model:
        # scikit-learn reads attributes that end with _ before fitting, and expects AttributeError.
        if "model_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.model_
