"""What losses say of themselves: criterion, curvature, exactness, majorant, groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank import DataError, Queries
from marginrank.losses import (
    ClicksAndJudgements,
    CostLoss,
    GroupedLoss,
    ListHinge,
    MaxLoss,
    ModifiedWTA,
    NDCGPairwiseHinge,
    PairwiseHinge,
    PositionHinge,
    SlackLoss,
    SmoothedHinge,
    SoftmaxCrossEntropy,
    SquaredDifferences,
    SquaredError,
    StructuredLoss,
    SumLoss,
    ThresholdHinge,
)
from marginrank.measures import parse_measure
from marginrank.methods.presets import all_presets, parse_mix, parse_preset

from .every import every_loss, kinds_of, ranks_cost, registered_kinds

AP, NDCG, RR = StructuredLoss("ap"), StructuredLoss("ndcg@10", "dorm"), StructuredLoss("rr@10", "mrr")
TIGHT = StructuredLoss("ndcg@2", "dorm", "tight")


CRITERIA = [
    (NDCG, "ndcg@10"),
    (StructuredLoss(parse_measure("ndcg@5(gain=linear)")), "ndcg@5(gain=linear)"),
    (SlackLoss("ap"), "ap"),
    (SmoothedHinge("p@3"), "p@3"),
    (ListHinge("rr"), "rr"),
    (GroupedLoss("dcg@3"), "dcg@3"),
    (PairwiseHinge(), "auc"),
    (PositionHinge(), "auc"),
    (NDCGPairwiseHinge(), "ndcg"),
    (SquaredError(), "ndcg"),
    (ClicksAndJudgements(PairwiseHinge(), AP), "ap"),
    (SquaredDifferences("exp2"), "ndcg"),
    (ThresholdHinge(), "ndcg"),
    (SoftmaxCrossEntropy(), "ndcg"),
    (ModifiedWTA(), "wta"),
    (CostLoss(ranks_cost), "ndcg"),
    (CostLoss(ranks_cost, measure="eru"), "eru"),
    (SumLoss((NDCG, AP), (1.0, 0.5)), "ndcg@10 + 0.5*ap"),
    (SumLoss((NDCG, AP)), "ndcg@10 + ap"),
    (SumLoss((AP, StructuredLoss("ap", "dorm")), (0.5, 0.5)), "ap"),
    (SumLoss((AP, SumLoss((NDCG, RR), (4.0, 1.0))), (1.0, 0.125)), "ap + 0.5*ndcg@10 + 0.125*rr@10"),
    (SumLoss((AP, NDCG), (0.0, 2.0)), "ndcg@10"),
    (MaxLoss((AP, NDCG, RR)), "ap + ndcg@10 + rr@10"),
    (MaxLoss((AP, StructuredLoss("ap", "dorm"), NDCG)), "ap + ndcg@10"),
]


def test_the_criterion_of_every_loss_is_tested():
    assert kinds_of(loss for loss, _ in CRITERIA) == registered_kinds()


@pytest.mark.parametrize(("loss", "criterion"), CRITERIA)
def test_a_loss_names_its_measure(loss, criterion):
    assert loss.criterion == criterion
    assert all(weight > 0 for weight, _ in parse_mix(criterion))


def test_the_weights_of_a_mix_can_be_read_back():
    tiny = SumLoss((AP, SumLoss((NDCG, RR), (2.0, 1.0))), (1.0, 2.0**-30))
    assert [weight for weight, _ in parse_mix(tiny.criterion)] == [1.0, 2.0**-29, 2.0**-30]


#: What the papers that presets come from judge them by.
JUDGED_BY = {
    "svmmap": "ap", "svmauc": "auc", "svmprec@5": "p@5", "svmndcg@5": "ndcg@5", "svmndcg-nc": "ndcg",
    "svmmrr@5": "rr@5", "svmcombo@5": "ap + ndcg@5 + rr@5", "svmcombo-shared@5": "ap + ndcg@5 + rr@5",
    "dorm-ndcg@5": "ndcg@5",
    "dorm-mrr": "rr", "dorm-p@5": "p@5", "dorm-eru": "eru", "mwta": "wta", "chapelle-ndcg@5": "ndcg@5",
    "ranksvm": "auc", "ranksvm-squared": "auc", "svm-ir-qp": "ndcg", "regression": "ndcg", "position-hinge": "auc",
    "softmax": "ndcg",
    "listnet": "ndcg",
}  # fmt: skip


def test_presets_are_judged_by_the_measure_of_their_loss():
    named = {name for name, preset in all_presets().items() if preset.kind == "loss"}
    assert named == {name.partition("@")[0] for name in JUDGED_BY}
    for name, measure in JUDGED_BY.items():
        assert parse_mix(parse_preset(name).criterion) == parse_mix(measure), name


def test_losses_say_whether_they_are_convex_smooth_and_exact():
    said = {
        loss: (loss.convex, loss.smooth, loss.exact)
        for loss in (AP, TIGHT, PairwiseHinge(), PairwiseHinge(power=2), SlackLoss("rr"), SlackLoss("ap"))
    }
    assert list(said.values()) == [
        (True, False, True),
        (False, False, True),
        (True, False, True),
        (True, True, True),
        (True, False, True),
        (True, False, False),
    ]
    mixed = SumLoss((AP, SlackLoss("ndcg")))
    assert not mixed.exact
    assert not MaxLoss((AP, SlackLoss("ndcg"))).exact
    assert SumLoss((AP, TIGHT)).exact
    assert not SumLoss((AP, TIGHT)).convex


@pytest.mark.parametrize("compound", [SumLoss, MaxLoss])
def test_a_prepared_loss_is_exact_where_its_parts_are(compound):
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 3, 400)
    assert not SlackLoss("ap").prepare(grades).exact
    assert not compound((AP, SlackLoss("ap"))).prepare(grades).exact
    assert compound((AP, SlackLoss("p@3"))).prepare(grades).exact


@every_loss
def test_exactly_convex_losses_have_no_majorant(loss):
    assert (loss.majorant is None) == loss.convex


NOT_CONVEX = [
    TIGHT,
    StructuredLoss("ap", "po", "tight"),
    StructuredLoss("rr", "mrr", "tight"),
    ModifiedWTA(bound="tight"),
    GroupedLoss("dcg@2", bound="tight"),
    CostLoss(ranks_cost, "dorm", "tight"),
    StructuredLoss("ndcg@2", "dorm", ideal="scores"),
    StructuredLoss("ap", "dorm", "tight", ideal="scores"),
    SmoothedHinge("ap", "dorm", ideal="scores"),
    ModifiedWTA(ideal="scores"),
    GroupedLoss("dcg@2", ideal="scores"),
    SumLoss((PairwiseHinge(), TIGHT), (0.5, 2.0)),
    MaxLoss((AP, TIGHT)),
    MaxLoss((StructuredLoss("ap", "po", "tight"), TIGHT, StructuredLoss("rr", "mrr", "tight"))),
]
numbers = st.floats(-3, 3, allow_subnormal=False, width=32)


@pytest.mark.parametrize("loss", NOT_CONVEX, ids=lambda loss: type(loss).__name__)
def test_a_majorant_is_convex_and_has_the_criterion_of_the_loss(loss):
    assert loss.majorant.convex
    assert loss.majorant.criterion == loss.criterion


@given(data=st.data(), n=st.integers(2, 6))
def test_a_majorant_lies_above_by_a_convex_function(data, n):
    """For every loss: as parameters of the test they would all draw the same examples."""
    grades = np.array(data.draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n, max_size=n)), dtype=float)
    one, other = (np.array(data.draw(st.lists(numbers, min_size=n, max_size=n))) for _ in range(2))
    groups = np.arange(n) // 2
    for loss in NOT_CONVEX:
        above, below = (part.prepare(grades, groups=groups) for part in (loss.majorant, loss))
        at_one, at_other, between = (
            above(scores)[0][0] - below(scores)[0][0] for scores in (one, other, (one + other) / 2)
        )
        assert min(at_one, at_other) >= -1e-9, loss
        assert between <= (at_one + at_other) / 2 + 1e-9, loss


def grouped_queries(rng, n_queries=6, n=30):
    """Queries whose rows are not next to each other, with groups of about two documents."""
    return Queries.from_arrays(
        rng.standard_normal((n_queries * n, 3)),
        rng.integers(0, 3, n_queries * n),
        qid=rng.permutation(np.repeat(np.arange(n_queries), n)),
        document_groups=rng.integers(0, n // 2, n_queries * n),
    ).grouped


@pytest.mark.parametrize("bound", ["hinge", "tight"])
def test_groups_are_those_of_the_queries_in_whatever_order_rows_come(bound):
    rng = np.random.default_rng(0)
    X, grades, groups = rng.standard_normal((180, 1)), rng.integers(0, 3, 180), rng.integers(0, 15, 180)
    qid = rng.permutation(np.repeat(np.arange(6), 30))
    queries = Queries.from_arrays(X, grades, qid=qid, document_groups=groups).grouped
    loss = GroupedLoss("ndcg@5", bound=bound, ideal="rows")
    xi, _ = loss.prepare(queries)(queries.X[:, 0])
    for query, own_xi in zip(queries.query_ids, xi, strict=True):
        rows = qid == query
        assert own_xi == pytest.approx(loss(grades[rows], X[rows, 0], groups=groups[rows])[0][0], abs=1e-12)


@pytest.mark.parametrize("bound", ["hinge", "tight"])
@pytest.mark.parametrize("shape", ["sqrt", "log", "truncated", "discount"])
def test_the_structured_loss_of_dorm_uses_groups(bound, shape):
    queries = grouped_queries(np.random.default_rng(1))
    plain = Queries.from_arrays(queries.X, queries.grades, group=queries.lengths)
    loss, scores = StructuredLoss("ndcg@5", f"dorm(shape={shape})", bound), queries.X @ np.array([1.0, 0.5, 0.0])
    grouped = GroupedLoss("ndcg@5", shape, bound).prepare(queries)(scores)
    np.testing.assert_array_equal(loss.prepare(queries)(scores)[0], grouped[0])
    np.testing.assert_array_equal(loss.prepare(queries)(scores)[1], grouped[1])
    ignoring = StructuredLoss("ndcg@5", f"dorm(shape={shape})", bound, groups="ignore").prepare(queries)(scores)[0]
    np.testing.assert_array_equal(ignoring, loss.prepare(plain)(scores)[0])
    assert not np.allclose(ignoring, grouped[0])


@pytest.mark.parametrize(
    "loss",
    [
        StructuredLoss("ndcg@5"),
        StructuredLoss("ap", "dorm"),
        StructuredLoss("ndcg@5", "dorm(shape=linear)"),
        StructuredLoss("rr", "mrr"),
    ],
    ids=repr,
)
def test_losses_that_cannot_use_groups_ignore_them(loss):
    queries = grouped_queries(np.random.default_rng(2))
    plain = Queries.from_arrays(queries.X, queries.grades, group=queries.lengths)
    scores = queries.X[:, 1]
    np.testing.assert_array_equal(loss.prepare(queries)(scores)[0], loss.prepare(plain)(scores)[0])


@pytest.mark.parametrize(
    "whole", [SumLoss((GroupedLoss("dcg@3"),)), MaxLoss((GroupedLoss("dcg@3"),)), StructuredLoss("dcg@3", "dorm")]
)
def test_compound_losses_pass_groups_on(whole):
    queries = grouped_queries(np.random.default_rng(3))
    scores = queries.X[:, 2]
    np.testing.assert_array_equal(whole.prepare(queries)(scores)[0], GroupedLoss("dcg@3").prepare(queries)(scores)[0])


def test_mwta_passes_groups_on():
    grades, groups, scores = [2.0, 2.0, 1.0, 0.0], ["a", "a", "b", "c"], [0.0, 0.1, 0.7, 0.2]
    # The first three of the ideal ranking, 2, 2 and 1, have two grades: the cutoff is 3.
    expected = GroupedLoss("ndcg@3")(grades, scores, groups=groups)[0][0]
    assert ModifiedWTA()(grades, scores, groups=groups)[0][0] == expected
    assert ModifiedWTA(groups="ignore")(grades, scores, groups=groups)[0][0] == ModifiedWTA()(grades, scores)[0][0]


def test_groups_that_are_missing_are_asked_for():
    queries = Queries.from_arrays([[1.0], [0.0]], [1, 0], group=[2])
    with pytest.raises(DataError, match="these queries have no document_groups; give Queries with them"):
        GroupedLoss("dcg@1").prepare(queries)
    with pytest.raises(DataError, match=r"groups have shape \(3,\) for 2 documents; give one label per document"):
        GroupedLoss("dcg@1").prepare([1, 0], groups=[1, 2, 3])
    with pytest.raises(TypeError, match="queries have their own offsets and document_groups"):
        GroupedLoss("dcg@1").prepare(queries, groups=[1, 2])
    with pytest.raises(ValueError, match="groups is 'no'; choose 'auto', 'require' or 'ignore'"):
        StructuredLoss("ndcg@5", "dorm", groups="no")


def test_the_repr_names_what_differs_from_the_defaults():
    assert repr(StructuredLoss("ap", "po", "tight")) == "StructuredLoss(measure='ap', bound='tight')"
    assert repr(GroupedLoss("dcg@3", (2.0, 1.0))) == "GroupedLoss(measure='dcg@3', shape=(2.0, 1.0))"
