"""Refitted leaves are the minimum that another solver finds on the matrix of leaves, and the certificate is true."""

from __future__ import annotations

import sys
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from marginrank import Boosted, Queries, Ranker, evaluate, load, tune
from marginrank.data.queries import in_canonical_order
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy
from marginrank.losses.score_risk import ScoreRisk
from marginrank.scorers.boosted import scorer as boosted
from marginrank.scorers.staged_scorer import Stage
from marginrank.solvers import Auto
from marginrank.training.risk import RankingRisk
from marginrank.training.staged import LeafRefit, PreparedLeaves

pytest.importorskip("lightgbm")
every_center = pytest.mark.parametrize("towards", ["grown", "zero"])


def judged(n=12, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10 * n, 3))
    grades = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(len(X)), [0.5, 1.2]).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return in_canonical_order(Queries.from_arrays(X, grades, group=[10] * n, allow_nan=True))


def grown(queries, method, trees=4, **options):
    own = {} if options.get("backend") == "xgboost" else {"min_documents": 5}
    return Ranker(method, scorer=Boosted(trees, leaves=4, **own, **options), n_jobs=1)


def indicators(form, X):
    """Return the matrix of leaves, by walking down every tree for every document."""
    Z = np.zeros((len(X), form.n_parameters))
    for row, x in enumerate(X):
        for root in form.roots:
            node = root
            while form.feature[node] >= 0:
                value = np.float32(x[form.feature[node]]) if form.single else x[form.feature[node]]
                left = form.missing_left[node] if np.isnan(value) else value <= form.threshold[node]
                node = form.left[node] if left else form.right[node]
            Z[row, form.left[node]] = 1.0
    return Z


def documents_of_ordered(queries):
    """Return where the queries with several grades begin and end."""
    return [(s, e) for s, e in pairwise(queries.offsets) if len(np.unique(queries.grades[s:e])) > 1]


def pairs_of(queries):
    """Return a matrix of differences, better minus worse, each with the share of its pair in the risk."""
    rows, shares = [], []
    ordered = documents_of_ordered(queries)
    for start, stop in ordered:
        own = [(i, j) for i in range(start, stop) for j in range(start, stop) if queries.grades[i] > queries.grades[j]]
        for i, j in own:
            row = np.zeros(queries.n_documents)
            row[i], row[j] = 1.0, -1.0
            rows.append(row)
            shares.append(1.0 / len(own) / len(ordered))
    return np.array(rows), np.array(shares)


def by_cvxpy(Z, center, base, queries, power, C):
    theta = cp.Variable(len(center))
    D, shares = pairs_of(queries)
    slack = cp.pos(1.0 - D @ (base + Z @ theta))
    risk = shares @ (slack if power == 1 else cp.square(slack))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(theta - center) + C * risk))
    value = problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return value, theta.value


def by_scipy(Z, center, base, queries, C):
    """Minimize the cross entropy with the shares of the grades, written out."""
    own = [slice(start, stop) for start, stop in documents_of_ordered(queries)]

    def objective(theta):
        scores = base + Z @ theta
        value, slopes = 0.0, np.zeros(len(scores))
        for rows in own:
            target = queries.grades[rows] / queries.grades[rows].sum()
            shifted = scores[rows] - scores[rows].max()
            log_model = shifted - np.log(np.exp(shifted).sum())
            value -= target @ log_model / len(own)
            slopes[rows] = (np.exp(log_model) - target) / len(own)
        away = theta - center
        return 0.5 * away @ away + C * value, away + C * (Z.T @ slopes)

    result = minimize(objective, center, jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-10})
    return result.fun, result.x


@every_center
@pytest.mark.parametrize(("backend", "missing"), [("lightgbm", 0.0), ("lightgbm", 0.2), ("xgboost", 0.2)])
@pytest.mark.parametrize("power", [1, 2])
def test_another_solver_finds_the_same_minimum(towards, backend, missing, power):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    queries, loss, C = judged(missing=missing), PairwiseHinge(power=power), 3.0
    plain = grown(queries, loss, backend=backend).fit(queries)
    Z = indicators(plain.form_, queries.X)
    np.testing.assert_allclose(Z @ plain.coef_, plain.predict(queries), atol=1e-12)
    center = plain.coef_ if towards == "grown" else np.zeros_like(plain.coef_)
    value, theta = by_cvxpy(Z, center, 0.0, queries, power, C)
    stage = Stage(plain.form_, plain.coef_, plain.objective_)
    refitted, solution = LeafRefit(stage, ScoreRisk(loss, queries), towards).minimize(C, Auto(tol=1e-9))
    assert solution.primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(refitted.theta, theta, atol=1e-4)
    np.testing.assert_array_equal(refitted.theta, solution.theta)

    trained = grown(queries, loss, backend=backend, refit=towards).set_params(C=C).fit(queries)
    assert trained.solution_.reason == "converged"
    assert trained.objective_ - trained.gap_ - 1e-7 <= value <= trained.objective_ + 1e-7
    np.testing.assert_array_equal(trained.form_.threshold, plain.form_.threshold)


@every_center
def test_the_model_below_the_trees_stays(towards):
    queries, loss, C = judged(20), SoftmaxCrossEntropy(target="share"), 2.0
    plain = grown(queries, loss, start="linear").set_params(C=C, scaling=None).fit(queries)
    trained = grown(queries, loss, start="linear", refit=towards).set_params(C=C, scaling=None).fit(queries)
    trees = plain.form_.parts[1]
    below, leaves = np.split(plain.coef_, [3])
    np.testing.assert_array_equal(trained.coef_[:3], below)
    center = leaves if towards == "grown" else np.zeros_like(leaves)
    value, theta = by_scipy(indicators(trees, queries.X), center, queries.X @ below, queries, C)
    assert trained.objective_ == pytest.approx(value, rel=1e-5)
    # The objective is strongly convex: ½‖θ − θ*‖² is at most the gap.
    assert np.linalg.norm(trained.coef_[3:] - theta) <= np.sqrt(2 * trained.gap_) + 1e-6
    assert trained.model_.method.solver == "newton"
    assert 0 <= trained.gap_ < 1e-3 * trained.objective_


def test_scores_below_the_parameters_have_no_curvature():
    queries = judged()
    form = grown(queries, "softmax").fit(queries).form_
    base = np.random.default_rng(1).standard_normal(queries.n_documents)
    risk = RankingRisk(PreparedLeaves(queries, form), SoftmaxCrossEntropy(), base=base)
    theta, direction = np.random.default_rng(2).standard_normal((2, form.n_parameters))
    np.testing.assert_allclose(risk.scores(theta), base + indicators(form, queries.X) @ theta)
    assert check_grad(lambda t: risk(t)[0], lambda t: risk(t)[1], theta) < 1e-6
    step = 1e-5 * direction
    numeric = (risk(theta + step)[1] - risk(theta - step)[1]) / 2e-5
    np.testing.assert_allclose(risk.hessian_product(theta, direction), numeric, atol=1e-7)


def test_saved_models_score_without_the_library(tmp_path, monkeypatch):
    queries = judged(missing=0.1)
    fitted = grown(queries, "svmmap", refit="grown").fit(queries)
    scores = fitted.predict(queries)
    fitted.save(tmp_path / "model.safetensors")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    loaded = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(queries), scores)
    assert loaded.scorer.refit == "grown"
    assert np.isfinite(loaded.gap_)
    assert loaded.gap_ == fitted.gap_


def test_validation_keeps_refitted_leaves_only_where_they_are_better():
    queries, valid = judged(30), judged(30, seed=1)

    def value(fitted):
        return evaluate(valid, fitted, "ndcg").mean["ndcg"]

    plain = grown(queries, "softmax", trees=20).fit(queries, validation=valid)
    kept = []
    for C in (0.1, 10.0):
        trained = grown(queries, "softmax", trees=20, refit="zero").set_params(C=C).fit(queries, validation=valid)
        refitted = np.isfinite(trained.gap_)
        kept.append(bool(refitted))
        assert value(trained) > value(plain) if refitted else np.array_equal(trained.coef_, plain.coef_)
    assert True in kept
    assert False in kept


def test_trees_are_grown_once_for_all_C(monkeypatch):
    queries, calls = judged(), []
    grow = boosted._LightGBM.grow
    monkeypatch.setattr(boosted._LightGBM, "grow", lambda *given: calls.append(1) or grow(*given))
    path = tune(grown(queries, "softmax", refit="grown"), queries, valid=judged(seed=1), Cs=[0.1, 1.0, 10.0])
    assert len(calls) == 4
    alone = grown(queries, "softmax", refit="grown").set_params(C=path.ranker.C).fit(queries)
    np.testing.assert_array_equal(path.ranker.coef_, alone.coef_)
    assert len({one.objective for one in path.candidates}) == 3


def test_growth_that_was_cut_short_is_not_refitted():
    queries = judged()
    late = grown(queries, "softmax", trees=10**6, refit="zero").set_params(time_limit=1e-6).fit(queries)
    assert late.solution_.reason == "time_limit"
    assert late.gap_ == np.inf


def test_what_cannot_be_refitted_is_refused():
    with pytest.raises(ValueError, match="refit is 'leaves'; choose 'grown', 'zero' or None"):
        Boosted(refit="leaves")
    with pytest.raises(ValueError, match="refitted leaves need not be monotone; leave out refit or monotone"):
        Boosted(refit="grown", monotone="increasing")
    tight = grown(judged(), "svmmap", start="linear", refit="grown").set_params(bound="tight")
    with pytest.raises(ValueError, match="is not convex, so no solver refits the leaves"):
        tight.fit(judged())
    linear = Ranker("softmax").fit(judged())
    stage = Stage(linear.form_, linear.coef_, 0.0)
    with pytest.raises(TypeError, match="a linear model has no leaves"):
        LeafRefit(stage, ScoreRisk(SoftmaxCrossEntropy(), judged()), "grown")
