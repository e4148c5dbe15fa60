"""Sums over the first ranks on a device: sorted levels are merged rank by rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any, Final, NamedTuple, Self

import numpy as np

from marginrank.devices import Device
from marginrank.losses.on_device.base import BLOCK, STEP, WARPS, Chosen, DeviceLoss, Tiles
from marginrank.typing import AnyArray, BoolArray, FloatArray, IntArray

#: States that a program looks at together.
_STATES: Final = 256
#: Documents whose sums over the ranks after the last that counts are computed together.
_SUMMED: Final = 8
#: Most programs, and most bytes of room for them.
_PROGRAMS: Final = 8192
_ROOM: Final = 1 << 30


class Lattice(NamedTuple):
    """How many documents of each level are placed, one table after the other for every number of levels.

    Args:
        counts: Documents placed, as levels × states.
        predecessors: The states with one document of a level fewer, numbered inside their layer.
        layers: Where the states after each number of ranks begin, as levels × ranks.
        widest: Most states of a layer.
    """

    counts: Any
    predecessors: Any
    layers: Any
    widest: int

    @classmethod
    def of(cls, device: Device, tables: IntArray, counts: AnyArray, predecessors: AnyArray, depth: int) -> Lattice:
        """Copy the states to the device, level by level."""
        sizes = np.arange(depth + 2)
        inside = np.array(
            [[comb(int(size) - 1 + n, n) if size else 0 for size in sizes] for n in range(len(tables) - 1)]
        )
        present = np.diff(tables) > 0
        layers = np.where(present[:, None], tables[:-1, None] + inside, 0)
        placed = counts.sum(axis=1, dtype=np.int64)
        table = np.searchsorted(tables, np.arange(len(counts)), side="right") - 1
        first = np.where(placed > 0, inside[table, np.maximum(placed - 1, 0)], 0)
        relative = np.where(counts > 0, predecessors - first[:, None], 0)
        widest = int(np.diff(layers[present], axis=1).max(initial=1))
        placed_before, placed_now = (device.tensor(part.T.astype(np.int32)) for part in (relative, counts))
        return cls(placed_now, placed_before, device.tensor(layers), widest)


class RankLevels(NamedTuple):
    """The levels of all queries: where each begins inside its query, its documents, and its gain."""

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
    lattice: Lattice

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
        return self.tiles(self.offsets[:-1], self.offsets[1:])

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
    def _own_scales(self) -> Any:
        """Scale of each document; 0 where its query does not count."""
        return (self.scales * self.device.tensor(self.active.astype(np.float64)))[self._query]

    @cached_property
    def _A(self) -> Any:
        return self.device.tensor(self.profile)

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        from marginrank.losses.on_device import kernels  # noqa: PLC0415

        torch, tiles = self.device.torch, self._tiles
        values, by_score, by_document = (torch.empty_like(scores) for _ in range(3))
        documents, predicted = (torch.empty_like(self._firsts) for _ in range(2))
        kernels.sort_levels[(tiles.n_tiles,)](
            scores, self.levels, self.segments.offsets, self._firsts, tiles.queries, tiles.starts, values, documents,
            predicted, by_score, RANKS=True, BLOCK=BLOCK, STEP=STEP, num_warps=WARPS,
        )  # fmt: skip
        ranks, gained = self._merge(values, predicted, by_score)
        places = torch.arange(len(scores), device=scores.device) - self.segments.offsets[self._query]
        reference = places if self.ideal is None else self.ideal[documents]
        slopes = self._own_scales * (self._A[ranks] - self._A[reference])
        by_document[documents] = slopes
        deltas = torch.where(gained >= 0, self.ideal_gains - gained, 0.0)
        return (self.segments.sum(slopes * values) + deltas).clamp_(min=0.0), by_document

    def _merge(self, values: Any, predicted: Any, by_score: Any) -> tuple[Any, Any]:
        """Return the rank of the document at each place, and what the ranking of each query gains; −1 for none."""
        from marginrank.losses.on_device.merging_kernels import merge_levels  # noqa: PLC0415

        torch, lattice, depth = self.device.torch, self.lattice, len(self.discounts)
        longest, n_states = int(np.diff(self.offsets).max(initial=1)), lattice.counts.shape[1]
        has_tail, columns = bool(np.any(self.profile[depth:] != 0.0)), 1 << depth.bit_length()
        row = 8 * (4 * lattice.widest + depth + ((longest + 1) * columns if has_tail else 0)) + 4 * n_states
        n_programs = max(1, min(len(self._numbers), _PROGRAMS, _ROOM // row))
        double = {"dtype": torch.float64, "device": values.device}
        room = (
            torch.empty((n_programs, 2 * lattice.widest), **double),
            torch.empty((n_programs, 2 * lattice.widest), **double),
            torch.empty((n_programs, n_states), dtype=torch.int32, device=values.device),
            torch.empty((n_programs, (longest + 1) * columns if has_tail else 1), **double),
            torch.empty((n_programs, depth), dtype=torch.int64, device=values.device),
        )
        ranks, gained = torch.zeros_like(predicted), torch.full((len(self.lows),), -1.0, **double)
        if len(self._numbers):
            merge_levels[(n_programs,)](
                values, predicted, by_score, self._numbers, self.segments.offsets, self.lows, self.n_levels,
                *self.rank_levels, self.scales, self.discounts, self._A, lattice.layers, lattice.counts,
                lattice.predecessors, *room, ranks, gained, len(self._numbers), n_states, lattice.widest, longest,
                depth, TAIL=has_tail, COLUMNS=columns, BLOCK=_STATES, STEP=_SUMMED,
            )  # fmt: skip
        return ranks, gained
