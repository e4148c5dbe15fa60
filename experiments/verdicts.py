"""The rules that decide whether a claim of a paper holds.

A claim holds only if test and interval agree that it does, and does not hold only if both agree that it does not; so
the rules are the same in both directions. Otherwise it is undecided. A claim about a ranker that stayed at w = 0 is not
testable: such a ranker ranks at random, whatever it is compared with. There is one rule for each kind of claim:

=================  ============================================================================
`beats`            A is better than B
`seldom_leads`     A is the best of all in at most a given share of the cases
`most_often`       A is counted more often than any other
`alike`            no difference is significant
`within`           an effect with an interval lies in a given range: equivalence, growth rates
`about`            a gain is about as large as claimed: from half of it to half as much again
`rate`             something happens in a given range of shares of the cases, from a count
`reaches`          a ratio without an interval, such as one of times, is as large as claimed
`falls`            a sequence decreases
`in_all`           something is true in every case
`exact`            something is true: a count, an inequality, a number next to a published one
=================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Literal, TypeAlias

import numpy as np

from marginrank.evaluation.paired_tests import bca_intervals, holm, p_wilcoxon
from marginrank.typing import FloatArray

Verdict: TypeAlias = Literal["holds", "does not hold", "undecided", "not testable"]
#: A difference is significant if its p-value, adjusted for the comparisons of the claim, is below this.
LEVEL: Final = 0.05
_RESAMPLES: Final = 9999
#: An objective above this share of that at w = 0 means that a ranker learned nothing, or nearly so.
AT_ZERO: Final = 0.999


@dataclass(frozen=True)
class Difference:
    """One system minus another, paired by query.

    Args:
        label: What is compared, such as ``svmmap − ranksvm``.
        mean: Mean difference.
        interval: Bootstrap interval of the mean. All intervals of a claim hold together with 95% confidence.
        ranks: Sign of the sum of signed ranks, Wilcoxon's statistic.
        p: Two-sided p-value of Wilcoxon's signed-rank test, adjusted for the comparisons of the claim by `holm`.
        testable: Whether both systems learned something; False if one of them stayed at w = 0.
    """

    label: str
    mean: float
    interval: tuple[float, float]
    ranks: int
    p: float
    testable: bool = True

    @property
    def direction(self) -> int:
        """1 or −1 if test and interval agree that the difference is positive or negative, else 0.

        They agree if the test is significant, its sum of signed ranks and the mean have the same sign, and the interval
        excludes 0. A difference that is not testable has no direction.
        """
        low, high = self.interval
        side = 1 if low > 0 else -1 if high < 0 else 0
        agree = self.testable and self.p < LEVEL and self.ranks == side == np.sign(self.mean)
        return side if agree else 0

    def __str__(self) -> str:
        low, high = self.interval
        p = "p < 0.0001" if self.p < 1e-4 else f"p = {self.p:.4f}"
        return f"{self.label} {_signed(self.mean)} [{_signed(low)}, {_signed(high)}], {p}"


def differences(pairs: Mapping[str, tuple[FloatArray, FloatArray]], grid: float = 1e-9) -> list[Difference]:
    """Test the comparisons of one claim together, each on its own queries.

    Args:
        pairs: By label, the values of two systems on the same queries; NaN marks queries that do not count.
        grid: Resolution of the values. Smaller differences are ties.

    >>> a = np.array([0.6, 0.5, 0.7, 0.4, 0.9])
    >>> [row] = differences({"a − b": (a, a - [0.1, 0.1, 0.2, 0.2, -0.1])})
    >>> round(row.mean, 4), row.ranks, row.p          # ranks 2, 2, 4.5, 4.5, −2: 8 of 2⁵ signs
    (0.1, 1, 0.25)
    """
    gaps = {label: _gaps(a, b, grid) for label, (a, b) in pairs.items()}
    adjusted = holm([p_wilcoxon(d, grid) for d in gaps.values()]).tolist()
    confidence = 1 - LEVEL / max(len(gaps), 1)
    intervals = bca_intervals(list(gaps.values()), confidence, _RESAMPLES, 0)
    return [
        Difference(label, float(d.mean()), interval, _rank_sign(d, grid), p)
        for (label, d), interval, p in zip(gaps.items(), intervals, adjusted, strict=True)
    ]


def against(values: Mapping[str, FloatArray], system: str, others: Iterable[str] | None = None) -> list[Difference]:
    """Compare one system with each of the others, or with all that have values."""
    names = [name for name in (values if others is None else others) if name != system]
    return differences({f"{system} − {name}": (values[system], values[name]) for name in names})


def at_zero(ratios: Iterable[float | None]) -> bool:
    """Return whether a ranker stayed at w = 0 in most folds, from the objective over that at w = 0 in each fold.

    >>> at_zero([1.0, 0.9995, 0.9]), at_zero([1.0, 0.9, 0.8]), at_zero([None, None])
    (True, False, False)
    """
    flags = [ratio is not None and ratio > AT_ZERO for ratio in ratios]
    return sum(flags) > len(flags) / 2


def mark_untestable(rows: Sequence[Difference], untestable: Sequence[bool]) -> list[Difference]:
    """Mark differences between systems of which one stayed at w = 0."""
    return [replace(row, testable=not flag) for row, flag in zip(rows, untestable, strict=True)]


def beats(rows: Sequence[Difference]) -> Verdict:
    """Decide the claim that all differences are positive.

    It holds if all have a positive direction, and does not hold if one has a negative one. If neither is so because of
    differences that are not testable, the claim is not testable.

    >>> ahead, unclear = Difference("", 0.1, (0.02, 0.2), 1, 0.01), Difference("", 0.1, (-0.1, 0.3), 1, 0.01)
    >>> at_zero = replace(ahead, testable=False)
    >>> beats([ahead]), beats([ahead, unclear]), beats([ahead, at_zero])
    ('holds', 'undecided', 'not testable')
    """
    return conjunction(_sign_verdict(row) for row in rows)


def _sign_verdict(row: Difference) -> Verdict:
    if not row.testable:
        return "not testable"
    return {1: "holds", -1: "does not hold", 0: "undecided"}[row.direction]  # type: ignore[return-value]


def seldom_leads(rows: Sequence[Difference], share: float = 0.0) -> Verdict:
    """Decide the claim that a system is the best in at most a share of the cases, or in none.

    The differences are those of the system from the best of all others. The claim holds if the system is behind in all
    other cases, and does not hold if it is ahead in more cases than claimed. It is not testable if the cases in which
    the system stayed at w = 0 could decide it.

    >>> ahead, behind = Difference("", 0.1, (0.02, 0.2), 1, 0.01), Difference("", -0.1, (-0.2, -0.02), -1, 0.01)
    >>> seldom_leads([behind]), seldom_leads([ahead, behind]), seldom_leads([ahead, behind], share=0.5)
    ('holds', 'does not hold', 'holds')
    >>> seldom_leads([replace(behind, testable=False)])
    'not testable'
    """
    ahead, behind = (sum(row.direction == sign for row in rows) for sign in (1, -1))
    untestable = sum(not row.testable for row in rows)
    if ahead > share * len(rows):
        return "does not hold"
    if behind >= (1 - share) * len(rows):
        return "holds"
    return "not testable" if behind + untestable >= (1 - share) * len(rows) else "undecided"


def most_often(counts: Mapping[str, int], system: str, rows: Sequence[Difference]) -> Verdict:
    """Decide the claim that a system is counted more often than any other, such as among the best two of a case.

    The differences are those of the system from the best of all others, in each case. The claim holds if the system is
    counted most often, and is ahead in a case and behind in none; it does not hold if another system is counted more
    often, and the system is behind in a case and ahead in none.

    >>> behind, ahead = Difference("", -0.1, (-0.2, -0.02), -1, 0.01), Difference("", 0.1, (0.02, 0.2), 1, 0.01)
    >>> [most_often({"a": a, "b": 2}, "a", [ahead]) for a in (3, 2, 1)]
    ['holds', 'undecided', 'undecided']
    >>> [most_often({"a": a, "b": 2}, "a", [behind]) for a in (3, 2, 1)]
    ['undecided', 'undecided', 'does not hold']
    """
    if all(not row.testable for row in rows) and rows:
        return "not testable"
    lead = counts[system] - max(count for name, count in counts.items() if name != system)
    directions = {row.direction for row in rows} - {0}
    if directions == {1} and lead > 0:
        return "holds"
    return "does not hold" if directions == {-1} and lead < 0 else "undecided"


def alike(rows: Sequence[Difference]) -> Verdict:
    """Decide the claim that no difference is significant.

    It holds if no test is significant and every interval contains 0, and does not hold if a difference has a direction.
    That no difference was found does not show that there is none: `within` decides equivalence.

    >>> ahead, unclear = Difference("", 0.1, (0.02, 0.2), 1, 0.01), Difference("", 0.1, (-0.1, 0.3), 1, 0.4)
    >>> alike([unclear]), alike([unclear, ahead]), alike([replace(ahead, p=0.06)])
    ('holds', 'does not hold', 'undecided')
    >>> alike([replace(ahead, testable=False)])
    'not testable'
    """
    return conjunction(_alike(row) for row in rows)


def _alike(row: Difference) -> Verdict:
    if not row.testable:
        return "not testable"
    low, high = row.interval
    if row.direction:
        return "does not hold"
    return "holds" if row.p >= LEVEL and low <= 0 <= high else "undecided"


def within(intervals: Iterable[tuple[float, float]], least: float = -inf, most: float = inf) -> Verdict:
    """Decide the claim that effects with these intervals lie in a range.

    It holds if all intervals lie inside, and does not hold if one lies outside.

    >>> [within([(low, 0.5)], least=0.0) for low in (0.1, -0.1)], within([(0.1, 0.5), (-0.3, -0.1)], least=0.0)
    (['holds', 'undecided'], 'does not hold')
    """
    ends = list(intervals)
    if any(high < least or low > most for low, high in ends):
        return "does not hold"
    return "holds" if all(least <= low and high <= most for low, high in ends) else "undecided"


def about(rows: Sequence[Difference], claimed: float) -> Verdict:
    """Decide the claim that gains are about as large as claimed: from half of it to half as much again.

    It holds if every gain has a positive direction and an interval inside this range. It does not hold if one has a
    negative direction, or an interval outside the range.

    >>> gain = Difference("", 0.02, (0.012, 0.028), 1, 0.01)
    >>> [about([gain], claimed) for claimed in (0.02, 0.03, 0.06)]
    ['holds', 'undecided', 'does not hold']
    """
    near = within([row.interval for row in rows], 0.5 * claimed, 1.5 * claimed)
    return conjunction([near, beats(rows)])


def rate(count: int, n: int, least: float = 0.0, most: float = 1.0) -> Verdict:
    """Decide the claim that a share of the cases lies in a range, from how often something happened in n of them.

    >>> rate(0, 30, most=0.05), rate(0, 100, most=0.05), rate(20, 100, most=0.05)
    ('undecided', 'holds', 'does not hold')
    """
    return within([rate_interval(count, n)], least, most)


def rate_interval(count: int, n: int) -> tuple[float, float]:
    """Return the 95% interval of a rate by Clopper and Pearson, from how often something happened in n cases.

    >>> [round(end, 4) for end in rate_interval(0, 30)]           # 1 − 0.025^(1/30)
    [0.0, 0.1157]
    """
    import scipy.stats  # noqa: PLC0415

    interval = scipy.stats.binomtest(count, n).proportion_ci(1 - LEVEL, method="exact")
    return float(interval.low), float(interval.high)


def reaches(value: float, claimed: float, *, fails_below: float) -> Verdict:
    """Decide the claim that a number without an interval is at least as large as claimed.

    >>> [reaches(ratio, 100, fails_below=10) for ratio in (100, 99, 9)]
    ['holds', 'undecided', 'does not hold']
    """
    return "holds" if value >= claimed else "does not hold" if value < fails_below else "undecided"


def falls(values: Sequence[float]) -> Verdict:
    """Decide the claim that a sequence decreases: it holds if every step is down, and does not hold if none is.

    >>> falls([3, 2, 1]), falls([3, 1, 2]), falls([1, 3, 3])
    ('holds', 'undecided', 'does not hold')
    """
    return in_all(np.diff(values) < 0)


def in_all(cases: Iterable[bool]) -> Verdict:
    """Decide the claim that something is true in every case; it does not hold if it is true in none.

    >>> in_all([True, True]), in_all([True, False]), in_all([False, False])
    ('holds', 'undecided', 'does not hold')
    """
    outcomes = list(cases)
    return "holds" if all(outcomes) else "undecided" if any(outcomes) else "does not hold"


def exact(true: bool) -> Verdict:
    """Decide a claim without uncertainty, such as one about a count or an inequality that has to be satisfied."""
    return "holds" if true else "does not hold"


def conjunction(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts on the parts of a claim, which all have to hold.

    >>> conjunction(["holds", "undecided"]), conjunction(["undecided", "does not hold"])
    ('undecided', 'does not hold')
    """
    parts = list(verdicts)
    order: tuple[Verdict, ...] = ("does not hold", "not testable", "undecided")
    return next((verdict for verdict in order if verdict in parts), "holds")


def unanimous(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts on several readings of a claim, which have to agree."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else "undecided"


def growth(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Return the power of the size with which time grows, and its 95% interval, from a line through the logarithms.

    >>> power, interval = growth([1, 2, 4], [3, 12, 48])
    >>> round(power, 6), [round(end, 6) for end in interval]
    (2.0, [2.0, 2.0])
    """
    import scipy.stats  # noqa: PLC0415

    fit = scipy.stats.linregress(np.log(sizes), np.log(times))
    half = float(scipy.stats.t.ppf(1 - LEVEL / 2, max(len(sizes) - 2, 1)) * fit.stderr)
    return float(fit.slope), (float(fit.slope) - half, float(fit.slope) + half)


def largest(rows: Sequence[Difference], most: int = 4) -> str:
    """Spell out the largest differences, and all significant ones of the opposite sign."""
    ordered = sorted(rows, key=lambda row: -abs(row.mean))
    opposite = [row for row in ordered[most:] if row.direction * ordered[0].mean < 0]
    left = len(ordered) - min(most, len(ordered)) - len(opposite)
    return "; ".join(map(str, ordered[:most] + opposite)) + (f"; and {left} smaller" if left else "")


def _gaps(a: FloatArray, b: FloatArray, grid: float) -> FloatArray:
    gaps = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    gaps = gaps[~np.isnan(gaps)]
    return np.where(np.abs(gaps) < grid, 0.0, gaps)


def _rank_sign(gaps: FloatArray, grid: float) -> int:
    import scipy.stats  # noqa: PLC0415

    # On a grid, because 0.3 − 0.2 and 0.2 − 0.1 must share a rank.
    steps = np.rint(gaps[gaps != 0] / grid)
    return int(np.sign(np.sign(steps) @ scipy.stats.rankdata(np.abs(steps)))) if len(steps) else 0


def _signed(value: float) -> str:
    # Adding 0 makes 0 of −0.
    return f"{round(value, 4) + 0.0:+.4f}"
