"""Which loss a recommender trains."""

from __future__ import annotations

import numpy as np

from marginrank.errors import DataError
from marginrank.losses.base import Loss
from marginrank.losses.differences import SquaredDifferences
from marginrank.measures.gains import GAINS
from marginrank.measures.mixes import parse_mix
from marginrank.methods.presets import loss_for, parse_method
from marginrank.typing import FloatArray


def loss_to_train(measure: str, asked: str | Loss | None, values: FloatArray) -> Loss:
    """Return the loss asked for, or the one that follows from the measure.

    Args:
        measure: The measure, or mix of measures.
        asked: A convex loss, or a preset that has one; None for what follows from the measure.
        values: The ratings, whose gains the default loss takes as its unit.

    >>> loss_to_train("ndcg@10(gain=linear)", None, np.array([1.0, 2.0, 3.0, 2.0]))
    SquaredDifferences(unit=0.707107)
    """
    if asked is not None:
        loss = parse_method(asked).loss
        if loss is None or not loss.convex:
            raise ValueError(f"loss is {asked!r}, which is no convex loss; see docs/recommend for those that are")
        return loss
    parts = parse_mix(measure)
    gain = str(getattr(parts[0][1], "gain", None))
    if len(parts) > 1 or gain not in GAINS:
        return loss_for(measure)
    with np.errstate(over="ignore", invalid="ignore"):
        unit = float(GAINS[gain](values).std())
    if not np.isfinite(unit):
        raise DataError(
            f"gains 2^r - 1 of ratings up to {values.max():g} are too large; use linear gains, ndcg@10(gain=linear), "
            "or ratings on a smaller scale"
        )
    # Six digits are enough, and can be read.
    return SquaredDifferences(gain, float(f"{unit:.6g}") or 1.0)
