"""Losses of every kind, for laws that hold for all of them."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.losses import (
    ClicksAndJudgements,
    CostLoss,
    GroupedLoss,
    ListHinge,
    Loss,
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
from marginrank.runtime.option_objects import OptionObject, registered


def ranks_cost(grades):
    """The cost of each document at each rank, from 0: the grade times the rank."""
    return np.outer(grades, np.arange(len(grades)))


LOSSES = [
    StructuredLoss("ap"),
    StructuredLoss("ndcg@5"),
    StructuredLoss("ndcg@3", "dorm"),
    StructuredLoss("ndcg@3", "dorm", "tight"),
    SlackLoss("rr@3", "dorm"),
    SmoothedHinge("ap", "po", 0.1),
    SumLoss((StructuredLoss("ap"), StructuredLoss("ndcg@2")), (1.0, 0.5)),
    SumLoss((PairwiseHinge(power=2), SoftmaxCrossEntropy(), SquaredError()), (0.5, 2.0, 0.25)),
    ClicksAndJudgements(PairwiseHinge(), StructuredLoss("ndcg@2")),
    MaxLoss((StructuredLoss("auc"), StructuredLoss("rr", "mrr"))),
    ModifiedWTA(),
    GroupedLoss("ndcg@3"),
    CostLoss(ranks_cost, "dorm(shape=linear)"),
    PairwiseHinge(),
    PairwiseHinge(power=2),
    NDCGPairwiseHinge(),
    PositionHinge(),
    ListHinge(),
    SquaredError(),
    SquaredDifferences(),
    ThresholdHinge(),
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy("binary", divergence=True),
]


def over(losses):
    """Parametrize a test by losses; names of functions with their addresses are left out of its id."""
    losses = list(losses)
    return pytest.mark.parametrize("loss", losses, ids=[f"{type(one).__name__}-{n}" for n, one in enumerate(losses)])


every_loss = over(LOSSES)


def kinds_of(losses):
    """Return the classes of losses and of their parts."""
    return {kind for loss in losses for kind in (type(loss), *map(type, getattr(loss, "losses", ())))}


def registered_kinds():
    """Return the classes of all losses of the package."""
    registered(Loss)
    kinds = [kind for kind in OptionObject.registry.values() if issubclass(kind, Loss)]
    return {kind for kind in kinds if not kind.__abstractmethods__ and kind.__module__.startswith("marginrank.")}


def needs_groups(loss):
    """Whether a loss is for queries whose documents belong to groups."""
    return isinstance(loss, GroupedLoss)
