"""The form of a network: scores by hand, ties of equal documents, and files that do not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from marginrank import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.scorers.neural.form import NeuralForm
from marginrank.scorers.terms import ACTIVATIONS


def test_activations_are_what_their_names_say():
    x = np.array([-800.0, -2.0, 0.0, 1.5])
    expected = {
        "relu": [0.0, 0.0, 0.0, 1.5],
        "tanh": [-1.0, math.tanh(-2.0), 0.0, math.tanh(1.5)],
        "sigmoid": [0.0, 1 / (1 + math.exp(2.0)), 0.5, 1 / (1 + math.exp(-1.5))],
        "elu": [-1.0, math.exp(-2.0) - 1, 0.0, 1.5],
        "silu": [0.0, -2 / (1 + math.exp(2.0)), 0.0, 1.5 / (1 + math.exp(-1.5))],
    }
    assert expected.keys() == ACTIVATIONS.keys()
    for name, activate in ACTIVATIONS.items():
        assert activate(x) == pytest.approx(np.array(expected[name]), abs=1e-15)


def test_layers_are_cut_out_of_theta():
    form = NeuralForm((2, 3, 1), "tanh")
    theta = np.arange(13.0) / 10
    x = np.array([1.0, -2.0])
    W, b, v, c = theta[:6].reshape(3, 2), theta[6:9], theta[9:12], theta[12]
    assert form.n_parameters == 13
    assert form.score(theta, x[None])[0] == pytest.approx(v @ np.tanh(W @ x + b) + c, rel=1e-14)
    assert NeuralForm((2, 1), "relu").score(np.array([1.0, 2.0, 5.0]), x[None]).tolist() == [2.0]
    assert form.score(theta, np.zeros((0, 2))).shape == (0,)


@pytest.mark.parametrize("n", [1, 2, 383, 384, 385, 1000])
def test_a_document_has_one_score_wherever_it_stands(n):
    rng = np.random.default_rng(0)
    form = NeuralForm((7, 33, 17, 1), "silu")
    theta, X = rng.standard_normal(form.n_parameters), rng.standard_normal((n, 7))
    X[n // 2] = X[0]
    scores = form.score(theta, X)
    order = rng.permutation(n)
    assert scores[n // 2] == scores[0]
    assert np.array_equal(form.score(theta, X[order]), scores[order])
    assert form.score(theta, X[-1:])[0] == scores[-1]
    assert np.array_equal(form.score(theta, X, n_jobs=1), scores)


def parts(**changes):
    return {**NeuralForm((2, 3, 1), "relu").arrays(), **{f"neural.{name}": value for name, value in changes.items()}}


def test_arrays_make_the_same_form():
    assert NeuralForm.from_arrays(parts(), 2).widths == (2, 3, 1)
    assert NeuralForm.from_arrays(parts(), 2).activation == "relu"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"widths": np.array([3, 3, 1])}, "inputs for 2 features"),
        ({"widths": np.zeros(0, dtype=np.int64)}, "inputs for 2 features"),
        ({"widths": np.array([2])}, "at least one layer"),
        ({"widths": np.array([2, 0, 1])}, "no layer without units"),
        ({"widths": np.array([2, -3, 1])}, "no layer without units"),
        ({"widths": np.array([2, 3, 2])}, "one output"),
        ({"widths": np.array([2, *[1] * 200])}, "at least one layer"),
        ({"widths": np.array([2.0, 3.0, 1.0])}, "it needs int64"),
        ({"widths": np.array([[2, 3, 1]])}, "it needs int64"),
        ({"activation": np.frombuffer(b"eval", dtype=np.uint8)}, "unknown activation 'eval'"),
        ({"activation": np.frombuffer(b"\xff" * 1000, dtype=np.uint8)}, "unknown activation"),
        ({"activation": np.zeros(4)}, "it needs uint8"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(changes, expected):
    with pytest.raises(ValueError, match=expected):
        NeuralForm.from_arrays(parts(**changes), 2)


def test_a_width_beyond_all_memory_is_only_a_number():
    """The model compares it with the length of θ, and nothing is allocated."""
    assert NeuralForm.from_arrays(parts(widths=np.array([2, 2**62, 1])), 2).n_parameters == 2**62 * 4 + 1


def test_sparse_features_are_refused():
    with pytest.raises(DataError, match="a neural model takes no sparse X"):
        NeuralForm((2, 1), "relu").score(np.zeros(3), sp.csr_array(np.zeros((1, 2))))
