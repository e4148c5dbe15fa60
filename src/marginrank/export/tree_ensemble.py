"""Scoring functions as sums of trees over raw features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from marginrank.preparation.scaling_formulas import standardized
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import Curve, CurvesTerm, LinearTerm, TreesTerm
from marginrank.typing import FloatArray

_SIGN: Final = np.int64(-(2**63))
_LARGEST: Final = np.finfo(np.float64).max


class Weighted(NamedTuple):
    """A feature with a weight: ``weight · (x − origin)``, or ``missing`` if it is missing; None if it may not be."""

    feature: int
    weight: float
    origin: float
    missing: float | None


class Leaf(NamedTuple):
    """The value at the end of a way."""

    value: float


class LinearLeaf(NamedTuple):
    """A value on a line: ``value + slope · (x − origin)`` of a feature."""

    feature: int
    value: float
    slope: float
    origin: float


class Split(NamedTuple):
    """A split: left if the feature is at most the threshold, or missing and ``missing_left``.

    With the threshold −inf and ``missing_left``, only missing values go left.
    """

    feature: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node


Node: TypeAlias = Split | Leaf | LinearLeaf


def weights_of(function: ScoringFunction) -> list[Weighted]:
    """Return the weights of raw features, if a term is linear; features without effect are left out."""
    weighted = []
    for term in function.terms:
        if not isinstance(term, LinearTerm):
            continue
        flags = dict(zip(term.flagged.tolist(), term.flag_weights.tolist(), strict=True))
        for feature, weight in enumerate(term.weights.tolist()):
            origin, scale = affine(function, feature)
            slope = weight / scale if scale else 0.0
            missing = None
            if term.raw_fill is not None:
                missing = slope * (float(term.raw_fill[feature]) - origin)
            elif term.fill is not None:
                missing = weight * float(term.fill[feature]) + flags.get(feature, 0.0)
            if slope or missing:
                weighted.append(Weighted(feature, slope, origin, missing))
    return weighted


def filled_otherwise_than_zero(function: ScoringFunction) -> list[int]:
    """Return the numbers of the features for which a model learned to score a missing value otherwise than 0.

    Curves without a bin for missing values, whose training data had none, learned nothing about them.
    """
    if not function.takes_nan:
        return []
    features = {
        feature
        for feature, weight, origin, missing in weights_of(function)
        if missing is not None and not isclose(missing, -weight * origin, rel_tol=1e-9, abs_tol=1e-12)
    }
    for tree in _trees_that_know_missing(function):
        features |= {
            feature for feature in used_features([tree]) if _fixed(tree, feature, np.nan) != _fixed(tree, feature, 0.0)
        }
    return sorted(features)


def _trees_that_know_missing(function: ScoringFunction) -> Iterator[Node]:
    for term in function.terms:
        if isinstance(term, CurvesTerm):
            curves = enumerate(term.curves)
            yield from (_curve(function, *pair) for pair in curves if pair[1].missing != pair[1].values[0])
        elif isinstance(term, TreesTerm):
            yield from forest(function, term)


def _fixed(tree: Node, feature: int, x: float) -> Node:
    """Return what a tree becomes if the value of a feature is known."""
    if isinstance(tree, LinearLeaf) and tree.feature == feature:
        return Leaf(tree.value + tree.slope * (x - tree.origin))
    if not isinstance(tree, Split):
        return tree
    if tree.feature == feature:
        goes_left = tree.missing_left if np.isnan(x) else x <= tree.threshold
        return _fixed(tree.left if goes_left else tree.right, feature, x)
    return tree._replace(left=_fixed(tree.left, feature, x), right=_fixed(tree.right, feature, x))


def affine(function: ScoringFunction, feature: int) -> tuple[float, float]:
    """Return what is taken from a feature and what it is then divided by; 0 if it becomes 0."""
    if function.mean is None or function.scale is None:
        return 0.0, 1.0
    return float(function.mean[feature]), float(function.scale[feature])


def forest_of(function: ScoringFunction) -> list[Node]:
    """Return the trees of a function for formats that want at least one."""
    return trees_of(function) or [Leaf(0.0)]


def trees_of(function: ScoringFunction) -> list[Node]:
    """Return trees over raw features that add up to the terms that are curves or trees."""
    trees: list[Node] = []
    for term in function.terms:
        if isinstance(term, CurvesTerm):
            trees += [
                _curve(function, feature, curve)
                for feature, curve in enumerate(term.curves)
                if len(curve.thresholds) or curve.missing
            ]
        elif isinstance(term, TreesTerm):
            trees += forest(function, term)
    return trees


def _curve(function: ScoringFunction, feature: int, curve: Curve) -> Node:
    """Return a curve as one tree, its thresholds halved again and again."""
    knots = curve.thresholds if curve.start is None else np.r_[curve.start, curve.thresholds]
    cuts = _thresholds(function, feature, knots, single=False).tolist()
    origin, scale = affine(function, feature)
    values = curve.values.tolist()

    def piece(cell: int) -> Node:
        if curve.start is None:
            return Leaf(values[cell])
        if cell in (0, len(knots)):
            return Leaf(values[max(0, cell - 1)])
        low = float(knots[cell - 1])
        slope = (values[cell] - values[cell - 1]) / (float(knots[cell]) - low)
        if not scale:
            return Leaf(values[cell - 1] - slope * low)
        return LinearLeaf(feature, values[cell - 1], slope / scale, low * scale + origin)

    def between(first: int, last: int) -> Node:
        if first == last:
            return piece(first)
        middle = (first + last) // 2
        return Split(feature, cuts[middle], True, between(first, middle), between(middle + 1, last))

    tree = between(0, len(knots))
    # Without a bin for NaN, it exceeds no threshold: it goes left to the first value.
    return tree if curve.missing == values[0] else Split(feature, -np.inf, True, Leaf(curve.missing), tree)


def forest(function: ScoringFunction, term: TreesTerm) -> list[Node]:
    """Return the trees of a term, with thresholds for raw features."""
    raw = term.threshold.copy()
    for feature in range(function.n_features):
        splits = term.feature == feature
        raw[splits] = _thresholds(function, feature, raw[splits], single=term.single)
    missing_left = term.missing_left if len(term.missing_left) else np.zeros(len(raw), dtype=np.bool_)
    if function.raw_fill is not None:
        missing_left = function.raw_fill[term.feature] <= raw

    def build(node: int) -> Node:
        if term.feature[node] < 0:
            return Leaf(float(term.values[term.left[node]]))
        left, right = build(int(term.left[node])), build(int(term.right[node]))
        return Split(int(term.feature[node]), float(raw[node]), bool(missing_left[node]), left, right)

    return [build(root) for root in term.roots.tolist()]


def _thresholds(function: ScoringFunction, feature: int, thresholds: FloatArray, *, single: bool) -> FloatArray:
    """Return thresholds of a raw feature that divide it as the given ones divide what is made of it."""
    mean, scale = function.mean, function.scale
    if mean is None or scale is None:
        return exact_thresholds(thresholds, _rounded) if single else thresholds

    def scaled(x: FloatArray) -> FloatArray:
        value = standardized(x[:, None], mean[feature : feature + 1], scale[feature : feature + 1])[:, 0]
        return _rounded(value) if single else value

    return exact_thresholds(thresholds, scaled)


def _rounded(x: FloatArray) -> FloatArray:
    return x.astype(np.float32).astype(np.float64)


def exact_thresholds(thresholds: FloatArray, change: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the largest x with change(x) at most each threshold, for a function that never falls; ±inf if all or none.

    >>> exact_thresholds(np.array([1.0, -2.0]), lambda x: x / 4).tolist()
    [4.0, -8.0]
    """
    low, high = (np.full(len(thresholds), _key(np.array([end]))[0]) for end in (-_LARGEST, _LARGEST))
    with np.errstate(over="ignore", invalid="ignore"):
        none = change(np.full(len(thresholds), -_LARGEST)) > thresholds
        every = change(np.full(len(thresholds), _LARGEST)) <= thresholds
        for _ in range(64):
            # Halves, as the sum of two keys can be beyond int64.
            middle = low // 2 + high // 2 + (low % 2 + high % 2 + 1) // 2
            below = change(_number(middle)) <= thresholds
            low, high = np.where(below, middle, low), np.where(below, high, middle - 1)
            high = np.maximum(low, high)
    return np.where(none, -np.inf, np.where(every, np.inf, _number(low)))


def _key(x: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return integers in the order of the numbers."""
    bits = x.view(np.int64)
    return np.where(bits < 0, _SIGN - bits, bits)


def _number(key: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    return np.where(key < 0, _SIGN - key, key).view(np.float64)


def single_bound(threshold: float) -> float:
    """Return the smallest float32 above a threshold: x ≤ t is x < bound, for every x of float32.

    >>> single_bound(0.5) > 0.5, single_bound(float("-inf")) < -3.4e38
    (True, True)
    """
    largest = float(np.finfo(np.float32).max)
    if threshold >= largest:
        return largest
    if threshold < -largest:
        return -largest
    bound = np.float32(threshold)
    return float(bound if float(bound) > threshold else np.nextafter(bound, np.float32(np.inf)))


def depth_first(tree: Node) -> list[Node]:
    """List the nodes of a tree, parents before children, left before right."""
    nodes, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if isinstance(node, Split):
            waiting += [node.right, node.left]
    return nodes


def level_by_level(tree: Node) -> list[Node]:
    """List the nodes of a tree, level by level, each right child after its left sibling."""
    nodes = [tree]
    for node in nodes:
        if isinstance(node, Split):
            nodes += [node.left, node.right]
    return nodes


def used_features(trees: Sequence[Node]) -> list[int]:
    """Return the numbers of the features that trees ask for."""
    return sorted({node.feature for tree in trees for node in depth_first(tree) if not isinstance(node, Leaf)})
