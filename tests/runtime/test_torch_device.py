"""PyTorch devices: sums over segments are exact to float64, whatever else is in the tensor."""

from itertools import pairwise

import numpy as np
import pytest

from marginrank.runtime.torch_device import Device, features_device

torch = pytest.importorskip("torch", reason="PyTorch is the extra 'neural'")


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def device(request):
    return Device.find(torch, request.param)


def test_sums_over_segments(device):
    segments = device.segments(np.array([0, 2, 2, 5]))
    values = device.tensor(np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert segments.sum(values).tolist() == [3.0, 0.0, 28.0]
    assert segments.max(values).tolist() == [2.0, -np.inf, 16.0]
    assert segments.numbers.tolist() == [0, 0, 2, 2, 2]
    assert segments.running_count(values.long()).tolist() == segments.running_sum(values).tolist() == [1, 3, 4, 12, 28]


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_running_sums_are_those_of_extended_precision(device, size):
    rng = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum([3, 0, 500, 1, 10_000]))
    values = size * rng.standard_normal(offsets[-1]) * 10.0 ** rng.uniform(-5, 5, offsets[-1])
    values[:3] = 0.0
    sums = device.segments(offsets).running_sum(device.tensor(values)).cpu().numpy()
    for first, end in pairwise(offsets):
        expected = np.cumsum(values[first:end].astype(np.longdouble))
        allowed = 1e-15 * np.abs(values[first:end]).sum()
        assert np.abs(sums[first:end] - expected).max(initial=0.0) <= allowed


def test_auto_is_cuda_or_none():
    assert features_device(None, "Linear") is None
    assert features_device("cpu", "Linear").device.type == "cpu"
    assert (features_device("auto", "Linear") is not None) == torch.cuda.is_available()
