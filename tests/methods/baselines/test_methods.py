"""Each baseline against an independent statement of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries, Ranker, evaluate
from marginrank.data.queries import in_canonical_order
from marginrank.losses import PairwiseHinge
from marginrank.losses.pairwise import NDCGPairwiseHinge, ndcg_weights
from marginrank.methods.baselines.perceptron import JRank, PRank
from marginrank.methods.baselines.rankboost import PairWeights, RankBoost
from marginrank.preparation import QueryMinMax, QueryPercentile, ThresholdBins
from marginrank.ranker.resolution import resolve
from marginrank.scorers import Additive
from marginrank.scorers.boosted.form import BoostedForm, Tree
from marginrank.scorers.staged_scorer import StageLimits


def squared_hinge_svm(X, sides, costs, C):
    from sklearn.svm import LinearSVC

    svm = LinearSVC(C=C, dual=False, intercept_scaling=10.0, tol=1e-12, max_iter=10_000)
    return svm.fit(X, sides, sample_weight=costs)


def test_svmacc_is_a_linear_svc(judged):
    queries = judged()
    sides = np.where(queries.grades > 0, 1, -1)
    for name, costs in (
        ("svmacc", np.ones(240)),
        ("svmacc2", np.where(sides > 0, (sides < 0).sum(), (sides > 0).sum())),
    ):
        svm = squared_hinge_svm(queries.X, sides, costs / costs.sum(), 5.0)
        ranker = Ranker(name, C=5.0, scaling=None).fit(queries)
        assert ranker.predict(queries) == pytest.approx(svm.decision_function(queries.X) - svm.intercept_[0], abs=1e-6)
        short = np.maximum(0, 1 - sides * svm.decision_function(queries.X))
        assert ranker.objective_ == pytest.approx(0.5 * (svm.coef_**2).sum() + 5 * (costs / costs.sum()) @ short**2)
    # The costs of both sides together are the same, which is what makes one miss of the fewer weigh more.
    assert costs[sides > 0].sum() == costs[sides < 0].sum()


@pytest.mark.parametrize(("name", "scaler"), [("svmacc3", QueryPercentile()), ("svmacc4", QueryMinMax())])
def test_svmacc3_and_4_learn_fifty_even_steps_of_what_is_relative_to_the_query(judged, name, scaler):
    queries = judged()
    relative = scaler.fit_transform(queries).X
    columns = np.concatenate([relative[:, [f]] > np.arange(1, 51) / 51 for f in range(4)], axis=1).astype(float)
    svm = squared_hinge_svm(columns, np.where(queries.grades > 0, 1, -1), np.full(240, 1 / 240), 3.0)
    ranker = Ranker(name, C=3.0).fit(queries)
    assert ranker.predict(queries) == pytest.approx(columns @ svm.coef_[0], abs=1e-6)
    assert ranker.predict(queries.X, group=[8] * 30) == pytest.approx(ranker.predict(queries))
    with pytest.raises(DataError, match=f"scaling '{ranker.model_.scaling}' goes by query; give qid or group"):
        ranker.predict(queries.X)


def test_step_functions_of_a_linear_baseline_are_weights_of_threshold_indicators(judged):
    queries = judged()
    indicators = ThresholdBins(7, spacing="quantile").fit_transform(queries)
    one = Ranker("svmacc", scorer=Additive(bins=8, spacing="quantile", shape="steps"), C=3.0).fit(queries)
    other = Ranker("svmacc", C=3.0, scaling=None).fit(indicators)
    assert one.predict(queries) == pytest.approx(other.predict(indicators), abs=1e-6)
    stretched = queries.with_features(queries.X * [1.0, 1000.0, 1.0, 1.0])
    curves = Ranker("svmacc", scorer=Additive(bins=8, spacing="quantile", shape="steps"), C=3.0).fit(stretched)
    assert curves.model_.scaling is None
    assert curves.predict(stretched) == pytest.approx(one.predict(queries), abs=1e-6)


def test_the_multiclass_svm_adds_up_its_classes(judged):
    queries = judged()
    expected = np.zeros(240)
    for place in range(3):
        svm = squared_hinge_svm(queries.X, np.where(queries.grades == place, 1, -1), np.full(240, 1 / 240), 2.0)
        expected += place * (queries.X @ svm.coef_[0])
    assert Ranker("svm-multiclass", C=2.0, scaling=None).fit(queries).predict(queries) == pytest.approx(
        expected, abs=1e-6
    )


def test_two_steps_of_prank_by_hand():
    # k = 3 grades, thresholds b = (0, 0). The document x = 2 of the lowest grade scores 0 and stands on both: w = -2·2,
    # b = (1, 1). Then x = 1 of the highest scores -4 and is below both: w = -4 + 2·1, b = (0, 0).
    from marginrank.methods.baselines.perceptron_kernel import Documents, Learned, perceptron_epoch

    rows = sp.csr_array(np.array([[2.0], [1.0], [9.0]]))
    w, late, b = np.zeros(1), np.zeros(1), np.zeros(2)
    classes, query = np.array([0, 2, 1]), np.zeros(3, dtype=np.int64)
    documents = Documents(rows.data, rows.indices, rows.indptr, classes, query)
    assert perceptron_epoch(documents, Learned(w, np.zeros((0, 1)), b, late), np.array([0, 1]), 1) == (4, 3)
    assert (w.tolist(), b.tolist()) == ([-2.0], [0.0, 0.0])
    assert (w - late / 3).tolist() == [(0.0 - 4.0 - 2.0) / 3]


def perceptron(queries, epochs, seed, own):
    """PRank, or JRank with weights of each query, as published, one document and one threshold at a time."""
    rng, width, query = (
        np.random.default_rng(seed),
        queries.n_features,
        np.repeat(np.arange(len(queries)), queries.lengths),
    )
    w, b, per_query, seen = np.zeros(width), np.zeros(2), np.zeros((len(queries), width)), [np.zeros(width)]
    for _ in range(epochs):
        for document in rng.permutation(queries.n_documents):
            x, y = queries.X[document], queries.grades[document]
            score = x @ (w + per_query[query[document]])
            sides = np.where(y > np.arange(2), 1, -1)
            tau = np.where((score - b) * sides <= 0, sides, 0)
            w, b = w + tau.sum() * x, b - tau
            if own:
                per_query[query[document]] += tau.sum() * x
            seen.append(w)
    return np.mean(seen, axis=0)


@pytest.mark.parametrize(("method", "own"), [(PRank(3), False), (JRank(3), True)])
def test_perceptrons_are_as_published(judged, method, own):
    queries = judged(n_queries=12)
    stages = list(method.stages(resolve(Ranker(method)), queries, StageLimits(1.0, random_state=4)))
    assert len(stages) == 3
    for number, stage in enumerate(stages, 1):
        assert stage.theta == pytest.approx(perceptron(queries, number, 4, own), abs=1e-9)


def boosted(queries, rounds):
    """RankBoost with all pairs written out; thresholds are all values that occur."""
    pairs = [
        (worse, better)
        for start, stop in zip(queries.offsets[:-1], queries.offsets[1:], strict=True)
        for worse in range(start, stop)
        for better in range(start, stop)
        if queries.grades[worse] < queries.grades[better]
    ]
    worse, better = np.array(pairs).T
    weak = [
        (queries.X[:, f] > value).astype(float)
        for f in range(queries.n_features)
        for value in np.unique(queries.X[:, f])
    ]
    weights, scores = np.full(len(pairs), 1 / len(pairs)), np.zeros(queries.n_documents)
    for _ in range(rounds):
        r = np.array([weights @ (h[better] - h[worse]) for h in weak])
        best = int(np.argmax(np.abs(r)))
        scores += 0.5 * np.log((1 + r[best]) / (1 - r[best])) * weak[best]
        weights = np.exp(scores[worse] - scores[better])
        loss = weights.mean()
        weights /= weights.sum()
        yield scores.copy(), loss


def test_rankboost_is_that_of_all_pairs(judged):
    queries = judged(n_queries=15)
    stages = list(RankBoost(12).stages(resolve(Ranker(RankBoost(12))), queries, StageLimits(1.0)))
    assert len(stages) == 12
    for stage, (scores, loss) in zip(stages, boosted(queries, 12), strict=True):
        assert stage.form.score(stage.theta, queries.X) == pytest.approx(scores)
        assert stage.objective == pytest.approx(loss)


def test_rankboost_weighs_queries_as_often_as_they_are_repeated(judged):
    queries = judged(n_queries=4)
    rows = np.r_[np.arange(32), np.arange(8)]
    again = Queries.from_arrays(queries.X[rows], queries.grades[rows], group=[8] * 5)
    weighted = Ranker("rankboost@10").fit(queries.X, queries.grades, group=[8] * 4, query_weights=[2.0, 1.0, 1.0, 1.0])
    assert weighted.coef_ == pytest.approx(Ranker("rankboost@10").fit(again).coef_)


def test_rankboost_ends_where_all_pairs_are_in_order():
    queries = Queries.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 1], group=[3])
    ranker = Ranker("rankboost@50").fit(queries)
    assert ranker.n_iter_ < 50
    assert np.isfinite(ranker.coef_).all()
    assert evaluate(queries, ranker.predict(queries), "auc").mean["auc"] == 1.0
    weights = PairWeights(queries)
    assert weights.at(np.array([300.0, -300.0, -300.0]))[0] == pytest.approx([-1.0, 0.5, 0.5])


def test_rankboost_asks_whether_a_value_is_missing():
    X = np.array([[np.nan], [0.0], [1.0], [2.0]] * 3)
    queries = Queries.from_arrays(X, [1, 0, 0, 0] * 3, group=[4] * 3, allow_nan=True)
    ranker = Ranker("rankboost@1").fit(queries)
    assert [order[0] for order in ranker.rank(queries)] == [0, 4, 8]


@pytest.mark.parametrize("grades", [(0, 1, 4), (0, 1)])
def test_mcrank_scores_the_expected_grade(judged, grades):
    from sklearn.ensemble import GradientBoostingClassifier

    queries = in_canonical_order(judged())
    y = np.array(grades)[np.minimum(queries.grades.astype(int), len(grades) - 1)]
    ranker = Ranker("mcrank@7", random_state=3).fit(replace(queries, judgements=y.astype(float)))
    boost = GradientBoostingClassifier(
        init="zero", n_estimators=7, max_depth=None, max_leaf_nodes=10, random_state=3
    ).fit(queries.X, y)
    later = np.random.default_rng(1).standard_normal((500, 4))
    assert ranker.predict(later) == pytest.approx(boost.predict_proba(later) @ np.array(grades), rel=1e-12)
    assert [step.primal for step in ranker.solution_.trace] == pytest.approx(boost.train_score_.tolist())


def test_the_gaussian_process_is_scikit_learns(judged):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    queries = judged()
    mean = queries.grades.mean()
    process = GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel()).fit(queries.X, queries.grades - mean)
    later = np.random.default_rng(1).standard_normal((50, 4))
    ranker = Ranker("gp-regression", n_jobs=1, scaling=None).fit(queries)
    assert ranker.predict(later) == pytest.approx(process.predict(later), rel=1e-4, abs=1e-6)
    likelihood = process.log_marginal_likelihood_value_ / queries.n_documents
    assert ranker.objective_ == pytest.approx(-likelihood, rel=1e-6)
    with pytest.raises(DataError, match="12,000 documents; a Gaussian process takes at most 10,000, use fewer"):
        Ranker("gp-regression").fit(np.zeros((12_000, 1)), np.arange(12_000) % 2, group=[12_000])


def test_lambdarank_scores_as_lightgbm_does(judged):
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is an extra")
    queries = in_canonical_order(judged(n_queries=60))
    parameters = {
        "objective": "lambdarank",
        "label_gain": [0, 1, 3],
        "verbosity": -1,
        "deterministic": True,
        "num_threads": 1,
    }
    data = lightgbm.Dataset(queries.X, queries.grades, group=[8] * 60)
    booster = lightgbm.train({**parameters, "force_row_wise": True}, data, 12)
    later = np.random.default_rng(1).standard_normal((500, 4))
    assert Ranker("lambdarank@12", n_jobs=1).fit(queries).predict(later) == pytest.approx(
        booster.predict(later), rel=1e-12
    )


def test_lambdarank_says_how_to_get_lightgbm(judged, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"boosted trees needs LightGBM: pip install 'marginrank\[boosted\]'"):
        Ranker("lambdarank").fit(judged())


def test_trees_that_lead_nowhere_are_refused():
    stump = Tree(*map(np.array, ([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1.0, 2.0])))
    form, _ = BoostedForm.collect([stump], [0], 1)
    for name, value in (
        ("left", [0, 0, 1]),
        ("right", [3, 0, 0]),
        ("feature", [1, -1, -1]),
        ("outputs", [1]),
        ("roots", [3]),
    ):
        arrays = {**form.arrays(), f"trees.{name}": np.array(value)}
        with pytest.raises(ValueError, match="the nodes of the trees do not fit together"):
            BoostedForm.from_arrays(arrays, 1)


def test_the_best_feature_may_go_down(judged):
    queries = judged()
    values = {
        (f, sign): evaluate(queries, sign * queries.X[:, f], "ndcg@10").mean["ndcg@10"]
        for f in range(4)
        for sign in (1.0, -1.0)
    }
    ranker = Ranker("best-feature").fit(queries)
    assert ranker.coef_.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert ranker.objective_ == pytest.approx(1 - max(values.values()))
    assert Ranker("best-feature").fit(queries.with_features(-queries.X)).coef_.tolist() == [-1.0, 0.0, 0.0, 0.0]


def test_svm_ir_qp_weighs_pairs_by_what_a_swap_costs(judged):
    queries = judged(n_queries=6)
    lost: dict[tuple[float, float], list[float]] = {}
    for query in queries:
        own, drops = np.sort(query.grades)[::-1], {}
        ideal = (2**own - 1) @ (1 / np.log2(np.arange(2, 10)))
        for i in range(8):
            for j in range(i + 1, 8):
                swapped = own.copy()
                swapped[[i, j]] = swapped[[j, i]]
                value = (2**swapped - 1) @ (1 / np.log2(np.arange(2, 10))) / ideal
                drops.setdefault((own[i], own[j]), []).append(1 - value)
        for pair, some in drops.items():
            if pair[0] > pair[1]:
                lost.setdefault(pair, []).append(np.mean(some))
    expected = {pair: np.mean(some) for pair, some in lost.items()}
    assert ndcg_weights(queries.grades, queries.offsets) == pytest.approx(expected)
    scores = queries.X[:, 0]
    xi, _ = NDCGPairwiseHinge().prepare(queries)(scores)
    assert xi == pytest.approx(PairwiseHinge(rank_weights=expected).prepare(queries)(scores)[0])
