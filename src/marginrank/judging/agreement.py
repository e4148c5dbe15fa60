"""Agreement between raters: weighted kappa and Krippendorff's alpha, with intervals over samples of queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy  # its parts load on first use

from marginrank.errors import DataError
from marginrank.judging.judgements import Judgements
from marginrank.runtime.text import ResultTable, count
from marginrank.typing import FloatArray

#: How far apart two grades are: whether they differ, by how much, or the square of that.
Distance: TypeAlias = Literal["nominal", "linear", "quadratic"]
#: Computes one value from each table of pairs of grades.
_Statistic: TypeAlias = Callable[[FloatArray], FloatArray]
#: Entries of samples at a time.
_BLOCK: Final = 1 << 22


class Agreement(NamedTuple):
    """A coefficient of agreement: 1 if raters agree on everything, 0 if they agree as often as by chance."""

    value: float
    #: BCa bootstrap interval over samples of queries; unbounded for a single query.
    interval: tuple[float, float]
    #: Number of documents that at least two of the raters judged.
    documents: int


@dataclass(frozen=True, repr=False)
class RaterAgreement:
    """The result of `agreement`; ``print`` shows a table."""

    #: Krippendorff's alpha of all raters.
    alpha: Agreement
    #: Weighted kappa of each pair of raters that have a document in common.
    kappa: dict[tuple[str, str], Agreement]

    def __repr__(self) -> str:
        return f"RaterAgreement(alpha={self.alpha.value:.3f}, {count(len(self.kappa), 'pair')} of raters)"

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        kappa = [{"raters": list(pair), **one._asdict()} for pair, one in self.kappa.items()]
        return {"alpha": self.alpha._asdict(), "kappa": kappa}

    def __str__(self) -> str:
        rows = [[f"kappa {a}, {b}", *_cells(one)] for (a, b), one in self.kappa.items()]
        header = ["agreement", "value", "interval", "documents"]
        return ResultTable([header, ["alpha", *_cells(self.alpha)], *rows], right=[1, 2, 3]).text().rstrip()


def _cells(one: Agreement) -> list[str]:
    return [f"{one.value:.3f}", "[{:.3f}, {:.3f}]".format(*one.interval), f"{one.documents:,}"]


def agreement(
    judgements: Judgements,
    *,
    distance: Distance = "quadratic",
    confidence: float = 0.95,
    resamples: int = 1999,
    random_state: int | None = 0,
) -> RaterAgreement:
    """Compute how far raters agree, by pairs and overall.

    With ``O`` the table of grades that two raters gave to the same documents, ``E`` what chance expects from its
    margins and ``δ`` the distance of grades, ``κ = 1 - Σ δ O / Σ δ E``: Cohen, "Weighted kappa" (1968). Alpha takes
    any number of raters and missing grades: a document with ``m`` grades adds each of its ``m (m - 1)`` ordered pairs
    with weight ``1 / (m - 1)`` to ``O``, and with ``n_c`` the margins and ``n`` their sum,
    ``α = 1 - (n - 1) Σ δ O / Σ δ n_c n_k``: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).
    Documents of a query are judged alike, so samples are of whole queries.

    >>> table = Judgements.of(list("aabbcc"), list("aabbcc"), ["x", "y"] * 3, [1, 1, 0, 0, 1, 0])
    >>> round(agreement(table).alpha.value, 4)              # 1 - 5·2 / (2·3·3): one of three documents differs
    0.4444

    Args:
        judgements: What raters gave.
        distance: Distance of two grades: ``"nominal"`` (equal or not), ``"linear"`` or ``"quadratic"``, which for
            alpha is its interval form.
        confidence: Confidence level of the intervals.
        resamples: Number of samples of queries.
        random_state: Seed of the samples.

    Raises:
        DataError: No document was judged by two raters.
    """
    if distance not in get_args(Distance):
        raise ValueError(f"distance is {distance!r}; choose 'nominal', 'linear' or 'quadratic'")
    if not ((judgements.judged.sum(axis=1) > 1).any()):
        raise DataError("no document was judged by two raters; agreement needs documents in common")
    delta = _distances(judgements.levels, distance)
    rng = (confidence, resamples, random_state)
    alpha = _estimate(coincidences(judgements), lambda tables: alphas(tables, delta), *rng)
    shared = int((judgements.judged.sum(axis=1) > 1).sum())
    kappa = {}
    for a, b in combinations(range(len(judgements.raters)), 2):
        both = int(judgements.judged[:, [a, b]].all(axis=1).sum())
        if both:
            value = _estimate(pair_tables(judgements, a, b), lambda tables: kappas(tables, delta), *rng)
            kappa[judgements.raters[a], judgements.raters[b]] = Agreement(*value, both)
    return RaterAgreement(Agreement(*alpha, shared), kappa)


def _distances(levels: FloatArray, distance: Distance) -> FloatArray:
    apart = np.abs(levels[:, None] - levels)
    return {"nominal": (apart > 0).astype(np.float64), "linear": apart, "quadratic": apart**2}[distance]


def pair_tables(judgements: Judgements, a: int, b: int) -> FloatArray:
    """Count, for each query, how often two raters gave each pair of grades to a document."""
    size = len(judgements.levels)
    both = judgements.judged[:, [a, b]].all(axis=1)
    tables = np.zeros((judgements.n_queries, size, size))
    x, y = judgements.codes[both, a], judgements.codes[both, b]
    np.add.at(tables, (judgements.query_of_row[both], x, y), 1.0)
    return tables[tables.any(axis=(1, 2))]


def coincidences(judgements: Judgements) -> FloatArray:
    """Add up, for each query, the pairs of grades of a document, each with weight 1 / (number of grades - 1)."""
    size = len(judgements.levels)
    given = np.stack([(judgements.codes == level).sum(axis=1) for level in range(size)], axis=1).astype(np.float64)
    n = given.sum(axis=1)
    pairs = given[:, :, None] * given[:, None, :] - np.einsum("uc,ck->uck", given, np.eye(size))
    pairs[n > 1] /= (n[n > 1] - 1)[:, None, None]
    tables = np.zeros((judgements.n_queries, size, size))
    np.add.at(tables, judgements.query_of_row[n > 1], pairs[n > 1])
    return tables[tables.any(axis=(1, 2))]


def kappas(tables: FloatArray, delta: FloatArray) -> FloatArray:
    """Return the weighted kappa of each table; NaN if chance leaves nothing to disagree about."""
    n = tables.sum(axis=(1, 2))
    expected = np.einsum("ti,tj,ij->t", tables.sum(axis=2), tables.sum(axis=1), delta)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - n * np.einsum("tij,ij->t", tables, delta) / expected)


def alphas(tables: FloatArray, delta: FloatArray) -> FloatArray:
    """Return Krippendorff's alpha of each table of coincidences; NaN if only one grade was given."""
    margins = tables.sum(axis=2)
    expected = np.einsum("ti,tj,ij->t", margins, margins, delta)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - (margins.sum(axis=1) - 1) * np.einsum("tij,ij->t", tables, delta) / expected)


def _estimate(
    tables: FloatArray, statistic: _Statistic, confidence: float, resamples: int, seed: int | None
) -> tuple[float, tuple[float, float]]:
    """Return the statistic of the sum of tables, one per query, and its expanded BCa interval.

    Efron, "Better bootstrap confidence intervals" (1987).
    """
    value = float(statistic(tables.sum(axis=0, keepdims=True))[0])
    n = len(tables)
    if n < 2 or np.isnan(value):
        return value, (-np.inf, np.inf)
    rng = np.random.default_rng(seed)
    flat = tables.reshape(n, -1)
    size = max(1, _BLOCK // n)
    parts = []
    for first in range(0, resamples, size):
        counts = rng.multinomial(n, np.full(n, 1 / n), size=min(size, resamples - first))
        parts.append(statistic((counts @ flat).reshape(-1, *tables.shape[1:])))
    drawn = np.concatenate(parts)
    drawn = drawn[~np.isnan(drawn)]
    left_out = statistic(tables.sum(axis=0) - tables)
    e = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    spread = float(np.sum(e**2))
    if spread == 0 or not len(drawn):
        # Samples of queries without disagreement have none either. As many queries show that raters agree no better
        # than by chance in at most a share p of them, where (1 - p)^n leaves the error.
        return value, ((1 - confidence) ** (1 / n) if value == 1 else value, value)
    acceleration = float(np.sum(e**3)) / (6 * spread**1.5)
    below = (np.mean(drawn < value) + np.mean(drawn <= value)) / 2
    bias = scipy.special.ndtri(np.clip(below, 1 / (2 * len(drawn)), 1 - 1 / (2 * len(drawn))))
    # Samples of few queries vary less than queries do; wider levels make up for it: Hesterberg,
    # "What teachers should know about the bootstrap" (The American Statistician, 2015).
    wide = np.sqrt(n / (n - 1)) * scipy.stats.t.ppf((1 + confidence) / 2, n - 1)
    z = bias + np.array([-wide, wide])
    low, high = np.quantile(drawn, scipy.special.ndtr(bias + z / np.maximum(1 - acceleration * z, 1e-12))).tolist()
    return value, (low, high)
