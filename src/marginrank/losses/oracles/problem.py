"""What an oracle is given and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from marginrank.losses.feature_maps import FeatureMap
from marginrank.losses.oracles.levels import Levels
from marginrank.measures import Measure
from marginrank.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Sorted:
    """The documents of all queries sorted by score, inside their levels and all together.

    Places run over the levels of a query, best level first, as in `Levels`.
    """

    #: Score at each place, descending inside each level.
    scores: FloatArray
    #: Rank by score of the document at each place.
    predicted: IntArray
    #: Place of the document at each rank by score.
    places: IntArray


#: Ranks the documents of queries ``first`` to ``end``, so that weight·Δ + a(y)·s is largest:
#: ``rank(sorted, weights, ranks by place, weight·Δ, first, end)``.
Ranker: TypeAlias = Callable[[Sorted, FloatArray, IntArray, FloatArray, int, int], None]


@dataclass(frozen=True)
class Problem:
    """Queries arranged by level, and the measure and the feature map to rank them under."""

    measure: Measure
    feature_map: FeatureMap
    levels: Levels

    @cached_property
    def profile(self) -> FloatArray:
        """A over all ranks that occur."""
        return self.feature_map.profile(int(self.levels.lengths.max(initial=1)), self.measure)

    @cached_property
    def scales(self) -> FloatArray:
        """Scale of A for each query."""
        return self.feature_map.scales(self.levels.lengths, self.levels.pairs)

    @cached_property
    def active(self) -> BoolArray:
        """Queries that carry an order."""
        return self.levels.ordered
