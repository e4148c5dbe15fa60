"""`Ranker.partial_fit`: training continued with batches of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy.typing as npt

from marginrank.data.column_roles import column_names
from marginrank.data.inputs import refuse_other_columns
from marginrank.data.partitions import in_memory
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.model.model import Model
from marginrank.ranker.input_queries import training_queries
from marginrank.solvers.base import Callback
from marginrank.training.online import train_batch
from marginrank.training.plan import FitContext, Plan
from marginrank.training.trainer import check_continues, train

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker


def train_on_batch(
    ranker: Ranker,
    plan: Plan,
    X: Queries | npt.ArrayLike,
    y: npt.ArrayLike | None,
    qid: npt.ArrayLike | None,
    group: npt.ArrayLike | None,
    query_weights: npt.ArrayLike | None,
    callback: Callback | None,
) -> Model:
    """Return the model of a ranker after its next batch; the first batch is trained as `fit` does."""
    check_continues(plan)
    first = not hasattr(ranker, "model_")
    if not first and not isinstance(X, Queries):
        refuse_other_columns(column_names(X), ranker.model_.feature_names, "the model was trained on")
    given = training_queries(ranker, plan, X, y, qid, group, query_weights, reset=first)
    batch = in_canonical_order(in_memory(given, "a stream of batches"))
    if first:
        return train(plan, batch, FitContext(callback=callback)).with_quantiles(batch)
    return train_batch(plan, ranker.model_, batch, callback)
