"""Losses in PyTorch: the same numbers as with NumPy."""

import numpy as np
import pytest

from marginrank import Queries
from marginrank.data.grouping import offsets_from_sizes, rows_of
from marginrank.losses import PairwiseHinge, PositionHinge, ScoreRisk, SoftmaxCrossEntropy, StructuredLoss
from marginrank.losses.oracles.oracle import INTERLEAVING, PAIRS
from marginrank.losses.score_risk import TorchScoreRisk
from marginrank.losses.torch import rank_sums
from marginrank.losses.torch.base import QuerySubset
from marginrank.runtime.torch_device import Device

torch = pytest.importorskip("torch", reason="PyTorch is the extra 'neural'")

TWO_LEVELS = [StructuredLoss("auc"), StructuredLoss("ap"), StructuredLoss("rr")]
LOSSES = [
    *TWO_LEVELS,
    StructuredLoss("ndcg@10", "dorm"),
    StructuredLoss("ndcg@5", "po"),
    StructuredLoss("ndcg@10", "dorm(shape=truncated)"),
    StructuredLoss("dcg@3", "dorm(shape=log)", ideal="rows"),
    PairwiseHinge(),
    PairwiseHinge(power=2, margin=0.3, normalize="none"),
    PositionHinge(),
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy(target="share", divergence=True),
]


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
)
def device(request):
    return Device.find(torch, request.param)


def judged(binary, seed):
    """Queries of 1 to 150 documents with ties, some of a single grade."""
    rng = np.random.default_rng(seed)
    sizes = np.append(rng.integers(1, 12, 12), [64, 65, 150])
    grades = rng.integers(0, 2 if binary else 4, sizes.sum()).astype(np.float64)
    grades[: sizes[0]] = 1.0
    scores = np.where(rng.random(len(grades)) < 0.2, 0.25, rng.normal(size=len(grades)))
    return grades, np.append(0, np.cumsum(sizes)), scores


def check_equal(prepared, scores, device):
    """Compare values and gradients with those of NumPy."""
    xi, gradient = (part.cpu().numpy() for part in prepared.torch_loss(device)(device.tensor(scores)))
    expected_xi, expected_gradient = prepared(scores)
    np.testing.assert_allclose(xi, expected_xi, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_values_and_gradients_are_those_of_numpy(loss, seed, device):
    grades, offsets, scores = judged(loss in TWO_LEVELS, seed)
    prepared = loss.prepare(grades, offsets)
    for scale in (1.0, 1e-3, 30.0):
        check_equal(prepared, scale * scores, device)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_short_and_empty_queries_and_queries_of_a_single_grade(loss, device):
    rng, sizes = np.random.default_rng(9), np.array([0, 1, 40, 3, 0, 12, 40, 2, 1, 0])
    best, offsets = 1.0 if loss in TWO_LEVELS else 3.0, np.append(0, np.cumsum(sizes))
    grades = best * rng.integers(0, 2, sizes.sum())
    grades[offsets[2] : offsets[3]] = best
    check_equal(loss.prepare(grades, offsets), rng.normal(size=len(grades)), device)
    check_equal(loss.prepare(grades[:1], [0, 1, 1]), np.ones(1), device)
    check_equal(loss.prepare(grades[:0], [0]), np.zeros(0), device)


@pytest.mark.parametrize("loss", [PairwiseHinge(), PairwiseHinge(power=2), PositionHinge()], ids=str)
def test_as_many_levels_as_documents(loss, device):
    rng, sizes = np.random.default_rng(10), [70, 64, 3, 33]
    grades = np.concatenate([rng.permutation(size) for size in sizes]).astype(np.float64)
    prepared = loss.prepare(grades, np.append(0, np.cumsum(sizes)))
    check_equal(prepared, 0.05 * grades + rng.normal(size=len(grades)), device)


@pytest.mark.parametrize("loss", TWO_LEVELS, ids=str)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_long_lists(loss, share, device):
    rng = np.random.default_rng(11)
    grades = (rng.random(3000) < share).astype(np.float64)
    prepared = loss.prepare(grades, [0, 1000, 1017, 3000])
    for scale in (0.01, 1.0):
        check_equal(prepared, scale * (0.5 * grades + rng.normal(size=len(grades))), device)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_large_scores_lose_no_more_digits_than_they_have(loss, device):
    grades, offsets, scores = judged(loss in TWO_LEVELS, 12)
    moved = np.round(scores, 3) + 2.0**30
    xi, gradient = (
        part.cpu().numpy() for part in loss.prepare(grades, offsets).torch_loss(device)(device.tensor(moved))
    )
    expected = loss.prepare(grades, offsets)(moved - 2.0**30)
    np.testing.assert_allclose(xi, expected[0], rtol=1e-5, atol=1e-4)
    if loss.smooth:
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_scores_that_are_not_finite_show_in_the_value(loss, score, device):
    grades, offsets, scores = judged(loss in TWO_LEVELS, 16)
    for documents in (slice(offsets[-2], offsets[-2] + 1), slice(offsets[-2], None)):
        wrong = scores.copy()
        wrong[documents] = score
        xi, _ = loss.prepare(grades, offsets).torch_loss(device)(device.tensor(wrong))
        assert not np.isfinite(xi[-1].item())
        assert np.isfinite(xi[:-1].cpu().numpy()).all()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_same_scores_give_the_same_bits(loss, device):
    grades, offsets, scores = judged(loss in TWO_LEVELS, 13)
    first, second = (loss.prepare(grades, offsets).torch_loss(device)(device.tensor(scores)) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_risk_of_batches_is_that_of_numpy(loss, device):
    grades, offsets, scores = judged(loss in TWO_LEVELS, 14)
    weights = np.random.default_rng(15).random(len(offsets) - 1)
    X = np.zeros((len(grades), 1))
    queries = Queries.from_arrays(X, grades, group=np.diff(offsets), query_weights=weights)
    risk, numbers = ScoreRisk(loss, queries), np.array([14, 3, 8])
    torch_risk = TorchScoreRisk(risk, risk.loss.torch_loss(device))
    assert torch_risk(device.tensor(scores)) == pytest.approx(risk(scores)[0], rel=1e-12)
    rows = risk.rows(numbers)
    gradient = torch_risk.gradient(numbers, device.tensor(rows), device.tensor(scores[rows]))
    np.testing.assert_allclose(gradient.cpu().numpy(), risk.batch(numbers, scores[rows])[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "n_grades"),
    [
        (StructuredLoss("ndcg@10", "dorm"), 5),
        (StructuredLoss("ndcg@8", "po"), 4),
        (StructuredLoss("ndcg@4", "dorm"), 9),
        (StructuredLoss("ndcg@40", "dorm(shape=log)"), 2),
    ],
    ids=str,
)
def test_queries_in_batches_and_layers_of_many_states(loss, n_grades, device, monkeypatch):
    monkeypatch.setattr(rank_sums, "_MOST_STATES", 2)
    rng, sizes = np.random.default_rng(8), [60, 1, 200, 3, 129, 60, 60]
    grades = rng.integers(0, n_grades, sum(sizes)).astype(np.float64)
    prepared = loss.prepare(grades, np.append(0, np.cumsum(sizes)))
    for scale in (0.0, 0.02, 0.1, 1.0):
        check_equal(prepared, scale * (grades + 0.3 * rng.normal(size=len(grades))), device)


@pytest.mark.parametrize("loss", [StructuredLoss("p@5", "dorm"), StructuredLoss("recall@3", "dorm")], ids=str)
def test_where_several_rankings_are_worst_the_value_is_that_of_numpy_and_the_gradient_a_subgradient(loss, device):
    grades, offsets, scores = judged(binary=True, seed=6)
    prepared, elsewhere = loss.prepare(grades, offsets), np.random.default_rng(7).normal(size=len(scores))
    assert prepared.oracle.name == "merge"
    xi, slopes = (part.cpu().numpy() for part in prepared.torch_loss(device)(device.tensor(scores)))
    np.testing.assert_allclose(xi, prepared(scores)[0], rtol=1e-10, atol=1e-12)
    for other in (elsewhere, scores + 1e-3 * elsewhere):
        change = np.add.reduceat(slopes * (other - scores), offsets[:-1])
        assert (prepared(other)[0] >= xi + change - 1e-9).all()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_some_queries_have_the_values_and_gradients_they_have_among_all(loss, device):
    grades, offsets, scores = judged(loss in TWO_LEVELS, 4)
    there, numbers = loss.prepare(grades, offsets).torch_loss(device), np.array([13, 0, 5, 14])
    documents = rows_of(offsets, numbers)
    chosen = QuerySubset(
        device.tensor(numbers), device.tensor(documents), offsets_from_sizes(np.diff(offsets)[numbers])
    )
    xi, slopes = there(device.tensor(scores))
    some_xi, some_slopes = there.take(chosen)(device.tensor(scores[documents]))
    assert torch.equal(some_xi, xi[chosen.queries])
    assert torch.equal(some_slopes, slopes[chosen.documents])


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.smooth], ids=str)
def test_products_with_the_hessian_are_those_of_numpy(loss, device):
    grades, offsets, scores = judged(binary=False, seed=5)
    prepared, direction = loss.prepare(grades, offsets), np.random.default_rng(1).normal(size=len(grades))
    product = np.zeros(len(grades))
    prepared.curve(scores, direction, product, 0, len(offsets) - 1)
    theirs = prepared.torch_loss(device).curve(device.tensor(scores), device.tensor(direction)).cpu().numpy()
    np.testing.assert_allclose(theirs, product, rtol=1e-10, atol=1e-12)


def test_oracles_in_torch():
    grades, offsets, _ = judged(binary=True, seed=0)
    assert {StructuredLoss(name).prepare(grades, offsets).oracle for name in ("auc", "ap")} == {PAIRS, INTERLEAVING}


@pytest.mark.parametrize(
    "loss",
    [StructuredLoss("ap", bound="tight"), StructuredLoss("ndcg", "dorm"), PairwiseHinge(rank_weights={(1, 0): 2.0})],
)
def test_losses_with_numpy_alone_say_so(loss, device):
    grades, offsets, _ = judged(binary=True, seed=0)
    assert loss.prepare(grades, offsets).torch_loss(device) is None
