"""Propensities: correction, estimation against simulated truth and brute force, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from marginrank import DataError, Queries
from marginrank.clicks import (
    ClickLog,
    PositionUser,
    Propensities,
    document_weights,
    estimate_propensities,
    simulate_clicks,
)
from marginrank.clicks.propensity_estimation import all_pairs
from marginrank.errors import ParameterError


def judged(n_queries=40, n_documents=12, seed=0):
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    grades = rng.integers(0, 3, n)
    X = grades[:, None] + rng.normal(0, 2, (n, 3))
    return Queries.from_arrays(X, grades, qid=np.arange(n) // n_documents)


def simulated(sessions=60_000, systems=3, depth=5, **user):
    queries = judged()
    rankers = {f"s{k}": queries.feature(k) for k in range(systems)}
    return simulate_clicks(queries, rankers, sessions, user=PositionUser(**user), depth=depth, aggregate=True)


@pytest.mark.parametrize("method", ["harvest", "swap", "em"])
def test_moved_documents_give_the_true_curve(method):
    log = simulated(200_000)
    estimate = estimate_propensities(log, method, resamples=0)
    assert estimate.values == pytest.approx(1 / np.arange(1, 6), rel=0.08)


def test_random_positions_give_the_true_curve():
    rng = np.random.default_rng(1)
    queries = judged()
    rankers = {str(k): rng.random(queries.n_documents) for k in range(300)}
    log = simulate_clicks(queries, rankers, 200_000, user=PositionUser(eta=0.5), depth=5, aggregate=True)
    estimate = estimate_propensities(log, "random", resamples=50)
    assert estimate.values == pytest.approx(np.arange(1, 6) ** -0.5, rel=0.06)
    assert np.all(estimate.interval[0] <= estimate.values)
    assert np.all(estimate.interval[1] >= estimate.values)


def test_all_pairs_maximises_its_objective():
    rng = np.random.default_rng(2)
    first, second = np.array([0, 0, 1, 1, 2]), np.array([1, 2, 2, 3, 3])
    w = rng.uniform(50, 100, 5)
    c1, c2 = w * rng.uniform(0.2, 0.5, 5), w * rng.uniform(0.1, 0.3, 5)

    def loss(theta):
        a, b = np.r_[0.0, theta[:3]], theta[3:]
        total = 0.0
        for k, c in ((first, c1), (second, c2)):
            x = a[k] + b
            if np.any(x >= 0):
                return np.inf
            total -= c @ x + (w - c) @ np.log1p(-np.exp(x))
        return total

    start = np.r_[np.zeros(3), np.full(5, -1.0)]
    best = scipy.optimize.minimize(
        loss, start, method="Nelder-Mead", options={"maxiter": 80_000, "maxfev": 80_000, "xatol": 1e-10, "fatol": 1e-12}
    )
    best = scipy.optimize.minimize(
        loss,
        best.x,
        method="Nelder-Mead",
        options={"maxiter": 80_000, "maxfev": 80_000, "xatol": 1e-10, "fatol": 1e-12},
    )
    assert all_pairs(first, second, c1, c2, w, 4)[1:] == pytest.approx(np.exp(best.x[:3]), rel=1e-4)


def test_events_and_their_sums_give_the_same():
    queries = judged()
    rankers = {"a": queries.feature(0), "b": queries.feature(1)}
    log = simulate_clicks(queries, rankers, 5000, depth=4)
    one, other = (estimate_propensities(part, resamples=20) for part in (log, log.aggregated()))
    assert one.values == pytest.approx(other.values, rel=1e-12)
    assert one.interval[0] == pytest.approx(other.interval[0], rel=1e-9)


def test_what_cannot_be_identified_is_refused():
    with pytest.raises(DataError, match=r"one ranker.*method='swap'"):
        estimate_propensities(simulated(500, systems=1))
    with pytest.raises(DataError, match="cannot be identified"):
        estimate_propensities(simulated(500, systems=1), "em")
    shown = {"document": ["x", "y", "y", "x", "z", "z"], "position": [1, 2, 1, 2, 3, 3]}
    log = ClickLog.from_arrays(["q"] * 6, **shown, clicked=[1, 0, 1, 1, 0, 1], system=[1, 1, 2, 2, 1, 2])
    with pytest.raises(DataError, match=r"at position 3 .* depth=2"):
        estimate_propensities(log)
    assert len(estimate_propensities(log, depth=2, resamples=0).values) == 2
    with pytest.raises(DataError, match="does not say which ranker"):
        estimate_propensities(ClickLog.from_arrays(["q"] * 6, **shown, clicked=[1, 0, 1, 1, 0, 1]))


@pytest.mark.parametrize(
    ("clicked", "position", "message"),
    [([0] * 4, [1, 2, 2, 1], "no clicks"), ([1] * 4, [1, 2, 2, 1], "every shown"), ([1, 0, 1, 0], [1] * 4, "1 only")],
)
def test_logs_without_contrast_are_refused(clicked, position, message):
    log = ClickLog.from_arrays(["q"] * 4, ["x", "y", "x", "y"], position, clicked, system=[1, 1, 2, 2])
    with pytest.raises(DataError, match=message):
        estimate_propensities(log)


def test_corrected_clicks_are_unbiased_with_trust_bias_too():
    noise = (0.4, 0.3, 0.2, 0.1, 0.05)
    log = simulated(400_000, relevant=0.9, irrelevant=noise)
    queries = judged()
    trusting = Propensities.of(1 / np.arange(1, 6), trust=(0.9, noise))
    rate = np.bincount(log.pair, trusting.corrected(log)) / np.bincount(log.pair, log.shown)
    grade = dict(zip(queries.document_names.tolist(), queries.grades.tolist(), strict=True))
    truth = np.array([(2 ** grade[name] - 1) / 3 for name in log.documents.document_ids.tolist()])
    often = np.bincount(log.pair, log.shown) > 2000
    assert np.abs((rate - truth)[often]).mean() < 0.03


def test_weights_of_documents_are_sums_over_their_clicks():
    log = ClickLog.from_arrays([1, 1, 1], ["x", "y", "x"], [1, 2, 2], [1, 0, 1], propensity=[1.0, 0.5, 0.25])
    assert document_weights(log).tolist() == [5.0, 0.0]
    assert document_weights(log, Propensities.power(1.0, 2)).tolist() == [3.0, 0.0]
    assert document_weights(log, Propensities.power(1.0, 2, clip=0.8)).tolist() == [2.25, 0.0]
    with pytest.raises(DataError, match="position 2, and there are propensities up to 1"):
        document_weights(log, Propensities.of([1.0]))
    with pytest.raises(ParameterError, match="clip is 2"):
        Propensities.of([1.0], clip=2.0)


def test_the_curve_is_plotted(tmp_path):
    estimate_propensities(simulated(5000), resamples=20, clip=0.3).plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 5000
