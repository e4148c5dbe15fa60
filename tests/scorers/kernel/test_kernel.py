"""The kernel scorer: the factorization against the whole matrix, training against the dual of the whole kernel."""

from __future__ import annotations

from contextlib import nullcontext

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVR

from marginrank import DataError, Queries, Ranker, load, tune
from marginrank.cli.commands.tune import parse_grid
from marginrank.losses import PairwiseHinge, StructuredLoss
from marginrank.losses.feature_maps import parse_map
from marginrank.measures import parse_measure
from marginrank.model.file_format import read_model
from marginrank.runtime.memory import VARIABLE
from marginrank.scorers import Kernel, Scorer, parse_scorer
from marginrank.scorers.kernel import scorer as module
from marginrank.scorers.kernel.form import CustomKernel, Poly, Rbf
from marginrank.scorers.kernel.scorer import FactorLimits, incomplete_cholesky
from marginrank.solvers import Bundle
from tests.losses.exhaustive import EveryRanking

KERNELS = {
    "rbf": (Rbf(0.4), lambda a, b: rbf_kernel(a, b, gamma=0.4)),
    "poly": (Poly(0.5, 3, 1.0), lambda a, b: polynomial_kernel(a, b, degree=3, gamma=0.5, coef0=1.0)),
    "given": (CustomKernel(laplacian_kernel), laplacian_kernel),
}


def documents(n, seed=0, d=3):
    return np.random.default_rng(seed).standard_normal((n, d))


def judged(n_queries, n_documents, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, d))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.2 * rng.standard_normal(len(X)), [0.0, 0.8])
    return Queries.from_arrays(X, y, qid=np.repeat(np.arange(n_queries), n_documents))


@pytest.mark.parametrize("name", KERNELS)
def test_functions_are_those_of_scikit_learn(name):
    function, reference = KERNELS[name]
    rows, columns = documents(130), documents(20, seed=1)
    assert np.allclose(function(rows, columns), reference(rows, columns), rtol=1e-12, atol=1e-14)
    assert np.allclose(function.diagonal(rows), np.diagonal(reference(rows, rows)), rtol=1e-12)
    # Squares of features far from 0 would swallow their differences.
    assert np.allclose(Rbf(0.4)(rows + 1e6, columns + 1e6), Rbf(0.4)(rows, columns), atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_all_landmarks_give_the_whole_matrix(name):
    function, reference = KERNELS[name]
    X = np.vstack([documents(60), documents(60)[:7]])
    K = reference(X, X)
    features, landmarks = incomplete_cholesky(X, function, FactorLimits(None, 0.0))
    n_distinct = np.linalg.matrix_rank(K)
    assert features.shape == (67, len(landmarks))
    assert len(landmarks) == pytest.approx(n_distinct, abs=2)
    assert len(set(map(tuple, X[landmarks]))) == len(landmarks)
    assert np.abs(features @ features.T - K).max() < 1e-9 * K.max()
    assert np.abs(np.triu(features[landmarks], 1)).max() < 1e-7 * np.sqrt(K.max())
    assert np.abs(features[landmarks] @ features[landmarks].T - K[np.ix_(landmarks, landmarks)]).max() < 1e-9 * K.max()


@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("name", KERNELS)
def test_no_more_landmarks_than_the_tolerance_asks_for(name, tol):
    function, reference = KERNELS[name]
    X = documents(300)
    K = reference(X, X)
    features, landmarks = incomplete_cholesky(X, function, FactorLimits(None, tol))
    residual = np.trace(K - features @ features.T) / np.trace(K)
    before = np.trace(K - features[:, :-1] @ features[:, :-1].T) / np.trace(K)
    assert residual <= tol < before
    # The same approximation from its definition.
    projected = K[:, landmarks] @ np.linalg.lstsq(K[np.ix_(landmarks, landmarks)], K[landmarks], rcond=1e-14)[0]
    assert np.abs(features @ features.T - projected).max() < 1e-6 * K.max()


def test_landmarks_are_drawn_with_probabilities_proportional_to_their_residuals(monkeypatch):
    monkeypatch.setattr(module, "_MAX_PANEL", 1)
    # Both take longer than the kernel of four documents.
    monkeypatch.setattr(module, "max_memory", lambda: 1 << 30)
    monkeypatch.setattr(module, "one_blas_thread", nullcontext)
    rng, n_sets = np.random.default_rng(0), 800
    fixed = np.array([[0.5, 0.0], [0.0, 1.0], [1.0, 1.2], [-1.5, 0.5]])
    K = polynomial_kernel(fixed, degree=2, gamma=1.0, coef0=0.3)
    drawn = np.zeros((4, 4))
    for _ in range(n_sets):
        turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        first, second = incomplete_cholesky(fixed @ turn, Poly(1.0, 2, 0.3), FactorLimits(2, 0.0))[1]
        drawn[first, second] += 1
    # A rotation changes no value of the kernel, so all data sets have the same probabilities.
    expected = np.zeros((4, 4))
    for first in range(4):
        left = np.maximum(np.diagonal(K) - K[first] ** 2 / K[first, first], 0.0)
        left[first] = 0.0
        expected[first] = np.diagonal(K)[first] / np.trace(K) * left / left.sum()
    possible = expected > 1e-9
    assert drawn[~possible].sum() == 0
    assert chisquare(drawn[possible], n_sets * expected[possible]).pvalue > 1e-3


@pytest.mark.parametrize("name", ["rbf", "given"])
def test_features_are_nearly_as_good_as_the_best_of_their_number(name, monkeypatch):
    function, reference = KERNELS[name]
    rng = np.random.default_rng(3)
    # Clusters, copies, and a few documents far from all others.
    X = np.vstack([rng.standard_normal((150, 3)), 0.1 * rng.standard_normal((150, 3)) + 2.0, 5 * documents(15, 4)])
    X = np.vstack([X, X[50:100], X[50:100]])
    K = reference(X, X)
    best = np.cumsum(np.linalg.eigvalsh(K)[::-1])
    for panel in (1, 128):
        monkeypatch.setattr(module, "_MAX_PANEL", panel)
        features, _ = incomplete_cholesky(X, function, FactorLimits(60, 0.0))
        assert np.trace(K) - (features**2).sum() <= 1.5 * (best[-1] - best[29])
        uniform = rng.permutation(len(X))[:60]
        projected = K[:, uniform] @ np.linalg.pinv(K[np.ix_(uniform, uniform)]) @ K[uniform]
        assert np.trace(K) - (features**2).sum() < np.trace(K - projected)


def test_results_do_not_depend_on_threads_panels_or_the_order_of_rows(monkeypatch):
    X = documents(5000)
    features, landmarks = incomplete_cholesky(X, Rbf(0.3), FactorLimits(200, 0.0), n_jobs=1)
    for n_jobs in (2, 3):
        again, same = incomplete_cholesky(X, Rbf(0.3), FactorLimits(200, 0.0), n_jobs=n_jobs)
        assert np.array_equal(landmarks, same)
        assert np.array_equal(features, again)
    order = np.random.default_rng(5).permutation(len(X))
    shuffled, moved = incomplete_cholesky(X[order], Rbf(0.3), FactorLimits(200, 0.0))
    assert np.array_equal(order[moved], landmarks)
    assert np.abs(shuffled - features[order]).max() < 1e-9
    monkeypatch.setattr(module, "_ROWS", 7)
    small, few = incomplete_cholesky(X[:500], Rbf(0.3), FactorLimits(None, 1e-6))
    monkeypatch.setattr(module, "_ROWS", 2048)
    large, many = incomplete_cholesky(X[:500], Rbf(0.3), FactorLimits(None, 1e-6))
    assert np.array_equal(few, many)
    assert np.abs(small - large).max() < 1e-9


def dual_of_rankings(queries, K, measure, feature_map, C):
    """Le and Smola (2008) (7), with the kernel of the differences Φ(z_i) − Φ(z), over every ranking of every query."""
    losses, rows, owner = [], [], []
    active = 0
    for number, (start, stop) in enumerate(zip(queries.offsets[:-1], queries.offsets[1:], strict=True)):
        every = EveryRanking(parse_measure(measure), parse_map(feature_map), queries.grades[start:stop])
        if every.one_level:
            continue
        active += 1
        difference = np.zeros((len(every.losses), len(K)))
        difference[:, start:stop] = every.coefficients[every.ideal] - every.coefficients
        rows.append(difference)
        losses.append(every.losses)
        owner.append(np.full(len(every.losses), number))
    differences, owners = np.vstack(rows), np.concatenate(owner)
    root = np.linalg.cholesky(K + 1e-13 * np.eye(len(K)))
    alpha = cp.Variable(len(owners), nonneg=True)
    share = [cp.sum(alpha[owners == number]) <= C / active for number in np.unique(owners)]
    objective = np.concatenate(losses) @ alpha - 0.5 * cp.sum_squares((differences @ root).T @ alpha)
    return cp.Problem(cp.Maximize(objective), share).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize("name", ["rbf", "poly", "given"])
@pytest.mark.parametrize("measure", ["ap", "ndcg"])
def test_full_rank_reaches_the_optimum_of_the_dual_of_the_whole_kernel(measure, name, C):
    queries = judged(5, 4)
    _, reference = KERNELS[name]
    choice = {"rbf": Kernel(gamma=0.4), "poly": Kernel("poly", gamma=0.5), "given": Kernel(laplacian_kernel)}[name]
    scorer = choice.with_params(rank=None, tol=0.0)
    ranker = Ranker(StructuredLoss(measure, "po"), bound="hinge", scorer=scorer, scaling=None, C=C)
    ranker.set_params(solver=Bundle(tol=1e-9)).fit(queries)
    best = dual_of_rankings(queries, reference(queries.X, queries.X), measure, "po", C)
    assert ranker.objective_ == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert ranker.gap_ <= 1e-8 * ranker.objective_


def test_pairs_of_the_whole_kernel():
    queries, C = judged(6, 5, seed=3), 3.0
    K = rbf_kernel(queries.X, gamma=0.4)
    terms, coefficients = [], cp.Variable(len(K))
    scores = K @ coefficients
    for start, stop in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        pairs = [
            (i, j) for i in range(start, stop) for j in range(start, stop) if queries.grades[i] > queries.grades[j]
        ]
        if pairs:
            better, worse = map(list, zip(*pairs, strict=True))
            terms.append(cp.sum(cp.pos(1 - scores[better] + scores[worse])) / len(pairs))
    root = np.linalg.cholesky(K + 1e-13 * np.eye(len(K)))
    primal = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root.T @ coefficients) + C / len(terms) * sum(terms)))
    scorer = Kernel(gamma=0.4, rank=None, tol=0.0)
    ranker = Ranker(PairwiseHinge(), scorer=scorer, scaling=None, C=C, solver=Bundle(tol=1e-9)).fit(queries)
    assert ranker.objective_ == pytest.approx(primal.solve(solver=cp.CLARABEL), rel=1e-6)
    assert np.allclose(ranker.predict(queries), scores.value, atol=1e-3)


@pytest.mark.parametrize("solver", ["bundle", "frank-wolfe(tol=1e-4)", "n-slack", "subgradient(tol=1e-3)"])
def test_every_solver_has_its_certificate(solver):
    queries = judged(8, 6)
    one = Ranker("svmmap", scorer="kernel(gamma=0.3,rank=20)", solver=solver, C=2.0).fit(queries)
    other = Ranker("svmmap", scorer="kernel(gamma=0.3,rank=20)", solver="bundle(tol=1e-8)", C=2.0).fit(queries)
    assert one.gap_ <= 1e-3 * one.objective_
    assert one.objective_ - one.gap_ <= other.objective_ <= one.objective_ + 1e-9


def test_curves_of_two_features_are_learned_where_weights_and_curves_cannot():
    train, test = judged(60, 10, seed=1), judged(60, 10, seed=2)
    made = {scorer: Ranker("svmmap", scorer=scorer, C=10.0).fit(train).score(test) for scorer in SCORERS}
    assert made["kernel"] > max(made["linear"], made["additive"]) + 0.1


SCORERS = ("linear", "additive", "kernel")


@pytest.mark.parametrize("scaling", [None, "auto", "query-standard"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_come_from_landmarks_alone(dtype, scaling, tmp_path):
    queries = judged(40, 8)
    queries = queries.with_features((queries.X * [1.0, 100.0, 1.0]).astype(dtype))
    ranker = Ranker("svmmap", scorer=Kernel(rank=25, tol=0.0), scaling=scaling).fit(queries)
    ranker.save(tmp_path / "model")
    _, _, arrays = read_model(tmp_path / "model")
    assert arrays["kernel.documents"].shape == (25, 3)
    assert arrays["kernel.factor"].shape == (25 * 26 // 2,)
    assert max(array.size for name, array in arrays.items() if name != "trace") <= 25 * 26 // 2
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(queries), ranker.predict(queries))
    # By hand: a sum over landmarks, with weights that give θ on the factor.
    form, theta = again.model_.form, again.model_.theta
    lower = np.zeros((25, 25))
    lower[np.tril_indices(25)] = arrays["kernel.factor"]
    beta = np.linalg.solve(lower.T, theta)
    X = ranker.model_.function.scale_rows(queries.X, queries.offsets)
    expected = rbf_kernel(X, arrays["kernel.documents"], gamma=arrays["kernel.rbf"][0]) @ beta
    assert np.allclose(ranker.predict(queries), expected, atol=1e-9 * np.abs(beta).sum())
    assert np.allclose(form.coefficients(theta), beta)
    assert 0.5 * theta @ theta == pytest.approx(
        0.5 * beta @ rbf_kernel(arrays["kernel.documents"], gamma=arrays["kernel.rbf"][0]) @ beta, rel=1e-6
    )


def test_training_scores_are_those_of_prediction():
    queries = judged(50, 8)
    prepared = Kernel(rank=60, gamma=0.5).prepare(queries)
    theta = np.random.default_rng(1).standard_normal(60)
    assert np.allclose(prepared.scores(theta), prepared.form.score(theta, queries.X), atol=1e-8)


def test_scale_is_that_of_scikit_learn():
    X = documents(5000) * [1.0, 3.0, 0.1] + 5.0
    function = Kernel().function(X)
    assert function.gamma == pytest.approx(SVR(gamma="scale").fit(X, X[:, 0])._gamma, rel=1e-12)
    assert Kernel().function(np.full((4, 2), 7.0)).gamma == 1.0
    assert Kernel(gamma=0.25).function(X).gamma == 0.25


def test_spellings_grids_and_searches():
    assert parse_scorer("kernel(gamma=0.1,rank=200)") == Kernel(gamma=0.1, rank=200)
    assert str(Kernel("poly", degree=2, rank=None)) == "kernel(kernel=poly,degree=2,rank=none)"
    assert parse_scorer(str(Kernel("poly", degree=2, rank=None))) == Kernel("poly", degree=2, rank=None)
    assert isinstance(Kernel(), Scorer)
    chosen = tune(Ranker("svmauc", scorer="kernel"), judged(20, 8), Cs=[1.0], grid={"scorer__gamma": [1e-3, 0.5]})
    assert chosen.ranker.scorer == Kernel(gamma=0.5)
    assert parse_grid(["gamma=0.1,1", "tol=1e-3", "scorer__tol=0.1"]) == {
        "scorer__gamma": [0.1, 1],
        "solver__tol": [1e-3],
        "scorer__tol": [0.1],
    }


def slow_clock(monkeypatch):
    """Let every value of the kernel of all documents take a second on the clock."""
    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    evaluate = Rbf.__call__

    def slowly(self, rows, columns):
        clock[0] += len(columns) * len(rows) / 240.0
        return evaluate(self, rows, columns)

    monkeypatch.setattr(Rbf, "__call__", slowly)
    return clock


def test_no_landmarks_are_added_after_the_time_limit(monkeypatch):
    queries = judged(30, 8)
    whole = Kernel(gamma=0.5, rank=200, tol=0.0).prepare(queries)
    clock = slow_clock(monkeypatch)
    prepared = Kernel(gamma=0.5, rank=200, tol=0.0, time_limit=60.0).prepare(queries)
    assert 0 < prepared.n_parameters < 128
    assert clock[0] < 130.0
    # They are the first of those that would have been chosen.
    assert np.array_equal(prepared.form.documents, whole.form.documents[: prepared.n_parameters])
    assert np.array_equal(np.asarray(prepared.queries.X), np.asarray(whole.queries.X)[:, : prepared.n_parameters])
    assert Kernel(gamma=0.5, rank=200, tol=0.0, time_limit=1e-9).prepare(queries).n_parameters > 0


def test_a_panel_is_given_up_when_time_is_up(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 16)
    queries = judged(30, 8)
    clock = slow_clock(monkeypatch)
    Kernel(gamma=0.5, rank=200, tol=0.0, time_limit=20.0).prepare(queries)
    assert clock[0] < 24.0


def test_half_of_the_time_limit_is_left_for_the_solver(monkeypatch):
    limits = []
    minimize = Bundle.minimize

    def noted(self, problem, C, start=None):
        limits.append(self.time_limit)
        return minimize(self, problem, C, start)

    monkeypatch.setattr(Bundle, "minimize", noted)
    monkeypatch.setattr(module, "_ROWS", 16)
    slow_clock(monkeypatch)
    scorer = Kernel(gamma=0.5, rank=200, tol=0.0)
    ranker = Ranker("svmmap", scorer=scorer, solver="bundle", time_limit=50.0).fit(judged(30, 8))
    assert 0 < ranker.form_.n_parameters < 60
    assert 20.0 < limits[0] < 30.0
    assert ranker.scorer is scorer


def test_a_warm_start_begins_at_the_solution():
    queries = judged(30, 8)
    ranker = Ranker("svmmap", scorer="kernel(rank=40)", warm_start=True, C=5.0).fit(queries)
    n_iter = ranker.n_iter_
    assert ranker.fit(queries).n_iter_ < n_iter


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "sigmoid"}, "kernel is 'sigmoid'; choose 'rbf', 'poly' or a function"),
        ({"gamma": 0.0}, "gamma is 0.0; it must be a finite number above 0"),
        ({"gamma": "auto"}, "gamma is 'auto'; choose a number or 'scale'"),
        ({"degree": 0}, "degree is 0; it must be a whole number from 1 to 100"),
        ({"degree": 2.5}, "degree is 2.5"),
        ({"coef0": -1.0}, "coef0 is -1.0; it must be a finite number of at least 0"),
        ({"time_limit": 0.0}, "time_limit is 0.0; it must be positive"),
        ({"rank": 0}, "rank is 0; it must be a positive whole number, or None"),
        ({"rank": True}, "rank is True"),
        ({"tol": -0.1}, "tol is -0.1; it must be a finite number of at least 0"),
        ({"tol": np.nan}, "tol is nan"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Kernel(**options)


def test_data_that_a_kernel_cannot_take_is_refused(monkeypatch):
    queries = judged(10, 6)
    X, y, qid = queries.X.copy(), queries.grades, np.repeat(np.arange(10), 6)
    ranker = Ranker("svmmap", scorer="kernel")
    X[3, 1] = np.nan
    with pytest.raises(DataError, match=r"NaN.*; fill it, or train with the scorer linear\(missing=mean\) or additive"):
        ranker.fit(X, y, qid=qid)
    with pytest.raises(DataError, match=r"the kernel scorer takes no sparse X; pass X.toarray\(\)"):
        ranker.fit(sp.csr_array(queries.X), y, qid=qid)
    ranker.fit(queries)
    with pytest.raises(DataError, match=r"takes no sparse X; pass X.toarray\(\)"):
        ranker.predict(sp.csr_array(queries.X))
    with pytest.raises(DataError, match=r"NaN"):
        ranker.predict(X)
    with pytest.raises(TypeError, match="the scores of a kernel model are not made of features"):
        ranker.explain(queries)
    with pytest.raises(DataError, match=r"the kernel of document \d+ with itself is inf; scale the features, or lower"):
        Ranker("svmmap", scorer="kernel(kernel=poly,degree=30,gamma=1)", scaling=None).fit(queries.X * 1e20, y, qid=qid)
    with pytest.raises(DataError, match="the kernel of every document with itself is 0"):
        Ranker("svmmap", scorer=Kernel("poly", coef0=0.0)).fit(0 * queries.X, y, qid=qid)
    monkeypatch.setenv(VARIABLE, "10KB")
    with pytest.raises(DataError, match=r"60 documents with 60 landmarks need .* lower the rank of the kernel"):
        ranker.fit(queries)
    assert ranker.set_params(scorer__rank=10).fit(queries).coef_.shape == (10,)


def test_functions_that_are_no_kernels_are_refused(tmp_path):
    queries = judged(10, 6)
    for function, message in (
        (lambda a, b: -rbf_kernel(a, b), "document 0 with itself is negative"),
        (lambda a, b: 3 * np.eye(len(a), len(b)) - 2 * rbf_kernel(a, b) + 2 * (a @ b.T), "positive semi-definite"),
        (lambda a, b: rbf_kernel(a, b) + a[:, :1] * 0.1, "is not symmetric"),
        (lambda a, _: np.ones(len(a)), r"returned shape \(\d+,\) for \d+ and \d+ documents; return one value"),
    ):
        with pytest.raises(DataError, match=message):
            Ranker("svmmap", scorer=Kernel(function)).fit(queries)
    ranker = Ranker("svmmap", scorer=Kernel(laplacian_kernel)).fit(queries)
    with pytest.raises(TypeError, match="a kernel that is a function cannot be written to a file; use kernel='rbf'"):
        ranker.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_documents_that_are_all_alike():
    queries = Queries.from_arrays(np.ones((6, 2)), [1, 0, 1, 0, 1, 0], group=[3, 3])
    prepared = Kernel().prepare(queries)
    assert prepared.n_parameters == 1
    assert np.allclose(prepared.scores(np.ones(1)), 1.0)
