"""The ideal ranking y*, and how its ties are broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from marginrank.data.document_keys import mix
from marginrank.losses.base import Bound, Judgements, Loss
from marginrank.losses.feature_maps import FeatureMap, parse_map
from marginrank.losses.oracles.grade_levels import Levels
from marginrank.measures import Measure, parse_measure
from marginrank.typing import IntArray, KeyArray

#: How documents of one level are ordered in y*: at random, as the rows are, or by the current scores.
Ideal: TypeAlias = Literal["random", "rows", "scores"]

#: Stands for an ideal ranking with every level in score order, which kernels compute themselves.
BY_SCORE = np.zeros(0, dtype=np.int64)


class MeasureLoss(Loss):
    """A loss of a ``measure``, under a ``feature_map`` if it has one; each is read from its spelling once."""

    measure: str | Measure
    feature_map: str | FeatureMap

    @cached_property
    def parsed_measure(self) -> Measure:
        """The measure of Δ."""
        return parse_measure(self.measure)

    @cached_property
    def parsed_map(self) -> FeatureMap:
        """The feature map."""
        return parse_map(self.feature_map)

    @property
    def sums_relevant(self) -> bool:
        """Whether the measure is DCG or precision, which do not divide by what all relevant documents are worth."""
        return self.parsed_measure.sums_over_relevant

    @property
    def criterion(self) -> str:
        """The measure of Δ."""
        return str(self.parsed_measure)


@dataclass(frozen=True, kw_only=True, repr=False)
class IdealLoss(MeasureLoss):
    """A loss that compares rankings with an ideal one, y*.

    Any order of the documents inside a level is ideal. "It is often the case that this y_q is not unique and we simply
    take one of them at random", Chapelle, Le and Smola (2007) §2. Under φpo all of them have the same a(y*). Under
    φdorm they do not: the hinge asks for the order that y* happens to have.

    Args:
        ideal: How y* orders documents of one level. ``random`` is the order of a hash of the seed and the document's
            key, a digest of its features (`Queries.document_keys`), so that the order of the rows does not matter; for
            plain grades the key is the position in the query. ``rows`` is the order of the caller's rows (those of
            a Dask frame have none, and are sorted by content): if they are sorted by some feature, the hinge of φdorm
            learns that feature. ``scores`` takes the ideal ranking that agrees with
            the current scores, and asks for no order inside a level; a(y*)·s is then a maximum over ideal rankings,
            and the loss is not convex under φdorm. Its majorant has ``random``.
        seed: Chooses the random order.
    """

    ideal: Ideal = "random"
    seed: int = 0

    @property
    def convex(self) -> bool:
        """Whether y* does not depend on the scores."""
        return self.ideal != "scores" or not self.parsed_map.fixed_ideal

    @property
    def majorant(self) -> Loss | None:
        """The same loss with a fixed y*: the difference max_{y ideal} a(y)·s − a(y*)·s is convex."""
        return None if self.convex else cast("Loss", replace(self, ideal="random"))

    @property
    def depends_on_rows(self) -> bool:
        """Whether y* orders documents of one level as the rows are."""
        return self.ideal == "rows" and self.parsed_map.fixed_ideal

    def _ties(self, judged: Judgements) -> KeyArray | None:
        """Return the keys that documents of one level are sorted by in y*; None for the order of the rows."""
        if self.ideal != "random" or not self.parsed_map.fixed_ideal:
            return None
        seed = np.array([self.seed % 2**64], dtype=np.uint64)
        return mix(judged.keys() + mix(seed + np.uint64(1)))

    def _ideal_ranks(self, levels: Levels, judged: Judgements) -> IntArray:
        """Return the rank of each document in y*, by level, then by ties; `BY_SCORE` if levels are in score order."""
        if not self.parsed_map.fixed_ideal or self.ideal == "scores":
            return BY_SCORE
        documents, ties = levels.documents, self._ties(judged)
        if ties is not None:
            level = np.repeat(np.arange(len(levels.gains)), np.diff(levels.offsets))
            documents = documents[np.lexsort((ties[documents], level))]
        ranks = np.empty(len(documents), dtype=np.int64)
        ranks[documents] = np.arange(len(ranks)) - np.repeat(levels.queries[:-1], levels.lengths)
        return ranks


class TwoBoundLoss(IdealLoss):
    """A loss of a measure with a ``bound`` to choose: the hinge is convex, the tight bound is not."""

    bound: Bound

    @property
    def convex(self) -> bool:
        """Whether it is the hinge, and y* does not depend on the scores."""
        return self.bound == "hinge" and super().convex

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Both."""
        return ("hinge", "tight")

    def bounded(self, bound: Bound) -> Loss:
        """Return the same loss with another bound."""
        return self if bound == self.bound else cast("Loss", replace(cast("Any", self), bound=bound))

    @property
    def majorant(self) -> Loss | None:
        """The hinge with a fixed y*: max_y a(y)·s − a(y*)·s, over all y or all that are ideal, is convex."""
        if self.convex:
            return None
        fixed = "random" if self.ideal == "scores" else self.ideal
        return cast("Loss", replace(cast("Any", self), bound="hinge", ideal=fixed))
