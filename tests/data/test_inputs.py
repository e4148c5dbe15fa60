"""What estimators take: weights are held to the same rules with `Queries` and with arrays."""

from __future__ import annotations

import numpy as np
import pytest

import marginrank.data.queries
from marginrank import Queries, Ranker
from marginrank.data.inputs import as_queries
from marginrank.errors import DataError
from marginrank.runtime.mapped_arrays import for_each_block

X, Y, QID = np.ones((4, 1)), np.array([0, 1, 0, 1]), np.array([1, 1, 2, 2])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.0, 0.0], "all query_weights are zero; give at least one query a positive weight"),
        ([1.0, -1.0], r"query_weights\[1\] is -1; weights are finite and not negative"),
        ([np.nan, 1.0], r"query_weights\[0\] is nan; weights are finite and not negative"),
        ([1.0], "query_weights has 1 entries for 2 queries; it needs one per query"),
        ([[1.0], [1.0]], "query_weights has 2 dimensions, not 1"),
    ],
)
def test_bad_weights_are_refused_alike(weights, message):
    for given in ((X, Y, QID, None), (Queries.from_arrays(X, Y, qid=QID), None, None, None)):
        with pytest.raises(DataError, match=message):
            as_queries(*given, weights, allow_nan=False)


def test_weights_take_the_place_of_those_of_the_queries():
    queries = Queries.from_arrays(X, Y, qid=QID, query_weights=[1.0, 2.0])
    assert as_queries(queries, None, None, None, [3.0, 0.0], allow_nan=False).query_weights.tolist() == [3.0, 0.0]


def test_features_are_checked_once(monkeypatch):
    checked = []

    def counted(values, *arguments):
        checked.append(values)
        for_each_block(values, *arguments)

    monkeypatch.setattr(marginrank.data.queries, "for_each_block", counted)
    features = np.random.default_rng(0).standard_normal((4, 1))
    as_queries(features, Y, QID, None, None, allow_nan=False)
    Queries.from_arrays(features, Y, qid=QID)
    Ranker("svmmap").fit(features, Y, qid=QID)
    assert len(checked) == 3
