"""Propensities estimated from logs: randomized positions, moved documents, and maximum likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy  # its parts load on first use

from marginrank.clicks.click_log import ClickLog
from marginrank.clicks.propensities import Propensities
from marginrank.errors import DataError, Message, Parameter, ParameterError
from marginrank.runtime.option_objects import check_seed
from marginrank.typing import FloatArray, IntArray

Method: TypeAlias = Literal["harvest", "swap", "random", "em"]

_ASSUMES: Final = {
    "random": "positions were drawn at random, for all documents alike",
    "swap": "which of its positions a document got was random",
    "harvest": "each impression got its ranker independently of its user, and a document is as attractive under all",
    "em": "the position-based model; each document is as attractive in all impressions of its query, although nothing "
    "was randomized",
}
#: More queries than these are put into as many groups, which are resampled instead: sums over each stay in memory.
_MOST_GROUPS: Final = 10_000
#: Smallest propensity that a bootstrap sample without clicks at a position gives.
_FLOOR: Final = 1e-6


def estimate_propensities(
    log: ClickLog,
    method: Method = "harvest",
    *,
    depth: int | None = None,
    clip: float = 0.0,
    confidence: float = 0.95,
    resamples: int = 200,
    random_state: int | None = 0,
) -> Propensities:
    """Estimate propensities relative to position 1, with bootstrap intervals over queries.

    Because they are relative, a position that is examined more often than the first one has a value above 1.

    - ``random``: p_k/p_1 is the ratio of click rates in a log whose positions were randomized.
    - ``swap``: documents that were moved at random between positions; compared with themselves.
    - ``harvest``: several rankers put a document at different positions: Agarwal, Zaitsev, Wang, Li, Najork and
      Joachims (WSDM 2019). As for ``swap``, AllPairs maximizes
      Σ_{k≠k'} ĉ_kk' log(p_k r_kk') + (ŵ_kk' − ĉ_kk') log(1 − p_k r_kk'), where ĉ_kk' sums the click rates at k of the
      documents shown at k and at k', and r_kk' = r_k'k. A document with n impressions at k and n' at k' counts
      n n'/(n + n'); n are the impressions that the log has, not those that were planned.
    - ``em``: maximum likelihood of the position-based model, a fallback: no random assignment is needed, and more is
      assumed (see ``assumes`` of the result). This is what EM maximizes, except that only the product of propensity
      and attraction has to be a probability, not the attraction alone: that limit biases propensities upwards if some
      documents are clicked whenever they are seen.

    An interval is p·exp(±t s), with s the standard deviation of log p over the samples, times √(n/(n − 1)), and t the
    quantile of Student's distribution with n − 1 degrees of freedom for n queries.

    Args:
        log: The log; merged by query, because documents are compared with themselves.
        method: As above.
        depth: Number of positions; all by default.
        clip: As in `Propensities`.
        confidence: Confidence level of the intervals.
        resamples: Bootstrap samples of queries, at least 2; 0 for no intervals. Those of ``em`` take one Newton step.
        random_state: Seed of the samples.

    Raises:
        DataError: The log cannot identify the propensities.
    """
    if method not in _ASSUMES:
        raise ParameterError(Parameter("method"), f" is {method!r}; choose harvest, swap, random or em")
    if not 0 < confidence < 1:
        raise ParameterError(Parameter("confidence"), f" is {confidence:g}; it must be between 0 and 1")
    if resamples < 0 or resamples == 1:
        raise ParameterError(Parameter("resamples"), f" is {resamples}; draw at least 2, or 0 for no intervals")
    check_seed(random_state)
    log = _usable(log, depth)
    if method == "harvest":
        _check_systems(log)
    fit, by_query = _RULES[method](log)
    values = fit(np.asarray(by_query.sum(axis=0)))
    interval = None
    if resamples:
        rng = np.random.default_rng(random_state)
        n = len(by_query)
        draws = [fit(np.bincount(rng.integers(0, n, n), minlength=n) @ by_query) for _ in range(resamples)]
        interval = log_interval(values, np.array(draws), n, confidence)
    return replace(Propensities(values, clip), interval=interval, assumes=_ASSUMES[method])


def log_interval(values: FloatArray, draws: FloatArray, n: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Return the intervals of propensities relative to the first, which has none.

    Percentiles of 200 samples covered the truth in 90 to 92% of the logs of ``benchmarks/propensities.py``: they are
    too short by the factor √((n − 1)/n), by t against z, and because the order statistics of few samples vary.
    """
    if n < 2:  # nothing to compare a query with
        return np.r_[1.0, np.zeros(len(values) - 1)], np.r_[1.0, np.full(len(values) - 1, np.inf)]
    spread = np.log(draws).std(axis=0) * np.sqrt(n / (n - 1))
    reach = np.exp(scipy.stats.t.ppf((1 + confidence) / 2, n - 1) * spread)
    return np.asarray(values / reach), np.asarray(values * reach)


def _usable(log: ClickLog, depth: int | None) -> ClickLog:
    log = log.rows(log.position <= depth) if depth is not None and depth < log.depth else log
    log = log.aggregated()
    if log.depth < 2:
        raise DataError("the log has position 1 only; propensities compare positions, so log at least two")
    if not log.clicks.any():
        raise DataError("the log has no clicks; nothing can be estimated from it")
    if np.all(log.clicks == log.shown):
        raise DataError("every shown document was clicked; log the documents that were shown without a click too")
    return log


def _check_systems(log: ClickLog) -> None:
    if log.system is None:
        raise DataError(
            "the log does not say which ranker made each ranking; give the column with ",
            Parameter("system"),
            ", or use ",
            Parameter("method", "swap"),
            " if positions were randomized",
        )
    if len(np.unique(log.system)) < 2:
        raise DataError(
            "the log is of one ranker; its positions follow what it knows of relevance, so position and relevance "
            "cannot be told apart. Log a second ranker, or randomize some positions and use ",
            Parameter("method", "swap"),
        )


class _Rule(NamedTuple):
    """Estimator of propensities from sums over queries, and the summands, a row per query or group of queries."""

    fit: Callable[[FloatArray], FloatArray]
    by_query: FloatArray


def _random(log: ClickLog) -> _Rule:
    shown, clicks = (np.zeros((_n_groups(log), log.depth)) for _ in range(2))
    np.add.at(shown, (log.query % len(shown), log.position - 1), log.shown)
    np.add.at(clicks, (log.query % len(clicks), log.position - 1), log.clicks)
    silent = np.flatnonzero(clicks.sum(axis=0) == 0)
    if len(silent):
        raise _no_clicks(int(silent[0]) + 1)

    def fit(sums: FloatArray) -> FloatArray:
        total, hits = sums[: log.depth], np.maximum(sums[log.depth :], _FLOOR)
        rate = hits / np.maximum(total, _FLOOR)
        return np.asarray(rate / rate[0])

    return _Rule(fit, np.hstack([shown, clicks]))


def _no_clicks(k: int) -> DataError:
    return DataError(f"no click at position {k}; estimate the positions above, with ", Parameter("depth", k - 1))


def _n_groups(log: ClickLog) -> int:
    return min(len(log.documents), _MOST_GROUPS)


class Edges(NamedTuple):
    """Pairs of positions that share documents, and the weighted click rates on these: a row per query."""

    first: IntArray
    second: IntArray
    #: Columns: rates at ``first``, rates at ``second``, weights.
    by_query: FloatArray


def moved_documents(log: ClickLog) -> Edges:
    """Collect documents that were shown at two positions."""
    depth, n = log.depth, log.documents.n_documents
    shown, clicks = np.zeros((n, depth)), np.zeros((n, depth))
    np.add.at(shown, (log.pair, log.position - 1), log.shown)
    np.add.at(clicks, (log.pair, log.position - 1), log.clicks)
    kept = np.count_nonzero(shown, axis=1) > 1
    n_groups = _n_groups(log)
    shown, clicks, group = shown[kept], clicks[kept], log.documents.query_of_row[kept] % n_groups
    rate = np.divide(clicks, shown, out=np.zeros_like(clicks), where=shown > 0)
    edges, columns = [], []
    for k in range(depth):
        for other in range(k + 1, depth):
            both = shown[:, k] + shown[:, other]
            weight = np.divide(shown[:, k] * shown[:, other], both, out=np.zeros_like(both), where=both > 0)
            if weight.any():
                edges.append((k, other))
                columns.append([weight * rate[:, k], weight * rate[:, other], weight])
    first, second = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    sums = [np.bincount(group, column, n_groups) for part in range(3) for column in (c[part] for c in columns)]
    return Edges(first, second, np.array(sums, dtype=np.float64).reshape(-1, n_groups).T)


def check_connected(first: IntArray, second: IntArray, depth: int) -> None:
    """Refuse positions that no chain of moved documents connects with position 1."""
    reached = {0}
    while True:
        more = {int(b) for a, b in zip(first, second, strict=True) if a in reached}
        more |= {int(a) for a, b in zip(first, second, strict=True) if b in reached}
        if more <= reached:
            break
        reached |= more
    lost = next((k for k in range(depth) if k not in reached), None)
    if lost is None:
        return
    way_out: Message = ("estimate those above, with ", Parameter("depth", lost)) if lost > 1 else "log more rankers"
    raise DataError(
        f"no document was shown both at position {lost + 1} and at one that is connected with position 1, so its "
        "propensity cannot be identified; merge impressions of the same query if they were kept apart, or ",
        way_out,
    )


def _moved(log: ClickLog) -> _Rule:
    first, second, by_query = moved_documents(log)
    check_connected(first, second, log.depth)
    hits = np.bincount(first, by_query.sum(axis=0)[: len(first)], log.depth)
    hits += np.bincount(second, by_query.sum(axis=0)[len(first) : 2 * len(first)], log.depth)
    if np.any(hits == 0):
        raise _no_clicks(int(np.argmin(hits)) + 1)

    def fit(sums: FloatArray) -> FloatArray:
        rates = sums.reshape(3, -1)
        return all_pairs(first, second, rates[0], rates[1], rates[2], log.depth)

    return _Rule(fit, by_query)


def all_pairs(
    first: IntArray, second: IntArray, c_first: FloatArray, c_second: FloatArray, weight: FloatArray, depth: int
) -> FloatArray:
    """Maximize the AllPairs objective by Newton's method; p_1 = 1.

    With a = log p and b = log r it is Σ c (a_k + b_e) + (w − c) log(1 − exp(a_k + b_e)), which is concave. The best r
    of each edge solves a quadratic equation; Newton steps go over a with b at its best.
    """
    a = np.zeros(depth)
    ends = np.concatenate([first, second])
    edge = np.tile(np.arange(len(first)), 2)
    w = np.maximum(np.tile(weight, 2), _FLOOR)
    c = np.clip(np.concatenate([c_first, c_second]), _FLOOR * w, (1 - _FLOOR) * w)

    def at(a: FloatArray) -> tuple[float, FloatArray]:
        p = np.exp(a)
        p1, p2, c1, c2 = p[first], p[second], c[: len(first)], c[len(first) :]
        w1 = w[: len(first)]
        total, lean = c1 + c2, (c1 + c2) * (p1 + p2) + (w1 - c1) * p1 + (w1 - c2) * p2
        root = np.sqrt(np.maximum(lean**2 - 8 * p1 * p2 * w1 * total, 0.0))
        mean = np.minimum(p[ends] * (2 * total / (lean + root))[edge], 1 - 1e-12)
        return float(c @ np.log(mean) + (w - c) @ np.log1p(-mean)), mean

    value, mean = at(a)
    for _ in range(100):
        slope = c - (w - c) * mean / (1 - mean)
        bend = (w - c) * mean / (1 - mean) ** 2
        gradient = np.bincount(ends, slope, depth)
        hessian: FloatArray = np.diag(np.bincount(ends, bend, depth)).astype(np.float64)
        of_edge = np.bincount(edge, bend)
        cross = np.zeros((depth, len(first)))
        np.add.at(cross, (ends, edge), bend)
        hessian = hessian - (cross / of_edge) @ cross.T
        step = _newton_step(gradient.astype(np.float64), hessian)
        if np.abs(step).max() < 1e-10:
            break
        size = min(1.0, 2.0 / np.abs(step).max())
        while size > 1e-8:
            new, new_mean = at(a + size * step)
            if new >= value - 1e-12 * abs(value):
                break
            size /= 2
        a, value, mean = np.maximum(a + size * step, np.log(_FLOOR)), new, new_mean
    return np.exp(a)


def _position_model(log: ClickLog) -> _Rule:
    edges = moved_documents(log)
    check_connected(edges.first, edges.second, log.depth)
    silent = np.flatnonzero(np.bincount(log.position - 1, log.clicks, log.depth) == 0)
    if len(silent):
        raise _no_clicks(int(silent[0]) + 1)
    a, slope, hessian = maximize_likelihood(log.pair, log.position - 1, log.shown, log.clicks, log.depth)
    by_query = np.zeros((_n_groups(log), log.depth))
    np.add.at(by_query, (log.query % len(by_query), log.position - 1), slope)

    def fit(gradient: FloatArray) -> FloatArray:
        return np.exp(a + _newton_step(gradient, hessian))

    return _Rule(fit, by_query)


def _newton_step(gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    """Return a step over log p with log p_1 = 0."""
    step = np.zeros(len(gradient))
    ridge = 1e-12 * np.trace(hessian) * np.eye(len(gradient) - 1)
    step[1:] = np.linalg.solve(hessian[1:, 1:] + ridge, gradient[1:])
    return step


def maximize_likelihood(
    pair: IntArray, k: IntArray, shown: FloatArray, clicks: FloatArray, depth: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Maximize the likelihood of the position-based model, P(click) = p_k r_d, by Newton's method; p_1 = 1.

    With a = log p and b = log r it is Σ c (a_k + b_d) + (n − c) log(1 − exp(a_k + b_d)), which is concave. The best b_d
    of each document is found by bisection; Newton steps go over a with b at its best.

    Returns:
        log p, what each row adds to the gradient of the profile likelihood, and minus its Hessian.
    """
    n = int(pair.max()) + 1
    c = np.minimum(clicks, (1 - _FLOOR) * shown)

    def at(a: FloatArray) -> tuple[float, FloatArray]:
        highest = np.full(n, -np.inf)
        np.maximum.at(highest, pair, a[k])
        high, low = -highest, -highest + 3 * np.log(_FLOOR)
        for _ in range(60):
            middle = (low + high) / 2
            odds = 1 / np.expm1(-np.minimum(a[k] + middle[pair], -1e-15))
            rising = np.bincount(pair, c - (shown - c) * odds, n) > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        chance = np.minimum(np.exp(a[k] + low[pair]), 1 - 1e-15)
        return float(c @ np.log(chance) + (shown - c) @ np.log1p(-chance)), chance

    a = np.zeros(depth)
    value, mean = at(a)
    for _ in range(100):
        slope = c - (shown - c) * mean / (1 - mean)
        bend = (shown - c) * mean / (1 - mean) ** 2
        of_pair = np.maximum(np.bincount(pair, bend, n), 1e-300)
        cross = np.zeros((depth, n))
        np.add.at(cross, (k, pair), bend)
        hessian = np.diag(np.bincount(k, bend, depth)) - (cross / of_pair) @ cross.T
        step = _newton_step(np.bincount(k, slope, depth).astype(np.float64), hessian)
        if np.abs(step).max() < 1e-10:
            break
        size = min(1.0, 2.0 / np.abs(step).max())
        while size > 1e-8:
            new, new_mean = at(a + size * step)
            if new >= value - 1e-12 * abs(value):
                break
            size /= 2
        a, value, mean = np.maximum(a + size * step, np.log(_FLOOR)), new, new_mean
    return a, slope, hessian


_RULES: Final[dict[str, Callable[[ClickLog], _Rule]]] = {
    "random": _random,
    "swap": _moved,
    "harvest": _moved,
    "em": _position_model,
}
