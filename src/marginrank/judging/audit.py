"""A machine's grades against those of people: agreement and over-rating, by grade and by segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from marginrank.errors import DataError
from marginrank.judging.agreement import Agreement, Distance, agreement
from marginrank.judging.intervals import Estimate, check_confidence, document_mean, document_share
from marginrank.judging.judgements import Judgements
from marginrank.runtime.text import ResultTable, count, suggest
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray


class AuditRow(NamedTuple):
    """Agreement of a machine with people on some documents."""

    name: str
    #: Mean of the machine's grade minus that of people.
    over_rating: Estimate
    #: Share of documents that it grades as people do, and higher.
    equal: Estimate
    higher: Estimate


@dataclass(frozen=True, repr=False)
class Audit:
    """The result of `audit`; ``print`` shows tables."""

    machine: str
    people: tuple[str, ...]
    #: Weighted kappa of the machine and each person.
    kappa: dict[str, Agreement]
    #: Weighted kappa of each pair of people, which says what to expect of a machine.
    kappa_of_people: dict[tuple[str, str], Agreement]
    everything: AuditRow
    #: By the grade of people, rounded to the nearest that was given; ascending.
    by_grade: tuple[AuditRow, ...]
    by_segment: tuple[AuditRow, ...]

    def __repr__(self) -> str:
        one = self.everything
        machine = f"{self.machine} on {count(one.equal.documents, 'document')}"
        return f"Audit({machine}: over-rating {one.over_rating.value:+.3f}, equal {one.equal.value:.3f})"

    def __str__(self) -> str:
        kappas = [[f"{self.machine}, {name}", *_kappa(one)] for name, one in self.kappa.items()]
        kappas += [[", ".join(pair), *_kappa(one)] for pair, one in self.kappa_of_people.items()]
        header = ["kappa", "value", "interval", "documents"]
        parts = [ResultTable([header, *kappas], right=[1, 2, 3]).text().rstrip()]
        rows = [_row("all", self.everything)]
        rows += [_row(f"grade {one.name}", one) for one in self.by_grade]
        rows += [_row(one.name, one) for one in self.by_segment]
        header = ["documents", "number", f"{self.machine} minus people", "equal", "higher"]
        parts.append(ResultTable([header, *rows], right=[1, 2, 3, 4]).text().rstrip())
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON."""
        return {
            "machine": self.machine,
            "people": list(self.people),
            "kappa": {name: one._asdict() for name, one in self.kappa.items()},
            "kappa_of_people": [{"raters": list(pair), **one._asdict()} for pair, one in self.kappa_of_people.items()],
            "all": _record(self.everything),
            "by_grade": [_record(one) for one in self.by_grade],
            "by_segment": [_record(one) for one in self.by_segment],
        }


def _kappa(one: Agreement) -> list[str]:
    return [f"{one.value:.3f}", "[{:.3f}, {:.3f}]".format(*one.interval), f"{one.documents:,}"]


def _row(name: str, one: AuditRow) -> list[str]:
    low, high = one.over_rating.interval
    over = f"{one.over_rating.value:+.3f} [{low:+.3f}, {high:+.3f}]"
    return [name, f"{one.equal.documents:,}", over, str(one.equal), str(one.higher)]


def _record(one: AuditRow) -> dict[str, Any]:
    estimates = {name: getattr(one, name)._asdict() for name in ("over_rating", "equal", "higher")}
    return {"name": one.name, **estimates}


def audit(
    judgements: Judgements,
    machine: str,
    *,
    segments: Mapping[str, str] | None = None,
    distance: Distance = "quadratic",
    confidence: float = 0.95,
    resamples: int = 1999,
    random_state: int | None = 0,
) -> Audit:
    """Audit the grades of a machine against those of people, on the documents that both judged.

    What people say of a document is the mean of their grades. Over-rating is the mean difference; by grade it shows
    where the machine goes wrong, as one that grades by chance over-rates the worst documents and under-rates the best.
    Intervals are over samples of whole queries.

    >>> people = Judgements.of(list("aabb"), list("wxyz"), "ann", [0, 1, 2, 0])
    >>> both = people.joined(Judgements.of(list("aabb"), list("wxyz"), "llm", [1, 1, 2, 1]))
    >>> audit(both, "llm")
    Audit(llm on 4 documents: over-rating +0.500, equal 0.500)
    >>> [(one.name, one.over_rating.value) for one in audit(both, "llm").by_grade]
    [('0', 1.0), ('1', 0.0), ('2', 0.0)]

    Args:
        judgements: What people and the machine gave.
        machine: The name of the machine among the raters.
        segments: The segment of each query, to break the results down by.
        distance: Distance of grades in kappa, as in `agreement`.
        confidence: Confidence level of the intervals.
        resamples: Number of samples of queries for the intervals of kappa.
        random_state: Seed of these samples.

    Raises:
        DataError: There is no such rater, or it judged no document that people judged.
    """
    check_confidence(confidence)
    if machine not in judgements.raters:
        raise DataError(f"no rater is called {machine!r}; {suggest(machine, judgements.raters)}")
    column = judgements.raters.index(machine)
    people = tuple(name for name in judgements.raters if name != machine)
    others = np.delete(judgements.grades, column, axis=1)
    both = judgements.judged[:, column] & ~np.isnan(others).all(axis=1)
    if not both.any():
        raise DataError(f"{machine} judged no document that somebody else judged; an audit needs some of them")
    given, reference = judgements.grades[both, column], np.nanmean(others[both], axis=1)
    query = judgements.query_of_row[both]
    levels = np.unique(others[~np.isnan(others)])
    nearest = levels[np.abs(reference[:, None] - levels).argmin(axis=1)]

    def of(name: str, among: BoolArray) -> AuditRow:
        return _audited(name, given[among], reference[among], query[among], confidence)

    pair_agreement = agreement(
        judgements, distance=distance, confidence=confidence, resamples=resamples, random_state=random_state
    ).kappa
    of_segment = _segments(judgements.query_ids[both], segments)
    return Audit(
        machine,
        people,
        {pair[pair[0] == machine]: one for pair, one in pair_agreement.items() if machine in pair},
        {pair: one for pair, one in pair_agreement.items() if machine not in pair},
        of("all", np.ones(len(given), dtype=np.bool_)),
        tuple(of(f"{level:g}", nearest == level) for level in np.unique(nearest)),
        tuple(of(str(name), of_segment == name) for name in np.unique(of_segment)),
    )


def _audited(name: str, given: FloatArray, reference: FloatArray, query: IntArray, confidence: float) -> AuditRow:
    shares = [
        document_share(hits.astype(np.float64), query, confidence) for hits in (given == reference, given > reference)
    ]
    return AuditRow(name, document_mean(given - reference, query, confidence), *shares)


def _segments(query_ids: AnyArray, segments: Mapping[str, str] | None) -> AnyArray:
    """Return the segment of each document; none without segments."""
    if segments is None:
        return np.array([], dtype=str)
    names = {str(query): str(segment) for query, segment in segments.items()}
    for query in query_ids.tolist():
        if query not in names:
            raise DataError(f"query {query} has no segment; give one for every query")
    return np.array([names[query] for query in query_ids.tolist()])


__all__ = ["Audit", "AuditRow", "audit"]
