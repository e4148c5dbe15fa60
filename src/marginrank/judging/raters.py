"""Profiles of raters: bias, spread, ratings that look constant or copied, and queries with most disagreement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import scipy  # its parts load on first use

from marginrank.judging.intervals import Estimate, check_confidence, document_mean
from marginrank.judging.judgements import Judgements
from marginrank.runtime.text import ResultTable, count
from marginrank.typing import FloatArray

#: Agreement that independent raters are granted before equal grades look copied, as kappa.
_HIGHEST_KAPPA: Final = 0.9
#: Raters are flagged if chance has less than this probability.
_RARE: Final = 0.001


class Rater(NamedTuple):
    """The grades of one rater, alone and beside those of others."""

    name: str
    grades: int
    mean: float
    deviation: float
    #: Mean difference from the mean grade of the others, on the documents that others judged too.
    bias: Estimate
    #: Standard deviation of its grades over that of the others, on these documents; NaN if theirs is 0.
    spread: float


class RaterFlag(NamedTuple):
    """Ratings that do not look like judgements: the same grade throughout, or the grades of somebody else."""

    kind: Literal["constant", "copied"]
    #: The rater, the two raters, or all who judged a document that somebody else judged too.
    raters: tuple[str, ...]
    documents: int
    #: How many of the documents have equal grades.
    equal: int
    #: Probability of as many equal grades from independent raters.
    probability: float

    def __str__(self) -> str:
        if self.kind == "constant":
            return f"{self.raters[0]} gave all {count(self.documents, 'document')} the same grade"
        who = " and ".join(self.raters) if len(self.raters) == 2 else "raters"
        every = "all" if self.equal == self.documents else f"{self.equal:,} of"
        return (
            f"{who} gave equal grades to {every} {count(self.documents, 'document')} that they have in common "
            f"(probability {self.probability:.1g} at a kappa of {_HIGHEST_KAPPA}): copied?"
        )


class Disagreement(NamedTuple):
    """Spread of the grades of the documents of a query."""

    query: str
    #: Mean squared difference of two grades of the same document.
    value: float
    #: Number of documents with two grades or more, and of those whose grades differ.
    documents: int
    different: int


@dataclass(frozen=True, repr=False)
class RaterReport:
    """The result of `describe_raters`; ``print`` shows tables."""

    raters: tuple[Rater, ...]
    flags: tuple[RaterFlag, ...]
    #: Queries with documents that two raters judged, those with most disagreement first.
    queries: tuple[Disagreement, ...]

    def __repr__(self) -> str:
        return f"RaterReport({count(len(self.raters), 'rater')}, {count(len(self.flags), 'flag')})"

    def __str__(self) -> str:
        header = ["rater", "grades", "mean", "deviation", "bias", "interval", "spread"]
        rows = [
            [
                one.name,
                f"{one.grades:,}",
                f"{one.mean:.2f}",
                f"{one.deviation:.2f}",
                *(
                    [f"{one.bias.value:+.2f}", "[{:+.2f}, {:+.2f}]".format(*one.bias.interval)]
                    if one.bias.documents
                    else ["-", "-"]
                ),
                "-" if np.isnan(one.spread) else f"{one.spread:.2f}",
            ]
            for one in self.raters
        ]
        parts = [ResultTable([header, *rows], right=range(1, 7)).text().rstrip()]
        parts += ["\n".join(f"flagged: {flag}" for flag in self.flags)] if self.flags else []
        apart = [one for one in self.queries if one.different][:5]
        if apart:
            lines = [[one.query, f"{one.value:.2f}", f"{one.different:,} of {one.documents:,}"] for one in apart]
            table = ResultTable([["most disagreement", "mean square", "documents"], *lines], right=[1, 2])
            parts.append(table.text().rstrip())
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return {
            "raters": [{**one._asdict(), "bias": one.bias._asdict()} for one in self.raters],
            "flags": [{**flag._asdict(), "message": str(flag)} for flag in self.flags],
            "queries": [one._asdict() for one in self.queries],
        }


def describe_raters(judgements: Judgements, *, confidence: float = 0.95) -> RaterReport:
    """Describe raters: bias and spread of each, ratings that look constant or copied, queries with most disagreement.

    Grades of two raters look copied if as many equal ones have a probability below 0.001 for independent raters with
    a kappa of 0.9, which few reach: with ``e`` the share of equal grades that chance expects from how often each gives
    each grade, such raters agree on ``e + 0.9 (1 - e)`` of the documents. The same holds for all documents with two
    grades together. A rater looks constant if its only grade is so common among the others that as many in a row have
    a probability below 0.001.

    >>> grades = [0, 1, 2, 0, 1, 1, 2, 2]                   # bob grades as ann does, or one higher
    >>> table = Judgements.of(list("aabb") * 2, list("wxyz") * 2, ["ann"] * 4 + ["bob"] * 4, grades)
    >>> [(one.name, one.bias.value) for one in describe_raters(table).raters]
    [('ann', -0.75), ('bob', 0.75)]

    Args:
        judgements: What raters gave.
        confidence: Confidence level of the intervals.
    """
    check_confidence(confidence)
    raters = tuple(_describe(judgements, column, confidence) for column in range(len(judgements.raters)))
    return RaterReport(raters, (*_constant(judgements), *_copied(judgements)), _disagreements(judgements))


def _describe(judgements: Judgements, column: int, confidence: float) -> Rater:
    given = judgements.grades[judgements.judged[:, column], column]
    others = np.delete(judgements.grades, column, axis=1)
    both = judgements.judged[:, column] & ~np.isnan(others).all(axis=1)
    apart = judgements.grades[both, column] - np.nanmean(others[both], axis=1)
    beside = others[both][~np.isnan(others[both])]
    deviation = float(np.std(beside)) if len(beside) else 0.0
    return Rater(
        judgements.raters[column],
        len(given),
        float(given.mean()),
        float(given.std()),
        document_mean(apart, judgements.query_of_row[both], confidence),
        float(np.std(judgements.grades[both, column])) / deviation if deviation > 0 else np.nan,
    )


def _constant(judgements: Judgements) -> list[RaterFlag]:
    flags = []
    for column, name in enumerate(judgements.raters):
        given = judgements.grades[judgements.judged[:, column], column]
        others = np.delete(judgements.grades, column, axis=1)
        others = others[~np.isnan(others)]
        if np.ptp(given) > 0:
            continue
        # A rater alone has nobody to be compared with: as if two grades were equally common.
        common = float(np.mean(others == given[0])) if len(others) else 0.5
        if common ** len(given) < _RARE:
            flags.append(RaterFlag("constant", (name,), len(given), len(given), common ** len(given)))
    return flags


def _copied(judgements: Judgements) -> list[RaterFlag]:
    flags = []
    for a, b in combinations(range(len(judgements.raters)), 2):
        both = judgements.judged[:, [a, b]].all(axis=1)
        pair = judgements.grades[both][:, [a, b]]
        flags += _equal(pair, (judgements.raters[a], judgements.raters[b]))
    several = judgements.judged.sum(axis=1) > 1
    if len(judgements.raters) > 2 and several.any():
        rows = judgements.grades[several]
        names = tuple(name for at, name in enumerate(judgements.raters) if judgements.judged[several, at].any())
        lowest, highest = np.nanmin(rows, axis=1), np.nanmax(rows, axis=1)
        flags += _equal(np.stack([lowest, highest], axis=1), names)
    return flags


def _equal(pairs: FloatArray, raters: tuple[str, ...]) -> list[RaterFlag]:
    """Flag the raters of pairs of grades if more are equal than independent raters would have."""
    n, equal = len(pairs), int((pairs[:, 0] == pairs[:, 1]).sum())
    levels = np.unique(pairs)
    if len(levels) < 2:
        return []
    shares = [(pairs == level).mean(axis=0) for level in levels]
    by_chance = float(sum(np.prod(share) for share in shares))
    expected = by_chance + _HIGHEST_KAPPA * (1 - by_chance)
    probability = float(scipy.stats.binom.sf(equal - 1, n, expected))
    return [RaterFlag("copied", raters, n, equal, probability)] if probability < _RARE else []


def _disagreements(judgements: Judgements) -> tuple[Disagreement, ...]:
    several = judgements.judged.sum(axis=1) > 1
    rows = judgements.grades[several]
    if not len(rows):
        return ()
    # Two grades drawn from a document differ by twice their variance, in squares and on average.
    apart = 2 * np.nanvar(rows, axis=1, ddof=1)
    queries, number = np.unique(judgements.query_ids[several], return_inverse=True)
    documents, different = np.bincount(number), np.bincount(number, apart > 0)
    values = np.bincount(number, apart) / documents
    order = np.argsort(-values, kind="stable")
    return tuple(
        Disagreement(str(queries[at]), float(values[at]), int(documents[at]), int(different[at])) for at in order
    )


__all__ = ["Disagreement", "Rater", "RaterFlag", "RaterReport", "describe_raters"]
