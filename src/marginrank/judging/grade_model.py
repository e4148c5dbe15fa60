"""The gain that unjudged documents are expected to have, by their ranks and by what is judged of their query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from marginrank.typing import BoolArray, FloatArray, IntArray

#: Before anything is judged: the expected gain over the highest, and its variance over the square of the highest.
_PRIOR_MEAN: Final = 0.1
_PRIOR_VARIANCE: Final = 0.1
#: Number of coefficients that systems share, and the penalty of the others: 10 needed fewer documents than 1, 30 or 100
#: on OHSUMED (``benchmarks/judge_next.py ohsumed``), and its probabilities were rather too low than too high.
_SHARED: Final = 3
_PENALTY_OF_SYSTEMS: Final = 10.0
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

    With ``r_s`` the reciprocal logarithm of the rank that system ``s`` has for the document and ``r`` their mean, the
    mean gain is linear in ``r``, ``r²`` and the ``r_s - r``: ridge regression, with a penalty of one judged document,
    and ten for the latter: few judgements say little about which system is better. It is then multiplied by what the
    query is worth, ``(h + sum of gains) / (h + sum of their means)`` over its judged documents with ``h`` the highest
    gain: queries differ, and a query whose first documents are irrelevant has fewer relevant ones than its ranks tell.
    The variance is proportional to the mean, as it is for rare gains.

    Args:
        ranks: One row per system, 1 / log2(1 + rank) for ranks from 1 on, 0 for documents that it does not retrieve.
        query: The query of each document.
        gains: The gain of each document; any number if it is not judged.
        judged: Whether each is judged.
        highest: The highest gain there is.
    """
    mean = ranks.mean(axis=0)
    features = np.stack([np.ones(len(query)), mean, mean**2, *(ranks[:-1] - mean)], axis=1)
    prior = np.zeros(features.shape[1])
    prior[0] = _PRIOR_MEAN * highest
    known = features[judged]
    penalties = np.where(np.arange(len(prior)) < _SHARED, 1.0, _PENALTY_OF_SYSTEMS)
    precision = known.T @ known + np.diag(penalties)
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
