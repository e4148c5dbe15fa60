"""Preferences: which of two documents is the better answer to a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts load on first use

from marginrank.data.formats.trec import Run
from marginrank.data.frames import open_frame
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, text_array
from marginrank.errors import DataError
from marginrank.evaluation.systems import System, score_documents
from marginrank.judging.documents_to_judge import QUERY_ID
from marginrank.judging.intervals import Estimate, check_confidence, document_share
from marginrank.judging.judgements import RATER_COLUMNS, Judgements
from marginrank.judging.text_tables import TextTable, as_cell, read_text_table
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.text import count
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: Usual names of columns, in lower case without blanks, hyphens and underscores.
_BETTER: Final = ("better", "winner", "chosen", "preferreddocument")
_WORSE: Final = ("worse", "loser", "rejected", "otherdocument")
_FIRST: Final = ("a", "documenta", "doca", "first", "left", "document1", "doc1")
_SECOND: Final = ("b", "documentb", "docb", "second", "right", "document2", "doc2")
_CHOICE: Final = ("preferred", "preference", "choice", "winner", "answer")
_SHOWN_FIRST: Final = ("shownfirst", "firstshown")
_WEIGHT: Final = ("weight",)
_RATER: Final = tuple(name.replace("_", "") for name in RATER_COLUMNS)
#: What a choice may be called: the first document, the second, or neither.
_CHOICES: Final = {
    **dict.fromkeys(("a", "1", "first", "left"), 0),
    **dict.fromkeys(("b", "2", "second", "right"), 1),
    **dict.fromkeys(("tie", "both", "neither", "equal", "same", "0", ""), -1),
}


class PositionBias(NamedTuple):
    """Whether the document that is shown first is preferred for that alone."""

    #: Share of preferences for the document that was shown first, with an interval; ½ without bias if the order is
    #: random.
    first: Estimate
    #: Of pairs that one rater saw in both orders, the share in which the same document was preferred.
    consistent: Estimate

    @property
    def biased(self) -> bool:
        """Whether ½ is outside of the interval."""
        low, high = self.first.interval
        return not low <= 0.5 <= high

    def __str__(self) -> str:
        said = "biased" if self.biased else "no bias shown"
        return f"first {self.first}, same in both orders {self.consistent} of {self.consistent.documents}: {said}"


@dataclass(frozen=True, eq=False, repr=False)
class Preferences:
    """Preferences between documents of a query: one row per answer of a rater.

    `Ranker.fit` takes them once the features of documents are joined: every preference is a pair of its own, with one
    hinge or one logistic term, whatever other preferences say. So preferences may contradict each other and go round in
    circles, and a document needs no grade. Ties have no order and are left out of training and of accuracy.

    >>> Preferences.of(["q", "q"], ["a", "b"], ["b", "c"])
    Preferences(2 of 1 query by 1 rater)
    """

    query_ids: AnyArray
    better: AnyArray
    worse: AnyArray
    raters: AnyArray
    weights: FloatArray
    #: 1 if the better document was shown first, 0 if the worse one was, NaN if nobody knows.
    better_first: FloatArray
    #: Whether neither document is better; which one is called so has no meaning then.
    tie: BoolArray
    #: Documents with features; see `with_documents`.
    documents: Queries | None = None

    @classmethod
    def of(
        cls,
        query: npt.ArrayLike,
        better: npt.ArrayLike,
        worse: npt.ArrayLike,
        *,
        rater: npt.ArrayLike | str = "rater",
        weight: npt.ArrayLike | None = None,
        better_first: npt.ArrayLike | None = None,
        tie: npt.ArrayLike | None = None,
    ) -> Preferences:
        """Build preferences from one query, better and worse document per answer."""
        queries, winners, losers = (as_text(np.asarray(ids)) for ids in (query, better, worse))
        n = len(queries)
        names = [rater] * n if isinstance(rater, str) else rater
        made = cls(
            queries,
            winners,
            losers,
            as_text(np.asarray(names)),
            np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64),
            np.full(n, np.nan) if better_first is None else np.asarray(better_first, dtype=np.float64),
            np.zeros(n, dtype=np.bool_) if tie is None else np.asarray(tie, dtype=np.bool_),
        )
        made._check()
        return made

    def _check(self) -> None:
        if not len(self.query_ids):
            raise DataError("there is no preference")
        columns = (self.query_ids, self.better, self.worse, self.raters, self.weights, self.better_first, self.tie)
        if {column.shape for column in columns} != {self.query_ids.shape}:
            raise DataError("give one query, better document, worse document, rater and weight for each preference")
        same = self.better == self.worse
        if same.any():
            at = int(np.argmax(same))
            raise DataError(f"preference {at} is between document {self.better[at]} and itself; leave it out")
        bad = ~(np.isfinite(self.weights) & (self.weights >= 0))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(f"preference {at} has weight {self.weights[at]:g}; weights are finite and not negative")

    @classmethod
    def from_frame(cls, frame: Any) -> Preferences:
        """Build preferences from a frame (pandas, polars, Arrow) with the columns of `read_preferences`."""
        rows = open_frame(frame)
        columns = [[as_cell(value) for value in rows[name].to_list()] for name in rows.columns]
        cells = [list(row) for row in zip(*columns, strict=True)]
        return _from_table(TextTable(list(rows.columns), cells, list(range(1, len(cells) + 1))))

    def __len__(self) -> int:
        """Count the preferences, ties included."""
        return len(self.query_ids)

    def __repr__(self) -> str:
        queries = count(len(np.unique(self.query_ids)), "query", "queries")
        ties = f", {count(int(self.tie.sum()), 'tie')}" if self.tie.any() else ""
        return f"Preferences({len(self):,} of {queries} by {count(len(np.unique(self.raters)), 'rater')}{ties})"

    def __getitem__(self, rows: Any) -> Preferences:
        """Return some of the preferences, by a mask, a slice or an array of row numbers."""
        names = ("query_ids", "better", "worse", "raters", "weights", "better_first", "tie")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def with_documents(self, documents: Queries) -> Preferences:
        """Join the features of documents, by the ids of queries and documents."""
        joined = replace(self, documents=documents)
        joined._rows  # noqa: B018 - refuses documents that are missing
        return joined

    def balanced(self) -> Preferences:
        """Return the same with weights by which all queries count the same, however many preferences they have."""
        _, query = np.unique(self.query_ids, return_inverse=True)
        totals = np.bincount(query, np.where(self.tie, 0.0, self.weights))
        return replace(self, weights=self.weights / np.where(totals > 0, totals, 1.0)[query])

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray]:
        """The rows of the better and of the worse document of each preference among the documents."""
        if self.documents is None:
            raise DataError("preferences have no features; join them with preferences.with_documents(queries)")
        documents = self.documents
        if documents.document_ids is None:
            raise DataError("the documents have no ids that preferences could name; read them with document ids")
        query = as_text(documents.query_ids)[documents.query_of_row]
        names = as_text(documents.document_ids)
        place = {pair: row for row, pair in enumerate(zip(query.tolist(), names.tolist(), strict=True))}
        rows = []
        for ids in (self.better, self.worse):
            pairs = zip(self.query_ids.tolist(), ids.tolist(), strict=True)
            rows.append(np.array([place.get(pair, -1) for pair in pairs], dtype=np.int64))
            if rows[-1].min() < 0:
                at = int(np.argmin(rows[-1]))
                raise DataError(f"document {ids[at]} of query {self.query_ids[at]} is not among the documents; add it")
        return rows[0], rows[1]

    def to_pairs(self) -> Queries:
        """Return one query of two documents per preference, the better one of grade 1 and the worse one of grade 0.

        A pairwise hinge, a squared hinge and a softmax cross entropy (``target="share"``) of these are the loss of each
        preference: ``max(0, 1 - d)``, its square and ``log(1 + exp(-d))``, with ``d`` the difference of the scores.
        """
        better, worse = self._rows
        assert self.documents is not None
        chosen = ~self.tie
        if not chosen.any():
            raise DataError("all preferences are ties, so there is nothing to learn")
        n = int(chosen.sum())
        rows = np.stack([better[chosen], worse[chosen]], axis=1).ravel()
        return Queries.from_arrays(
            self.documents.X[rows],
            np.tile([1.0, 0.0], n),
            qid=np.repeat(np.arange(n), 2),
            query_weights=self.weights[chosen],
            document_ids=as_text(np.asarray(self.documents.document_ids))[rows],
            feature_names=self.documents.feature_names,
            allow_nan=True,
        )

    def accuracy(self, system: System | Mapping[Any, Mapping[Any, float]], *, confidence: float = 0.95) -> Estimate:
        """Estimate how often a system scores the better document higher; equal scores count ½, ties are left out.

        The interval is over samples of whole queries, whose preferences are alike. Weights are not used.

        Args:
            system: A ranker, scores of the joined documents, a TREC run, or ``{query: {document: score}}``. Documents
                that a run has not retrieved are below all others.
            confidence: Confidence level of the interval.
        """
        check_confidence(confidence)
        better, worse = self._scores(system)
        hits = np.where(better == worse, 0.5, (better > worse).astype(np.float64))
        return document_share(hits, np.unique(self.query_ids[~self.tie], return_inverse=True)[1], confidence)

    def _scores(self, system: Any) -> tuple[FloatArray, FloatArray]:
        chosen = ~self.tie
        if isinstance(system, Mapping):
            system = Run.from_dict(system)
        if isinstance(system, Run):
            topics = np.repeat(as_text(system.topics), np.diff(system.offsets)).tolist()
            keys = zip(topics, as_text(system.document_ids).tolist(), strict=True)
            known = dict(zip(keys, system.scores.tolist(), strict=True))
            queries = self.query_ids[chosen].tolist()
            both = [
                np.array([known.get(pair, -np.inf) for pair in zip(queries, ids[chosen].tolist(), strict=True)])
                for ids in (self.better, self.worse)
            ]
            return both[0], both[1]
        rows = self._rows
        assert self.documents is not None
        scores = np.asarray(score_documents(self.documents, system), dtype=np.float64)
        if scores.shape != (self.documents.n_documents,):
            raise DataError(f"scores have shape {scores.shape} for {self.documents.n_documents} documents")
        return scores[rows[0][chosen]], scores[rows[1][chosen]]

    def position_bias(self, *, confidence: float = 0.95) -> PositionBias:
        """Estimate how often the document that was shown first was preferred, and how often the order mattered.

        Without bias, and if documents are shown in random order, the first one is preferred half of the time. The
        second figure needs no random order: a rater who sees a pair in both orders should prefer the same document.
        """
        check_confidence(confidence)
        known = ~self.tie & ~np.isnan(self.better_first)
        if not known.any():
            raise DataError(
                "the preferences do not say which document was shown first; give better_first, or columns a and b"
            )
        query = np.unique(self.query_ids, return_inverse=True)[1]
        first = document_share(self.better_first[known], query[known], confidence)
        orders: dict[tuple[str, ...], dict[float, str]] = {}
        for row in np.flatnonzero(known).tolist():
            pair = sorted((str(self.better[row]), str(self.worse[row])))
            shown_first = self.better[row] if self.better_first[row] else self.worse[row]
            key = (str(self.raters[row]), str(self.query_ids[row]), *pair)
            orders.setdefault(key, {})[float(shown_first == pair[0])] = str(self.better[row])
        both = {key: list(answers.values()) for key, answers in orders.items() if len(answers) == 2}
        same = np.array([float(one == other) for one, other in both.values()])
        number = np.unique([key[1] for key in both], return_inverse=True)[1] if both else np.zeros(0, dtype=np.int64)
        return PositionBias(first, document_share(same, number, confidence))

    @property
    def cyclic(self) -> BoolArray:
        """Whether each preference is on a cycle, such as a over b, b over c, c over a, which no ranking satisfies."""
        chosen = np.flatnonzero(~self.tie)
        names = [
            [f"{query}\0{name}" for query, name in zip(self.query_ids[chosen], ids[chosen], strict=True)]
            for ids in (self.better, self.worse)
        ]
        _, nodes = np.unique(np.concatenate(names), return_inverse=True) if len(chosen) else (None, np.zeros(0, int))
        better, worse = nodes[: len(chosen)], nodes[len(chosen) :]
        size = int(nodes.max(initial=-1)) + 1
        graph = sp.csr_array((np.ones(len(chosen)), (better, worse)), shape=(size, size))
        _, component = scipy.sparse.csgraph.connected_components(graph, connection="strong")
        result = np.zeros(len(self), dtype=np.bool_)
        result[chosen] = component[better] == component[worse]
        return result

    def as_judgements(self) -> Judgements:
        """Return pairs as documents, graded 1 if the first by id is better, 0 if the second is, ½ for ties.

        `agreement` of these, with ``distance="nominal"``, is that of raters on preferences. If a rater answered several
        times on a pair, the mean counts.
        """
        low = np.where(self.better < self.worse, self.better, self.worse)
        high = np.where(self.better < self.worse, self.worse, self.better)
        grades = np.where(self.tie, 0.5, (self.better == low).astype(np.float64))
        answers: dict[tuple[str, str, str], list[float]] = {}
        keys = zip(self.query_ids.tolist(), low.tolist(), high.tolist(), self.raters.tolist(), strict=True)
        for (query, one, other, rater), grade in zip(keys, grades.tolist(), strict=True):
            answers.setdefault((query, f"{one} or {other}", rater), []).append(grade)
        queries, pairs, raters = (list(column) for column in zip(*answers, strict=True))
        return Judgements.of(queries, pairs, raters, [float(np.mean(given)) for given in answers.values()])


def read_preferences(path: str | Path) -> Preferences:
    """Read preferences from ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``, one answer per row.

    Columns are ``query`` and either ``better`` and ``worse`` (or ``chosen`` and ``rejected``), with ``shown_first`` if
    it is known, or ``a``, ``b`` and ``preferred``, where ``a`` was shown first and ``preferred`` is ``a``, ``b`` or
    ``tie``, or the id of the document. ``rater`` and ``weight`` may be there.
    """
    path = Path(path)
    try:
        return _from_table(read_text_table(path))
    except DataError as error:
        raise error.at(path) from None


def _from_table(table: TextTable) -> Preferences:
    query = table.need("query ids", "qid", QUERY_ID)
    better, worse = table.find(_BETTER), table.find(_WORSE)
    rater, weight = table.find(_RATER), table.find(_WEIGHT)
    rows: list[tuple[str, str, str, float, bool]] = []
    if better is not None and worse is not None:
        shown = table.find(_SHOWN_FIRST)
        for line, row in zip(table.lines, table.rows, strict=True):
            rows.append((row[query], row[better], row[worse], _first(row, shown, row[better], row[worse], line), False))
    else:
        a, b, choice = table.find(_FIRST), table.find(_SECOND), table.find(_CHOICE)
        if a is None or b is None or choice is None:
            listing = ", ".join(map(repr, table.columns[:8]))
            raise DataError(f"no columns better and worse, nor a, b and preferred, among {listing}; rename them")
        for line, row in zip(table.lines, table.rows, strict=True):
            which = _choice(row[choice].strip(), row[a], row[b], line)
            pair = (row[b], row[a], 0.0) if which == 1 else (row[a], row[b], 1.0)
            rows.append((row[query], *pair, which < 0))
    for line, preference in zip(table.lines, rows, strict=True):
        if not all(cell.strip() for cell in preference[:3]):
            raise DataError("a query or a document is missing; every preference needs both documents", line=line)
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
    ids = [text_array([cell.strip() for cell in column]) for column in columns[:3]]
    return Preferences.of(
        *ids,
        rater="rater" if rater is None else [row[rater].strip() or "rater" for row in table.rows],
        weight=None if weight is None else [_weight(row[weight], line) for line, row in _numbered(table)],
        better_first=columns[3],
        tie=columns[4],
    )


def _numbered(table: TextTable) -> Sequence[tuple[int, list[str]]]:
    return list(zip(table.lines, table.rows, strict=True))


def _choice(word: str, a: str, b: str, line: int) -> int:
    """Return 0 if the first document was chosen, 1 if the second, −1 if neither."""
    if word in (a.strip(), b.strip()):
        return int(word != a.strip())
    if word.lower() not in _CHOICES:
        raise DataError(f"{word!r} is neither a nor b nor tie, and no id of the two documents", line=line)
    return _CHOICES[word.lower()]


def _first(row: Sequence[str], column: int | None, better: str, worse: str, line: int) -> float:
    if column is None or not row[column].strip():
        return np.nan
    word = row[column].strip()
    names = {better.strip(): 1.0, worse.strip(): 0.0, "better": 1.0, "worse": 0.0}
    if word not in names:
        raise DataError(f"{word!r} was shown first and is neither of the two documents", line=line)
    return names[word]


def _weight(cell: str, line: int) -> float:
    try:
        return float(cell) if cell.strip() else 1.0
    except ValueError:
        raise DataError(f"the weight is {cell!r}, which is not a number", line=line) from None


__all__ = ["PositionBias", "Preferences", "read_preferences"]
