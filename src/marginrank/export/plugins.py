"""What the learning-to-rank plugins of search engines share."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from marginrank.export.base import Target, not_tree_shaped
from marginrank.scorers.formula import LinearTerm
from marginrank.scoring import Function


@dataclass(frozen=True)
class Plugin(Target, ABC):
    """A plugin that scores linear models and trees of features it computes itself."""

    takes: ClassVar[str] = "linear models, trees and additive models with steps"
    suffix: ClassVar[str] = ".json"
    knows_missing: ClassVar[bool] = False

    def refusal(self, function: Function) -> str | None:
        """Say why a function is not taken, or return None."""
        return None if is_linear(function) else not_tree_shaped(function)


class Weight(NamedTuple):
    """The weight of a feature, with its mean and standard deviation where features are standardised."""

    feature: str
    weight: float
    mean: float
    scale: float


def is_linear(function: Function) -> bool:
    """Return whether a function is a sum of weights of standardised or raw features."""
    return not function.needs_queries and len(function.terms) == 1 and isinstance(function.terms[0], LinearTerm)


def weights_of(function: Function, features: list[str]) -> list[Weight]:
    """Return the weights of a linear function, without features that were constant in training."""
    term = function.terms[0]
    assert isinstance(term, LinearTerm)
    means = [0.0] * len(features) if function.mean is None else function.mean.tolist()
    scales = [1.0] * len(features) if function.scale is None else function.scale.tolist()
    weights = map(Weight, features, term.weights.tolist(), means, scales)
    return [weight for weight in weights if weight.scale]
