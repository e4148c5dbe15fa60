"""Rows down trees, and what their features add to the outputs."""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit


@njit()
def _leaf(X, row, node, feature, threshold, left, right, missing_left, single):  # type: ignore[no-untyped-def]
    """Return the number in θ of the leaf that a row of X comes to from a root."""
    while feature[node] >= 0:
        value = np.float64(X[row, feature[node]])
        if single:
            value = np.float64(np.float32(value))
        goes_left = missing_left[node] if np.isnan(value) else value <= threshold[node]
        node = left[node] if goes_left else right[node]
    return left[node]


@njit()
def add_trees(X, feature, threshold, left, right, roots, outputs, missing_left, theta, single, raw):  # type: ignore[no-untyped-def]
    """Add the leaf of each tree that a row of X comes to to the output of the tree."""
    for row in range(len(X)):
        for tree in range(len(roots)):
            leaf = _leaf(X, row, roots[tree], feature, threshold, left, right, missing_left, single)
            raw[row, outputs[tree]] += theta[leaf]


@njit()
def find_leaves(X, feature, threshold, left, right, roots, missing_left, single, leaves):  # type: ignore[no-untyped-def]
    """Write the number in θ of the leaf of each tree that a row of X comes to."""
    for row in range(len(X)):
        for tree in range(len(roots)):
            leaves[row, tree] = _leaf(X, row, roots[tree], feature, threshold, left, right, missing_left, single)


@njit()
def score_leaves(leaves, theta, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write the sums of the values of the leaves of some rows."""
    for row in range(start, stop):
        score = 0.0
        for tree in range(leaves.shape[1]):
            score += theta[leaves[row, tree]]
        scores[row] = score


@njit()
def add_slopes(leaves, slopes, start, stop, cells):  # type: ignore[no-untyped-def]
    """Add the slope of each of some rows to its leaves."""
    for row in range(start, stop):
        slope = slopes[row]
        if slope != 0.0:
            for tree in range(leaves.shape[1]):
                cells[leaves[row, tree]] += slope


@njit()
def add_shapley_values(x, references, feature, threshold, left, missing_left, parents, output_of, theta, shares):  # type: ignore[no-untyped-def]
    """Add the Shapley values of the features of x against each reference.

    A leaf is reached by a set of features with the values of x exactly if it holds all features that have to be those
    of x on the way (``n_own``) and none of those that have to be the reference's (``n_other``); such a game has the
    values (n_own − 1)! n_other! / (n_own + n_other)! and −n_own! (n_other − 1)! / (n_own + n_other)!.
    """
    side = np.zeros(len(x), np.int64)
    decided = np.empty(len(x), np.int64)
    for number in range(len(references)):
        reference = references[number]
        for leaf in range(len(feature)):
            if feature[leaf] >= 0:
                continue
            node, n_own, n_other, reached = leaf, 0, 0, True
            while reached and parents[node] >= 0:
                above = parents[node]
                asked = feature[above]
                leftward = left[above] == node
                own = (missing_left[above] if np.isnan(x[asked]) else x[asked] <= threshold[above]) == leftward
                value = reference[asked]
                other = (missing_left[above] if np.isnan(value) else value <= threshold[above]) == leftward
                node = above
                if own and other:
                    continue
                needed = 1 if own else -1
                reached = (own or other) and side[asked] != -needed
                if reached and side[asked] == 0:
                    side[asked] = needed
                    decided[n_own + n_other] = asked
                    if own:
                        n_own += 1
                    else:
                        n_other += 1
            n_decided = n_own + n_other
            if reached and n_decided and output_of[node] >= 0:
                # The reciprocals of binomial coefficients, without factorials that overflow.
                share = theta[left[leaf]]
                for taken in range(1, min(n_own, n_other) + 1):
                    share *= taken / (n_decided - taken + 1)
                for at in range(n_decided):
                    one = decided[at]
                    if side[one] > 0:
                        shares[number, one, output_of[node]] += share / n_own
                    else:
                        shares[number, one, output_of[node]] -= share / n_other
            for at in range(n_decided):
                side[decided[at]] = 0
