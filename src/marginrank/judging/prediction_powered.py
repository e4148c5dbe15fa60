"""Prediction-powered means: few queries judged by people, many by a machine, one unbiased estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy  # its parts load on first use

from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.evaluation import Evaluation
from marginrank.runtime.text import count, query_named
from marginrank.typing import FloatArray

#: Below this number of queries judged by people, the weight of the machine cannot be estimated.
_FEWEST: Final = 20


class MachineCannotHelpError(DataError):
    """The grades of the machine would not make the interval shorter."""


@dataclass(frozen=True)
class PredictionPoweredMean:
    """A mean over queries, from grades of people and of a machine."""

    mean: float
    interval: tuple[float, float]
    #: The same from the queries that people judged alone.
    people_mean: float
    people_interval: tuple[float, float]
    #: Weight of the values by the machine, from 0 to 1.
    weight: float
    #: Number of queries that people judged, and of those that only the machine judged.
    n_people: int
    n_machine: int

    @property
    def gain(self) -> float:
        """The factor of more queries that people would have to judge for an interval as short."""
        return float((np.ptp(self.people_interval) / np.ptp(self.interval)) ** 2)

    def __str__(self) -> str:
        low, high = self.interval
        queries = f"{count(self.n_people, 'query', 'queries')} by people, {self.n_machine:,} more by the machine"
        return f"{self.mean:.4f} [{low:.4f}, {high:.4f}]; {queries}; worth {self.gain:.2f} times the queries"


def prediction_powered_mean(
    people: npt.ArrayLike, machine: npt.ArrayLike, machine_only: npt.ArrayLike, *, confidence: float = 0.95
) -> PredictionPoweredMean:
    """Estimate the mean of what people would find from few of their values and many of a machine's.

    With values ``Y`` by people and ``f`` by the machine on the same ``n`` queries, and ``f`` on ``N`` others,
    ``θ = λ mean_N(f) + mean_n(Y - λ f)``, which is unbiased for fixed λ whatever the machine does. Its variance,
    ``λ² var(f) / N + var(Y - λ f) / n``, is minimal at ``λ = cov(Y, f) / ((1 + n / N) var(f))``: Angelopoulos et al.,
    "Prediction-powered inference" (Science 2023); Angelopoulos, Duchi and Zrnic, "PPI++" (2023). The interval is that
    of Student's t with ``n - 2`` degrees of freedom, one of them for λ.

    >>> people = np.tile([0.2, 0.4, 0.6, 0.8], 5)
    >>> result = prediction_powered_mean(people, people + 0.1, np.tile([0.3, 0.5, 0.7, 0.9], 25))
    >>> round(result.mean, 4), round(result.weight, 4)      # a constant bias cancels; λ = 1 / (1 + 20 / 100)
    (0.5, 0.8333)

    Args:
        people: One value per query that people judged.
        machine: The values of the same queries by the grades of the machine.
        machine_only: Its values of other queries, from the same population.
        confidence: Confidence level of the intervals.

    Raises:
        MachineCannotHelpError: It does not go with people, or there are too few queries; a `DataError`.
    """
    if not 0 < confidence < 1:
        raise ParameterError(Parameter("confidence"), f" is {confidence}; give a number between 0 and 1")
    y, f, more = (_values(name, x) for name, x in (("people", people), ("machine", machine), ("others", machine_only)))
    n, others = len(y), len(more)
    if len(f) != n:
        raise DataError(f"{n} values by people and {len(f)} by the machine; give both for the same queries")
    if n < _FEWEST or others < 2:
        raise MachineCannotHelpError(
            f"people judged {count(n, 'query', 'queries')}, and the machine {others:,} more; a machine can help from "
            f"{_FEWEST} queries by people and 2 more on; use the values of people alone"
        )
    variance = float(np.var(f, ddof=1))
    covariance = float(np.cov(y, f)[0, 1])
    weight = min(max(covariance / ((1 + n / others) * variance), 0.0), 1.0) if variance > 0 else 0.0
    left = y - weight * f
    error = np.sqrt(weight**2 * np.var(more, ddof=1) / others + np.var(left, ddof=1) * (n - 1) / (n - 2) / n)
    alone = np.sqrt(np.var(y, ddof=1) / n)
    half = error * scipy.stats.t.ppf((1 + confidence) / 2, n - 2)
    half_alone = alone * scipy.stats.t.ppf((1 + confidence) / 2, n - 1)
    if half >= half_alone:
        correlation = float(np.corrcoef(y, f)[0, 1]) if variance > 0 and np.ptp(y) > 0 and np.ptp(f) > 0 else 0.0
        raise MachineCannotHelpError(
            f"the machine cannot help: its values have a correlation of {correlation:.2f} with those of people, and "
            "the interval would be no shorter; use the values of people alone"
        )
    mean, mean_alone = float(weight * more.mean() + left.mean()), float(y.mean())
    interval = (mean - float(half), mean + float(half))
    return PredictionPoweredMean(
        mean, interval, mean_alone, (mean_alone - float(half_alone), mean_alone + float(half_alone)), weight, n, others
    )


def prediction_powered_evaluate(
    people: Evaluation, machine: Evaluation, measure: str, *, confidence: float = 0.95
) -> PredictionPoweredMean:
    """Estimate the mean of a measure from an evaluation by people and one of the same system by a machine.

    Args:
        people: What `marginrank.evaluate` returned for the queries that people judged.
        machine: The same for the grades of the machine, on these queries and on more.
        measure: Which of the measures.
        confidence: Confidence level of the intervals.
    """
    return prediction_powered_mean(*_matched(people, machine, people[measure], machine[measure]), confidence=confidence)


def prediction_powered_compare(
    people: tuple[Evaluation, Evaluation],
    machine: tuple[Evaluation, Evaluation],
    measure: str,
    *,
    confidence: float = 0.95,
) -> PredictionPoweredMean:
    """Estimate the mean difference of two systems: the first of each pair minus the second.

    Args:
        people: What `marginrank.evaluate` returned for the two systems on the queries that people judged.
        machine: The same for the grades of the machine, on these queries and on more.
        measure: Which of the measures.
        confidence: Confidence level of the intervals.
    """
    differences = []
    for one, other in (people, machine):
        if not np.array_equal(one.query_ids, other.query_ids):
            raise DataError("the two systems were evaluated on different queries; evaluate both on the same ones")
        differences.append(one[measure] - other[measure])
    return prediction_powered_mean(*_matched(people[0], machine[0], *differences), confidence=confidence)


def _matched(
    people: Evaluation, machine: Evaluation, y: FloatArray, f: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the values by people, by the machine on the same queries, and by the machine on the others."""
    if people.weights is not None or machine.weights is not None:
        raise DataError("queries have weights, which prediction-powered means do not take; evaluate without them")
    if people.policy != machine.policy:
        raise DataError(f"people's evaluation has policy {people.policy}, the machine's {machine.policy}; use one")
    place = {str(query): at for at, query in enumerate(machine.query_ids.tolist())}
    rows = []
    for query in people.query_ids.tolist():
        if str(query) not in place:
            raise DataError(
                f"the machine did not judge {query_named(query)}; it must judge every query that people judged"
            )
        rows.append(place[str(query)])
    others = np.setdiff1d(np.arange(len(f)), rows)
    for evaluation, values in ((people, y), (machine, f)):
        if np.isnan(values).any():
            query = query_named(evaluation.query_ids[np.argmax(np.isnan(values))])
            raise DataError(
                f"{query} is left out of the mean, as it has no relevant document; people and machines would leave out "
                "different queries: evaluate both with a policy that counts it, such as ",
                Parameter("policy", "trec"),
            )
    return y, f[rows], f[others]


def _values(name: str, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise DataError(f"{name}: give one finite value per query")
    return array
