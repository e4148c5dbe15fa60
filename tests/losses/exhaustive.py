"""Structured losses by going through every ranking, straight from the definitions."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from itertools import pairwise, permutations

import numpy as np

from marginrank.losses.feature_maps import FirstRelevant, PartialOrder
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


def exhaustive(measure, feature_map, grades, scores):
    """Hinge, tight bound, and the loss of the worst ranking that sorts by score."""
    levels = worth(measure, grades)
    scores = np.asarray(scores, dtype=float)
    n = len(scores)
    if len(set(levels.tolist())) < 2:
        return 0.0, 0.0, 0.0
    orders = list(permutations(range(n)))
    ideal = sorted(range(n), key=lambda d: -levels[d])
    value = [coefficients(feature_map, measure, levels, order) @ scores for order in orders]
    losses = [delta(measure, grades, order) for order in orders]
    most = max(v + loss for v, loss in zip(value, losses, strict=True))
    hinge = most - coefficients(feature_map, measure, levels, ideal) @ scores
    worst = max(
        loss
        for order, loss in zip(orders, losses, strict=True)
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    )
    return hinge, most - max(value), worst


class EveryRanking:
    """Loss and coefficients of all rankings of a query, in arrays."""

    def __init__(self, measure, feature_map, grades):
        levels, n = worth(measure, grades), len(grades)
        orders, ranks = _every_order(n)
        ideal = np.argsort(np.argsort(-levels, kind="stable"))
        self.one_level = len(set(levels.tolist())) < 2
        sequences, which = np.unique(np.asarray(grades)[orders], axis=0, return_inverse=True)
        losses = [delta(measure, sequence.tolist(), range(n)) for sequence in sequences]
        self.losses = np.array(losses)[which.ravel()]
        self.coefficients = self._coefficients(feature_map, measure, levels, ranks)
        self.ideal = int(np.flatnonzero((ranks == ideal).all(axis=1))[0])

    @staticmethod
    def _coefficients(feature_map, measure, levels, ranks):
        n = len(levels)
        if isinstance(feature_map, FirstRelevant):
            return np.array(
                [coefficients(feature_map, measure, levels, np.argsort(r).tolist()) for r in ranks]
                if levels.any()
                else ranks
            )
        if isinstance(feature_map, PartialOrder):
            other = levels[:, None] != levels[None, :]
            pairs = other.sum() / 2 if feature_map.scale == "pairs" else n * (n - 1) / 2
            after = np.sign(ranks[:, None, :] - ranks[:, :, None])
            return (after * other).sum(axis=2) / max(pairs, 1)
        return feature_map.profile(n, measure)[ranks] / (n if feature_map.shape == "linear" else 1)

    def bounds(self, scores):
        """Hinge and tight bound at some scores."""
        if self.one_level:
            return 0.0, 0.0
        value = self.coefficients @ scores
        most = (self.losses + value).max()
        return most - value[self.ideal], most - value.max()
