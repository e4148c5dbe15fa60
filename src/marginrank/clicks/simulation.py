"""Simulated users, and the logs of what they click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from marginrank.clicks.click_log import ClickLog, take_documents
from marginrank.data.queries import Queries
from marginrank.data.unjudged import SOME_UNJUDGED
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.evaluation.systems import System, orderings, score_documents
from marginrank.runtime.option_objects import check_seed
from marginrank.typing import BoolArray, FloatArray, IntArray

#: Sessions at a time.
_BLOCK = 1 << 15


class User(Protocol):
    """Someone who clicks on ranked documents."""

    def clicks(self, attraction: FloatArray, shown: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return what is clicked: a row per session, a column per position."""


@dataclass(frozen=True)
class PositionUser:
    """A user of the position-based model: a click needs a document that is examined and attractive.

    P(click at k) = p_k · (ε⁻_k + (ε⁺ − ε⁻_k) · a), with a the relevance of the document in [0, 1]. With an ε⁻ that
    falls with the position this is trust bias, Agarwal et al. (WWW 2019).

    >>> PositionUser(eta=1.0).propensities(4).round(3).tolist()
    [1.0, 0.5, 0.333, 0.25]

    Args:
        eta: p_k = 1/k^η.
        curve: Instead, p_k for each position.
        relevant: ε⁺, the probability of a click on an examined document of the highest grade.
        irrelevant: ε⁻, the same for grade 0; one number, or one for each position.
    """

    eta: float = 1.0
    curve: tuple[float, ...] | None = None
    relevant: float = 1.0
    irrelevant: float | tuple[float, ...] = 0.1

    def propensities(self, depth: int) -> FloatArray:
        """Return the probability that each position is examined."""
        if self.curve is None:
            return np.asarray(np.arange(1, depth + 1) ** -float(self.eta))
        if len(self.curve) < depth:
            raise ParameterError(Parameter("curve"), f" has {len(self.curve)} positions, and {depth} are shown")
        return np.asarray(self.curve[:depth], dtype=np.float64)

    def clicks(self, attraction: FloatArray, shown: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return what is clicked."""
        depth = attraction.shape[1]
        noise = np.broadcast_to(np.asarray(self.irrelevant, dtype=np.float64), (depth,))
        chance = self.propensities(depth) * (noise + (self.relevant - noise) * attraction)
        return np.asarray((rng.random(chance.shape) < chance) & shown)


@dataclass(frozen=True)
class CascadeUser:
    """A user who reads from the top and may stop after a click: Craswell et al. (WSDM 2008), Guo et al. (WSDM 2009).

    Args:
        relevant: Probability of a click on a read document of the highest grade.
        irrelevant: The same for grade 0.
        satisfied: Probability that a click ends the session, times the relevance of the document.
        patience: Probability to read on at the next position otherwise.
    """

    relevant: float = 1.0
    irrelevant: float = 0.1
    satisfied: float = 0.9
    patience: float = 1.0

    def clicks(self, attraction: FloatArray, shown: BoolArray, rng: np.random.Generator) -> BoolArray:
        """Return what is clicked."""
        reading = np.ones(len(attraction), dtype=np.bool_)
        clicked = np.zeros(attraction.shape, dtype=np.bool_)
        for k in range(attraction.shape[1]):
            chance = self.irrelevant + (self.relevant - self.irrelevant) * attraction[:, k]
            clicked[:, k] = reading & shown[:, k] & (rng.random(len(reading)) < chance)
            stops = clicked[:, k] & (rng.random(len(reading)) < self.satisfied * attraction[:, k])
            reading &= ~stops & (rng.random(len(reading)) < self.patience)
        return clicked


def simulate_clicks(
    queries: Queries,
    systems: Mapping[str, System],
    sessions: int,
    *,
    user: User | None = None,
    depth: int = 10,
    shares: Sequence[float] | None = None,
    aggregate: bool = False,
    random_state: int | None = 0,
) -> ClickLog:
    """Simulate sessions: each draws a query, a system, shows its best documents, and logs what the user clicks.

    A grade g of at most G has the relevance (2^g − 1)/(2^G − 1), so that the highest has 1.

    >>> queries = Queries.from_arrays([[0.1], [0.9], [0.5]], [0, 0, 1], group=[3])
    >>> log = simulate_clicks(queries, {"production": queries.feature(0)}, 100, user=PositionUser(irrelevant=0.0))
    >>> log.document_ids[log.clicked].tolist()[:2], set(log.position[log.clicked].tolist())
    (['2', '2'], {2})

    Args:
        queries: Judged queries; sessions draw them by their weights.
        systems: By name, a ranker or one score per row.
        sessions: Number of impressions.
        user: `PositionUser` by default, `CascadeUser`, or anything with the same method.
        depth: Number of documents shown.
        shares: Share of the sessions of each system; equal by default.
        aggregate: Whether equal rows are added up at once, so that memory does not grow with the sessions.
        random_state: Seed.
    """
    if sessions < 1 or depth < 1:
        raise ParameterError(Parameter("sessions"), " and ", Parameter("depth"), " must be at least 1")
    if not systems:
        raise ParameterError(Parameter("systems"), " is empty; name at least one")
    if queries.n_unjudged:
        raise DataError(SOME_UNJUDGED)
    check_seed(random_state)
    rng = np.random.default_rng(random_state)
    lists = np.stack([_lists(queries, system, depth) for system in systems.values()])
    share = np.ones(len(systems)) if shares is None else np.asarray(shares, dtype=np.float64)
    if share.shape != (len(systems),) or not (np.all(share >= 0) and share.sum() > 0):
        raise ParameterError(Parameter("shares"), " needs a number for each system, not negative and not all 0")
    weights = np.ones(len(queries)) if queries.query_weights is None else queries.query_weights
    relevance = np.r_[_relevance(queries.grades), 0.0]
    parts: list[tuple[IntArray, ...]] = []
    for start in range(0, sessions, _BLOCK):
        size = min(_BLOCK, sessions - start)
        query = rng.choice(len(queries), size, p=weights / weights.sum())
        system = rng.choice(len(systems), size, p=share / share.sum())
        rows = lists[system, query]
        clicked = (user or PositionUser()).clicks(relevance[rows], rows >= 0, rng)
        parts.append(_flat(rows, clicked, system, start, aggregate))
    return _log(queries, tuple(systems), parts, aggregate)


def _relevance(grades: FloatArray) -> FloatArray:
    top = 2.0 ** grades.max(initial=0.0) - 1
    return np.asarray((2.0**grades - 1) / (top or 1.0))


def _lists(queries: Queries, system: System, depth: int) -> IntArray:
    """Return the rows that a system shows for each query, −1 after the last."""
    scores = score_documents(queries, system)
    if not isinstance(scores, np.ndarray) or scores.shape != (queries.n_documents,):
        raise DataError("a simulated system is a ranker, or one score per row of the queries")
    lists = np.full((len(queries), depth), -1)
    for query, rows in enumerate(orderings(scores, queries.query_offsets, queries.order, depth, None)):
        lists[query, : len(rows)] = rows
    return lists


def _flat(rows: IntArray, clicked: BoolArray, system: IntArray, start: int, aggregate: bool) -> tuple[IntArray, ...]:
    """Return document row, position, system, impression, impressions and clicks of the rows of a block."""
    session, place = np.nonzero(rows >= 0)
    columns = (rows[session, place], place + 1, system[session])
    hits = clicked[session, place].astype(np.int64)
    if not aggregate:
        return (*columns, start + session, np.ones_like(hits), hits)
    return _added_up(columns, np.ones_like(hits), hits)


def _added_up(columns: tuple[IntArray, ...], shown: IntArray, hits: IntArray) -> tuple[IntArray, ...]:
    sizes = tuple(int(column.max(initial=0)) + 1 for column in columns)
    keys, code = np.unique(np.ravel_multi_index(columns, sizes), return_inverse=True)
    totals = [np.bincount(code, values, len(keys)).astype(np.int64) for values in (shown, hits)]
    return (*np.unravel_index(keys, sizes), keys, *totals)


def _log(queries: Queries, names: tuple[str, ...], parts: list[tuple[IntArray, ...]], aggregate: bool) -> ClickLog:
    row, position, system, impression, shown, clicks = (np.concatenate(column) for column in zip(*parts, strict=True))
    if aggregate:
        row, position, system, _, shown, clicks = _added_up((row, position, system), shown, clicks)
    place = np.argsort(np.arange(queries.n_documents) if queries.order is None else queries.order)
    pairs, pair = np.unique(place[row], return_inverse=True)
    return ClickLog(
        take_documents(queries.grouped, pairs),
        pair.astype(np.int64),
        position,
        shown.astype(np.float64),
        clicks.astype(np.float64),
        None if aggregate else impression,
        system,
        names,
    )
