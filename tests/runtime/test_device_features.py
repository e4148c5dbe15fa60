"""Features on a device of PyTorch, and what reads them as an array."""

from unittest.mock import patch

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker
from marginrank.data.fingerprint import fingerprint
from marginrank.preparation import QueryMinMax, Standardize
from marginrank.runtime.device_features import DeviceFeatures, on_device
from marginrank.runtime.torch_device import Device
from marginrank.scorers import Additive, Kernel, Linear
from marginrank.scorers.linear import scorer as linear

torch = pytest.importorskip("torch", reason="PyTorch is the extra 'neural'")
QID = [3, 1, 3, 1, 1, 2, 2, 3]
GRADES = [0.0, 1.0, 2.0, 0.0, 1.0, 1.0, 0.0, 1.0]


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def device(request):
    return Device.find(torch, request.param)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32) * [1.0, 1e-3, 50.0] + [0.0, 7.0, -4.0]


def test_numpy_reads_features_on_a_device(device, X):
    there = DeviceFeatures(torch.tensor(X, device=device.device))
    assert (there.shape, there.dtype, len(there), there.nbytes) == (X.shape, X.dtype, len(X), X.nbytes)
    np.testing.assert_array_equal(np.asarray(there), X)
    np.testing.assert_array_equal(there[np.array([5, 1])], X[[5, 1]])
    np.testing.assert_array_equal(there[2:4][1:], X[3:4])


def test_a_copy_on_a_device_knows_its_source(device, X):
    there = on_device(X, device)
    assert np.shares_memory(np.asarray(there), X)
    assert np.shares_memory(np.asarray(there[2:5]), X)
    np.testing.assert_array_equal(there.values.cpu().numpy(), X)
    assert on_device(there, device) is there


def test_moments_and_scaling_are_those_of_numpy(device, X):
    X[1, 0] = np.nan
    X[:, 1] = 3.0
    huge = np.column_stack([X, np.linspace(-1e200, 1e200, len(X)), np.full(len(X), np.nan)])
    here, there = (
        Standardize().fit(Queries.from_arrays(values, GRADES, qid=QID, allow_nan=True))
        for values in (huge, DeviceFeatures(torch.tensor(huge, device=device.device)))
    )
    np.testing.assert_allclose(there.mean_[:3], [np.nanmean(X[:, 0]), 3.0, X[:, 2].mean()], rtol=1e-6)
    np.testing.assert_allclose(there.mean_[:3], here.mean_[:3], rtol=1e-13)
    spread = 1e200 * np.linspace(-1.0, 1.0, len(X)).std()
    np.testing.assert_allclose(there.scale_, [np.nanstd(X[:, 0]), 0.0, X[:, 2].std(), spread, 0.0], rtol=1e-6)
    np.testing.assert_allclose(there.scale_, here.scale_, rtol=1e-12)
    scaled = DeviceFeatures(torch.tensor(huge, device=device.device)).standardized(there.mean_, there.scale_)
    np.testing.assert_allclose(scaled, here.transform(huge), rtol=1e-12, atol=1e-12)


def test_values_that_are_not_finite_are_named(device, X):
    X[4, 2] = np.nan
    on_it = DeviceFeatures(torch.tensor(X, device=device.device))
    with pytest.raises(DataError, match=r"X\[4, 2\] is NaN"):
        Queries.from_arrays(on_it, GRADES, qid=QID)
    queries = Queries.from_arrays(on_it, GRADES, qid=QID, allow_nan=True)
    with pytest.raises(DataError, match=r"feature 2 of document 4 \(query 1\) is NaN"):
        Ranker("ranksvm").fit(queries)
    on_it.values[4, 2] = torch.inf
    with pytest.raises(DataError, match=r"X\[4, 2\] is inf; replace it"):
        Queries.from_arrays(on_it, GRADES, qid=QID, allow_nan=True)


def test_a_tensor_on_the_cpu_is_not_copied(X):
    tensor = torch.tensor(X, requires_grad=True)
    queries = Queries.from_arrays(tensor, torch.tensor(GRADES), qid=torch.tensor(QID))
    assert np.shares_memory(queries.X, tensor.detach().numpy())
    assert queries.grades.tolist() == GRADES
    assert queries.query_ids.tolist() == [3, 1, 2]
    assert Queries.from_arrays(torch.ones((2, 1), dtype=torch.bfloat16), group=[2]).X.dtype == np.float64


def test_queries_keep_features_on_their_device(device, X):
    there = Queries.from_arrays(DeviceFeatures(torch.tensor(X, device=device.device)), GRADES, qid=QID)
    here = Queries.from_arrays(X, GRADES, qid=QID)
    for part, expected in ((there.grouped, here.grouped), (there[[2, 0]], here[[2, 0]]), (there[:1], here[:1])):
        assert isinstance(part.X, DeviceFeatures)
        np.testing.assert_array_equal(part.X, expected.X)
    assert fingerprint(there) == fingerprint(here)
    assert there.document_keys.tolist() == here.document_keys.tolist()
    np.testing.assert_array_equal(there.feature(1), here.feature(1))
    np.testing.assert_array_equal(
        QueryMinMax().fit(there).transform(there).X, QueryMinMax().fit(here).transform(here).X
    )


@pytest.mark.parametrize(
    "scorer", [Linear(), Linear(missing="indicator"), Linear(dtype="float16"), Additive(), Kernel()]
)
def test_every_scorer_trains_on_features_on_a_device(device, X, scorer):
    if scorer.takes_nan:
        X[::3, 1] = np.nan
    here, there = (
        Ranker("ranksvm-squared", scorer=scorer).fit(values, GRADES, qid=QID)
        for values in (X, DeviceFeatures(torch.tensor(X, device=device.device)))
    )
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-3)
    assert there.trained_on_ == here.trained_on_
    on_it = Queries.from_arrays(torch.tensor(X, device=device.device), GRADES, qid=QID, allow_nan=True)
    np.testing.assert_array_equal(there.predict(on_it), there.predict(X))
    np.testing.assert_array_equal(there.predict(torch.tensor(X, device=device.device)), there.predict(X))


def test_training_copies_features_to_a_device_once_and_scales_them_there(device, X):
    with patch.object(linear, "on_device", wraps=on_device) as place:
        ranker = Ranker("ranksvm", scorer=Linear(device=device.device.type)).fit(X, GRADES, qid=QID)
    assert ranker.model_.scaling == "standard"
    arrays = [call.args[0] for call in place.call_args_list]
    assert [isinstance(array, DeviceFeatures) for array in arrays] == [False] + [True] * (len(arrays) - 1)
