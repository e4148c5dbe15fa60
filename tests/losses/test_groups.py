"""Losses with at most one document of each group in a ranking, against all such rankings."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.losses import GroupedLoss, StructuredLoss, parse_map
from marginrank.measures import parse_measure

from .exhaustive import worth

MEASURES = ("eru", "ndcg", "dcg(gain=linear)", "rbp", "ndcg@2", "rr", "rr@2", "p@3")
SHAPES = ("sqrt", "log", (2.0, 2.0, 1.0, 0.0))


def rankings(groups, k):
    """All rankings of k documents of different groups."""
    return [order for order in permutations(range(len(groups)), k) if len({groups[d] for d in order}) == k]


def by_definition(measure, shape, grades, groups, scores):
    """Tight bound and loss of the best ranking, from all rankings with one document of each group."""
    kind = parse_measure(measure)
    gains, n_groups = worth(kind, grades), len(set(groups.tolist()))
    k = min(kind.depth or n_groups, n_groups)
    profile = parse_map(np.array(shape) if isinstance(shape, tuple) else f"dorm(shape={shape})").profile(k, kind)
    discounts = kind.discounts(k)

    def value(order):
        if kind.first_only:
            return next((discounts[rank] for rank, d in enumerate(order) if gains[d] > 0), 0.0)
        return gains[list(order)] @ discounts

    orders = rankings(groups, k)
    values = np.array([value(order) for order in orders])
    # For measures that divide by what the ideal ranking, or all documents, are worth.
    divisor = 1.0 if kind.first_only else kind.divisor(ideal=values.max(), total=gains.sum()) or 1.0
    losses = (values.max() - values) / divisor
    margins = np.array([profile @ scores[list(order)] for order in orders])
    return (losses + margins).max() - margins.max(), (losses + margins).max(), margins, values


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("measure", MEASURES)
def test_the_argmax_is_the_best_of_all_rankings(measure, shape):
    rng, worst, compared = np.random.default_rng(0), 0.0, 0
    tight, hinge = (GroupedLoss(measure, shape, bound, ideal="rows") for bound in ("tight", "hinge"))
    for _ in range(60):
        n = int(rng.integers(2, 7))
        grades, groups = rng.integers(0, 3, n).astype(float), rng.integers(0, n, n)
        scores = rng.normal(0, rng.choice([0.1, 1.0, 5.0]), n).round(1)
        if len(set(worth(parse_measure(measure), grades).tolist())) < 2:
            continue
        expected, most, margins, values = by_definition(measure, shape, grades, groups, scores)
        (xi,), gradient = tight(grades, scores, groups=groups)
        worst, compared = max(worst, abs(xi - expected)), compared + 1
        (above,), slope = hinge(grades, scores, groups=groups)
        # y* is one of the rankings with the largest value.
        ideal = most - above
        assert np.abs(margins[values > values.max() - 1e-12] - ideal).min() < 1e-9
        other = scores + rng.standard_normal(n)
        assert hinge(grades, other, groups=groups)[0][0] >= above + slope @ (other - scores) - 1e-9
        assert np.isfinite(gradient).all()
    assert worst < 1e-9
    assert compared > 30


@pytest.mark.parametrize("measure", ["rr", "eru", "rr@3"])
def test_the_structured_loss_trains_with_groups(measure):
    rng = np.random.default_rng(1)
    X, grades = rng.standard_normal((80, 3)), rng.integers(0, 2, 80)
    queries = Queries.from_arrays(X, grades, group=[8] * 10, document_groups=rng.integers(0, 4, 80))
    loss = StructuredLoss(measure, "dorm", groups="require")
    found, same = loss.prepare(queries)(X[:, 0]), GroupedLoss(measure).prepare(queries)(X[:, 0])
    np.testing.assert_array_equal(found[0], same[0])
    np.testing.assert_array_equal(found[1], same[1])
    assert not np.allclose(found[0], StructuredLoss(measure, "dorm", groups="ignore").prepare(queries)(X[:, 0])[0])
    ranker = Ranker(loss, bound="tight").fit(queries)
    assert np.isfinite(ranker.coef_).all()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda: StructuredLoss("ap", "dorm", groups="require"), "groups need a sum over ranks, .* not ap"),
        (lambda: StructuredLoss("ndcg@5", "po", groups="require"), "groups need the feature map dorm, not po"),
        (lambda: StructuredLoss("rr", "mrr", groups="require"), "groups need the feature map dorm, not mrr"),
        (lambda: GroupedLoss("ap"), "which document stands for a group changes"),
        (lambda: GroupedLoss("eru", "linear"), "the profile linear falls below 0"),
    ],
)
def test_what_has_no_argmax_with_groups_is_refused_with_the_reason(loss, message):
    with pytest.raises(ValueError, match=message):
        loss()
