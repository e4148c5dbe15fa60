"""Confidence intervals of means and shares of documents, over samples of whole queries."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy  # its parts load on first use

from marginrank.errors import Parameter, ParameterError
from marginrank.typing import FloatArray, IntArray

#: The interval of what cannot be estimated.
UNKNOWN: Final = (-np.inf, np.inf)


class Estimate(NamedTuple):
    """A mean or a share with its confidence interval; unbounded for a single query."""

    value: float
    interval: tuple[float, float]
    #: Number of documents it is of.
    documents: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.interval[0]:.3f}, {self.interval[1]:.3f}]"


def check_confidence(confidence: float) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    if not 0 < confidence < 1:
        raise ParameterError(Parameter("confidence"), f" is {confidence}; give a number between 0 and 1")


def document_mean(values: FloatArray, query: IntArray, confidence: float = 0.95) -> Estimate:
    """Estimate the mean over documents, whose values are alike within a query.

    The mean is a ratio, of the sums of values and of documents of queries. With ``e_q`` the sum of the values of query
    ``q`` minus the mean times its number of documents, its linearized variance is ``n / (n - 1) Σ e_q² / N²`` for
    ``n`` queries and ``N`` documents. The interval is that of Student's t with ``n - 1`` degrees of freedom.

    >>> one = document_mean(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 2]))
    >>> round(one.value, 3), round((one.interval[1] - one.interval[0]) / 2, 3)     # t = 4.303, sqrt(1 / 3) = 0.577
    (2.0, 2.484)
    """
    if not len(values):
        return Estimate(np.nan, UNKNOWN, 0)
    value = float(values.mean())
    error, n = _standard_error(values, query)
    if n < 2:
        return Estimate(value, UNKNOWN, len(values))
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    return Estimate(value, (value - half, value + half), len(values))


def document_share(hits: FloatArray, query: IntArray, confidence: float = 0.95) -> Estimate:
    """Estimate the share of documents with a property, which documents of a query may have in common.

    The interval is Wilson's score interval for as many independent documents as have the variance of the share over
    queries, and no more than there are; if all documents are the same, for as many as there are queries.

    >>> document_share(np.ones(20), np.arange(20)).interval[0].__round__(3)        # 20 / (20 + 1.96²) with t = 2.093
    0.82
    """
    if not len(hits):
        return Estimate(np.nan, (0.0, 1.0), 0)
    share = float(hits.mean())
    error, n = _standard_error(hits, query)
    if n < 2:
        return Estimate(share, (0.0, 1.0), len(hits))
    independent = float(n) if error == 0 else min(share * (1 - share) / error**2, float(len(hits)))
    z = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1))
    center = (share + z**2 / (2 * independent)) / (1 + z**2 / independent)
    spread = share * (1 - share) / independent + z**2 / (4 * independent**2)
    half = z * np.sqrt(spread) / (1 + z**2 / independent)
    return Estimate(share, (max(float(center - half), 0.0), min(float(center + half), 1.0)), len(hits))


def _standard_error(values: FloatArray, query: IntArray) -> tuple[float, int]:
    """Return the standard error of the mean over documents, and the number of queries."""
    _, number = np.unique(query, return_inverse=True)
    errors = np.bincount(number, values - values.mean())
    n = len(errors)
    return (0.0, n) if n < 2 else (float(np.sqrt(n / (n - 1) * np.sum(errors**2)) / len(values)), n)
