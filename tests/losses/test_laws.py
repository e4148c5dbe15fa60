"""Laws of every structured loss: convexity, gradients, order of documents, threads, batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank import Queries
from marginrank.losses.assignment_loss import GroupedLoss
from marginrank.losses.combination import MaxLoss, SumLoss
from marginrank.losses.modified_wta import ModifiedWTA
from marginrank.losses.slack_rescaling import SlackLoss
from marginrank.losses.smoothed_hinge import SmoothedHinge
from marginrank.losses.structured import StructuredLoss
from marginrank.training.partitioned_risk import empirical_risk

CONVEX = {
    **{
        f"{m} {f}": StructuredLoss(m, f) for m in ("auc", "ap", "ndcg@3", "ndcg", "rr@2", "p@2") for f in ("po", "dorm")
    },
    "rr mrr": StructuredLoss("rr", "mrr"),
    "ndcg@3 discount": StructuredLoss("ndcg@3", "dorm(shape=discount)"),
    "sum": SumLoss((StructuredLoss("ap"), StructuredLoss("ndcg@2", "dorm")), (1.0, 0.5)),
    "max": MaxLoss((StructuredLoss("auc"), StructuredLoss("ndcg@2", "dorm"), StructuredLoss("rr", "mrr"))),
    "majorant of max": MaxLoss(
        (StructuredLoss("ap", "po", "tight"), StructuredLoss("ndcg@2", "dorm", "tight"))
    ).majorant,
    "mwta": ModifiedWTA(),
    "slack rr": SlackLoss("rr@3", "dorm"),
    "slack p@2": SlackLoss("p@2", "po"),
    "slack wta": SlackLoss("wta", "po"),
}
OTHERS = {
    "tight ndcg@3": StructuredLoss("ndcg@3", "dorm", "tight"),
    "tight ap": StructuredLoss("ap", "po", "tight"),
    "slack ndcg@3": SlackLoss("ndcg@3", "dorm"),
}
SMOOTH = {
    f"{m} {f} {t}": SmoothedHinge(m, f, t)
    for m, f, t in (("ap", "po", 0.1), ("auc", "dorm", 1.0), ("p@2", "dorm", 0.05))
}
EVERY = {**CONVEX, **OTHERS, **SMOOTH}
every_loss = pytest.mark.parametrize("loss", EVERY.values(), ids=EVERY)
numbers = st.floats(-3, 3, allow_subnormal=False, width=32)


@st.composite
def queries_with_scores(draw, most=12):
    n = draw(st.integers(1, most))
    grades = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n, max_size=n))
    return np.array(grades, dtype=float), *(np.array(draw(st.lists(numbers, min_size=n, max_size=n))) for _ in range(2))


# Parameters of a property test would all draw the same examples, so these go through the losses themselves.


@given(query=queries_with_scores())
def test_the_gradient_supports_the_loss_from_below(query):
    """ξ(t) ≥ ξ(s) + g(s)·(t − s) for all s and t: convexity, and that g is a subgradient."""
    grades, s, t = query
    for name, loss in CONVEX.items():
        prepared = loss.prepare(grades)
        xi, gradient = prepared(s)
        other, _ = prepared(t)
        assert other[0] >= xi[0] + gradient @ (t - s) - 1e-9, name


@pytest.mark.slow
@pytest.mark.hypothesis
def test_the_gradient_is_a_difference_quotient():
    compared = dict.fromkeys(EVERY, 0)

    @given(query=queries_with_scores())
    def compare(query):
        for name in EVERY:
            compared[name] += quotient_is_compared(name, *query)

    compare()
    assert min(compared.values()) >= 8, compared  # of 25


def quotient_is_compared(name, grades, s, direction, step=1e-5):
    """Compare the gradient of a loss with the quotient, unless there is a kink; return whether they were compared."""
    prepared = EVERY[name].prepare(grades)
    (_, gradient), ahead, behind = (prepared(at) for at in (s, s + step * direction, s - step * direction))
    # Where all three have the same gradient the loss has no kink between them.
    same = np.allclose(ahead[1], behind[1], atol=1e-2) and np.allclose(ahead[1], gradient, atol=1e-2)
    if not same or abs((ahead[1] - behind[1]) @ direction) >= 1e-3:
        return False
    quotient = (ahead[0][0] - behind[0][0]) / (2 * step)
    assert gradient @ direction == pytest.approx(quotient, abs=2e-3), name
    return True


@given(query=queries_with_scores(), data=st.data())
def test_documents_may_come_in_any_order(query, data):
    grades, s, other = query
    X = np.column_stack([s, other])
    moved = np.array(data.draw(st.permutations(range(len(s)))))
    as_they_were = Queries.from_arrays(X, grades, group=[len(s)])
    reordered = Queries.from_arrays(X[moved], grades[moved], group=[len(s)])
    for name, loss in EVERY.items():
        here, there = loss.prepare(as_they_were)(s), loss.prepare(reordered)(s[moved])
        assert there[0][0] == pytest.approx(here[0][0], abs=1e-9), name
        if len(np.unique(s)) == len(s):
            np.testing.assert_allclose(there[1] @ X[moved], here[1] @ X, atol=1e-6, err_msg=name)


@given(n=st.integers(1, 8), grade=st.integers(0, 3), data=st.data())
def test_one_grade_carries_no_order(n, grade, data):
    scores = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)))
    for name, loss in EVERY.items():
        xi, gradient = loss(np.full(n, float(grade)), scores)
        assert xi[0] == 0.0, name
        assert not gradient.any(), name


@every_loss
def test_batches_threads_and_history_change_nothing(loss):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 100)
    grades = rng.integers(0, 2 if isinstance(loss, SmoothedHinge) else 4, sizes.sum()).astype(float)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bound = loss.prepare(grades, offsets)
    first, second = rng.standard_normal(len(grades)), np.round(rng.standard_normal(len(grades)), 1)
    bound(first)
    xi, gradient = bound(second)
    many_xi, many_gradient = bound(second, n_jobs=7)
    np.testing.assert_array_equal(xi, many_xi)
    np.testing.assert_array_equal(gradient, many_gradient)
    for q in range(0, 100, 9):
        rows = slice(offsets[q], offsets[q + 1])
        alone_xi, alone_gradient = loss(grades[rows], second[rows])
        assert alone_xi[0] == pytest.approx(xi[q], abs=1e-12)
        np.testing.assert_allclose(alone_gradient, gradient[rows], atol=1e-12)


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("kind", ["float32", "float64", "sparse"])
def test_risk_and_gradient_do_not_depend_on_threads(name, kind):
    import scipy.sparse as sp

    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 7)) * (rng.random((900, 7)) < 0.5)
    matrix = sp.csr_array(X) if kind == "sparse" else X.astype(kind)
    queries = Queries.from_arrays(
        matrix, rng.integers(0, 3, 900), qid=np.sort(rng.integers(0, 60, 900)), query_weights=None
    )
    w = rng.standard_normal(7)
    value, gradient = empirical_risk(queries, CONVEX[name], n_jobs=1)(w)
    many_value, many_gradient = empirical_risk(queries, CONVEX[name], n_jobs=3)(w)
    assert value == many_value
    np.testing.assert_array_equal(gradient, many_gradient)
    bound = CONVEX[name].prepare(queries)
    xi, slopes = bound(queries.dense().astype(float) @ w)
    assert value == pytest.approx(xi[bound.active].mean(), rel=1e-9)
    np.testing.assert_allclose(gradient, queries.dense().T @ slopes / bound.active.sum(), rtol=1e-6, atol=1e-9)


def test_weights_of_queries_weigh_the_risk():
    queries = Queries.from_arrays([[1.0], [0.0], [0.0], [1.0]], [1, 0, 1, 0], group=[2, 2], query_weights=[3, 1])
    value, gradient = empirical_risk(queries, StructuredLoss("auc"))(np.array([0.25]))
    assert value == pytest.approx((3 * 0.5 + 1 * 1.5) / 4)
    assert gradient.tolist() == pytest.approx([(3 * -2 + 1 * 2) / 4])


def test_groups_may_take_one_rank_each():
    """Against all ways to fill the first ranks with documents of different groups."""
    from itertools import permutations

    rng = np.random.default_rng(0)
    for _ in range(60):
        n, k = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        grades, scores = rng.integers(0, 3, n).astype(float), rng.standard_normal(n)
        groups = rng.integers(0, 3, n)
        found = GroupedLoss(f"dcg@{k}")(grades, scores, groups=groups)[0][0]
        profile, discount, gains = 1 / np.sqrt(np.arange(1, k + 1)), 1 / np.log2(np.arange(2, k + 2)), 2**grades - 1
        size = min(k, len(set(groups.tolist())))
        fills = [list(p) for p in permutations(range(n), size) if len(set(groups[list(p)].tolist())) == size]
        best = max(fills, key=lambda p: (gains[p] @ discount[:size], [-d for d in p]))
        delta = [gains[best] @ discount[:size] - gains[p] @ discount[:size] for p in fills]
        value = [profile[:size] @ scores[p] for p in fills]
        ideals = [v for v, d in zip(value, delta, strict=True) if d < 1e-12]
        expected = {max(d + v for d, v in zip(delta, value, strict=True)) - ideal for ideal in ideals}
        tight = max(d + v for d, v in zip(delta, value, strict=True)) - max(value)
        if np.ptp(gains) == 0:
            expected, tight = {0.0}, 0.0
        assert min(abs(found - e) for e in expected) < 1e-9
        found = GroupedLoss(f"dcg@{k}", bound="tight")(grades, scores, groups=groups)[0][0]
        assert found == pytest.approx(tight, abs=1e-9)


def test_smoothing_goes_to_the_hinge():
    rng = np.random.default_rng(0)
    grades, scores = rng.integers(0, 2, 9).astype(float), rng.standard_normal(9)
    hinge = StructuredLoss("ap", "po")(grades, scores)[0][0]
    gaps = [SmoothedHinge("ap", "po", t)(grades, scores)[0][0] - hinge for t in (1.0, 0.1, 0.01, 0.001)]
    assert all(gap > 0 for gap in gaps)
    assert sorted(gaps, reverse=True) == gaps
    assert gaps[-1] < 0.01
