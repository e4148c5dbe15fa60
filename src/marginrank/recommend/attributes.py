"""What a fitted recommender says of itself."""

from __future__ import annotations

import numpy as np

from marginrank.recommend.alternating import HalfStep
from marginrank.recommend.factor_model import FactorModel
from marginrank.typing import AnyArray, FloatArray


class FactorAttributes:
    """Attributes of an estimator that are read from its model."""

    model_: FactorModel

    @property
    def trace_(self) -> tuple[HalfStep, ...]:
        """The objective after every half step."""
        return self._fitted.trace

    @property
    def objective_(self) -> float:
        """The objective reached."""
        return self._fitted.trace[-1].objective

    @property
    def user_ids_(self) -> AnyArray:
        """Ids of the users, sorted."""
        return self._fitted.seen.users

    @property
    def item_ids_(self) -> AnyArray:
        """Ids of the items, sorted."""
        return self._fitted.seen.items

    @property
    def user_factors_(self) -> FloatArray:
        """The factors of each user."""
        return self._fitted.factors.users[:, len(self._fitted.factors.shared) :]

    @property
    def item_factors_(self) -> FloatArray:
        """The factors of each item."""
        return self._fitted.factors.items[:, self._fitted.factors.user_columns.shape[1] :]

    @property
    def item_bias_(self) -> FloatArray:
        """What the score of each item is for users of whom nothing is known."""
        fitted = self._fitted
        biases = fitted.columns.bias * fitted.factors.items[:, 0] if fitted.columns.bias else 0.0
        return np.asarray(biases + fitted.factors.item_columns @ fitted.factors.shared)

    @property
    def _fitted(self) -> FactorModel:
        # scikit-learn asks for attributes that end with _ before fitting, and expects AttributeError.
        if "model_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.model_
