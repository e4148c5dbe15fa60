"""The law of scoring: a document has one score, bit for bit, by every door, whatever is scored with it."""

from __future__ import annotations

import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from marginrank import Linear, Queries, Ranker, load
from marginrank.fusion import Fusion
from marginrank.model import scoring
from marginrank.preparation.scaling import SCALINGS
from marginrank.scorers import terms
from marginrank.scorers.adaptive.form import AdaptiveForm
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.scorers.boosted.form import BoostedForm, Tree
from marginrank.scorers.kernel.form import KernelForm, Poly, Rbf
from marginrank.scorers.linear.form import LinearForm
from marginrank.scorers.neural.form import NeuralForm
from marginrank.solvers.auto import Auto
from tests.export.trained import TRAINERS, documents, hard_documents, trained

#: Documents of a query.
SIZE = 20
N = 5000
LINEAR = {
    f"linear({missing},{scaling})": (missing, scaling)
    for missing, scaling in product(("error", "zero", "mean", "indicator"), (None, *SCALINGS))
}
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture(params=["numpy", "compiled"])
def arithmetic(request, monkeypatch):
    """Score by NumPy alone, or by compiled functions alone."""
    compile_always(monkeypatch, compiled=request.param == "compiled")


def compile_always(monkeypatch, *, compiled):
    monkeypatch.setattr(terms, "_pays", lambda *_: compiled)


def same(scores, expected):
    """Compare bits, so that 0 and −0 differ."""
    np.testing.assert_array_equal(scores.view(np.int64), expected.view(np.int64))


@cache
def model_of(name):
    if name not in LINEAR:
        return trained(name)
    missing, scaling = LINEAR[name]
    X = documents(400, 1, missing=missing != "error")
    known = np.nan_to_num(X, nan=3.0)
    y = np.digitize(known[:, 0] / 8 + known[:, 1] / 2 + np.random.default_rng(2).standard_normal(400), [1.0, 2.0])
    ranker = Ranker("svmmap", scorer=Linear(missing=missing), scaling=scaling, solver=Auto(tol=1e-2))
    return ranker.fit(X, y, qid=np.arange(400) // SIZE).model_


def rows_of(name, dtype):
    X = hard_documents(name, N) if name not in LINEAR else documents(N, 3, missing=not name.startswith("linear(error"))
    return np.where(np.isinf(X.astype(dtype)), 0.0, X).astype(dtype)


def shuffled(*, by_query):
    """Return rows in random order; scalings by query add in the order of a query's documents, so they keep theirs."""
    order = np.random.default_rng(0).permutation(N)
    if by_query:
        order[np.argsort(order // SIZE, kind="stable")] = np.arange(N)
    return order


@pytest.mark.usefixtures("arithmetic")
@every_dtype
@pytest.mark.parametrize("name", [*TRAINERS, *LINEAR])
def test_all_doors_give_the_same_scores(name, dtype, tmp_path):
    model, X, group = model_of(name), rows_of(name, dtype), [SIZE] * (N // SIZE)
    expected = model.score(X, group=group, n_jobs=1)
    assert len(np.unique(expected)) > 20
    same(model.score(X, group=group, n_jobs=2), expected)
    same(model.score(np.asfortranarray(X), group=group), expected)
    same(model.score(X.astype(np.float64), group=group), expected)
    same(model.score(Queries.from_arrays(X, group=group, allow_nan=True, feature_names=model.feature_names)), expected)
    same(pickle.loads(pickle.dumps(model)).score(X, group=group), expected)
    model.save(tmp_path / "model")
    ranker, light = load(tmp_path / "model"), scoring.load(tmp_path / "model")
    same(ranker.model_.score(X, group=group), expected)
    same(light.score(X, group=group), expected)
    same(light.score(dict(zip(model.names, X.T, strict=True)), group=group), expected)
    for first in range(0, 10 * SIZE, SIZE):
        rows = slice(first, first + SIZE)
        same(model.score(X[rows], group=[SIZE]), expected[rows])
        same(light.score(X[rows]), expected[rows])
        ranking = light.rerank(X[rows])
        same(ranking.scores, expected[rows][ranking.rows])
    if not model.needs_queries:
        same(np.concatenate([model.score(X[row : row + 1]) for row in range(60)]), expected[:60])
        same(np.concatenate([light.score(X[row : row + 1]) for row in range(60)]), expected[:60])
        same(np.concatenate([model.score(X[row : row + 3]) for row in range(0, 300, 3)]), expected[:300])
        same(np.concatenate([light.score(X[row : row + 3]) for row in range(0, 300, 3)]), expected[:300])
    order = shuffled(by_query=model.needs_queries)
    same(model.score(X[order], qid=order // SIZE), expected[order])


@every_dtype
@pytest.mark.parametrize("name", TRAINERS)
def test_the_service_gives_the_same_scores(name, dtype, tmp_path):
    serving = pytest.importorskip("marginrank.serving")
    from tests.serving.client import InProcess

    model, X = model_of(name), rows_of(name, dtype)[:SIZE]
    model.save(tmp_path / "model")
    client = InProcess(serving.create_app(tmp_path / "model", serving.ServiceLimits(), reload_every=0))
    rows = [[None if np.isnan(value) else value for value in row] for row in X.tolist()]
    ranked = client.post("/rank", json={"queries": [{"features": rows}]}).json()["queries"][0]["documents"]
    scores = {document["id"]: document["score"] for document in ranked}
    same(np.array([scores[row] for row in range(SIZE)]), model.score(X, group=[SIZE]))


@pytest.mark.usefixtures("arithmetic")
@every_dtype
@pytest.mark.parametrize("scorer", ["linear", "additive(bins=4)"])
@pytest.mark.parametrize("features", ["minmax", "percentile+retrieved", "rrf", "borda"])
def test_fusions_give_the_same_scores(features, scorer, dtype, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2)).round(1).astype(dtype)
    X[rng.random(N) < 0.3, 1] = np.nan
    queries = Queries.from_arrays(X, X[:, 0] > 1, qid=np.arange(N) // SIZE, allow_nan=True)
    fusion = Fusion(features, scorer=scorer, Cs=[1.0], tol=0.1).fit(queries[:20], folds=2)
    fusion.save(tmp_path / "fusion")
    light, expected = scoring.load(tmp_path / "fusion"), fusion.predict(queries)
    same(Fusion.load(tmp_path / "fusion").predict(queries), expected)
    same(light.score(X, group=[SIZE] * (N // SIZE)), expected)
    for first in range(0, 10 * SIZE, SIZE):
        same(light.score(X[first : first + SIZE]), expected[first : first + SIZE])


def wide_forms(rng, n_features):
    """Return forms of many features."""
    cuts = tuple(np.sort(rng.standard_normal(rng.integers(0, 30))) for _ in range(n_features))
    missing = rng.random(n_features) < 0.5
    few = rng.standard_normal((7, n_features))
    yield LinearForm(n_features)
    if n_features > 1:
        context = np.arange(0, n_features - 1, max(1, n_features // 3))
        ones = np.ones(len(context))
        yield AdaptiveForm(n_features, context, -ones, 2 * ones, 0.3 * ones, 0.5, False)
    yield LinearForm(n_features, fill=np.ones(n_features), flagged=np.arange(0, n_features, 3))
    yield AdditiveForm(cuts, missing)
    yield AdditiveForm(cuts, missing, np.full(n_features, -9.0))
    yield NeuralForm((n_features, 70, 33, 1), "tanh")
    yield NeuralForm((n_features, 1, 1), "relu")
    yield KernelForm(rng.standard_normal((150, n_features)), Rbf(0.5 / n_features))
    yield KernelForm(few, Poly(1.0 / n_features, 3, 1.0))
    stump = Tree(*map(np.array, ([n_features - 1, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0.1, 0.7])))
    yield BoostedForm.collect([stump] * 30, [0, 1, 2] * 10, n_features, np.array([0.0, 1.0, 3.0]))[0]


@every_dtype
@pytest.mark.parametrize("n_features", [1, 7, 136, 1500])
def test_the_law_holds_for_many_features_and_any_number_of_threads(n_features, dtype, monkeypatch):
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((400, n_features)).astype(dtype)
    order = rng.permutation(len(X))
    for form in wide_forms(rng, n_features):
        theta = rng.standard_normal(form.n_parameters)
        expected = form.score(theta, X, 1)
        for compiled, n_jobs, blas in product((True, False), (1, 2), (1, 2)):
            compile_always(monkeypatch, compiled=compiled)
            monkeypatch.setattr(terms, "_BLOCK_VALUES", 100 * n_features)
            with threadpool_limits(blas, user_api="blas"):
                same(form.score(theta, X, n_jobs), expected)
                same(form.score(theta, X[order], n_jobs), expected[order])
                same(form.score(theta, X[:3]), expected[:3])
                same(np.concatenate([form.score(theta, X[row : row + 1]) for row in range(5)]), expected[:5])
