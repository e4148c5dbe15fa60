"""The gain that unjudged documents are expected to have, by their ranks and by what is judged of their query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.typing import BoolArray, FloatArray, IntArray

#: Before anything is judged: the expected gain over the highest, and its variance over the square of the highest.
_PRIOR_MEAN: Final = 0.1
_PRIOR_VARIANCE: Final = 0.1
#: The lowest expected gain over the highest; what is judged never excludes a relevant document.
_LOWEST: Final = 0.005


@dataclass(frozen=True)
class ExpectedGains:
    """Mean and variance of the gain of each document, and how far the means are in doubt together."""

    means: FloatArray
    variances: FloatArray
    #: What the means are linear in, documents × parameters, and the covariance of the parameters.
    features: FloatArray
    covariance: FloatArray
    #: Number of judged documents that exceeds that of parameters, at least 1.
    freedom: int

    def sum_variance(self, weights: FloatArray) -> float:
        """Return the variance of a weighted sum of gains, 0 for documents that are judged."""
        shift = self.features.T @ weights
        return float(weights**2 @ self.variances + shift @ self.covariance @ shift)


def expected_gains(
    ranks: FloatArray, query: IntArray, gains: FloatArray, judged: BoolArray, highest: float
) -> ExpectedGains:
    """Estimate the gains of documents from those of judged ones.

    The mean is linear in the reciprocal logarithm of the rank that each system has for the document, and in the square
    of their mean: ridge regression, each coefficient worth one judged document. It is then multiplied by what the query
    is worth, ``(h + sum of gains) / (h + sum of their means)`` over its judged documents with ``h`` the highest gain:
    queries differ, and a query whose first documents are irrelevant has fewer relevant ones than its ranks tell. The
    variance is proportional to the mean, as it is for rare gains.

    Args:
        ranks: One row per system, 1 / log2(1 + rank) for ranks from 1 on, 0 for documents that it does not retrieve.
        query: The query of each document.
        gains: The gain of each document; any number if it is not judged.
        judged: Whether each is judged.
        highest: The highest gain there is.
    """
    features = np.stack([np.ones(len(query)), *ranks, ranks.mean(axis=0) ** 2], axis=1)
    prior = np.zeros(features.shape[1])
    prior[0] = _PRIOR_MEAN * highest
    known = features[judged]
    precision = known.T @ known + np.eye(len(prior))
    theta = prior + np.linalg.solve(precision, known.T @ (gains[judged] - known @ prior))
    left = gains[judged] - known @ theta
    noise = (_PRIOR_VARIANCE * highest**2 + float(left @ left)) / (1 + len(left))
    by_rank = np.clip(features @ theta, _LOWEST * highest, highest)
    n = int(query.max()) + 1
    sums = [np.bincount(query[judged], values[judged], minlength=n) for values in (gains, by_rank)]
    of_query = (highest + sums[0]) / (highest + sums[1])
    means = np.clip(by_rank * of_query[query], _LOWEST * highest, highest)
    typical = float(by_rank[judged].mean()) if judged.any() else _PRIOR_MEAN * highest
    freedom = max(1, len(left) - len(prior))
    return ExpectedGains(means, noise * means / typical, features, noise * np.linalg.inv(precision), freedom)


__all__ = ["ExpectedGains", "expected_gains"]
