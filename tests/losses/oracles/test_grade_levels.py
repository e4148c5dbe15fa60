"""Documents arranged by level and the shares of relevant ones, against NumPy on whole arrays."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from marginrank import Queries, Ranker, parse_measure
from marginrank.losses import StructuredLoss
from marginrank.losses.feature_maps import PartialOrder
from marginrank.losses.oracles import base, grade_levels_kernel
from marginrank.losses.oracles.base import ArgmaxProblem
from marginrank.losses.oracles.grade_levels import by_level
from marginrank.measures import PositionMeasure, RankedGrades
from marginrank.measures.ap import AP
from marginrank.runtime.threads import default_threads


@dataclass(frozen=True, repr=False)
class SignedGains(PositionMeasure):
    """Gains of any sign, and both zeros."""

    def gains(self, grades, best):  # noqa: ARG002
        return np.where(grades == 1, -0.0, np.maximum(grades - 2.0, -1.0) + (grades == 0))

    def discounts(self, n):
        return np.ones(n)


def arranged(measure, grades, offsets):
    """Arrange documents by a sort of all queries together."""
    worth = measure.worth(RankedGrades(grades, offsets, grades, offsets))
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    documents = np.lexsort((-worth, query))
    pool = grades[documents]
    scale = measure.scales(RankedGrades(pool, offsets, pool, offsets))
    begins = np.ones(len(grades), dtype=np.bool_)
    begins[1:] = (worth[documents][1:] != worth[documents][:-1]) | (query[1:] != query[:-1])
    first = np.flatnonzero(begins)
    counts = np.bincount(query[first], minlength=len(offsets) - 1)
    level = np.empty(len(grades), dtype=np.int64)
    level[documents] = np.cumsum(begins) - 1
    of_query = np.append(0, np.cumsum(counts))
    return {
        "queries": offsets,
        "offsets": np.append(first, len(grades)),
        "of_query": of_query,
        "ordered": counts > 1,
        "documents": documents,
        "gains": worth[documents[first]] / np.where(scale > 0, scale, 1.0)[query[first]],
        "of_document": level - of_query[query],
    }


def draw(rng, n_levels, sizes):
    """Draw queries of these sizes, with documents of so many grades and some more empty queries."""
    offsets = np.append(0, np.cumsum(rng.permutation([*sizes, 0, 0, 1, 1])))
    return rng.integers(0, n_levels, offsets[-1]).astype(float), offsets


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "measure",
    [*map(parse_measure, ("ap(rel=2)", "ndcg@3(gain=linear)", "dcg(gain=linear)", "rr", "auc")), SignedGains()],
    ids=["ap", "ndcg", "dcg", "rr", "auc", "signed"],
)
def test_levels_are_those_of_a_sort(measure, n_jobs):
    rng = np.random.default_rng(n_jobs)
    for n_levels, sizes in product((1, 2, 5, 32, 33, 400), ([], [3], [20] * 10, [120] * 40, [7000, 3])):
        grades, offsets = draw(rng, n_levels, sizes)
        with default_threads(n_jobs):
            levels = by_level(measure, grades, offsets)
        for name, expected in arranged(measure, grades, offsets).items():
            found = getattr(levels, name)
            assert (name, found.dtype, found.tobytes()) == (name, expected.dtype, expected.tobytes())


def test_no_query_has_no_level():
    levels = by_level(parse_measure("ndcg"), np.zeros(0), np.array([0]))
    assert (levels.offsets.tolist(), levels.of_query.tolist(), len(levels.gains)) == ([0], [0], 0)


@dataclass(frozen=True, repr=False)
class RootedShares(AP):
    """√i over the rank: shares that do not rise evenly."""

    def share(self, i, n_rel):  # noqa: ARG002
        return np.sqrt(i)


@pytest.mark.parametrize("block", [1, 100, 1 << 15])
@pytest.mark.parametrize("measure", [parse_measure("ap"), parse_measure("dcg(gain=binary)"), RootedShares()], ids=str)
def test_shares_are_those_of_each_query(measure, block, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK", block)
    grades, offsets = draw(np.random.default_rng(0), 3, [*range(50), 400])
    problem = ArgmaxProblem(measure, PartialOrder(), by_level(measure, grades, offsets))
    shares, rises = problem.credit_shares.shares, problem.credit_shares.rises
    two, active = problem.two_levels(), np.flatnonzero(problem.active)
    expected, uneven = np.zeros(len(grades)), 0
    for row, query in enumerate(active):
        n_rel = int(two.n_rel[row])
        i = np.arange(1, n_rel + 1)
        values = measure.shares(i, two.take(np.full(n_rel, row)))
        expected[offsets[query] : offsets[query] + n_rel] = values
        even = np.allclose(np.diff(values, 2), 0, atol=1e-12)
        uneven += not even
        assert rises[query] == (values[-1] - values[0]) / max(n_rel - 1, 1) if even else np.isnan(rises[query])
    assert (uneven > 0) == isinstance(measure, RootedShares)
    assert shares.tobytes() == expected.tobytes()
    assert not rises[~problem.active].any()


@pytest.fixture
def threads(monkeypatch):
    """Return the names of the threads that arrange documents."""
    names, kernel = set(), grade_levels_kernel.arrange_levels

    def watched(*args):
        names.add(threading.current_thread().name.split("_")[0])
        kernel(*args)

    monkeypatch.setattr(grade_levels_kernel, "arrange_levels", watched)
    return names


@pytest.mark.parametrize(("options", "expected"), [({}, "MainThread"), ({"n_jobs": 2}, "marginrank")])
def test_documents_are_arranged_on_the_threads_allowed(options, expected, threads):
    grades, offsets = draw(np.random.default_rng(0), 5, [20] * 200)
    StructuredLoss("ap").prepare(grades, offsets, **options)
    assert threads == {expected}


@pytest.mark.parametrize(("n_jobs", "expected"), [(1, "MainThread"), (2, "marginrank")])
def test_a_fit_prepares_its_loss_on_the_threads_allowed(n_jobs, expected, threads):
    grades, offsets = draw(np.random.default_rng(0), 5, [20] * 200)
    X = np.random.default_rng(1).normal(size=(len(grades), 2))
    queries = Queries.from_arrays(X, grades, qid=np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))
    Ranker("svmmap", n_jobs=n_jobs).fit(queries)
    assert threads == {expected}
