"""The meaning of a ranker's parameters."""

from __future__ import annotations

from dataclasses import dataclass

from marginrank.losses.base import Loss
from marginrank.methods.presets import ResolvedMethod


def loss_of(method: ResolvedMethod) -> Loss:
    """Return the loss of a method, unless it is a baseline."""
    if method.loss is None:
        raise TypeError(f"{method.preset} is a baseline")
    return method.loss


@dataclass(frozen=True)
class NotInFile:
    """A parameter that a model file could not hold."""

    reason: str
