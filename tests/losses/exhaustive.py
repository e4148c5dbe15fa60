"""Structured losses by going through every ranking, straight from the definitions."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from itertools import permutations

import numpy as np

from marginrank.losses.feature_maps import FirstRelevant, PartialOrder, Positional
from marginrank.measures import BinaryMeasure
from tests.measures.reference import REFERENCE


def worth(measure, grades):
    """What the measure can tell apart: relevance, or gain."""
    values = np.asarray(grades, dtype=float)
    if isinstance(measure, BinaryMeasure):
        return (values >= measure.threshold).astype(float)
    if measure.name == "err":
        return measure.stops(values)
    return measure.gains(values, np.full(len(values), values.max(initial=0.0)))


def delta(measure, grades, order):
    return _loss_of(measure, tuple(grades[d] for d in order))


@cache
def _loss_of(measure, sequence):
    """Return the loss of grades from first to last; many rankings have the same."""
    value, options = REFERENCE[measure.name], asdict(measure)
    return value(sorted(sequence, reverse=True), **options) - value(list(sequence), **options)


@cache
def _every_order(n):
    """Return all rankings of documents, from first to last, and the rank of each document in them."""
    orders = np.array(list(permutations(range(n))))
    return orders, np.argsort(orders, axis=1)


def coefficients(feature_map, measure, levels, order):
    """a(y) of a ranking, given as the documents from first to last."""
    n = len(levels)
    a = np.zeros(n)
    if isinstance(feature_map, PartialOrder):
        pairs = sum(levels[i] != levels[j] for i in range(n) for j in range(i))
        scale = 1 / pairs if feature_map.scale == "pairs" else 2 / (n * (n - 1))
        for rank, document in enumerate(order):
            after = sum(levels[other] != levels[document] for other in order[rank + 1 :])
            before = sum(levels[other] != levels[document] for other in order[:rank])
            a[document] = (after - before) * scale
    elif isinstance(feature_map, FirstRelevant):
        first = next(rank for rank, document in enumerate(order) if levels[document] > 0)
        a[order[first]] = -first
        a[list(order[:first])] = 1
    else:
        profile = feature_map.profile(n, measure) / (n if feature_map.shape == "linear" else 1)
        a[list(order)] = profile
    return a


@cache
def _every_coefficients(feature_map, measure, levels):
    """Return a(y) of every ranking, one by one; see `_what_counts`."""
    return np.array([coefficients(feature_map, measure, levels, order) for order in permutations(range(len(levels)))])


def _what_counts(feature_map, measure, levels):
    """Return what a(y) depends on: the levels, or their number and the discounts of the measure."""
    positional = isinstance(feature_map, Positional)
    return (feature_map, measure, (0.0,) * len(levels)) if positional else (feature_map, None, tuple(levels.tolist()))


def exhaustive(measure, feature_map, grades, scores):
    """Hinge, tight bound, and the loss of the worst ranking that sorts by score."""
    levels = worth(measure, grades)
    scores = np.asarray(scores, dtype=float)
    n = len(scores)
    if len(set(levels.tolist())) < 2:
        return 0.0, 0.0, 0.0
    orders, _ = _every_order(n)
    ideal = sorted(range(n), key=lambda d: -levels[d])
    value = _every_coefficients(*_what_counts(feature_map, measure, levels)) @ scores
    losses = _every_loss(measure, tuple(grades))
    most = (value + losses).max()
    hinge = most - coefficients(feature_map, measure, levels, ideal) @ scores
    worst = losses[(np.diff(scores[orders], axis=1) <= 0).all(axis=1)].max()
    return hinge, most - value.max(), worst


@cache
def _every_loss(measure, grades):
    """Return the loss of every ranking, each sequence of grades once."""
    orders, _ = _every_order(len(grades))
    sequences, which = np.unique(np.asarray(grades)[orders], axis=0, return_inverse=True)
    losses = [delta(measure, sequence.tolist(), range(len(grades))) for sequence in sequences]
    return np.array(losses)[which.ravel()]


@cache
def _coefficients_at_once(feature_map, measure, levels):
    """Return a(y) of every ranking, in arrays; see `_what_counts`."""
    n, (_, ranks), values = len(levels), _every_order(len(levels)), np.array(levels)
    if isinstance(feature_map, FirstRelevant):
        return _every_coefficients(feature_map, measure, levels) if any(levels) else ranks
    if isinstance(feature_map, PartialOrder):
        other = values[:, None] != values[None, :]
        pairs = other.sum() / 2 if feature_map.scale == "pairs" else n * (n - 1) / 2
        after = np.sign(ranks[:, None, :] - ranks[:, :, None])
        return (after * other).sum(axis=2) / max(pairs, 1)
    return feature_map.profile(n, measure)[ranks] / (n if feature_map.shape == "linear" else 1)


def every_coefficients(feature_map, measure, levels):
    """Return all rankings, from first to last, and a(y) of each."""
    return _every_order(len(levels))[0], _coefficients_at_once(*_what_counts(feature_map, measure, levels))


class EveryRanking:
    """Loss and coefficients of all rankings of a query, in arrays."""

    def __init__(self, measure, feature_map, grades):
        levels = worth(measure, grades)
        _, ranks = _every_order(len(grades))
        ideal = np.argsort(np.argsort(-levels, kind="stable"))
        self.one_level = len(set(levels.tolist())) < 2
        self.losses = _every_loss(measure, tuple(np.asarray(grades).tolist()))
        self.coefficients = _coefficients_at_once(*_what_counts(feature_map, measure, levels))
        self.ideal = int(np.flatnonzero((ranks == ideal).all(axis=1))[0])

    def bounds(self, scores):
        """Hinge and tight bound at some scores."""
        if self.one_level:
            return 0.0, 0.0
        value = self.coefficients @ scores
        most = (self.losses + value).max()
        return most - value[self.ideal], most - value.max()
