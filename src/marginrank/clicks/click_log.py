"""`ClickLog`, what was shown and clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import MISSING_ADVICE, Missing, check_missing, fill_missing
from marginrank.data.column_roles import RowError
from marginrank.data.grouping import exact_ids
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, label_array
from marginrank.errors import DataError, Message, Parameter, ParameterError
from marginrank.runtime.text import count, query_named
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from marginrank.clicks.propensities import Propensities


@dataclass(frozen=True, eq=False, repr=False)
class ClickLog:
    """Shown documents and clicks: a row per shown document, or per (query, document, position, system) with counts.

    Build one with `ClickLog.from_arrays`, `read_clicks`, `read_ubi` or `simulate_clicks`. Estimates use ``shown`` and
    ``clicks`` only, so that a log and its `aggregated` form give the same numbers.

    >>> log = ClickLog.from_arrays(["a", "a", "b"], ["x", "y", "x"], position=[1, 2, 1], clicked=[0, 1, 0])
    >>> log
    ClickLog(3 rows, 2 queries, 3 shown documents, positions 1..2, 1 click)
    >>> log.query.tolist(), log.document_ids.tolist(), log.clicked.tolist()
    ([0, 0, 1], ['x', 'y', 'x'], [False, True, False])
    """

    #: The distinct documents shown for each query, grouped by query, with their features; without grades.
    documents: Queries
    #: The row of ``documents`` of each row of the log.
    pair: IntArray
    #: Positions, from 1.
    position: IntArray
    #: Weight of the impressions of each row: 1 for a single impression.
    shown: FloatArray
    #: Weight of those that were clicked.
    clicks: FloatArray
    #: Number of the impression of each row; None if it is not known.
    impression: IntArray | None = None
    #: Number of the system that made the ranking, in ``system_names``; None if it is not known.
    system: IntArray | None = None
    system_names: tuple[str, ...] = ()
    #: Probability that the position was examined, given per row.
    propensity: FloatArray | None = None
    time: AnyArray | None = None

    @classmethod
    def from_arrays(
        cls,
        query: npt.ArrayLike,
        document: npt.ArrayLike,
        position: npt.ArrayLike,
        clicked: npt.ArrayLike,
        *,
        impression: npt.ArrayLike | None = None,
        system: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
        propensity: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        missing: Missing = "error",
        positions_from: Literal[0, 1] = 1,
        merge: bool = True,
    ) -> ClickLog:
        """Build a log from arrays with an entry per shown document.

        Args:
            query: Query ids. Rows with one id belong to one query.
            document: Document ids.
            position: Positions, counted from ``positions_from``.
            clicked: Whether the document was clicked: 0 or 1.
            impression: Impression ids. Without them, a document that comes again for a query is another impression.
            system: The system (or bucket) that made the ranking.
            weight: How much each row counts; 1 by default.
            propensity: Probability that the position was examined, above 0 and at most 1.
            time: Times, kept as they are.
            features: Features, a row per shown document; those of a document of a query must be the same in all rows.
            feature_names: Names of the features.
            missing: What NaN features become, as in `marginrank.from_frame`.
            positions_from: 0 if the first position is 0.
            merge: Whether impressions with the same query id are one query. Otherwise each impression is a query of
                its own, and ``impression`` is needed.
        """
        n = len(np.asarray(position))
        places, shown, clicks = cls.checked_columns(position, clicked, weight, propensity, positions_from)
        queries, query_of_row = _codes("query", query, n)
        names, document_of_row = _codes("document", document, n)
        visit = None if impression is None else _codes("impression", impression, n)
        if not merge:
            if visit is None:
                raise DataError("without impression ids there is nothing to keep apart; give ", Parameter("impression"))
            queries, query_of_row = visit
        if visit is not None:
            refuse_repeats(visit, names, document_of_row, places)
        system_names, system_of_row = (None, None) if system is None else _codes("system", system, n)
        chance = None if propensity is None else _numbers("propensity", propensity, n)
        pairs, pair = _pairs(queries, query_of_row, names, document_of_row)
        log = cls(
            pairs,
            pair,
            places,
            shown,
            clicks,
            None if visit is None else visit[1],
            system_of_row,
            () if system_names is None else tuple(as_text(system_names).tolist()),
            chance,
            None if time is None else np.asarray(time),
        )
        return log if features is None else log._with_row_features(features, feature_names, missing)

    @classmethod
    def from_counts(
        cls,
        query: npt.ArrayLike,
        document: npt.ArrayLike,
        position: npt.ArrayLike,
        shown: npt.ArrayLike,
        clicks: npt.ArrayLike,
        *,
        system: npt.ArrayLike | None = None,
        propensity: npt.ArrayLike | None = None,
    ) -> ClickLog:
        """Build a log from sums: how often each document was shown at a position, and how often clicked there.

        >>> ClickLog.from_counts(["a", "a"], ["x", "y"], [1, 2], shown=[2_000_000] * 2, clicks=[700_000, 534_567])
        ClickLog(2 rows, 1 query, 2 shown documents, positions 1..2, 1,234,567 clicks in 2,000,000 impressions)
        """
        n = len(np.asarray(position))
        total, hits = _numbers("shown", shown, n), _numbers("clicks", clicks, n)
        refuse_row(hits < 0, "clicks", lambda at: f"is {hits[at]:g}; clicks must not be negative")
        refuse_row(
            hits > total * (1 + 1e-9), "clicks", lambda at: f"is {hits[at]:g}, more than the {total[at]:g} impressions"
        )
        events = cls.from_arrays(
            query, document, position, np.zeros(n), system=system, weight=total, propensity=propensity
        )
        return replace(events, clicks=hits)

    @staticmethod
    def checked_columns(
        position: npt.ArrayLike,
        clicked: npt.ArrayLike,
        weight: npt.ArrayLike | None,
        propensity: npt.ArrayLike | None,
        positions_from: Literal[0, 1],
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Check columns; return positions from 1, and the weights of impressions and of clicks."""
        n = len(np.asarray(position))
        flags = _flags(clicked, n)
        places = _positions(position, positions_from, flags)
        shown = np.ones(n) if weight is None else _numbers("weight", weight, n)
        refuse_row(shown < 0, "weight", lambda at: f"is {shown[at]:g}; weights must not be negative")
        if propensity is not None:
            check_propensities(_numbers("propensity", propensity, n))
        return places, shown, shown * flags

    def __repr__(self) -> str:
        systems = f", {count(len(self.system_names), 'system')}" if self.system_names else ""
        span = f"{self.position.min()}..{self.position.max()}" if len(self) else "none"
        clicks = count(int(np.count_nonzero(self.clicks)), "click")
        if not self.is_of_events:
            clicks = f"{self.clicks.sum():,.12g} clicks in {self.impressions.sum():,.12g} impressions"
        return (
            f"ClickLog({count(len(self), 'row')}, {count(len(self.documents), 'query', 'queries')}, "
            f"{count(self.documents.n_documents, 'shown document')}, positions {span}{systems}, {clicks})"
        )

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.pair)

    @property
    def query(self) -> IntArray:
        """Number of the query of each row, in ``documents``."""
        return np.asarray(self.documents.query_of_row[self.pair])

    @property
    def document_ids(self) -> AnyArray:
        """The document id of each row."""
        return np.asarray(self.documents.document_names[self.pair])

    @property
    def clicked(self) -> BoolArray:
        """Whether each row has a click."""
        return np.asarray(self.clicks > 0)

    @property
    def weight(self) -> FloatArray:
        """The weight of each row: that of its impressions."""
        return self.shown

    @property
    def is_of_events(self) -> bool:
        """Whether every row is a single impression of a document, clicked or not."""
        return bool(np.all((self.clicks == 0) | (self.clicks == self.shown)))

    @property
    def depth(self) -> int:
        """The last position."""
        return int(self.position.max(initial=0))

    @cached_property
    def impressions(self) -> FloatArray:
        """Weight of the impressions of each query: the most that any of its positions was shown."""
        totals = np.zeros((len(self.documents), self.depth + 1))
        np.add.at(totals, (self.query, self.position), self.shown)
        return np.asarray(totals.max(axis=1))

    def aggregated(self) -> ClickLog:
        """Add up the rows with the same query, document, position, system and propensity.

        Impressions and times are left out: a log of many events becomes as small as its distinct rows.

        >>> log = ClickLog.from_arrays([1, 1, 1], ["x", "x", "x"], [1, 1, 2], [1, 0, 1]).aggregated()
        >>> log.position.tolist(), log.shown.tolist(), log.clicks.tolist()
        ([1, 2], [2.0, 1.0], [1.0, 1.0])
        """
        system = np.zeros(len(self), dtype=np.int64) if self.system is None else self.system
        keys: list[AnyArray] = [system, self.position, self.pair]
        order = np.lexsort(keys if self.propensity is None else [self.propensity, *keys])
        if not len(order):
            return replace(self, impression=None, time=None)
        columns = [*keys, *([] if self.propensity is None else [self.propensity])]
        differs = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
        first = np.flatnonzero(np.r_[True, differs])
        rows = order[first]
        return replace(
            self,
            pair=self.pair[rows],
            position=self.position[rows],
            shown=np.add.reduceat(self.shown[order], first),
            clicks=np.add.reduceat(self.clicks[order], first),
            impression=None,
            system=None if self.system is None else self.system[rows],
            propensity=None if self.propensity is None else self.propensity[rows],
            time=None,
        )

    def rows(self, chosen: BoolArray | IntArray) -> ClickLog:
        """Return some rows, with the documents and queries that they have."""
        kept = np.flatnonzero(chosen) if np.asarray(chosen).dtype == np.bool_ else np.asarray(chosen)
        pairs, pair = np.unique(self.pair[kept], return_inverse=True)
        return replace(
            self,
            documents=take_documents(self.documents, pairs),
            pair=pair.astype(np.int64),
            position=self.position[kept],
            shown=self.shown[kept],
            clicks=self.clicks[kept],
            impression=None if self.impression is None else self.impression[kept],
            system=None if self.system is None else self.system[kept],
            propensity=None if self.propensity is None else self.propensity[kept],
            time=None if self.time is None else self.time[kept],
        )

    def with_features(self, table: Any, *, unknown: Literal["error", "drop"] = "error", **columns: Any) -> ClickLog:
        """Return the same log with the features of another table.

        Args:
            table: `Queries` with document ids, a frame, or a file with one. A frame without a column of query ids is
                joined by document only, everything else by query and document.
            unknown: Whether shown documents that the table does not have are an error, or left out of the log.
            columns: Names of the columns of a frame, as in `marginrank.from_frame`.
        """
        from marginrank.clicks.feature_join import rows_in_table  # noqa: PLC0415

        source, row = rows_in_table(self.documents, table, columns)
        if unknown == "drop" and np.any(row < 0):
            return self.rows(row[self.pair] >= 0).with_features(table, **columns)
        if np.any(row < 0):
            at = int(np.argmax(row < 0))
            query = self.documents.query_ids[self.documents.query_of_row[at]]
            raise DataError(
                f"document {self.documents.document_names[at]} ({query_named(query)}) is not in the table of features, "
                f"nor are {int(np.sum(row < 0)) - 1} more of {count(len(row), 'shown document')}; add them, or leave "
                "them out with ",
                Parameter("unknown", "drop"),
            )
        features = source.X[row]
        return replace(self, documents=replace(self.documents, X=features, feature_names=source.feature_names))

    def with_propensities(self, propensities: Propensities) -> ClickLog:
        """Return the same log with the propensity of each row's position, after clipping.

        >>> from marginrank.clicks import Propensities
        >>> log = ClickLog.from_arrays([1, 1], ["x", "y"], [1, 2], [0, 1])
        >>> log.with_propensities(Propensities.power(1.0, depth=2)).propensity.tolist()
        [1.0, 0.5]
        """
        return replace(self, propensity=propensities.at(self))

    def to_queries(
        self,
        propensities: Propensities | None = None,
        *,
        weights: Literal["exposure", "click"] = "exposure",
        negative: Literal["error", "zero"] = "error",
    ) -> Queries:
        """Return the shown documents as queries to train on: each clicked one is relevant, by its corrected clicks.

        A loss that is a sum over relevant documents then has an example for each clicked document, with its clicks/p
        as weight, against the other documents shown for its query: Propensity SVM-rank of Joachims,
        Swaminathan and Schnabel (WSDM 2017) for pairwise hinges. Documents that were never shown had no chance of a
        click and are left out. `Ranker.fit` and `tune` take the log itself if its rows have propensities.

        >>> log = ClickLog.from_arrays([1, 1], ["x", "y"], [1, 2], [0, 1], propensity=[1, 0.25], features=[[3], [1]])
        >>> queries = log.to_queries()
        >>> queries.grades.tolist(), queries.document_weights.tolist()
        ([0.0, 1.0], [0.0, 4.0])

        Args:
            propensities: By default those of the rows; ``Propensities.power(0.0, depth=log.depth)`` does not correct.
            weights: ``exposure`` divides the clicks of a document by how often it was examined in all impressions of
                its query, so that documents which only some rankers show count as much as others: see
                `marginrank.clicks.exposure_weights`. ``click`` sums 1/p over clicks. With one ranking for each query
                both are the same.
            negative: With trust bias, corrected clicks of a document may be negative, and weights may not: an error, or
                ``zero``, which counts such documents as not clicked and biases the weights upwards.
        """
        from marginrank.clicks.propensities import document_weights, exposure_weights  # noqa: PLC0415

        if weights not in ("exposure", "click"):
            raise ValueError(f"there are no weights {weights!r}; choose 'exposure' or 'click'")
        if negative not in ("error", "zero"):
            raise ParameterError(Parameter("negative"), f" is {negative!r}; choose 'error' or 'zero'")
        if not self.documents.n_features:
            raise DataError("the log has no features to train on; join them with log.with_features(table)")
        corrected = (exposure_weights if weights == "exposure" else document_weights)(self, propensities)
        if negative == "error" and np.any(corrected < 0):
            at = int(np.argmax(corrected < 0))
            raise DataError(
                f"document {self.documents.document_names[at]} has {corrected[at]:.3g} corrected clicks, fewer than "
                "irrelevant documents have, and weights are not negative; count such documents as not clicked with ",
                Parameter("negative", "zero"),
            )
        if not np.any(corrected > 0):
            raise DataError("the log has no clicks; there is nothing to learn from it")
        corrected = np.maximum(corrected, 0.0)
        shown = np.bincount(self.pair, self.shown, self.documents.n_documents) > 0
        queries = replace(self.documents, judgements=(corrected > 0).astype(np.float64), document_weights=corrected)
        return queries if shown.all() else take_documents(queries, np.flatnonzero(shown))

    def _with_row_features(self, features: npt.ArrayLike, names: Sequence[str] | None, missing: Missing) -> ClickLog:
        """Take the features of each pair from its rows; refuse rows that contradict each other."""
        check_missing(missing)
        X = np.asarray(features, dtype=np.float64)
        if X.ndim != 2 or len(X) != len(self):
            raise DataError(f"features have shape {X.shape} for {count(len(self), 'row')}; give a row for each")
        if missing == "error":
            _refuse_missing(X, names)
        values = X[np.unique(self.pair, return_index=True)[1]]
        repeated = values[self.pair]
        refuse_row(
            np.any((repeated != X) & ~(np.isnan(repeated) & np.isnan(X)), axis=1),
            None,
            lambda at: (
                f"has other features than an earlier row of document {self.document_ids[at]} for the same query; keep "
                "impressions apart with ",
                Parameter("merge", False),
                ", or join features that do not change",
            ),
        )
        pairs = self.documents
        documents = Queries.from_arrays(
            fill_missing(values, pairs.offsets, missing),
            qid=pairs.query_ids[pairs.query_of_row],
            document_ids=pairs.document_ids,
            feature_names=names,
            allow_nan=missing == "nan",
        )
        return replace(self, documents=documents)


def _refuse_missing(X: FloatArray, names: Sequence[str] | None) -> None:
    rows, columns = np.nonzero(np.isnan(X))
    if len(rows):
        name = f"feature {columns[0]}" if names is None else names[columns[0]]
        raise RowError(int(rows[0]), name, ("has no value; ", *MISSING_ADVICE))


def take_documents(documents: Queries, rows: IntArray) -> Queries:
    """Return some rows of grouped queries, in ascending order; without grades, unless documents have weights."""
    query, weights = documents.query_of_row[rows], documents.document_weights
    return Queries.from_arrays(
        documents.X[rows],
        None if weights is None else documents.grades[rows],
        document_weights=None if weights is None else weights[rows],
        qid=documents.query_ids[query],
        document_ids=documents.document_names[rows],
        feature_names=documents.feature_names,
        allow_nan=True,
    )


def refuse_row(bad: BoolArray, column: str | None, said: Any) -> None:
    """Refuse the first bad row; ``said`` says what is wrong with it, given its number."""
    if np.any(bad):
        at = int(np.argmax(bad))
        message: Message = said(at)
        raise RowError(at, column, message)


def check_propensities(values: FloatArray) -> FloatArray:
    """Refuse propensities that are not above 0 and at most 1.

    >>> check_propensities(np.array([1.0, 0.0]))
    Traceback (most recent call last):
    marginrank.data.column_roles.RowError: row 1 of column 'propensity' is 0; ...
    """
    refuse_row(
        ~((values > 0) & (values <= 1)),
        "propensity",
        lambda at: (
            f"is {values[at]:g}; a propensity is the probability that a position is examined, above 0 and at most 1"
        ),
    )
    return values


def refuse_repeats(visit: tuple[AnyArray, IntArray], names: AnyArray, document: IntArray, position: IntArray) -> None:
    """Refuse impressions that show a document twice, or two documents at one position."""
    ids, number = visit
    for column, by_document in ((document, True), (position, False)):
        order = np.lexsort((column, number))
        same = (number[order][1:] == number[order][:-1]) & (column[order][1:] == column[order][:-1])
        if same.any():
            at = int(order[1:][same].min())
            again = f"shows document {names[document[at]]} again in"
            second = f"is a second document at position {position[at]} of"
            said = f"{again if by_document else second} impression {ids[number[at]]}"
            raise RowError(at, None, f"{said}; keep one row of each shown document")


def _codes(name: str, labels: npt.ArrayLike, n: int) -> tuple[AnyArray, IntArray]:
    """Return the distinct labels in order of first appearance, and the number of each row's."""
    ids = label_array(labels)
    if ids.ndim != 1 or len(ids) != n:
        raise DataError(f"{name} has shape {ids.shape} for {count(n, 'row')}; give one per row")
    ids = exact_ids(ids, name, f"every row needs a {name}")
    distinct, first, code = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return distinct[order], rank[code]


def _numbers(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds text, not numbers") from None
    if numbers.shape != (n,):
        raise DataError(f"{name} has shape {numbers.shape} for {count(n, 'row')}; give one per row")
    refuse_row(~np.isfinite(numbers), name, lambda at: f"is {numbers[at]:g}; every row needs a number")
    return numbers


def _flags(clicked: npt.ArrayLike, n: int) -> FloatArray:
    flags = _numbers("clicked", clicked, n)
    refuse_row((flags != 0) & (flags != 1), "clicked", lambda at: f"is {flags[at]:g}; it must be 0 or 1")
    return flags


def _positions(position: npt.ArrayLike, first: int, clicked: FloatArray) -> IntArray:
    if first not in (0, 1):
        raise DataError(Parameter("positions_from"), f" is {first!r}; positions count from 0 or from 1")
    try:
        places = np.asarray(position, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("position holds text, not numbers") from None
    if places.ndim != 1:
        raise DataError(f"position has {places.ndim} dimensions; give one per row")
    missing = ~np.isfinite(places)
    refuse_row(
        missing & (clicked > 0),
        "position",
        lambda _: "is missing, but the row has a click: a click without an impression; drop it, or log the position",
    )
    refuse_row(missing, "position", lambda _: "is missing; every shown document has a position")
    refuse_row(places != np.rint(places), "position", lambda at: f"is {places[at]:g}; positions are whole numbers")
    advice: Message = ("; if yours count from 0, pass ", Parameter("positions_from", 0)) if first else ""
    refuse_row(places == first - 1, "position", lambda at: (f"is {places[at]:g}; positions count from {first}", advice))
    refuse_row(places < first, "position", lambda at: f"is {places[at]:g}; positions count from {first}")
    return places.astype(np.int64) + 1 - first


def _pairs(queries: AnyArray, query: IntArray, names: AnyArray, document: IntArray) -> tuple[Queries, IntArray]:
    """Return the distinct pairs of query and document, grouped by query, and the number of each row's pair."""
    if not len(query):
        raise DataError("the log has no rows")
    keys, first, code = np.unique(query * len(names) + document, return_index=True, return_inverse=True)
    order = np.lexsort((first, keys // len(names)))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    keys = keys[order]
    documents = Queries.from_arrays(
        np.empty((len(keys), 0)), qid=queries[keys // len(names)], document_ids=as_text(names)[keys % len(names)]
    )
    return documents, rank[code]
