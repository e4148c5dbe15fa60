"""Leaves that rows reach, and Shapley values of features."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit


@njit()
def _leaf(X, row, node, feature, threshold, left, right, missing_left, single):  # type: ignore[no-untyped-def]
    """Return the index in θ of the leaf that a row of X reaches from a root."""
    while feature[node] >= 0:
        value = np.float64(X[row, feature[node]])
        if single:
            value = np.float64(np.float32(value))
        goes_left = missing_left[node] if np.isnan(value) else value <= threshold[node]
        node = left[node] if goes_left else right[node]
    return left[node]


@njit()
def add_trees(X, feature, threshold, left, right, roots, outputs, missing_left, theta, single, raw):  # type: ignore[no-untyped-def]
    """Add the value of the leaf that each row reaches to the output of the tree, for all trees."""
    for row in range(len(X)):
        for tree in range(len(roots)):
            leaf = _leaf(X, row, roots[tree], feature, threshold, left, right, missing_left, single)
            raw[row, outputs[tree]] += theta[leaf]


@njit()
def find_leaves(X, feature, threshold, left, right, roots, missing_left, single, leaves):  # type: ignore[no-untyped-def]
    """Write the index in θ of the leaf that each row reaches, for all trees."""
    for row in range(len(X)):
        for tree in range(len(roots)):
            leaves[row, tree] = _leaf(X, row, roots[tree], feature, threshold, left, right, missing_left, single)


@njit()
def score_leaves(leaves, theta, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write the sum of the values of the leaves of each row from ``start`` to ``stop``."""
    for row in range(start, stop):
        score = 0.0
        for tree in range(leaves.shape[1]):
            score += theta[leaves[row, tree]]
        scores[row] = score


@njit()
def add_gradients(leaves, gradient, start, stop, gradient_sums):  # type: ignore[no-untyped-def]
    """Add the gradient of each row from ``start`` to ``stop`` to the sums of its leaves."""
    for row in range(start, stop):
        value = gradient[row]
        if value != 0.0:
            for tree in range(leaves.shape[1]):
                gradient_sums[leaves[row, tree]] += value


@njit()
def add_shapley_values(x, references, feature, threshold, left, missing_left, parents, output_of, theta, shares):  # type: ignore[no-untyped-def]
    """Add the Shapley values of the features of x against each reference.

    A set of features with the values of x reaches a leaf exactly if it holds all features whose values have to be those
    of x on the path (``n_x``) and none of those that have to be the reference's (``n_reference``); such a game has the
    values (n_x − 1)! n_reference! / (n_x + n_reference)! and −n_x! (n_reference − 1)! / (n_x + n_reference)!.
    """
    side = np.zeros(len(x), np.int64)
    decided = np.empty(len(x), np.int64)
    for number in range(len(references)):
        reference = references[number]
        for leaf in range(len(feature)):
            if feature[leaf] >= 0:
                continue
            node, n_x, n_reference, reached = leaf, 0, 0, True
            while reached and parents[node] >= 0:
                above = parents[node]
                split = feature[above]
                leftward = left[above] == node
                x_agrees = (missing_left[above] if np.isnan(x[split]) else x[split] <= threshold[above]) == leftward
                value = reference[split]
                reference_agrees = (missing_left[above] if np.isnan(value) else value <= threshold[above]) == leftward
                node = above
                if x_agrees and reference_agrees:
                    continue
                needed = 1 if x_agrees else -1
                reached = (x_agrees or reference_agrees) and side[split] != -needed
                if reached and side[split] == 0:
                    side[split] = needed
                    decided[n_x + n_reference] = split
                    if x_agrees:
                        n_x += 1
                    else:
                        n_reference += 1
            n_decided = n_x + n_reference
            if reached and n_decided and output_of[node] >= 0:
                # The reciprocals of binomial coefficients, without factorials that overflow.
                share = theta[left[leaf]]
                for taken in range(1, min(n_x, n_reference) + 1):
                    share *= taken / (n_decided - taken + 1)
                for at in range(n_decided):
                    decided_feature = decided[at]
                    if side[decided_feature] > 0:
                        shares[number, decided_feature, output_of[node]] += share / n_x
                    else:
                        shares[number, decided_feature, output_of[node]] -= share / n_reference
            for at in range(n_decided):
                side[decided[at]] = 0
