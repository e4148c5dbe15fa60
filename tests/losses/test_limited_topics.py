"""Losses of rankings with limited topics, against all rankings within the limits."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from marginrank import Queries, Ranker, load
from marginrank.errors import DataError
from marginrank.losses import GroupedLoss


def random_query(rng):
    n, k = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    grades, scores = rng.integers(0, 3, n).astype(float), np.round(rng.standard_normal(n), 2)
    weights = rng.integers(0, 11, (n, 2)) / 10 * (rng.random((n, 2)) < 0.7)
    return grades, scores, weights, k, float(rng.choice([0.5, 1.0, 1.5]))


def rankings(weights, k, limit):
    """Rankings of as many documents as fit among the first k ranks."""
    fits = [
        order
        for size in range(min(k, len(weights)) + 1)
        for order in permutations(range(len(weights)), size)
        if (weights[list(order)].sum(axis=0) <= limit + 1e-9).all()
    ]
    most = max(len(order) for order in fits)
    return [list(order) for order in fits if len(order) == most]


def dcg(order, gains):
    return sum(gains[i] / np.log2(2 + rank) for rank, i in enumerate(order))


def psi(order, scores):
    return sum(scores[i] / np.sqrt(1 + rank) for rank, i in enumerate(order))


def loss_of(weights, k, limit, **options):
    topics = {f"d{i}": dict(zip("xy", row, strict=True)) for i, row in enumerate(weights.tolist())}
    return GroupedLoss(f"ndcg@{k}", topics=topics, limit=limit, **options)


def test_the_argmax_is_that_of_all_rankings():
    rng = np.random.default_rng(0)
    limited = worst_difference = 0
    for _ in range(400):
        grades, scores, weights, k, limit = random_query(rng)
        groups, gains = [f"d{i}" for i in range(len(grades))], 2**grades - 1
        allowed = rankings(weights, k, limit)
        best = max(dcg(order, gains) for order in allowed)
        (tight,), _ = loss_of(weights, k, limit, bound="tight")(grades, scores, groups=groups)
        (hinge,), gradient = loss_of(weights, k, limit)(grades, scores, groups=groups)
        if len(set(grades)) == 1 or not allowed[0]:
            assert tight == hinge == 0 == np.abs(gradient).sum()
            continue
        gains = gains / (best or 1.0)
        violation = max((max(dcg(y, gains) for y in allowed) - dcg(y, gains)) + psi(y, scores) for y in allowed)
        assert tight == pytest.approx(violation - max(psi(y, scores) for y in allowed), abs=1e-9)
        highest = max(dcg(y, gains) for y in allowed)
        ideals = [psi(y, scores) for y in allowed if dcg(y, gains) > highest - 1e-9]
        assert min(abs(violation - ideal - hinge) for ideal in ideals) < 1e-9
        worst_difference = max(worst_difference, min(abs(violation - ideal - hinge) for ideal in ideals))
        limited += len(allowed) < len(list(permutations(range(len(grades)), len(allowed[0]))))
        ahead = loss_of(weights, k, limit)(grades, scores + 0.3, groups=groups)[0][0]
        assert ahead == pytest.approx(hinge, abs=1e-9)
        assert gradient.sum() == pytest.approx(0.0, abs=1e-12)
    assert limited > 150
    assert worst_difference < 1e-12


def test_the_hinge_is_convex_and_its_gradient_a_subgradient():
    rng = np.random.default_rng(1)
    for _ in range(40):
        grades, scores, weights, k, limit = random_query(rng)
        groups, other = [f"d{i}" for i in range(len(grades))], rng.standard_normal(len(grades))
        prepared = loss_of(weights, k, limit).prepare(grades, groups=groups)
        (here,), gradient = prepared(scores)
        (there,), _ = prepared(other)
        assert there >= here + gradient @ (other - scores) - 1e-9


def test_disjoint_topics_of_weight_one_are_groups():
    rng = np.random.default_rng(2)
    topics = {name: {name: 1.0} for name in "abcd"}
    for _ in range(60):
        grades, scores, groups = rng.integers(0, 3, 7), rng.standard_normal(7), rng.choice(list("abcd"), 7)
        plain, _ = GroupedLoss("dcg@2", bound="tight")(grades, scores, groups=groups)
        limited, _ = GroupedLoss("dcg@2", bound="tight", topics=topics)(grades, scores, groups=groups)
        if len(set(groups)) > 1:
            assert limited[0] == pytest.approx(plain[0], abs=1e-9)


def test_a_ranker_trains_to_its_certificate_whatever_the_order_of_rows(tmp_path):
    rng = np.random.default_rng(3)
    X, qid = rng.standard_normal((48, 3)), np.repeat(np.arange(8), 6)
    grades, groups = (X[:, 0] + 0.5 * rng.standard_normal(48) > 0).astype(int), rng.choice(["a", "b", "c"], 48)
    loss = GroupedLoss("ndcg@3", topics={"a": {"s": 0.7}, "b": {"s": 0.5, "t": 0.5}, "c": {"t": 1.0}})
    weights = []
    for order in (np.arange(48), rng.permutation(48)):
        queries = Queries.from_arrays(X[order], grades[order], qid=qid[order], document_groups=groups[order])
        ranker = Ranker(loss, bound="hinge", C=1.0).fit(queries)
        assert ranker.gap_ <= 1e-2 * ranker.objective_
        weights.append(ranker.coef_)
    assert np.abs(weights[0]).max() > 0.01
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-2, atol=1e-3)
    ranker.save(tmp_path / "model.safetensors")
    assert np.array_equal(load(tmp_path / "model.safetensors").coef_, ranker.coef_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0.0}, "limit is 0.0; give a positive number"),
        ({"topics": {"a": {"s": -1.0}}}, "topics\\['a'\\]\\['s'\\] is -1.0; give a number of at least 0"),
        ({"topics": {"a": {"s": 1.0}}, "ideal": "scores"}, "y\\* with topics is computed once"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GroupedLoss("ndcg@3", **options)


def test_queries_it_cannot_take_are_refused():
    topics = {"a": {"s": 0.1}}
    with pytest.raises(DataError, match=r"query 0 has 30 documents for 5 ranks, .* exact up to 100 pairs"):
        GroupedLoss("ndcg@5", topics=topics, most_variables=100).prepare(np.arange(30) % 3, groups=["a"] * 30)
    with pytest.raises(DataError, match="no group has topics: groups are called 'x', and topics are of 'a'"):
        GroupedLoss("ndcg@5", topics=topics).prepare([1, 0], groups=["x", "y"])
    with pytest.raises(DataError, match="no document_groups"):
        GroupedLoss("ndcg@5", topics=topics).prepare([1, 0])
    assert GroupedLoss("p@1", topics={7: {"s": 2.0}})([1, 0, 0], [0.0] * 3, groups=[7, 8, 9])[0].tolist() == [0.0]
