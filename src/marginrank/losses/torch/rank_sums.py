"""Sums over the first ranks on a device: sorted levels are merged rank by rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import numpy as np

from marginrank.losses.torch.base import SORTED, STEP, UNROLL, Chosen, DeviceLoss, Tiles
from marginrank.typing import BoolArray, FloatArray

#: States that a program looks at together, and documents whose slopes it computes together.
_STATES: Final = 32
_DOCUMENTS: Final = 128
#: Registers of a thread of such a program, the quickest on one H200.
_REGISTERS: Final = 64
#: Most programs: as many as an H200 runs at once.
_PROGRAMS: Final = 4224
#: Most bytes of room for them, and bytes that a state takes.
_ROOM: Final = 1 << 30
_STATE: Final = 28


class LevelCounts(NamedTuple):
    """How many documents of each level are placed, one table after the other for every number of levels.

    Args:
        tables: Where the states of each number of levels begin.
        successors: The states with one document of a level more, numbered inside their table, as states × levels.
        most: Most states of a table.
    """

    tables: Any
    successors: Any
    most: int


class RankLevels(NamedTuple):
    """The levels of all queries: where each begins inside its query, and documents that can be among the first ranks.

    ``gains`` are those of the measure, over the scale of the feature map.
    """

    starts: Any
    sizes: Any
    gains: Any


@dataclass(frozen=True, eq=False)
class DeviceMerge(DeviceLoss):
    """The structured hinge of measures that sum over the first ranks, such as NDCG@k.

    Args:
        device: The device.
        offsets: Where each query begins and the last ends.
        active: Whether each query has documents that the measure can tell apart.
        lows: The first level of each query.
        n_levels: Levels of each query.
        scales: Scale of the feature map, by query.
        ideal_gains: Gain of the ideal ranking, by query.
        levels: Level of each document, the best being 0.
        ideal: Rank of each document in y*; None where levels are in score order.
        rank_levels: The levels of all queries.
        discounts: Discount of each of the first ranks.
        profile: A over all ranks.
        falls: How A and D fall, as `grade_lattice.falls` has it.
        lattice: The states.
    """

    active: BoolArray
    lows: Any
    n_levels: Any
    scales: Any
    ideal_gains: Any
    levels: Any
    ideal: Any
    rank_levels: RankLevels
    discounts: Any
    profile: FloatArray
    falls: Any
    lattice: LevelCounts

    def take(self, chosen: Chosen) -> Self:
        """Return the loss of some of the queries."""
        queries, documents, offsets = chosen
        return replace(
            self,
            offsets=offsets,
            active=self.active[queries.cpu().numpy()],
            **{name: getattr(self, name)[queries] for name in ("lows", "n_levels", "scales", "ideal_gains")},
            levels=self.levels[documents],
            ideal=None if self.ideal is None else self.ideal[documents],
        )

    @cached_property
    def _tiles(self) -> Tiles:
        return self.tiles(self.offsets[:-1], self.offsets[1:], SORTED)

    @cached_property
    def _numbers(self) -> Any:
        """Numbers of the queries that count."""
        return self.device.tensor(np.flatnonzero(self.active))

    @cached_property
    def _query(self) -> Any:
        return self.device.tensor(np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets)))

    @cached_property
    def _firsts(self) -> Any:
        """Where the level of each document begins."""
        return self.segments.offsets[self._query] + self.rank_levels.starts[self.lows[self._query] + self.levels]

    @cached_property
    def _A(self) -> Any:
        return self.device.tensor(self.profile)

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        torch = self.device.torch
        xi, slopes = torch.zeros_like(self.scales), torch.zeros_like(scores)
        if len(self._numbers):
            self._merge(self._sort(scores), xi, slopes)
        return xi, slopes

    @property
    def _width(self) -> int:
        """Bits of the number of a level."""
        return int(self.lattice.successors.shape[1]).bit_length()

    def _sort(self, scores: Any) -> tuple[Any, ...]:
        """Sort documents by score, inside their levels and all together."""
        from marginrank.losses.torch.pair_hinges_triton import sort_levels  # noqa: PLC0415

        torch, tiles = self.device.torch, self._tiles
        values, by_score, documents = torch.empty_like(scores), torch.empty_like(scores), torch.empty_like(self._firsts)
        positions, seats = torch.empty_like(self.levels), torch.empty_like(self.levels)
        sort_levels[(tiles.n_tiles,)](
            scores, self.levels, self.segments.offsets, self._firsts, tiles.queries, tiles.starts, values, documents,
            positions, by_score, seats, RANKS=True, WIDTH=self._width, BLOCK=SORTED, STEP=STEP, UNROLL=UNROLL,
            num_warps=1,
        )  # fmt: skip
        return values, documents, positions, by_score, seats

    def _merge(self, ordered: tuple[Any, ...], xi: Any, slopes: Any) -> None:
        """Write ξ and slopes of the queries that count."""
        from marginrank.losses.torch.rank_sums_triton import merge_levels  # noqa: PLC0415

        torch, lattice, depth, n_active = self.device.torch, self.lattice, len(self.discounts), len(self._numbers)
        n_programs = max(1, min(n_active, _PROGRAMS, _ROOM // (_STATE * lattice.most)))
        kinds = (torch.int64, torch.float64, torch.int32, torch.int32, torch.int32)
        room = (torch.empty((n_programs, lattice.most), dtype=kind, device=xi.device) for kind in kinds)
        chosen = torch.empty((n_programs, depth), dtype=torch.int32, device=xi.device)
        merge_levels[(n_programs,)](
            *ordered, self._numbers, self.segments.offsets, self.lows, self.n_levels, *self.rank_levels, self.scales,
            self.ideal_gains, self._numbers if self.ideal is None else self.ideal, self.discounts, self._A, self.falls,
            lattice.tables, lattice.successors, *room, chosen, xi, slopes, n_active, lattice.most, depth,
            TAIL=bool(np.any(self.profile[depth:] != 0.0)), IDEAL=self.ideal is not None,
            LEVELS=lattice.successors.shape[1], WIDTH=self._width, BITS=depth.bit_length(), BLOCK=_STATES,
            DOCUMENTS=_DOCUMENTS, num_warps=1, maxnreg=_REGISTERS,
        )  # fmt: skip
