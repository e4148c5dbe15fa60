"""What the exact kernel of slack rescaling is given."""

from __future__ import annotations

from typing import NamedTuple

from marginrank.typing import FloatArray, IntArray


class Task(NamedTuple):
    """What is maximised: profile, scales and y* of the map; gains and discounts, or credits, of the measure."""

    profile: FloatArray
    scales: FloatArray
    ideal: IntArray
    gains: FloatArray
    discounts: FloatArray
    credit: FloatArray
    credit_starts: IntArray
