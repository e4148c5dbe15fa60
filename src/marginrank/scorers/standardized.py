"""Linear scores of standardised features, without a scaled copy of them."""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from marginrank.mapped import for_each_block
from marginrank.preparation.formulas import unscaled_weights
from marginrank.preparation.standardize import Standardize
from marginrank.scorers.weights import Weights
from marginrank.typing import AnyArray, FloatArray

#: Numbers that are scaled and scored at a time: they stay in the cache of a core.
_NUMBERS: Final = 1 << 17
#: Largest mean, in standard deviations, of a feature whose scaling is folded into the weights.
_FAR: Final = 1e4


def standardized_scores(
    form: Weights, theta: FloatArray, X: AnyArray, scaler: Standardize, n_jobs: int | None = None
) -> FloatArray:
    """Score dense features with weights of standardised features.

    >>> scaler = Standardize().fit([[1.0, 4.0], [3.0, 4.0]])
    >>> standardized_scores(Weights(2), np.array([2.0, 1.0]), np.array([[5.0, 7.0]]), scaler).tolist()
    [6.0]
    """
    folded = fold(theta, scaler) if form.fill is None else None
    if folded is not None:
        weights, constant = folded
        return form.score(weights, form.before_scaling(X), n_jobs) - constant
    scores = np.empty(len(X))

    def work(number: int, rows: slice, block: AnyArray) -> None:  # noqa: ARG001
        ready = scaler.scaled_rows(cast("AnyArray", form.before_scaling(block)))
        scores[rows] = form.score(theta, ready, 1)

    for_each_block(X, work, max(1, _NUMBERS // max(1, X.shape[1])), n_jobs)
    return scores


def fold(theta: FloatArray, scaler: Standardize) -> tuple[FloatArray, float] | None:
    """Return weights of the features as they are, and a constant to subtract; None where that would lose digits.

    w·(x − mean)/scale is x·(w/scale) − mean·(w/scale).
    """
    varies = scaler.scale_ > 0
    with np.errstate(over="ignore"):
        weights = unscaled_weights(theta, scaler.scale_)
        far = np.abs(scaler.mean_[varies] / scaler.scale_[varies]).max(initial=0.0)
    return (weights, float(weights @ scaler.mean_)) if far <= _FAR and np.isfinite(weights).all() else None
