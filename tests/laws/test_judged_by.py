"""What a ranker is judged by, document groups in training, and weights: through `Ranker`, as users meet them."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker, evaluate, tune
from marginrank.losses import GroupedLoss, MaxLoss, PairwiseHinge, SlackLoss, SquaredError, StructuredLoss, SumLoss
from marginrank.methods import all_presets, parse_preset
from marginrank.solvers import Auto
from marginrank.training.partitioned_risk import empirical_risk

TIGHT = Auto(tol=1e-9)


def rows(n_queries=18, seed=0):
    """Rows in random order, whose groups are colors; of each color the reddest features count."""
    rng = np.random.default_rng(seed)
    n = n_queries * 8
    X = rng.standard_normal((n, 3))
    # No two documents of a query have the same grade, so that y* is the same in any order of rows.
    y = np.concatenate([rng.permutation(8) for _ in range(n_queries)]).astype(float)
    X[:, 0] += y / 2
    qid = np.array([f"q{(5 * (row // 8)) % n_queries:02d}" for row in range(n)])
    groups = np.array(["red", "green", "blue"])[rng.integers(0, 3, n)]
    order = rng.permutation(n)
    return X, y, qid, groups, order


def in_order(order, with_groups=True):
    X, y, qid, groups, _ = rows()
    labels = groups[order] if with_groups else None
    return Queries.from_arrays(X[order], y[order], qid=qid[order], document_groups=labels)


@pytest.mark.filterwarnings("ignore::marginrank.training.CollapseWarning")
@pytest.mark.parametrize("method", [GroupedLoss("ndcg@2"), "dorm-ndcg@2", "dorm-p@2"], ids=str)
def test_groups_are_those_of_the_documents_in_any_order_of_rows(method):
    shuffled, sorted_rows = in_order(rows()[-1]), in_order(np.arange(144))
    one, other = (
        Ranker(method, C=5.0, bound="hinge", solver=TIGHT).fit(queries) for queries in (shuffled, sorted_rows)
    )
    assert one.coef_ == pytest.approx(other.coef_, abs=1e-6)
    loss = parse_preset(method).loss if isinstance(method, str) else method
    # The risk by definition, a query at a time, with the groups looked up here.
    X, y, qid, groups, _ = rows()
    slacks = []
    for query in np.unique(qid):
        own = np.flatnonzero(qid == query)
        alone = Queries.from_arrays(X[own], y[own], group=[len(own)], document_groups=groups[own])
        slacks.append(loss.prepare(alone)(X[own] @ one.coef_)[0][0])
    assert one.solution_.risk == pytest.approx(np.mean(slacks), rel=1e-9)
    free = Ranker(StructuredLoss(loss.criterion, "dorm"), C=5.0, bound="hinge", solver=TIGHT)
    assert not np.allclose(one.coef_, free.fit(in_order(rows()[-1], with_groups=False)).coef_, atol=1e-3)


def test_groups_can_be_ignored():
    shuffled = in_order(rows()[-1])
    ignoring = Ranker("dorm-ndcg@2", bound="hinge").set_params(loss__groups="ignore").fit(shuffled)
    without = Ranker("dorm-ndcg@2", bound="hinge").fit(in_order(rows()[-1], with_groups=False))
    assert np.array_equal(ignoring.coef_, without.coef_)


def test_tuning_takes_groups_along():
    shuffled, sorted_rows = in_order(rows()[-1]), in_order(np.arange(144))
    for method in (GroupedLoss("ndcg@2"), "dorm-ndcg@2"):
        ranker = Ranker(method, bound="hinge", solver=TIGHT)
        one, other = (tune(ranker, queries, folds=3, Cs=[0.1, 10.0]) for queries in (shuffled, sorted_rows))
        assert [c.mean for c in one.candidates] == pytest.approx([c.mean for c in other.candidates], abs=1e-9)
        assert one.ranker.coef_ == pytest.approx(other.ranker.coef_, abs=1e-6)
        assert one.criterion == "ndcg@2"
    with pytest.raises(DataError, match="these queries have no document_groups"):
        Ranker(GroupedLoss("ndcg@2")).fit(in_order(rows()[-1], with_groups=False))


@pytest.mark.parametrize(
    ("loss", "criterion"),
    [
        (SumLoss((StructuredLoss("ap"), StructuredLoss("ndcg@5")), (1.0, 0.5)), "ap + 0.5*ndcg@5"),
        (MaxLoss((StructuredLoss("ap"), StructuredLoss("auc"))), "ap + auc"),
        (PairwiseHinge(), "auc"),
        (PairwiseHinge(power=2), "auc"),
        (SlackLoss("ap"), "ap"),
        (GroupedLoss("p@3"), "p@3"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_loss_is_judged_by_its_own_measure(loss, criterion):
    queries = in_order(rows()[-1][:80])
    ranker = Ranker(loss=loss, bound="hinge", solver=Auto(tol=1e-2)).fit(queries)
    assert (ranker.criterion, ranker.measure_) == (criterion, criterion)
    parts = [word.rpartition("*")[::2] for word in criterion.replace(" ", "").split("+")]
    weights = {measure: float(weight or 1) for weight, measure in parts}
    means = evaluate(queries, ranker.predict(queries), list(weights)).mean
    expected = sum(weight * means[measure] for measure, weight in weights.items()) / sum(weights.values())
    assert ranker.score(queries) == pytest.approx(expected)
    chosen = tune(ranker, queries, folds=2, Cs=[1.0])
    assert chosen.criterion == criterion


def test_a_loss_and_its_preset_are_judged_alike():
    for name, preset in all_presets().items():
        if preset.kind == "loss":
            assert Ranker(name).criterion == Ranker(loss=parse_preset(name).loss).criterion
    assert Ranker("ranksvm").criterion == "auc"
    assert Ranker("regression").criterion == SquaredError().criterion


@pytest.mark.parametrize("preset", ["svmmap", "rankboost@3"])
def test_weights_that_are_all_zero_are_named_in_every_way_in(preset):
    X, y, qid, _, _ = rows()
    message = "all query_weights are zero; give at least one query a positive weight"
    with pytest.raises(DataError, match=message):
        Ranker(preset).fit(X, y, qid=qid, query_weights=np.zeros(18))
    with pytest.raises(DataError, match=message):
        Ranker(preset).fit(Queries.from_arrays(X, y, qid=qid), query_weights=np.zeros(18))
    with pytest.raises(DataError, match="query_weights has 2 entries for 18 queries"):
        Ranker(preset).fit(Queries.from_arrays(X, y, qid=qid), query_weights=[1.0, 2.0])
    with pytest.raises(DataError, match=r"query_weights\[3\] is -1; weights are finite and not negative"):
        Ranker(preset).fit(Queries.from_arrays(X, y, qid=qid), query_weights=np.where(np.arange(18) == 3, -1, 1))


def test_weights_of_queries_follow_them_in_any_order_of_rows():
    X, y, qid, _, order = rows()
    by_id = {query: 1.0 + at for at, query in enumerate(np.unique(qid).tolist())}
    fits = []
    for rows_at in (np.arange(144), order):
        queries = Queries.from_arrays(X[rows_at], y[rows_at], qid=qid[rows_at])
        weights = [by_id[query] for query in queries.query_ids.tolist()]
        fits.append(Ranker("svmmap", solver=TIGHT).fit(queries, query_weights=weights))
        weighted = Queries.from_arrays(X, y, qid=qid, query_weights=_weights(qid, by_id))
        risk = empirical_risk(weighted, StructuredLoss("ap"))
        assert fits[-1].solution_.risk == pytest.approx(risk(fits[-1].coef_)[0], rel=1e-9)
    assert fits[0].coef_ == pytest.approx(fits[1].coef_, abs=1e-6)


def _weights(qid, by_id):
    return [by_id[query] for query in dict.fromkeys(qid.tolist())]
