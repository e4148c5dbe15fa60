"""The ideal ranking y*: how its ties are broken, and what the order of rows may not change."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
import scipy.sparse as sp

from marginrank import Queries
from marginrank.losses import (
    CostLoss,
    GroupedLoss,
    ModifiedWTA,
    SlackLoss,
    SmoothedHinge,
    StructuredLoss,
    SumLoss,
    parse_map,
)
from marginrank.measures import parse_measure
from marginrank.preparation import Standardize
from marginrank.solvers import Bundle
from marginrank.training.partitioned_risk import empirical_risk
from tests.losses.exhaustive import coefficients, exhaustive, worth

LOSSES = [
    StructuredLoss("ndcg@5", "dorm"),
    StructuredLoss("ap", "dorm(shape=log)"),
    SlackLoss("ndcg@3", "dorm"),
    SlackLoss("p@2", "dorm"),
    SmoothedHinge("ap", "dorm"),
    ModifiedWTA(),
    GroupedLoss("ndcg@3"),
    CostLoss(lambda grades: np.outer(np.minimum(grades, 1.0), np.arange(len(grades)))),
    SumLoss((StructuredLoss("auc"), StructuredLoss("ndcg@5", "dorm"))),
]


def noisy_queries(rng, n_queries=40, n=20):
    """Grades that one feature explains, beside a feature of pure noise by which the rows of each query are sorted."""
    X = rng.standard_normal((n_queries, n, 2))
    noise = X[:, :, 1]
    noise[:] = -np.sort(-noise, axis=1)
    grades = np.digitize(X[:, :, 0] + 0.5 * rng.standard_normal((n_queries, n)), [0.8, 1.6])
    groups = rng.integers(0, n // 2, n_queries * n)
    return Queries.from_arrays(X.reshape(-1, 2), grades.ravel(), group=[n] * n_queries, document_groups=groups)


def shuffled(queries, rng):
    """The same queries, each with its rows in another order; and the rows."""
    rows = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(queries.offsets)])
    other = Queries.from_arrays(
        queries.X[rows], queries.grades[rows], group=queries.lengths, document_groups=queries.document_groups[rows]
    )
    return other, rows


def trained(queries, loss, C=10.0):
    risk = empirical_risk(queries, loss, n_jobs=1)
    return Bundle(tol=1e-4).minimize(risk, C).theta


def test_the_hinge_does_not_learn_the_order_of_the_file():
    queries = noisy_queries(np.random.default_rng(0), n_queries=200)
    by_rows = trained(queries, StructuredLoss("ndcg@10", "dorm", groups="ignore", ideal="rows"))
    at_random = trained(queries, StructuredLoss("ndcg@10", "dorm", groups="ignore"))
    assert by_rows[1] > 0.08, "rows sorted by noise give it a weight: what the default is there to avoid"
    assert abs(at_random[1]) < 0.02
    assert at_random[0] > 0.3


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_order_of_rows_inside_queries_changes_nothing(loss):
    rng = np.random.default_rng(1)
    queries = noisy_queries(rng)
    other, rows = shuffled(queries, rng)
    scores = queries.X @ np.array([0.7, -0.2])
    xi, gradient = loss.prepare(queries)(scores)
    moved_xi, moved_gradient = loss.prepare(other)(scores[rows])
    np.testing.assert_allclose(moved_xi, xi, atol=1e-12)
    np.testing.assert_allclose(moved_gradient, gradient[rows], atol=1e-12)


def test_scaled_and_sparse_features_keep_the_random_order():
    rng = np.random.default_rng(2)
    queries = noisy_queries(rng)
    other, rows = shuffled(queries, rng)
    loss, scores = StructuredLoss("ndcg@5", "dorm", groups="ignore"), queries.X @ np.array([0.5, 0.1])
    xi = loss.prepare(queries)(scores)[0]
    # Means differ in their last digits with the order of the rows, and so do the features that are made with them.
    np.testing.assert_allclose(loss.prepare(Standardize().fit_transform(other))(scores[rows])[0], xi, atol=1e-12)
    binned = queries.without_features()
    assert binned.n_features == 0
    np.testing.assert_array_equal(loss.prepare(binned)(scores)[0], xi)
    np.testing.assert_array_equal(loss.prepare(binned[3:9])(scores[60:180])[0], xi[3:9])
    sparse = Queries.from_arrays(sp.csr_array(queries.X), queries.grades, group=queries.lengths)
    np.testing.assert_array_equal(loss.prepare(sparse)(scores)[0], xi)


def hinges_of_all_ideals(measure, feature_map, grades, scores):
    """The hinge with every ideal ranking in turn."""
    measure, feature_map = parse_measure(measure), parse_map(feature_map)
    levels = worth(measure, grades)
    hinge, _, _ = exhaustive(measure, feature_map, grades, scores)
    first = sorted(range(len(grades)), key=lambda d: -levels[d])
    base = coefficients(feature_map, measure, levels, first) @ scores
    best = sorted(levels.tolist(), reverse=True)
    ideals = [order for order in permutations(range(len(grades))) if levels[list(order)].tolist() == best]
    return [hinge + base - coefficients(feature_map, measure, levels, order) @ scores for order in ideals]


@pytest.mark.parametrize("feature_map", ["dorm", "dorm(shape=log)"])
def test_random_ideals_are_ideal_and_all_equally_likely(feature_map):
    rng = np.random.default_rng(3)
    for grades in ([1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [2.0, 1.0, 1.0, 0.0]):
        scores = rng.standard_normal(len(grades))
        possible = hinges_of_all_ideals("ndcg@3", feature_map, grades, scores)
        losses = [StructuredLoss("ndcg@3", feature_map, seed=seed) for seed in range(200)]
        xi = np.array([loss(grades, scores)[0][0] for loss in losses])
        np.testing.assert_allclose(np.unique(xi.round(9)), np.unique(np.round(possible, 9)), atol=1e-8)
        assert xi.mean() == pytest.approx(np.mean(possible), abs=4 * np.std(possible) / np.sqrt(200))


def test_an_ideal_that_follows_the_scores_is_the_best_of_all():
    rng = np.random.default_rng(4)
    for _ in range(20):
        grades, scores = rng.permutation([0.0, 0.0, 1.0, 1.0, 2.0]), rng.standard_normal(5)
        xi = StructuredLoss("ndcg@3", "dorm", ideal="scores")(grades, scores)[0][0]
        assert xi == pytest.approx(min(hinges_of_all_ideals("ndcg@3", "dorm", grades, scores)), abs=1e-9)


def test_the_partial_order_and_the_first_relevant_document_have_no_ties_to_break():
    for loss in (StructuredLoss("ap", ideal="scores"), StructuredLoss("rr", "mrr", ideal="scores")):
        assert loss.convex
        assert loss.majorant is None


def test_features_are_hashed_only_where_keys_are_needed():
    queries = noisy_queries(np.random.default_rng(5))
    for loss in (StructuredLoss("ap"), StructuredLoss("ap", "dorm", ideal="rows"), StructuredLoss("rr", "mrr")):
        loss.prepare(queries)
        assert "document_keys" not in vars(queries)
    StructuredLoss("ap", "dorm").prepare(queries)
    assert "document_keys" in vars(queries)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StructuredLoss("ap", ideal="best"), "ideal is 'best'; choose 'random', 'rows' or 'scores'"),
        (lambda: SlackLoss("ap", "dorm", ideal="scores"), "no known majorant; choose 'random' or 'rows'"),
        (lambda: CostLoss(np.diag, ideal="scores"), "choose ideal='random' or 'rows'"),
        (lambda: GroupedLoss("dcg@2", bound="loose"), "bound is 'loose'; choose 'hinge' or 'tight'"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
