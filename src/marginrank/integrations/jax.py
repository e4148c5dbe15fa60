"""Losses of this package in JAX models; needs the extra ``jax``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.integrations.score_batches import batch_loss, check_shapes, parse_loss
from marginrank.losses.base import Loss
from marginrank.measures import Measure

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise ImportError("marginrank.integrations.jax needs JAX: pip install 'marginrank[jax]'") from None

#: An array of JAX, or anything that NumPy converts to an array.
Values: TypeAlias = "jax.Array | npt.ArrayLike"


class JaxRankingLoss:
    """Mean of a ranking loss over the queries of a batch, as a differentiable function of JAX.

    >>> loss = JaxRankingLoss("softmax")
    >>> gradient = jax.grad(loss)(jnp.zeros(3), jnp.array([1, 0, 0]))
    >>> (3 * gradient).round(4).tolist()
    [-2.0, 1.0, 1.0]

    The loss and its gradient are computed on the host in float64, through `jax.pure_callback`, and returned in the type
    of the scores. ``jax.jit``, ``jax.grad`` and ``jax.vmap`` can transform it, with grades and queries as arguments or
    as constants; constants are prepared once. As in PyTorch, it depends neither on the number of threads nor on the
    order of the queries, and queries with a single grade do not count.

    Args:
        loss: What `marginrank.Ranker` takes as ``method``: a `Loss`, or the name of a preset or a measure such as
            ``svmmap`` or ``ndcg@10``; no baseline.
        n_jobs: Number of threads; all cores by default.
    """

    def __init__(self, loss: str | Measure | Loss = "softmax", n_jobs: int | None = None) -> None:
        self.loss, self.n_jobs = parse_loss(loss), n_jobs

    def __repr__(self) -> str:
        return f"JaxRankingLoss({self.loss})"

    def __call__(
        self,
        scores: Values,
        grades: Values,
        offsets: Values | None = None,
        *,
        qid: Values | None = None,
        mask: Values | None = None,
        groups: Values | None = None,
    ) -> jax.Array:
        """Return the mean loss of the queries with an order.

        Args:
            scores: One score per document, or a padded batch of queries × documents.
            grades: One grade per score.
            offsets: Start of each query, and end of the last; one query by default.
            qid: Instead of ``offsets``, the query of each document, in any order.
            mask: Which scores of a padded batch are documents; all by default. Others have the gradient 0.
            groups: One group label per document, for losses that use groups.
        """
        points = jnp.asarray(scores)
        if not jnp.issubdtype(points.dtype, jnp.floating):
            raise DataError(f"scores are of type {points.dtype}; give floating-point scores")
        given = {"grades": grades, "offsets": offsets, "qid": qid, "mask": mask, "groups": groups}
        traced = {name: values for name, values in given.items() if isinstance(values, jax.core.Tracer)}
        # Constants stay with NumPy: JAX would round them to 32 bits.
        fixed = {
            name: np.asarray(values) for name, values in given.items() if values is not None and name not in traced
        }
        columns: dict[str, Any] = {**fixed, **traced}
        check_shapes(points.shape, **{name: columns.get(name) for name in ("grades", "groups")})
        prepare = partial(batch_loss, self.loss, points.shape, n_jobs=self.n_jobs, **fixed)
        if traced:
            return _mean_loss(lambda values, batch: prepare(**batch)(values), points, traced)
        evaluate = prepare()
        return _mean_loss(lambda values, _: evaluate(values), points, {})


#: The mean loss and its gradient, given flat scores and the arrays of the batch.
_Evaluate: TypeAlias = Callable[[Any, dict[str, Any]], tuple[float, Any]]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _mean_loss(evaluate: _Evaluate, scores: jax.Array, batch: dict[str, Any]) -> jax.Array:
    return _on_host(evaluate, scores, batch)[0]


def _on_host(evaluate: _Evaluate, scores: jax.Array, batch: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
    def work(values: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
        flat = np.asarray(values).astype(np.float64).reshape(-1)
        value, gradient = evaluate(flat, {name: np.asarray(column) for name, column in batch.items()})
        return np.asarray(value, dtype=scores.dtype), gradient.reshape(scores.shape).astype(scores.dtype)

    kinds = jax.ShapeDtypeStruct((), scores.dtype), jax.ShapeDtypeStruct(scores.shape, scores.dtype)
    value, gradient = jax.pure_callback(work, kinds, scores, batch, vmap_method="sequential")
    return value, gradient


def _backward(_: _Evaluate, gradient: jax.Array, upstream: jax.Array) -> tuple[jax.Array, None]:
    return upstream * gradient, None


_mean_loss.defvjp(_on_host, _backward)
