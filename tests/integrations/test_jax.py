"""Our losses in JAX: gradients are ours, under jit too, batches have any shape and order, training lowers the loss."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from marginrank import DataError
from marginrank.losses import StructuredLoss
from marginrank.methods import all_presets

jax = pytest.importorskip("jax", reason="JAX is the extra 'jax'")
jnp = jax.numpy

from marginrank.integrations.jax import JaxRankingLoss  # noqa: E402
from tests.losses.batches import GROUPS, LENGTHS, arrays, bad_batches, groups_for  # noqa: E402
from tests.losses.every import every_loss  # noqa: E402


@contextmanager
def bits(n):
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", n == 64)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(autouse=True)
def in_float64():
    with bits(64):
        yield


@every_loss
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_value_and_gradient_are_those_of_the_loss(loss, dtype):
    scores, grades, offsets = arrays()
    points = jnp.asarray(scores, dtype=dtype)
    function = JaxRankingLoss(loss)
    xi, slopes = loss(grades, np.asarray(points, dtype=np.float64), offsets, **groups_for(loss))
    counted = loss.prepare(grades, offsets, **groups_for(loss)).active
    assert 0 < counted.sum() <= 5
    constants = jax.value_and_grad(lambda s: 2.0 * function(s, grades, offsets, **groups_for(loss)))
    arguments = jax.value_and_grad(lambda s, g, o, own: 2.0 * function(s, g, o, **own))
    for value, gradient in (
        constants(points),
        jax.jit(constants)(points),
        jax.jit(arguments)(points, grades, offsets, groups_for(loss)),
    ):
        assert value.dtype == gradient.dtype == dtype
        assert float(value) == pytest.approx(2.0 * xi[counted].mean(), rel=1e-6)
        assert np.asarray(gradient) == pytest.approx(2.0 * slopes / counted.sum(), rel=1e-6, abs=1e-6)


@every_loss
def test_the_order_of_queries_and_their_layout_do_not_matter(loss):
    function = JaxRankingLoss(loss)

    def both(scores, *given, **layout):
        value, gradient = jax.jit(jax.value_and_grad(lambda s: function(s, *given, **layout)))(jnp.asarray(scores))
        return float(value), np.asarray(gradient)

    scores, grades, offsets = arrays()
    value, gradient = both(scores, grades, offsets, **groups_for(loss))
    rows = [np.arange(start, stop) for start, stop in pairwise(offsets)]

    order = [3, 0, 4, 2, 1]
    taken = np.concatenate([rows[query] for query in order])
    starts = np.concatenate([[0], np.cumsum([LENGTHS[query] for query in order])])
    other, shuffled = both(scores[taken], grades[taken], starts, **groups_for(loss, taken))
    assert other == value
    np.testing.assert_array_equal(shuffled, gradient[taken])

    # Rows of the queries in turn; those of each query keep their order.
    mixed = np.argsort(np.concatenate([np.arange(length) for length in LENGTHS]), kind="stable")
    # Beyond 32 bits these are different queries, but not within.
    qid = np.repeat(np.arange(5) << 32, LENGTHS)[mixed]
    with bits(32):
        assert both(np.float32(scores[mixed]), grades[mixed], qid=qid, **groups_for(loss, mixed))[0] == pytest.approx(
            value, rel=1e-5
        )
    by_id, in_turn = both(scores[mixed], grades[mixed], qid=qid, **groups_for(loss, mixed))
    assert by_id == value
    np.testing.assert_array_equal(in_turn, gradient[mixed])

    padded, padded_grades = np.full((5, 8), np.nan), np.full((5, 8), -1.0)
    mask, labels = np.zeros((5, 8), dtype=bool), np.zeros((5, 8), dtype=int)
    for query, own in enumerate(rows):
        padded[query, : len(own)], padded_grades[query, : len(own)] = scores[own], grades[own]
        mask[query, : len(own)], labels[query, : len(own)] = True, GROUPS[own]
    own = {"groups": labels} if groups_for(loss) else {}
    in_rows, slopes = both(padded, padded_grades, mask=mask, **own)
    assert in_rows == value
    np.testing.assert_array_equal(slopes[mask], gradient)
    assert not slopes[~mask].any()


def test_vmap_takes_one_batch_after_the_other():
    scores, grades, offsets = arrays()
    function = JaxRankingLoss("svmmap")
    many = jnp.stack([scores, 2 * scores, -scores])
    values = jax.vmap(lambda s: function(s, grades, offsets))(many)
    assert values.tolist() == [float(function(one, grades, offsets)) for one in many]


def test_queries_may_have_names():
    scores, grades, _ = arrays()
    qid = np.repeat([9, 7, 5, 3, 1], LENGTHS)
    function = JaxRankingLoss("softmax")
    assert float(function(scores, grades, qid=[f"q{n}" for n in qid])) == float(function(scores, grades, qid=qid))


def test_a_batch_without_an_order_has_the_loss_0():
    value, gradient = jax.value_and_grad(JaxRankingLoss("svmmap"))(jnp.ones(3), jnp.ones(3))
    assert (float(value), gradient.tolist()) == (0.0, [0.0] * 3)


@pytest.mark.parametrize("name", [name for name, preset in all_presets().items() if preset.kind == "loss"])
def test_losses_have_names(name):
    assert np.isfinite(float(JaxRankingLoss(name)(*arrays())))


def test_the_bound_of_a_preset_is_kept():
    assert JaxRankingLoss("chapelle-ndcg").loss == StructuredLoss("ndcg@10", "dorm", "tight")
    assert repr(JaxRankingLoss("ndcg@5")) == "JaxRankingLoss(StructuredLoss(measure=ndcg@5))"


@pytest.mark.parametrize("loss", ["softmax", "ndcg@5", "svmmap", "ranksvm-squared"])
def test_training_lowers_the_loss(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 10, 5)).astype(np.float32)
    grades = (X[..., 0] * X[..., 1] > 0.5).astype(int) + (X[..., 2] > 1)
    function = JaxRankingLoss(loss)
    weights = {"in": 0.5 * rng.standard_normal((5, 16)), "out": 0.25 * rng.standard_normal(16)}

    @jax.jit
    def step(weights, X, grades):
        value, slopes = jax.value_and_grad(lambda w: function(jnp.tanh(X @ w["in"]) @ w["out"], grades))(weights)
        return value, jax.tree.map(lambda w, slope: w - 0.3 * slope, weights, slopes)

    values = []
    for _ in range(150):
        value, weights = step(weights, X, grades)
        values.append(float(value))
    assert values[-1] < 0.7 * values[0]


def test_bad_batches_are_refused():
    function, scores = JaxRankingLoss("softmax"), jnp.zeros(4)
    with pytest.raises(ValueError, match="'rankboost' is a baseline and has no loss"):
        JaxRankingLoss("rankboost")
    for expected, arguments, options in (
        *bad_batches(scores),
        ("scores are of type int64", (jnp.zeros(4, dtype=int), [1, 0, 0, 0]), {}),
    ):
        with pytest.raises(DataError, match=expected):
            function(*arguments, **options)
    with pytest.raises(DataError, match="grades have shape"):
        jax.jit(function)(scores, jnp.zeros(3))
    # What is only known when the function runs stops it too, with our words.
    with pytest.raises(Exception, match="score 1 is nan"):
        jax.jit(function)(jnp.array([0.0, np.nan]), jnp.array([1, 0]))[()].block_until_ready()
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(lambda s: jax.grad(function)(s, [1, 0]).sum())(jnp.zeros(2))
