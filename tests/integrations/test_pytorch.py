"""Our losses in PyTorch: gradients are ours, batches may be of any shape and order, training lowers the loss."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from marginrank import DataError
from marginrank.losses import StructuredLoss
from marginrank.methods import all_presets
from marginrank.methods.presets import parse_preset
from marginrank.runtime.torch_device import Device

torch = pytest.importorskip("torch", reason="PyTorch is the extra 'neural'")

from marginrank.integrations.pytorch import TorchRankingLoss  # noqa: E402
from tests.losses.batches import GROUPS, LENGTHS, arrays, bad_batches, groups_for  # noqa: E402
from tests.losses.every import LOSSES, every_loss, over  # noqa: E402


@pytest.fixture(params=[False, True], ids=["numpy", "torch"])
def where_losses_are_computed(request, monkeypatch):
    """Losses with NumPy, as for scores on a CPU, and in PyTorch, as for scores on a GPU."""
    monkeypatch.setattr(Device, "computes_losses", request.param)


def batch(dtype=torch.float64):
    scores, grades, offsets = arrays()
    return torch.tensor(scores, dtype=dtype, requires_grad=True), grades, offsets


@pytest.mark.usefixtures("where_losses_are_computed")
@every_loss
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_value_and_gradient_are_those_of_the_loss(loss, dtype):
    scores, grades, offsets = batch(dtype)
    value = TorchRankingLoss(loss)(scores, torch.tensor(grades), torch.tensor(offsets), **groups_for(loss))
    (2.0 * value).backward()
    xi, slopes = loss(grades, scores.detach().double().numpy(), offsets, **groups_for(loss))
    counted = loss.prepare(grades, offsets, **groups_for(loss)).active
    assert 0 < counted.sum() <= 5
    assert value.dtype == scores.grad.dtype == dtype
    assert value.item() == pytest.approx(xi[counted].mean(), rel=1e-6)
    assert scores.grad.double().numpy() == pytest.approx(2.0 * slopes / counted.sum(), rel=1e-6, abs=1e-6)


@pytest.mark.usefixtures("where_losses_are_computed")
@over(loss for loss in LOSSES if loss.smooth)
def test_smooth_losses_pass_gradcheck(loss):
    scores, grades, offsets = batch()
    module = TorchRankingLoss(loss)
    assert torch.autograd.gradcheck(lambda s: module(s, grades, offsets), (scores,), eps=1e-6, atol=1e-5)


@pytest.mark.usefixtures("where_losses_are_computed")
@every_loss
def test_the_order_of_queries_and_their_layout_do_not_matter(loss):
    module = TorchRankingLoss(loss)
    scores, grades, offsets = batch()
    value = module(scores, grades, offsets, **groups_for(loss))
    value.backward()
    rows = [np.arange(start, stop) for start, stop in pairwise(offsets)]

    order = [3, 0, 4, 2, 1]
    taken = np.concatenate([rows[query] for query in order])
    shuffled = scores.detach()[taken].requires_grad_()
    other = module(
        shuffled,
        grades[taken],
        np.concatenate([[0], np.cumsum([LENGTHS[query] for query in order])]),
        **groups_for(loss, taken),
    )
    other.backward()
    assert other.item() == value.item()
    assert torch.equal(shuffled.grad, scores.grad[taken])

    # Rows of the queries in turn; those of each query keep their order.
    position = np.concatenate([np.arange(length) for length in LENGTHS])
    mixed = np.argsort(position, kind="stable")
    rows_in_turn = scores.detach()[mixed].requires_grad_()
    by_id = module(
        rows_in_turn, grades[mixed], qid=np.repeat([9, 7, 5, 3, 1], LENGTHS)[mixed], **groups_for(loss, mixed)
    )
    by_id.backward()
    assert by_id.item() == value.item()
    assert torch.equal(rows_in_turn.grad, scores.grad[mixed])

    padded = torch.full((5, 8), float("nan"), dtype=torch.float64)
    padded_grades, mask = torch.full((5, 8), -1.0), torch.zeros((5, 8), dtype=torch.bool)
    labels = np.zeros((5, 8), dtype=int)
    for query, own in enumerate(rows):
        padded[query, : len(own)], padded_grades[query, : len(own)] = scores.detach()[own], torch.tensor(grades[own])
        mask[query, : len(own)], labels[query, : len(own)] = True, GROUPS[own]
    padded.requires_grad_()
    in_rows = module(padded, padded_grades, mask=mask, **({"groups": labels} if groups_for(loss) else {}))
    in_rows.backward()
    assert in_rows.item() == value.item()
    assert torch.equal(padded.grad[mask], scores.grad)
    assert not padded.grad[~mask].any()


def test_groups_reach_the_loss():
    scores, grades, offsets = batch()
    loss = StructuredLoss("ndcg@3", "dorm")
    value = TorchRankingLoss(loss)(scores, grades, offsets, groups=GROUPS)
    assert value.item() == pytest.approx(loss(grades, scores.detach().numpy(), offsets, GROUPS)[0].sum() / 3)
    assert value.item() != TorchRankingLoss(loss)(scores, grades, offsets).item()


@pytest.mark.usefixtures("where_losses_are_computed")
def test_a_batch_without_an_order_has_the_loss_0():
    scores = torch.ones(3, requires_grad=True)
    value = TorchRankingLoss("svmmap")(scores, [1, 1, 1])
    value.backward()
    assert (value.item(), scores.grad.tolist()) == (0.0, [0.0] * 3)


@pytest.mark.parametrize("name", [name for name, preset in all_presets().items() if preset.kind == "loss"])
def test_losses_have_names(name):
    scores, grades, offsets = batch()
    loss = TorchRankingLoss(name).loss
    assert loss.criterion == parse_preset(name).criterion
    assert np.isfinite(TorchRankingLoss(name)(scores, grades, offsets).item())


def test_the_bound_of_a_preset_is_kept():
    assert TorchRankingLoss("chapelle-ndcg").loss == StructuredLoss("ndcg@10", "dorm", "tight")
    assert repr(TorchRankingLoss("ndcg@5")) == "TorchRankingLoss(StructuredLoss(measure=ndcg@5))"


@pytest.mark.parametrize("loss", ["softmax", "ndcg@5", "svmmap", "ranksvm-squared"])
def test_training_lowers_the_loss(loss):
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.standard_normal((40, 10, 5)), dtype=torch.float32)
    grades = ((X[..., 0] * X[..., 1] > 0.5).int() + (X[..., 2] > 1).int()).numpy()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer, module = torch.optim.Adam(model.parameters(), lr=0.01), TorchRankingLoss(loss)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        value = module(model(X).squeeze(-1), grades)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.6 * values[0]


@pytest.mark.usefixtures("where_losses_are_computed")
def test_bad_batches_are_refused():
    module, scores = TorchRankingLoss("softmax"), torch.zeros(4)
    with pytest.raises(ValueError, match="'rankboost' is a baseline and has no loss"):
        TorchRankingLoss("rankboost")
    for expected, arguments, options in (
        *bad_batches(scores),
        ("scores are of type torch.int64", (torch.zeros(4, dtype=torch.int64), [1, 0, 0, 0]), {}),
        ("score 1 is nan", (torch.tensor([0.0, np.nan]), [1, 0]), {}),
    ):
        with pytest.raises(DataError, match=expected):
            module(*arguments, **options)
    twice = torch.zeros(2, requires_grad=True)
    (slope,) = torch.autograd.grad(module(twice, [1, 0]), twice, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        slope.sum().backward()
