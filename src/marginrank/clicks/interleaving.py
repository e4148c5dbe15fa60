"""Interleaved rankings, and the preference that clicks on them show."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy  # its parts load on first use

from marginrank.clicks.click_log import ClickLog
from marginrank.errors import DataError, Parameter, ParameterError
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Interleaved:
    """A list of documents and, by team draft, the team ("a" or "b") that each was drawn for; log it as the system."""

    documents: tuple[Any, ...]
    teams: tuple[str, ...] | None


def interleave(
    a: Sequence[Hashable],
    b: Sequence[Hashable],
    k: int | None = None,
    *,
    method: Literal["team-draft", "balanced"] = "team-draft",
    random_state: int | np.random.Generator | None = None,
) -> Interleaved:
    """Interleave two rankings of document ids.

    ``team-draft``: in each round a coin says who draws first, and both draw their best document that is left:
    Radlinski, Kurup and Joachims (CIKM 2008). ``balanced``: a coin says who begins, and the rankings take turns:
    Joachims (2003).

    >>> interleave(["x", "y"], ["y", "z"], random_state=0)
    Interleaved(documents=('y', 'x', 'z'), teams=('b', 'a', 'b'))

    Args:
        a: A ranking, best first.
        b: Another one.
        k: Length of the list; all documents by default.
        method: As above.
        random_state: Seed or generator of the coin.
    """
    if method not in ("team-draft", "balanced"):
        raise ParameterError(Parameter("method"), f" is {method!r}; choose team-draft or balanced")
    for name, ranking in (("a", a), ("b", b)):
        if len(set(ranking)) < len(ranking):
            raise DataError(f"ranking {name} has a document twice; keep its first place")
    rng = np.random.default_rng(random_state)
    size = len({*a, *b}) if k is None else min(k, len({*a, *b}))
    return _team_draft(a, b, size, rng) if method == "team-draft" else _balanced(a, b, size, rng)


def _team_draft(a: Sequence[Hashable], b: Sequence[Hashable], size: int, rng: np.random.Generator) -> Interleaved:
    drawn: dict[Hashable, str] = {}
    while len(drawn) < size:
        turns = (("a", a), ("b", b)) if rng.random() < 0.5 else (("b", b), ("a", a))
        for team, ranking in turns:
            best = next((name for name in ranking if name not in drawn), None)
            if best is not None and len(drawn) < size:
                drawn[best] = team
    return Interleaved(tuple(drawn), tuple(drawn.values()))


def _balanced(a: Sequence[Hashable], b: Sequence[Hashable], size: int, rng: np.random.Generator) -> Interleaved:
    a_first = bool(rng.random() < 0.5)
    merged: dict[Hashable, None] = {}
    at_a = at_b = 0
    while len(merged) < size:
        turn_of_a = at_a < at_b or (at_a == at_b and a_first)
        if (turn_of_a and at_a < len(a)) or at_b >= len(b):
            merged.setdefault(a[at_a])
            at_a += 1
        else:
            merged.setdefault(b[at_b])
            at_b += 1
    return Interleaved(tuple(merged), None)


@dataclass(frozen=True)
class Preference:
    """Preference between two rankers by interleaved impressions.

    Args:
        names: The rankers.
        wins: Impressions that each has won: more clicks than the other.
        ties: Impressions with as many clicks for both, most of them with none.
        share: Share of the first among the decided impressions.
        interval: Its interval, Wilson (1927).
        p: Two-sided p-value of the sign test.
        confidence: Confidence level of the interval.
    """

    names: tuple[str, str]
    wins: tuple[int, int]
    ties: int
    share: float
    interval: tuple[float, float]
    p: float
    confidence: float

    @property
    def n_impressions(self) -> int:
        """Number of impressions."""
        return sum(self.wins) + self.ties

    def power(self, impressions: int, *, share: float | None = None, level: float = 0.05) -> float:
        """Return the probability that the sign test rejects after so many impressions.

        Args:
            impressions: Planned number; as many of them are decided as here, in proportion.
            share: True share of the first ranker among decided impressions; by default the one observed.
            level: Level of the test.
        """
        decided = round(impressions * sum(self.wins) / self.n_impressions)
        return sign_test_power(decided, self.share if share is None else share, level)

    def __str__(self) -> str:
        verdict = "no significant difference"
        if self.p < 1 - self.confidence:
            verdict = f"{self.names[int(self.share < 0.5)]} is preferred"
        low, high = self.interval
        return (
            f"{self.names[0]} won {self.wins[0]:,}, {self.names[1]} won {self.wins[1]:,} of {self.n_impressions:,} "
            f"impressions; share of {self.names[0]} {self.share:.1%} ({low:.1%}..{high:.1%}), p = {self.p:.3g}: "
            f"{verdict}"
        )


def sign_test_power(decided: int, share: float, level: float = 0.05) -> float:
    """Return the power of the two-sided sign test with so many decided impressions.

    >>> round(sign_test_power(6, 1.0), 3), sign_test_power(5, 1.0)      # 2/2⁶ = 0.031 rejects, 2/2⁵ = 0.062 does not
    (1.0, 0.0)
    """
    if not 0 <= share <= 1:
        raise ParameterError(Parameter("share"), f" is {share:g}; it is between 0 and 1")
    wins = np.arange(decided + 1)
    tail = np.minimum(1.0, 2 * scipy.stats.binom.cdf(np.minimum(wins, decided - wins), decided, 0.5))
    return float(scipy.stats.binom.pmf(wins, decided, share)[tail <= level].sum())


def compare_interleaved(
    log: ClickLog,
    *,
    rankings: Mapping[Any, tuple[Sequence[Any], Sequence[Any]]] | None = None,
    confidence: float = 0.95,
) -> Preference:
    """Compare two rankers by the clicks on interleaved impressions.

    Args:
        log: The log with impressions and, for team draft, the team of each row as its system.
        rankings: For balanced interleaving, both rankings of each query. An impression goes to the ranking with more
            clicks among its first k documents, k the least depth at which one of them has the lowest click.
        confidence: Confidence level of the interval.
    """
    if log.impression is None:
        raise DataError("interleaving is evaluated by impression, and the log has no impressions; give ", _IMPRESSION)
    if not log.clicks.any():
        raise DataError("the log has no clicks; no ranker can be preferred")
    names, credit = _teams(log) if rankings is None else (("a", "b"), _balanced_credit(log, rankings))
    first, second = int(np.sum(credit > 0)), int(np.sum(credit < 0))
    if first + second == 0:
        raise DataError("both rankers have the same number of clicks in every impression; log more impressions")
    test = scipy.stats.binomtest(first, first + second)
    ends = test.proportion_ci(confidence, method="wilson")
    interval = (float(ends.low), float(ends.high))
    ties = len(credit) - first - second
    return Preference(names, (first, second), ties, first / (first + second), interval, float(test.pvalue), confidence)


_IMPRESSION = Parameter("impression")


def _teams(log: ClickLog) -> tuple[tuple[str, str], FloatArray]:
    if log.system is None or len(log.system_names) != 2:
        raise DataError(
            f"team draft needs two teams, and the log has {len(log.system_names)} systems; give the team of each row "
            "as ",
            Parameter("system"),
            ", or for balanced interleaving the ",
            Parameter("rankings"),
        )
    assert log.impression is not None
    order = np.argsort(log.system_names)
    sign = np.where(log.system == order[0], 1.0, -1.0)
    names = (log.system_names[order[0]], log.system_names[order[1]])
    return names, np.bincount(log.impression, sign * log.clicked).astype(np.float64)


def _balanced_credit(log: ClickLog, rankings: Mapping[Any, tuple[Sequence[Any], Sequence[Any]]]) -> FloatArray:
    assert log.impression is not None
    credit = np.zeros(int(log.impression.max()) + 1)
    names, queries = log.document_ids, log.documents.query_ids[log.query].tolist()
    rows: dict[int, list[int]] = {}
    for row in np.flatnonzero(log.clicked).tolist():
        rows.setdefault(int(log.impression[row]), []).append(row)
    for impression, clicked in rows.items():
        query = queries[clicked[0]]
        if query not in rankings:
            raise DataError(f"no rankings of query {query}; give those of every query with a click")
        places = [{str(name): place for place, name in enumerate(one)} for one in rankings[query]]
        lowest = max(clicked, key=lambda row: log.position[row])
        depth = min(place.get(names[lowest], np.inf) for place in places)
        a, b = (sum(place.get(names[row], np.inf) <= depth for row in clicked) for place in places)
        credit[impression] = a - b
    return credit
