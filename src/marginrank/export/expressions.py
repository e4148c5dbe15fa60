"""Scores as one arithmetic expression, for languages with conditional expressions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from marginrank.errors import Message
from marginrank.export.base import other_terms
from marginrank.export.tree_ensemble import Leaf, LinearLeaf, Node, Split, affine, trees_of, weights_of
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import AdaptiveTerm, CurvesTerm, LinearTerm, TreesTerm


class Syntax(ABC):
    """Syntax of a language: numbers, choices and missing values."""

    @abstractmethod
    def number(self, value: float) -> str:
        """Write a number."""

    @abstractmethod
    def choose(self, condition: str, yes: str, no: str) -> str:
        """Write ``yes`` if the condition holds, else ``no``."""

    @abstractmethod
    def is_missing(self, x: str) -> str:
        """Write the condition that a value is missing."""

    @abstractmethod
    def at_most(self, x: str, threshold: float, *, or_missing: bool) -> str:
        """Write the condition that a value is at most a threshold, or missing; otherwise a missing value is above."""

    def product(self, weight: float, x: str, origin: float) -> str:
        """Write ``weight * (x - origin)``."""
        return f"{self.number(weight)} * {self.minus(x, origin)}"

    def minus(self, x: str, value: float) -> str:
        """Write a difference."""
        if value == 0:
            return x
        return f"({x} {'-' if value > 0 else '+'} {self.number(abs(value))})"


def refuse_expression(function: ScoringFunction) -> Message | None:
    """Return the reason why a function is no expression, or None."""
    if any(isinstance(term, TreesTerm) and len(term.grades) for term in function.terms):
        return "its scores are expected grades"
    return other_terms(function, LinearTerm, AdaptiveTerm, CurvesTerm, TreesTerm)


def parts_of(function: ScoringFunction, columns: Sequence[str], syntax: Syntax) -> list[str]:
    """Write the parts that add up to the score, given what stands for each feature; scalings by query are applied."""
    parts = []
    for feature, weight, origin, missing in weights_of(function):
        x = columns[feature]
        product = syntax.product(weight, x, origin)
        if missing is not None:
            product = syntax.choose(syntax.is_missing(x), syntax.number(missing), product)
        parts.append(product)
    for term in function.terms:
        if isinstance(term, AdaptiveTerm):
            parts += _adaptive(function, term, columns, syntax)
    return [*parts, *(_written(tree, columns, syntax) for tree in trees_of(function))] or [syntax.number(0.0)]


def _adaptive(function: ScoringFunction, term: AdaptiveTerm, columns: Sequence[str], syntax: Syntax) -> Iterator[str]:
    """Write weight times feature, for each feature with a weight that depends on the context."""
    context = [_unit_context(function, term, at, columns, syntax) for at in range(len(term.context))]
    for feature, (weight, changes) in enumerate(zip(term.weights.tolist(), term.changes.tolist(), strict=True)):
        origin, scale = affine(function, feature)
        if not scale or not (weight or any(changes)):
            continue
        pairs = zip(changes, context, strict=True)
        products = [syntax.product(change / scale, t, 0.0) for change, t in pairs if change and t is not None]
        total = balanced_sum([syntax.number(weight / scale), *products])
        yield f"({total}) * {syntax.minus(columns[feature], origin)}"


def _unit_context(
    function: ScoringFunction, term: AdaptiveTerm, at: int, columns: Sequence[str], syntax: Syntax
) -> str | None:
    """Write a context column scaled to [0, 1]; None if it has no effect."""
    feature = int(term.context[at])
    origin, scale = affine(function, feature)
    if not term.width[at] or not scale:
        return None
    z, low = columns[feature], origin + scale * float(term.low[at])
    high = origin + scale * float(term.low[at] + term.width[at])
    inside = syntax.product(1.0 / (scale * float(term.width[at])), z, low)
    below = syntax.at_most(z, low, or_missing=False)
    above = syntax.choose(syntax.at_most(z, high, or_missing=False), inside, syntax.number(1.0))
    return f"({syntax.choose(below, syntax.number(0.0), above)})"


def _written(tree: Node, columns: Sequence[str], syntax: Syntax) -> str:
    if isinstance(tree, Leaf):
        return syntax.number(tree.value)
    x = columns[tree.feature]
    if isinstance(tree, LinearLeaf):
        return f"{syntax.number(tree.value)} + {syntax.product(tree.slope, x, tree.origin)}"
    left, right = (_written(child, columns, syntax) for child in (tree.left, tree.right))
    return syntax.choose(_condition(tree, x, syntax), left, right)


def _condition(split: Split, x: str, syntax: Syntax) -> str:
    if np.isfinite(split.threshold):
        return syntax.at_most(x, split.threshold, or_missing=split.missing_left)
    if split.threshold < 0:
        # Only missing values can go left.
        return syntax.is_missing(x) if split.missing_left else syntax.at_most(x, _LOWEST, or_missing=False)
    return syntax.at_most(x, -_LOWEST, or_missing=split.missing_left)


_LOWEST = -1.7976931348623157e308


def balanced_sum(parts: Sequence[str], separator: str = " + ") -> str:
    """Add parts up in halves, as parsers limit how deep expressions are nested.

    >>> balanced_sum(["a", "b", "c"])
    '(a + (b + c))'
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = balanced_sum(parts[:middle], separator), balanced_sum(parts[middle:], separator)
    return f"({left}{separator}{right})"
