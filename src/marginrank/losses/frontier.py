"""What the exact kernel of slack rescaling is given."""

from __future__ import annotations

from typing import NamedTuple

from marginrank.typing import BoolArray, FloatArray, IntArray


class Layout(NamedTuple):
    """Where the documents of queries and levels are."""

    queries: IntArray
    levels: IntArray
    of_query: IntArray
    active: BoolArray


class Task(NamedTuple):
    """What is maximised: profile, scales and y* of the map; gains and discounts, or credits, of the measure."""

    profile: FloatArray
    scales: FloatArray
    ideal: IntArray
    gains: FloatArray
    discounts: FloatArray
    credit: FloatArray
    credit_starts: IntArray


class Ranked(NamedTuple):
    """Documents and scores by place, levels in score order, and the places by score."""

    scores: FloatArray
    documents: IntArray
    places: IntArray
