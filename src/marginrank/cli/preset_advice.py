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
    "softmax": "Among the cheapest to train; of five collections, significantly behind the best loss on pydocs alone.",
    "listnet": "Among the cheapest to train; of five collections, significantly behind the best loss on pydocs alone.",
    "ranksvm": "Pairs instead of a measure: rarely worse by much, and the usual baseline.",
    "ranksvm-squared": "Pairs with a smooth loss: like ranksvm, but cheaper to train.",
    "svmauc": "Counts all pairs alike; train it if you are judged by pairs.",
    "regression": "A quick baseline; of five collections, significantly behind the best loss on MQ2008 and pydocs.",
    "svmndcg-nc": "For judges who read the whole list; prefer svmndcg if only the first ranks count.",
    "dorm-ndcg": "Level with svmndcg under the bound auto, and slower; with the hinge it learns nothing.",
    "svmmrr": "No significant difference from rr@10 under the map po; train it if one answer is enough.",
}


def advice(preset: str) -> str:
    """Return when to train a preset, in a line; an empty text if there is no advice.

    >>> advice("ranksvm-squared")
    'Pairs with a smooth loss: like ranksvm, but cheaper to train.'
    """
    return _ADVICE.get(preset, "")
