"""The scaling of features inside a model: resolved, learned and applied."""

from __future__ import annotations

from dataclasses import dataclass

from marginrank.data.queries import Queries
from marginrank.preparation.base import FeatureTransformer
from marginrank.preparation.scalings import SCALINGS, choose_scaling
from marginrank.words import suggest


@dataclass(frozen=True)
class Scaled:
    """Queries on the scale of a model, and how they got there."""

    queries: Queries
    scaling: str | None
    scaler: FeatureTransformer | None

    def apply(self, queries: Queries) -> Queries:
        """Bring other queries to the same scale."""
        if self.scaler is None:
            return queries
        scaled: Queries = self.scaler.transform(queries)
        return scaled


def scale(queries: Queries, scaling: str | None, *, matters: bool = True) -> Scaled:
    """Learn a scaling by name and apply it.

    Args:
        queries: The training queries.
        scaling: ``auto``, one of `SCALINGS`, or None.
        matters: Whether the scale of features matters to what is trained; ``auto`` leaves them alone otherwise.
    """
    name = (choose_scaling(queries, "linear") if matters else None) if scaling == "auto" else scaling
    if name is None:
        return Scaled(queries, None, None)
    if name not in SCALINGS:
        raise ValueError(f"scaling is {scaling!r}; {suggest(str(scaling), {'auto': None, **SCALINGS})}, or None")
    scaler = SCALINGS[name]()
    return Scaled(scaler.fit_transform(queries), name, scaler)
