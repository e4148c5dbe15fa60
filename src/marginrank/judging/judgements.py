"""Tables of judgements: which rater gave which document of which query which grade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import as_numbers
from marginrank.data.column_roles import choose_columns
from marginrank.data.formats.trec import Qrels
from marginrank.data.frames import open_frame
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, label_array, text_array
from marginrank.errors import DataError, Parameter
from marginrank.evaluation.systems import as_qrels
from marginrank.runtime.text import count, suggest
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: Names of the column of raters that are recognized, whatever their case.
RATER_COLUMNS: Final = ("rater", "rater_id", "annotator", "assessor", "judge", "labeler", "worker", "user")
#: The grade that says, in TREC files and elsewhere, that nobody judged the document.
_UNJUDGED: Final = -1.0


@dataclass(frozen=True, eq=False, repr=False)
class Judgements:
    """Grades of documents by raters: one row per document of a query, one column per rater, NaN if it gave no grade.

    Ids are text. Grades that are empty, NaN or −1 mean unjudged.

    >>> Judgements.of(["q1", "q1", "q1"], ["a", "a", "b"], ["ann", "bob", "ann"], [2, 1, 0])
    Judgements(3 grades of 2 documents of 1 query by ann, bob)
    """

    query_ids: AnyArray
    document_ids: AnyArray
    raters: tuple[str, ...]
    grades: FloatArray

    @classmethod
    def of(
        cls, query: npt.ArrayLike, document: npt.ArrayLike, rater: npt.ArrayLike | str, grade: npt.ArrayLike
    ) -> Judgements:
        """Build the table from one query, document, rater and grade per judgement; one rater may have made all."""
        grades = as_numbers("grade", np.asarray(grade), "grades are numbers such as 0, 1 and 2")
        names = [rater] * len(grades) if isinstance(rater, str) else rater
        columns = {"query": query, "document": document, "rater": names}
        judged = _judged(grades)
        queries, documents, raters = (_ids(values, what, len(grades))[judged] for what, values in columns.items())
        return cls._of(queries, documents, raters, grades[judged])

    @classmethod
    def _of(cls, query: AnyArray, document: AnyArray, rater: AnyArray, grade: FloatArray) -> Judgements:
        if not len(grade):
            raise DataError("no judgement has a grade; empty, NaN and -1 mean unjudged")
        raters, column = np.unique(rater, return_inverse=True)
        queries, row, pairs = _pairs(query, document)
        times = np.bincount(row * len(raters) + column, minlength=len(queries) * len(raters))
        if times.max() > 1:
            at, by = divmod(int(np.argmax(times > 1)), len(raters))
            raise DataError(
                f"{raters[by]} judged document {pairs[at]} of query {queries[at]} {times.max()} times; keep one of them"
            )
        grades = np.full((len(queries), len(raters)), np.nan)
        grades[row, column] = grade
        return cls(queries, pairs, tuple(raters.tolist()), grades)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        qid: str | None = None,
        document_id: str | None = None,
        rater: str | None = None,
        grade: str | None = None,
    ) -> Judgements:
        """Build the table from a frame (pandas, polars, Arrow) with one judgement per row.

        Columns that are not named are found by their usual names: those of `marginrank.from_frame`, and ``rater``,
        ``annotator``, ``assessor``, ``judge``, ``worker`` or ``user``.
        """
        rows = open_frame(frame)
        roles = _roles(rows.columns, qid, document_id, rater, grade)
        return cls.of(*(rows[name].to_numpy() for name in roles))

    @classmethod
    def from_grades(cls, judged: Queries | Qrels, rater: str) -> Judgements:
        """Build the table of a single rater from the grades of queries or of TREC judgements.

        >>> Judgements.from_grades(Qrels.from_dict({"q1": {"a": 2, "b": 0}}), "llm")
        Judgements(2 grades of 2 documents of 1 query by llm)
        """
        qrels = as_qrels(judged) if isinstance(judged, Queries) else judged
        queries = np.repeat(as_text(qrels.topics), np.diff(qrels.offsets))
        return cls.of(queries, qrels.document_ids, rater, qrels.grades)

    def joined(self, *others: Judgements) -> Judgements:
        """Return the judgements of this table and of others, whose raters have other names."""
        tables = [self, *others]
        names = [name for table in tables for name in table.raters]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"two tables have a rater {name!r}; rename one")
        parts = [table._flat() for table in tables]
        return Judgements._of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _flat(self) -> tuple[AnyArray, AnyArray, AnyArray, FloatArray]:
        row, column = np.nonzero(self.judged)
        raters = text_array(self.raters)
        return self.query_ids[row], self.document_ids[row], raters[column], self.grades[row, column]

    def rows(self) -> Iterator[tuple[str, str, str, float]]:
        """Yield the query, the document, the rater and the grade of each judgement."""
        return zip(*(column.tolist() for column in self._flat()), strict=True)

    def of_raters(self, raters: Iterable[str]) -> Judgements:
        """Return the judgements of some raters, with the documents that one of them judged."""
        chosen = list(raters)
        for name in chosen:
            if name not in self.raters:
                raise DataError(f"no rater is called {name!r}; {suggest(name, self.raters)}")
        grades = self.grades[:, [self.raters.index(name) for name in chosen]]
        some = ~np.isnan(grades).all(axis=1)
        return Judgements(self.query_ids[some], self.document_ids[some], tuple(chosen), grades[some])

    @cached_property
    def judged(self) -> BoolArray:
        """Whether each rater judged each document."""
        return ~np.isnan(self.grades)

    @cached_property
    def levels(self) -> FloatArray:
        """The grades that were given, in ascending order."""
        return np.unique(self.grades[self.judged])

    @cached_property
    def codes(self) -> IntArray:
        """The position of each grade among the levels; −1 if there is none."""
        return np.where(self.judged, np.searchsorted(self.levels, np.nan_to_num(self.grades)), -1)

    @cached_property
    def query_of_row(self) -> IntArray:
        """The number of the query of each row, in ascending order of ids."""
        return np.unique(self.query_ids, return_inverse=True)[1]

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.query_of_row.max()) + 1

    def __repr__(self) -> str:
        grades = count(int(self.judged.sum()), "grade")
        documents, queries = count(len(self.grades), "document"), count(self.n_queries, "query", "queries")
        return f"Judgements({grades} of {documents} of {queries} by {', '.join(self.raters)})"


def _roles(
    columns: Sequence[str], qid: str | None, document_id: str | None, rater: str | None, grade: str | None
) -> tuple[str, str, str, str]:
    """Return the columns of queries, documents, raters and grades."""
    usual = (name for known in RATER_COLUMNS for name in columns if name.strip().lower().replace(" ", "_") == known)
    raters = rater or next(usual, None)
    others = [name for name in columns if name != raters]
    chosen = choose_columns(others, qid=qid, grade=grade, document_id=document_id, features=())
    names = {"document_id": chosen.document, "rater": raters, "grade": chosen.grade}
    for what, name in names.items():
        if name is None or name not in columns:
            given = f"no column {name!r}" if name else f"no column of {what.replace('_', ' ')}s"
            listing = ", ".join(map(repr, columns[:8]))
            raise DataError(f"{given} among {listing}; name it with ", Parameter(what, ...))
    return chosen.query, str(chosen.document), str(raters), str(chosen.grade)


def _ids(values: Any, what: str, n: int) -> AnyArray:
    ids = label_array(values)
    if ids.shape != (n,):
        raise DataError(f"{what} has shape {ids.shape} for {count(n, 'grade')}; give one for each")
    if ids.dtype.kind == "f" and np.isfinite(ids).all() and np.all(ids == np.rint(ids)):
        ids = ids.astype(np.int64)
    words = as_text(ids)
    missing = np.isin(words, ["", "nan", "None", "<NA>", "NaT"])
    if missing.any():
        raise DataError(f"judgement {int(np.argmax(missing))} has no {what}; every judgement needs one")
    return words


def _judged(grades: FloatArray) -> BoolArray:
    """Return which grades are judgements; refuse grades that are infinite, or negative but for −1."""
    bad = np.isinf(grades) | ((grades < 0) & (grades != _UNJUDGED))
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"grade {at} is {grades[at]:g}; grades are finite and not negative, -1 means unjudged")
    return np.asarray(~np.isnan(grades) & (grades != _UNJUDGED))


def _pairs(query: AnyArray, document: AnyArray) -> tuple[AnyArray, IntArray, AnyArray]:
    """Return the distinct pairs of query and document, in ascending order, and which of them each row has."""
    queries, q = np.unique(query, return_inverse=True)
    documents, d = np.unique(document, return_inverse=True)
    pairs, row = np.unique(q * len(documents) + d, return_inverse=True)
    return queries[pairs // len(documents)], row, documents[pairs % len(documents)]


__all__ = ["RATER_COLUMNS", "Judgements"]
