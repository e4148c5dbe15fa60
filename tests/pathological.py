"""Data sets that training must survive, and what surviving means; ``python -m tests.pathological`` tries them all.

The grid is every preset, every data set, five values of C, with and without scaling. A fit may be refused with a
`DataError`; otherwise it ends within twice its time limit, its parameters and scores are finite, its lower bound is not
above its objective, and a warning says so if it ranks nothing. Time is that of the processor, so that a busy machine
does not count.
"""

# ruff: noqa: ARG005
from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from itertools import product

import numpy as np

from marginrank import DataError, Ranker
from marginrank.errors import NothingRankedWarning
from marginrank.methods import all_presets
from marginrank.training import CollapseWarning

CS = (1e-12, 1e-3, 1.0, 1e6, 1e12)
SCALINGS = ("auto", None)
TIME_LIMIT = 0.25
#: Seconds for what is not training: preparing and scoring.
ALLOWANCE = 2.0


def _plain(rng, n_queries=8, n=12, d=5):
    X = rng.standard_normal((n_queries * n, d))
    grades = np.digitize(X[:, 0] - 0.5 * X[:, 1] + 0.5 * rng.standard_normal(len(X)), [0.3, 1.2])
    return X, grades.astype(float), np.repeat(np.arange(n_queries), n)


def _changed(change):
    """Plain data after a change in place of features, grades or queries."""

    def make(rng):
        X, y, qid = _plain(rng)
        return change(X, y, qid, rng) or (X, y, qid)

    return make


def _set(where, value):
    def change(X, y, qid, rng):
        X[where] = value

    return _changed(change)


def _scaled(factor):
    def change(X, y, qid, rng):
        X *= factor

    return _changed(change)


def _graded(grades):
    return _changed(lambda X, y, qid, rng: (X, grades(X, y, qid, rng), qid))


def _huge_query(rng):
    X, y, _ = _plain(rng, n_queries=60, n=8)
    return X, y, np.repeat(np.arange(81), [400, *[1] * 80])


def _wide(rng):
    X, y, qid = _plain(rng, n_queries=4, n=5, d=5)
    return np.hstack([X, rng.standard_normal((20, 195))]), y, qid


def _collinear(X, y, qid, rng):
    return np.hstack([X, 2 * X, -X, X + 1]), y, qid


def _some_huge_columns(X, y, qid, rng):
    return X * 10.0 ** np.array([-30, 0, 30, 50, -50]), y, qid


def _flipped(X, y, qid, rng):
    return np.where(qid[:, None] % 2 == 0, X, -X), y, qid


def _mixed_sizes(rng):
    X, y, _ = _plain(rng)
    return X, y, np.repeat(np.arange(7), [1, 1, 2, 2, 10, 30, 50])


DATA = {
    "plain": _changed(lambda *_: None),
    "all zeros": _scaled(0.0),
    "constant features": _set(slice(None), 3.25),
    "one constant feature": _set((slice(None), 0), 7.0),
    "constant in each query": _changed(lambda X, y, qid, rng: (qid[:, None] + np.zeros_like(X), y, qid)),
    "one cell of 1e60": _set((3, 1), 1e60),
    "one cell of 1e300": _set((3, 1), 1e300),
    "one cell of -1e308": _set((5, 0), -1e308),
    "all 1e300": _scaled(1e300),
    "all 1e100": _scaled(1e100),
    "all 1e50": _scaled(1e50),
    "all 1e6": _scaled(1e6),
    "all 1e-6": _scaled(1e-6),
    "all 1e-100": _scaled(1e-100),
    "all 1e-300": _scaled(1e-300),
    "subnormal": _scaled(1e-318),
    "columns from 1e-50 to 1e50": _changed(_some_huge_columns),
    "large offset": _changed(lambda X, y, qid, rng: (X + 1e12, y, qid)),
    "the same document over and over": _changed(lambda X, y, qid, rng: (np.tile(X[:1], (len(X), 1)), y, qid)),
    "every document twice with other grades": _changed(
        lambda X, y, qid, rng: (np.repeat(X[::2], 2, axis=0), np.tile([0.0, 1.0], len(y) // 2), qid)
    ),
    "one query": _changed(lambda X, y, qid, rng: (X, y, np.zeros_like(qid))),
    "one document per query": _changed(lambda X, y, qid, rng: (X, y, np.arange(len(y)))),
    "two documents per query": _changed(lambda X, y, qid, rng: (X, y, np.arange(len(y)) // 2)),
    "one huge query among small ones": _huge_query,
    "queries of very different size": _mixed_sizes,
    "one grade": _graded(lambda X, y, qid, rng: np.ones_like(y)),
    "all irrelevant": _graded(lambda X, y, qid, rng: np.zeros_like(y)),
    "a single relevant document": _graded(lambda X, y, qid, rng: (np.arange(len(y)) == 17).astype(float)),
    "all but one relevant": _graded(lambda X, y, qid, rng: (np.arange(len(y)) != 17).astype(float)),
    "random grades": _graded(lambda X, y, qid, rng: rng.integers(0, 3, len(y)).astype(float)),
    "grades up to a million": _graded(lambda X, y, qid, rng: rng.integers(0, 10**6, len(y)).astype(float)),
    "grades of 1e300": _graded(lambda X, y, qid, rng: y * 1e300),
    "fifty grades": _graded(lambda X, y, qid, rng: rng.integers(0, 50, len(y)).astype(float)),
    "fractional grades": _graded(lambda X, y, qid, rng: y / 3.0),
    "negative grades": _graded(lambda X, y, qid, rng: y - 2.0),
    "half unjudged": _graded(lambda X, y, qid, rng: np.where(rng.random(len(y)) < 0.5, np.nan, y)),
    "nearly all unjudged": _graded(lambda X, y, qid, rng: np.where(np.arange(len(y)) > 3, np.nan, y)),
    "perfect separation": _changed(lambda X, y, qid, rng: (np.column_stack([y, X]), y, qid)),
    "perfect separation by a hair": _changed(lambda X, y, qid, rng: (np.column_stack([1e-9 * y, X]), y, qid)),
    "anti-correlated": _changed(lambda X, y, qid, rng: (-np.column_stack([y, y]), y, qid)),
    "signs flip between queries": _changed(_flipped),
    "integers": _changed(lambda X, y, qid, rng: (np.round(3 * X), y, qid)),
    "collinear columns": _changed(_collinear),
    "rank one": _changed(lambda X, y, qid, rng: (X[:, :1] * np.array([1.0, 2.0, -3.0]), y, qid)),
    "more features than documents": _wide,
    "one feature": _changed(lambda X, y, qid, rng: (X[:, :1], y, qid)),
    "float32": _changed(lambda X, y, qid, rng: (X.astype(np.float32), y, qid)),
}


@dataclass(frozen=True)
class Case:
    """One fit of the grid."""

    preset: str
    data: str
    C: float
    scaling: str | None

    def __str__(self):
        return f"{self.preset}, {self.data}, C={self.C:g}, scaling={self.scaling}"


def all_cases():
    return [Case(*parts) for parts in product(all_presets(), DATA, CS, SCALINGS)]


def outcome(case):
    """Train, and return what came of it: ``fine``, ``refused``, ``warned``; or what went wrong, in a sentence."""
    # Kernels are compiled when they are first used, and a fit that ends early has not used all: try what is slow again.
    for _ in range(3):
        came = _outcome(case)
        if not came.startswith("took"):
            break
    return came


def _outcome(case):
    X, y, qid = DATA[case.data](np.random.default_rng(7))
    ranker = Ranker(case.preset, C=case.C, scaling=case.scaling, time_limit=TIME_LIMIT, n_jobs=1)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ranker.fit(X, y, qid=qid)
        except DataError:
            return _in_time(began) or "refused"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        late = _in_time(began)
        problem = late or _contradiction(ranker, X, qid)
    told = [warning.category for warning in caught]
    stray = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
    if problem or stray:
        return problem or f"RuntimeWarning: {stray[0]}"
    if NothingRankedWarning in told or CollapseWarning in told:
        return "warned"
    return "ranks nothing, without a warning" if _ranks_nothing(ranker, X, qid) else "fine"


def _in_time(began):
    seconds = time.process_time() - began
    return f"took {seconds:.1f} s" if seconds > 2 * TIME_LIMIT + ALLOWANCE else None


def _contradiction(ranker, X, qid):
    solution = ranker.solution_
    scores = ranker.predict(X, qid=qid)
    if not (np.isfinite(ranker.coef_).all() and np.isfinite(scores).all()):
        return "parameters or scores are not finite"
    if not np.isfinite(solution.primal) or not solution.dual <= solution.primal:
        return f"the objective is {solution.primal} and its lower bound {solution.dual}"
    return None


def _ranks_nothing(ranker, X, qid):
    scores = ranker.predict(X, qid=qid)
    return all(len(np.unique(scores[qid == query])) == 1 for query in np.unique(qid))


def main():
    """Try all cases, or every n-th from number k with arguments n and k; print the counts and every failure."""
    stride, first = (int(word) for word in [*sys.argv[1:], *["1", "0"][len(sys.argv) - 1 :]])
    began, counts = time.perf_counter(), Counter()
    for case in all_cases()[first::stride]:
        came = outcome(case)
        known = came in ("fine", "refused", "warned")
        counts[came if known else "failed"] += 1
        if not known:
            print(f"{case}: {came}", flush=True)
    print(f"{counts.total():,} fits in {time.perf_counter() - began:.0f} s: {dict(counts)}")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
