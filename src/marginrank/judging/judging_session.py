"""A session of judging: which document a rater sees next, and what becomes of the answer."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from marginrank.errors import DataError, ParameterError
from marginrank.judging.documents_to_judge import DocumentToJudge
from marginrank.judging.judgement_store import Decision, JudgementStore, shuffled

#: Maximum number of characters.
MAX_NOTE: Final = 4000
MAX_RATER: Final = 80
_MAX_REQUEST: Final = 100
_MOST_GRADES: Final = 10


class ScaleGrade(NamedTuple):
    """A grade to choose, what it means, and the key that gives it."""

    grade: float
    label: str
    key: str


#: The scale if none is given.
DEFAULT_SCALE: Final = "0=Irrelevant,1=Marginal,2=Fair,3=Good,4=Perfect"


def parse_scale(spec: str) -> tuple[ScaleGrade, ...]:
    """Parse the grades to choose from, with or without what they mean.

    Keys are the grades if all of them are digits, otherwise their numbers from 1.

    >>> [one.label for one in parse_scale("0=No,1=Yes")], [one.key for one in parse_scale("0,1,10,100")]
    (['No', 'Yes'], ['1', '2', '3', '4'])
    """
    pairs = [part.partition("=")[::2] for part in spec.split(",")]
    try:
        grades = [float(number) for number, _ in pairs]
    except ValueError:
        raise ParameterError(f"the scale is {spec!r}; give grades such as 0,1,2 or 0=No,1=Yes") from None
    if not all(math.isfinite(grade) and grade >= 0 for grade in grades):
        raise ParameterError(f"the scale is {spec!r}; grades are finite and not negative")
    if not 2 <= len(set(grades)) == len(grades) <= _MOST_GRADES:
        raise ParameterError(f"the scale is {spec!r}; give 2 to {_MOST_GRADES} different grades")
    digits = all(grade in range(10) for grade in grades)
    keys = [f"{grade:g}" for grade in grades] if digits else [str(n % 10) for n in range(1, len(grades) + 1)]
    return tuple(
        ScaleGrade(grade, label.strip(), key) for grade, (_, label), key in zip(grades, pairs, keys, strict=True)
    )


class RefusedAnswer(Exception):  # noqa: N818
    """An answer that makes no sense, with the reason."""


@dataclass
class JudgingSession:
    """The documents to judge, and the decisions on them.

    Args:
        store: Where decisions are stored.
        documents: What is judged.
        scale: The grades to choose from.
        seed: Of the order of documents, which is another for each rater; None for the order that is given.
    """

    store: JudgementStore
    documents: Sequence[DocumentToJudge]
    scale: Sequence[ScaleGrade]
    seed: int | None = 0
    _orders: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)
    _place: dict[str, dict[int, int]] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        self.store.set_scale([one.grade for one in self.scale])
        self._pairs = [(one.query_id, one.document_id) for one in self.documents]
        self._numbers = self.store.add_documents(self._pairs)
        self._row = {number: row for row, number in enumerate(self._numbers)}
        self._sizes = Counter(one.query_id for one in self.documents)

    def state(self, rater: str, *, document: int | None = None, skipped_until: int | None = None) -> dict[str, Any]:
        """Return what a rater sees next, and how far the work is.

        Args:
            rater: Who judges.
            document: The document to show, whether it is judged or not; by default the first that is not.
            skipped_until: Show again what was skipped, up to this decision.
        """
        rater = _checked_rater(rater)
        decisions = self._decisions(rater)
        if document is not None:
            shown: int | None = self._known(document)
        else:
            shown = self._next(rater, decisions, skipped_until)
        graded = sum(one.grade is not None for one in decisions.values())
        return {
            "rater": rater,
            "scale": [one._asdict() for one in self.scale],
            "document": None if shown is None else self._shown(shown, rater, decisions.get(shown)),
            "judged": graded,
            "skipped": len(decisions) - graded,
            "total": len(self.documents),
            "last": max((one.id for one in decisions.values()), default=None),
        }

    def judge(self, rater: str, request: str, document: int, grade: float | None, note: str = "") -> None:
        """Store what a rater decided; once this returns, it is on the disk."""
        rater = _checked_rater(rater)
        if not 0 < len(request) <= _MAX_REQUEST:
            raise RefusedAnswer(f"a request has a name of 1 to {_MAX_REQUEST} characters")
        if len(note) > MAX_NOTE:
            raise RefusedAnswer(f"the note has {len(note):,} characters; {MAX_NOTE:,} are possible")
        if grade is not None and grade not in [one.grade for one in self.scale]:
            raise RefusedAnswer(f"{grade:g} is not a grade of the scale")
        self._known(document)
        try:
            self.store.decide(request, document, rater, grade, note)
        except DataError as error:
            raise RefusedAnswer(str(error)) from None

    def undo(self, rater: str, decision: int) -> int:
        """Undo a decision, and return the document it was about."""
        document = self.store.undo(decision, _checked_rater(rater))
        if document is None:
            raise RefusedAnswer("there is no such decision to undo")
        return document

    def _decisions(self, rater: str) -> dict[int, Decision]:
        """Return the decisions of a rater by row, without those on documents that are no longer here."""
        decisions = self.store.decisions(rater)
        return {self._row[number]: one for number, one in decisions.items() if number in self._row}

    def _known(self, number: int) -> int:
        if number not in self._row:
            raise RefusedAnswer("there is no such document here")
        return self._row[number]

    def order(self, rater: str) -> list[int]:
        """Return the rows in the order in which a rater judges them."""
        with self._lock:
            if rater not in self._orders:
                rows = list(range(len(self.documents)))
                self._orders[rater] = rows if self.seed is None else shuffled(rater, self.seed, self._pairs)
            return self._orders[rater]

    def _places(self, rater: str) -> dict[int, int]:
        """Return the number of each row among those of its query, in the order of a rater."""
        if rater not in self._place:
            seen: Counter[str] = Counter()
            places = {}
            for row in self.order(rater):
                seen[self._pairs[row][0]] += 1
                places[row] = seen[self._pairs[row][0]]
            self._place[rater] = places
        return self._place[rater]

    def _next(self, rater: str, decisions: dict[int, Decision], skipped_until: int | None) -> int | None:
        if skipped_until is None:
            return next((row for row in self.order(rater) if row not in decisions), None)
        again = {row for row, one in decisions.items() if one.grade is None and one.id <= skipped_until}
        return next((row for row in self.order(rater) if row in again or row not in decisions), None)

    def _shown(self, row: int, rater: str, decision: Decision | None) -> dict[str, Any]:
        document = self.documents[row]
        return {
            "number": self._numbers[row],
            "document_id": document.document_id,
            "query": document.query,
            "query_fields": document.query_fields,
            "title": document.title,
            "fields": document.fields,
            "place": self._places(rater)[row],
            "of": self._sizes[document.query_id],
            "grade": None if decision is None else decision.grade,
            "note": "" if decision is None else decision.note,
        }


def _checked_rater(rater: str) -> str:
    name = " ".join(rater.split())
    if not 0 < len(name) <= MAX_RATER or not name.isprintable():
        raise RefusedAnswer(f"give a name of 1 to {MAX_RATER} characters")
    return name


__all__ = ["DEFAULT_SCALE", "JudgingSession", "RefusedAnswer", "ScaleGrade", "parse_scale"]
