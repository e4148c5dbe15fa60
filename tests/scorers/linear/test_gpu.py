"""Tests of features that are kept on a device of PyTorch: all numbers are those of the CPU."""

import gc
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries, Ranker
from marginrank.losses import PairwiseHinge, StructuredLoss
from marginrank.scorers import Additive, Linear
from marginrank.training.partitioned_risk import empirical_risk
from tests.absent import WITHOUT_TORCH_AND_JAX

torch = pytest.importorskip("torch", reason="PyTorch is the extra 'neural'")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture
def queries() -> Queries:
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 30, 60)
    X = rng.normal(size=(sizes.sum(), 5)).astype(np.float32)
    grades = np.clip(np.round(X @ rng.normal(size=5) + rng.normal(size=len(X))), 0, 3)
    return Queries.from_arrays(X, grades, group=sizes)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", [StructuredLoss("auc"), StructuredLoss("ndcg@5", "dorm"), PairwiseHinge(power=2)])
@pytest.mark.parametrize("shape", ["lines", "steps"])
def test_curves_have_the_risk_and_parts_of_the_cpu(queries, loss, shape, device):
    X = np.array(queries.X)
    X[::7, 2] = np.nan
    X[:, 3] = 1.0  # constant: without parameters
    gaps = Queries.from_arrays(X, queries.grades, group=queries.lengths, allow_nan=True)
    here, there = (empirical_risk(gaps, loss, Additive(bins=9, shape=shape, device=at)) for at in (None, device))
    theta, direction = np.random.default_rng(3).normal(size=(2, here.n_parameters))
    np.testing.assert_allclose(there(theta)[1], here(theta)[1], rtol=1e-10, atol=1e-12)
    for own, other in zip(here.parts(theta), there.parts(theta), strict=True):
        np.testing.assert_allclose(other, own, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(there.scores(theta), here.scores(theta), rtol=1e-12, atol=1e-14)
    if loss.smooth:
        products = (risk.hessian_product(theta, direction) for risk in (here, there))
        np.testing.assert_allclose(*products, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", [StructuredLoss("auc"), StructuredLoss("ndcg@5", "dorm"), PairwiseHinge(power=2)])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_risk_and_parts_are_those_of_the_cpu(queries, loss, device, dtype):
    here, there = (empirical_risk(queries, loss, Linear(device=at, dtype=dtype)) for at in (None, device))
    theta, direction = np.random.default_rng(3).normal(size=(2, 5))
    value, slope = here(theta)
    parts = there.parts(theta)
    assert there(theta)[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(there(theta)[1], slope, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose([parts[0].sum(), *parts[1].sum(axis=0)], [value, *slope], rtol=1e-10, atol=1e-12)
    expected = queries.X.astype(dtype or np.float32).astype(np.float64) @ theta
    np.testing.assert_allclose(there.scores(theta), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(there.block(4, theta)[1], here.block(4, theta)[1], rtol=1e-10, atol=1e-12)
    if loss.smooth:
        products = (risk.hessian_product(theta, direction) for risk in (here, there))
        np.testing.assert_allclose(*products, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scorer", [Linear, Additive])
def test_two_risks_in_turns_have_their_own_values_at_each_of_many_points(queries, scorer, device):
    losses = StructuredLoss("ndcg@5", "dorm"), PairwiseHinge(power=2)
    pairs = [[empirical_risk(queries, loss, scorer(device=at)) for at in (None, device)] for loss in losses]
    points = np.random.default_rng(5).normal(size=(4, pairs[0][0].n_parameters))
    for theta, direction in zip(points, points[::-1], strict=True):
        for here, there in pairs:
            assert there(theta)[0] == pytest.approx(here(theta)[0], rel=1e-12)
            np.testing.assert_allclose(there(theta)[1], here(theta)[1], rtol=1e-10, atol=1e-12)
        products = (risk.hessian_product(theta, direction) for risk in pairs[1])
        np.testing.assert_allclose(*products, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_call_returned_is_not_changed_by_the_next(queries, device):
    risk, points = empirical_risk(queries, StructuredLoss("auc"), Linear(device=device)), np.eye(5)
    for first, second in ((0, 1), (2, 3), (4, 0)):
        parts = risk.parts(points[first])
        copies = [part.copy() for part in parts]
        risk.parts(points[second])
        for part, copy in zip(parts, copies, strict=True):
            np.testing.assert_array_equal(part, copy)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_memory_of_a_risk_ends_with_it(queries, dtype):
    def evaluate():
        typed = queries.with_features(queries.X.astype(dtype))
        risk = empirical_risk(typed, PairwiseHinge(power=2), Linear(device="cuda"))
        for theta in np.eye(5):
            risk(theta)
            risk.hessian_product(theta, theta)

    evaluate()
    gc.collect()
    gc.disable()
    try:
        before = torch.cuda.memory_allocated()
        evaluate()
        assert torch.cuda.memory_allocated() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scorer", [Linear, Additive])
@pytest.mark.parametrize("preset", ["svmmap", "svmndcg", "ranksvm"])
def test_training_ends_at_the_same_objective(queries, preset, scorer, device):
    rankers = [Ranker(preset, C=3.0, scorer=scorer(device=at)).fit(queries) for at in (None, device)]
    here, there = (ranker.solution_ for ranker in rankers)
    assert there.reason == "converged"
    assert here.dual <= there.primal * (1 + 1e-9)
    assert there.dual <= here.primal * (1 + 1e-9)


def test_a_trained_model_needs_no_device(queries, tmp_path):
    ranker = Ranker("ranksvm", scorer=Linear(device="cpu")).fit(queries)
    ranker.save(tmp_path / "model.safetensors")
    code = "import numpy as np, marginrank;print(marginrank.load('model.safetensors').predict(np.ones((1, 5)))[0])"
    words = [sys.executable, "-c", WITHOUT_TORCH_AND_JAX + code]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(run.stdout) == ranker.predict(np.ones((1, 5)))[0]


def test_weights_keep_their_signs_and_missing_values_their_means(queries):
    X = queries.X.copy()
    X[::7, 2] = np.nan
    gaps = Queries.from_arrays(X, queries.grades, group=queries.lengths, allow_nan=True)
    scorers = [Linear(nonnegative=True, missing="indicator", device=at) for at in (None, "cpu")]
    here, there = (Ranker("ranksvm", scorer=scorer).fit(gaps) for scorer in scorers)
    assert there.coef_[:5].min() >= 0
    assert there.objective_ == pytest.approx(here.objective_, rel=2e-3)


def test_sparse_features_and_unknown_devices_are_refused(queries):
    sparse = Queries.from_arrays(sp.csr_array(queries.X), queries.grades, group=queries.lengths)
    with pytest.raises(DataError, match="dense features, and these are sparse"):
        Ranker("ranksvm", scorer=Linear(device="cpu")).fit(sparse)
    with pytest.raises(ValueError, match="device is 'teapot', which PyTorch cannot use"):
        Ranker("ranksvm", scorer="linear(device=teapot)").fit(queries)
