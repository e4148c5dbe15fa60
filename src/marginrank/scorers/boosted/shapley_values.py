"""Shapley values of the features of trees."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from marginrank.scorers.terms import TreesTerm, softmax
from marginrank.typing import FloatArray, IntArray

#: Points of Gauss's rule for averages of gradients; scores are exact to 1e-8 for outputs that differ by up to 20.
_POINTS: Final = 64


def shapley_values(trees: TreesTerm, X: FloatArray, references: FloatArray) -> FloatArray:
    """Return the Shapley values of the features, averaged over the references.

    For a document x and a reference z, they are those of the game in which a set of features has the values of x and
    all others those of z: interventional Shapley values, Lundberg et al. (Nature Machine Intelligence 2020, algorithm
    3). Features in which x and z agree have 0, and exchanging x and z turns the signs. If scores are expected grades,
    the values of the outputs are carried through the softmax by integrated gradients, Sundararajan, Taly and Yan (ICML
    2017), from the outputs of z to those of x.

    >>> from marginrank.scorers.boosted.form import BoostedForm, Tree
    >>> stump = Tree(np.array([1, -1, -1]), np.array([1.5, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
    ...     np.array([0, 0.25, 2.0]))
    >>> form, theta = BoostedForm.collect([stump], [0], n_features=2)
    >>> (trees,) = form.terms(theta)
    >>> shapley_values(trees, np.array([[0.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 3.0]])).tolist()
    [[0.0, 0.875]]
    """
    from marginrank.scorers.boosted.trees_kernel import add_shapley_values  # noqa: PLC0415

    rows, others = _compared(trees, X), _compared(trees, references)
    nodes = trees.feature, trees.threshold, trees.left, trees.missing_left, _parents(trees)
    output_of = np.full(len(trees.feature), -1, dtype=np.int64)
    output_of[trees.roots] = trees.outputs
    values = np.zeros(rows.shape)
    shares = np.empty((*others.shape, max(1, len(trees.grades))))
    sums, reference_sums = trees.output_sums(rows), trees.output_sums(others)
    for row, value in enumerate(values):
        shares[:] = 0.0
        add_shapley_values(rows[row], others, *nodes, output_of, trees.values, shares)
        gradients = _mean_gradients(trees.grades, reference_sums, sums[row])
        value[:] = np.einsum("rfo,ro->f", shares, gradients) / len(others)
    return values


def _compared(trees: TreesTerm, X: FloatArray) -> FloatArray:
    """Return features in the precision of comparisons with thresholds."""
    return np.ascontiguousarray(X.astype(np.float32) if trees.single else X, dtype=np.float64)


def _parents(trees: TreesTerm) -> IntArray:
    """Return the node above each node, −1 for roots."""
    parents, inner = np.full(len(trees.feature), -1, dtype=np.int64), np.flatnonzero(trees.feature >= 0)
    parents[trees.left[inner]] = parents[trees.right[inner]] = inner
    return parents


def _mean_gradients(grades: FloatArray, start: FloatArray, end: FloatArray) -> FloatArray:
    """Return the gradient of scores by outputs, averaged on the segment from each row of ``start`` to ``end``."""
    if not len(grades):
        return np.ones_like(start)
    gradients = np.zeros_like(start)
    for step, weight in _quadrature():
        shares = softmax(start + step * (end - start))
        gradients += weight * shares * (grades - (shares @ grades)[:, None])
    return gradients


@cache
def _quadrature() -> list[tuple[float, float]]:
    """Return points between 0 and 1 and their weights, by Gauss's rule."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    return list(zip(((1 + points) / 2).tolist(), (weights / 2).tolist(), strict=True))
