"""Simulated users click as their models say."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import DataError, Queries
from marginrank.clicks import CascadeUser, PositionUser, simulate_clicks
from marginrank.errors import ParameterError


def judged(n_queries=5, n_documents=6, seed=0):
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    order = rng.permutation(n)
    return Queries.from_arrays(
        rng.standard_normal((n, 2)), rng.integers(0, 3, n), qid=(np.arange(n) // n_documents)[order]
    )


@pytest.mark.parametrize("aggregate", [False, True])
def test_click_rates_are_those_of_the_position_based_model(aggregate):
    queries = judged()
    user = PositionUser(eta=0.7, relevant=0.9, irrelevant=(0.3, 0.2, 0.1, 0.05))
    systems = {"one": queries.feature(0), "two": queries.feature(1)}
    log = simulate_clicks(queries, systems, 60_000, user=user, depth=4, shares=[3, 1], aggregate=aggregate)
    small = log.aggregated()
    grade = dict(zip(queries.document_names.tolist(), queries.grades.tolist(), strict=True))
    relevance = np.array([(2 ** grade[name] - 1) / 3 for name in small.document_ids.tolist()])
    noise = np.array(user.irrelevant)[small.position - 1]
    expected = small.position**-0.7 * (noise + (0.9 - noise) * relevance)
    error = (small.clicks - small.shown * expected) / np.sqrt(small.shown * expected * (1 - expected))
    assert np.abs(error).max() < 4.5
    assert np.bincount(small.system, small.shown)[0] / small.shown.sum() == pytest.approx(0.75, abs=0.01)
    assert log.impressions.sum() == 60_000


def test_systems_show_their_best_documents_in_order():
    queries = judged()
    log = simulate_clicks(queries, {"one": queries.feature(0)}, 50, depth=3)
    for query in range(len(queries)):
        rows = np.flatnonzero(queries.query_of_row == query)
        best = rows[np.argsort(-queries.X[rows, 0])][:3]
        id_of_query = queries.query_ids[query]
        number = log.documents.query_ids.tolist().index(id_of_query)
        for k in (1, 2, 3):
            chosen = (log.query == number) & (log.position == k)
            assert set(log.document_ids[chosen].tolist()) == {str(best[k - 1])}
    known = {name: row for row, name in enumerate(queries.document_names.tolist())}
    rows = [known[name] for name in log.documents.document_ids.tolist()]
    assert np.array_equal(log.documents.X, queries.X[rows])
    assert not log.documents.has_grades


def test_a_cascade_user_stops_at_a_satisfying_click():
    queries = Queries.from_arrays([[3.0], [2.0], [1.0]], [0, 1, 1], group=[3])
    systems = {"one": queries.feature(0)}
    sure = simulate_clicks(queries, systems, 200, user=CascadeUser(irrelevant=0.0, satisfied=1.0))
    assert set(sure.position[sure.clicked].tolist()) == {2}
    going_on = simulate_clicks(queries, systems, 20_000, user=CascadeUser(irrelevant=0.0, satisfied=0.6, patience=0.5))
    rates = np.bincount(going_on.position, going_on.clicks)[1:] / 20_000
    assert rates == pytest.approx([0.0, 0.5, 0.5 * 0.4 * 0.5], abs=0.01)


def test_the_same_seed_gives_the_same_log():
    queries = judged()
    first, again = (simulate_clicks(queries, {"one": queries.feature(0)}, 99, random_state=3) for _ in range(2))
    assert first.clicks.tolist() == again.clicks.tolist()


def test_what_cannot_be_simulated_is_refused():
    queries = judged()
    with pytest.raises(ParameterError, match="at least 1"):
        simulate_clicks(queries, {"one": queries.feature(0)}, 0)
    with pytest.raises(ParameterError, match="shares needs a number"):
        simulate_clicks(queries, {"one": queries.feature(0)}, 9, shares=[1, 2])
    with pytest.raises(DataError, match="no grades"):
        simulate_clicks(Queries.from_arrays([[1.0]], group=[1]), {"one": [1.0]}, 9)
