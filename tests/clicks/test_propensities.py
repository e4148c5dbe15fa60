"""Propensities: correction, estimation against simulated truth and brute force, and refusals."""

from __future__ import annotations

import json

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
from marginrank.clicks.propensity_estimation import all_pairs, log_interval, maximize_likelihood
from marginrank.errors import ParameterError
from marginrank.runtime.text import plain


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


def test_all_pairs_maximizes_its_objective():
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


def test_likelihood_of_the_position_model_is_maximal():
    rng = np.random.default_rng(3)
    pair, k = np.array([0, 0, 1, 1, 2, 2, 2, 3]), np.array([0, 1, 1, 2, 0, 1, 2, 2])
    shown = rng.integers(20, 60, 8).astype(float)
    clicks = np.floor(shown * rng.uniform(0.1, 0.6, 8))
    clicks[7] = shown[7]  # at one position and always clicked: its likelihood is 1, whatever the propensity

    def loss(theta):
        x = (np.r_[0.0, theta[:2]][k] + np.r_[theta[2:], 0.0][pair])[:7]
        if np.any(x >= 0):
            return np.inf
        return -clicks[:7] @ x - (shown - clicks)[:7] @ np.log1p(-np.exp(x))

    theta = np.r_[-0.5, -1.0, np.full(3, -2.0)]
    options = {"maxiter": 80_000, "maxfev": 80_000, "xatol": 1e-10, "fatol": 1e-12}
    for _ in range(4):
        theta = scipy.optimize.minimize(loss, theta, method="Nelder-Mead", options=options).x
    a, slope, _ = maximize_likelihood(pair, k, shown, clicks, 3)
    assert a[1:] == pytest.approx(theta[:2], abs=1e-4)
    assert np.bincount(k, slope)[1:] == pytest.approx(0, abs=1e-5)


def test_likelihood_has_no_bias_if_relevant_documents_are_always_clicked():
    queries = judged(100, 10)
    rankers = {f"s{k}": queries.feature(k) for k in range(3)}
    estimates = [
        estimate_propensities(
            simulate_clicks(queries, rankers, 10_000, depth=4, aggregate=True, random_state=seed), "em", resamples=0
        ).values
        for seed in range(12)
    ]
    assert np.mean(estimates, axis=0) == pytest.approx(1 / np.arange(1, 5), abs=0.01)  # EM with r <= 1: up to 0.026


def test_positions_may_be_examined_more_often_than_the_first():
    log = simulated(200_000, curve=(0.5, 1.0, 0.25, 0.25, 0.25))
    for method in ("harvest", "em"):
        estimate = estimate_propensities(log, method, resamples=50)
        assert estimate.values == pytest.approx([1, 2, 0.5, 0.5, 0.5], rel=0.08)
        assert estimate.interval[0][0] == estimate.values[0] == estimate.interval[1][0] == 1


def test_intervals_are_symmetric_on_the_log_scale():
    draws = np.array([[1, 0.5], [1, 0.25], [1, 1.0]])  # log p: ln 1/2 and ± ln 2, of variance 2/3 ln² 2
    low, high = log_interval(np.array([1.0, 0.5]), draws, 5, 0.9)
    reach = 2.1318467863 * np.log(2) * np.sqrt(2 / 3 * 5 / 4)  # 95% of Student's t with 4 degrees of freedom
    assert low == pytest.approx([1, 0.5 * np.exp(-reach)])
    assert high == pytest.approx([1, 0.5 * np.exp(reach)])


@pytest.mark.parametrize("method", ["harvest", "em"])
def test_intervals_are_as_wide_as_estimates_vary(method):
    found = []
    for seed in range(40):
        queries = judged(60, 8, seed)
        rankers = {f"s{k}": queries.feature(k) for k in range(3)}
        log = simulate_clicks(queries, rankers, 4000, depth=3, aggregate=True, random_state=seed)
        found.append(estimate_propensities(log, method, resamples=40))
    values = np.log([one.values[1:] for one in found])
    reach = np.log([(one.interval[1] / one.interval[0])[1:] for one in found]) / 2
    assert np.sqrt(np.mean(reach**2, axis=0)) / 2 == pytest.approx(values.std(axis=0), rel=0.3)


@pytest.mark.parametrize("method", ["harvest", "em", "random"])
def test_many_queries_are_resampled_in_groups(method, monkeypatch):
    queries = judged(200, 8)
    rankers = {f"s{k}": queries.feature(k) for k in range(3)}
    log = simulate_clicks(queries, rankers, 20_000, depth=3, aggregate=True)
    alone = estimate_propensities(log, method)
    monkeypatch.setattr("marginrank.clicks.propensity_estimation._MOST_GROUPS", 50)
    grouped = estimate_propensities(log, method)
    assert grouped.values == pytest.approx(alone.values, rel=1e-9)
    widths = [np.log(one.interval[1] / one.interval[0])[1:] for one in (alone, grouped)]
    assert widths[0] == pytest.approx(widths[1], rel=0.4)
    assert not np.array_equal(*widths)


def test_a_single_query_has_no_interval(tmp_path):
    queries = judged(1)
    rankers = {"a": queries.feature(0), "b": queries.feature(1)}
    log = simulate_clicks(queries, rankers, 5000, depth=2, aggregate=True)
    curve = estimate_propensities(log)
    curve.plot(tmp_path / "curve.png")
    (tmp_path / "curve.json").write_text(json.dumps(plain(curve.to_dict())))
    for low, high in (curve.interval, Propensities.read(tmp_path / "curve.json").interval):
        assert low.tolist() == [1, 0]
        assert high.tolist() == [1, np.inf]


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
