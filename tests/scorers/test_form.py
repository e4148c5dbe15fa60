"""Forms that score by numbers from a file: what they compute, by hand, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from marginrank.scorers import terms
from marginrank.scorers.boosted.form import BoostedForm, Tree
from marginrank.scorers.kernel.form import KernelForm, Poly, Rbf


def two_trees():
    """Feature 1 above 1.5 and feature 0 above 0: four leaves and a single one."""
    first = Tree(
        np.array([1, -1, 0, -1, -1]),
        np.array([1.5, 0, 0.0, 0, 0]),
        np.array([1, 0, 3, 0, 0]),
        np.array([2, 0, 4, 0, 0]),
        np.array([0, 1.0, 0, 2.0, 4.0]),
    )
    second = Tree(np.array([-1]), np.zeros(1), np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.array([0.5]))
    return BoostedForm.collect([first, second], [0, 0], n_features=2)


def test_trees_by_hand():
    form, theta = two_trees()
    assert theta.tolist() == [1.0, 2.0, 4.0, 0.5]
    assert form.n_parameters == 4
    X = np.array([[9.0, 1.5], [0.0, 1.6], [0.1, 1.6]])
    assert form.score(theta, X).tolist() == [1.5, 2.5, 4.5]
    assert form.first(1).score(theta[:3], X).tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("left", 0, 0),  # to itself, for ever
        ("right", 2, 2),
        ("right", 2, 0),  # back to its parent
        ("left", 0, 6),  # beyond the last node
        ("right", 0, -1),
        ("feature", 0, 2),  # one feature too many
        ("feature", 0, -2),
        ("left", 1, 1),  # another leaf's value
        ("roots", 1, 6),
        ("outputs", 1, 1),
        ("outputs", 1, -1),
    ],
)
def test_nodes_that_lead_nowhere_are_refused(name, at, value):
    form, _ = two_trees()
    numbers = getattr(form, name).copy()
    numbers[at] = value
    with pytest.raises(ValueError, match="do not fit together"):
        replace(form, **{name: numbers})


def test_a_kernel_is_the_same_block_by_block(monkeypatch):
    form, theta = KernelForm(np.array([[0.0, 0.0], [3.0, 4.0]]), Rbf(0.02)), np.array([2.0, -1.0])
    X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    near, far = exp(-0.5), exp(-2.0)
    expected = [2 - near, 2 * near - 1, 2 * far - near]
    for values in (1, 2, 4, 1 << 22):
        monkeypatch.setattr(terms, "_BLOCK_VALUES", values)
        assert form.score(theta, X).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.inf, np.nan, True, "scale"])
def test_a_kernel_has_a_gamma(gamma):
    for make in (Rbf, lambda one: Poly(one, 2, 1.0)):
        with pytest.raises(ValueError, match=r"gamma is .*; it must be a finite number above 0"):
            make(gamma)
