"""Advice on presets: when to train which, as found by the experiment ``which-loss``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The page with the numbers.
PAGE: Final = "experiments/results/which-loss.md"
_SAFE: Final = "A safe choice: never significantly behind the best loss on five collections."
_ADVICE: Final[Mapping[str, str]] = {
    "svmmap": f"{_SAFE} Convex, so that the model comes with a certificate.",
    "svmndcg": f"{_SAFE} Keep the bound at auto: with the hinge alone it often learns nothing.",
    "softmax": "Among the cheapest to train; level with the best losses on four collections of five, behind on one.",
    "listnet": "Among the cheapest to train; level with the best losses on four collections of five, behind on one.",
    "ranksvm": "Pairs instead of a measure: rarely worse by much, and the usual baseline.",
    "ranksvm-squared": "Pairs with a smooth loss: as ranksvm, and cheaper to train.",
    "svmauc": "Counts all pairs alike; train it if you are judged by pairs.",
    "regression": "A quick baseline; behind all others where features are many.",
    "svmndcg-nc": "For judges who read the whole list; prefer svmndcg if only the first ranks count.",
    "dorm-ndcg": "Level with svmndcg under the bound auto, and slower; with the hinge it learns nothing.",
    "svmmrr": "No significant difference from rr@10 under the map po; train it if one answer is enough.",
}


def advice(preset: str) -> str:
    """Return when to train a preset, in a line; an empty text if there is no advice.

    >>> advice("ranksvm-squared")
    'Pairs with a smooth loss: as ranksvm, and cheaper to train.'
    """
    return _ADVICE.get(preset, "")
