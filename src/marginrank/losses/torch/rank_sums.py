"""Sums over the first ranks in PyTorch: dynamic programming over how many documents of each level are placed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import numpy as np

from marginrank.losses.torch.base import QuerySubset, TorchLoss
from marginrank.typing import BoolArray, IntArray

#: Relative error of numbers that are compared, with a safety factor.
_ROUNDING: Final = 1e-12
#: Most states of all queries that are worked on together: 1 GB of values.
_MOST_STATES: Final = 1 << 27


class LevelCounts(NamedTuple):
    """The states: how many documents of each level are placed, states with fewer documents first.

    Args:
        counts: Documents of each level, as states × levels.
        successors: The state with one document of a level more, as states × levels.
        predecessors: The state with one document of a level fewer, as states × levels.
        first: The first state of each number of documents, and the number of states.
    """

    counts: Any
    successors: Any
    predecessors: Any
    first: IntArray


class _Sorted(NamedTuple):
    """Documents in descending order of their scores.

    Args:
        by_score: All documents of each query.
        by_level: The documents of each query, level by level.
        positions: For each place in ``by_level``, the position of its document among all of the query.
        tail_sums: What documents at the ranks after the first ones lose, as `_tail_sums` has it; None if A is 0 there.
    """

    by_score: Any
    by_level: Any
    positions: Any
    tail_sums: Any


@dataclass(frozen=True, eq=False)
class TorchRankSums(TorchLoss):
    """The structured hinge of measures that sum over the first ranks, such as NDCG@k.

    Args:
        device: The device.
        offsets: Start of each query, and end of the last.
        active: Whether each query has documents that the measure can tell apart.
        scales: Scale of the feature map, by query.
        gains: Gain of each level over the scale, as queries × levels.
        ideal_gains: Gain of the ideal ranking, by query.
        levels: Level of each document, the best being 0.
        ideal: Rank of each document in y*; None if y* is in order of level and score.
        discounts: Discount of each of the first ranks.
        profile: A over all ranks.
        falls: How A and D fall, as `rank_differences` has it.
        states: The states.
    """

    active: BoolArray
    scales: Any
    gains: Any
    ideal_gains: Any
    levels: Any
    ideal: Any
    discounts: Any
    profile: Any
    falls: Any
    states: LevelCounts

    def take(self, subset: QuerySubset) -> Self:
        """Return the loss of some of the queries."""
        queries, documents, offsets = subset
        return replace(
            self,
            offsets=offsets,
            active=self.active[queries.cpu().numpy()],
            **{name: getattr(self, name)[queries] for name in ("scales", "gains", "ideal_gains")},
            levels=self.levels[documents],
            ideal=None if self.ideal is None else self.ideal[documents],
        )

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        torch, segments, query = self.device.torch, self.segments, self.segments.numbers
        ordered = self._sort(scores)
        ranks, gained = torch.full_like(query, -1), torch.zeros_like(self.scales)
        for queries in self._batches:
            places, gained[queries] = self._best_ranking(scores, ordered, queries)
            ranks[places[places >= 0]] = torch.nonzero(places >= 0)[:, 1]
        change = self.profile[self._rank_all(ranks, ordered)] - self.profile[self._ideal_ranks(ordered)]
        gradient = torch.where(self._active[query], self.scales[query] * change, 0.0)
        xi = segments.sum(gradient * scores) + self.ideal_gains - self.scales * gained
        return torch.where(self._active, xi.clamp(min=0.0), 0.0), gradient

    def _sort(self, scores: Any) -> _Sorted:
        torch, query = self.device.torch, self.segments.numbers
        rows = torch.arange(len(scores), device=scores.device)
        by_level = self.sort(scores, query * self.gains.shape[1] + self.levels, rows)
        # Of equal scores, the worst level comes first.
        by_score = self.sort(scores, query, self._worst_first)
        position = torch.empty_like(rows)
        position[by_score] = rows - self.segments.starts
        tail_sums = self._tail_sums(scores[by_score]) if self._has_tail else None
        return _Sorted(by_score, by_level, position[by_level], tail_sums)

    def _rank_all(self, ranks: Any, ordered: _Sorted) -> Any:
        """Return the rank of each document, given the first ranks by place: the others follow in score order."""
        torch, segments = self.device.torch, self.segments
        by_score = torch.empty_like(ranks)
        by_score[ordered.positions + segments.starts] = ranks
        others = self._n_ranked[segments.numbers] + segments.running_count((by_score < 0).long()) - 1
        out = torch.empty_like(ranks)
        # With scores that are not finite, there may be no best ranking.
        out[ordered.by_score] = torch.where(by_score < 0, others, by_score).clamp(max=len(self.profile) - 1)
        return out

    def _ideal_ranks(self, ordered: _Sorted) -> Any:
        if self.ideal is not None:
            return self.ideal
        ranks = self.device.torch.empty_like(ordered.by_level)
        ranks[ordered.by_level] = self.device.torch.arange(len(ranks), device=ranks.device) - self.segments.starts
        return ranks

    def _best_ranking(self, scores: Any, ordered: _Sorted, queries: Any) -> tuple[Any, Any]:
        """Return the places at each of the first ranks, −1 for none, and what these ranks gain, for some queries."""
        torch, n_documents = self.device.torch, self._sizes[queries]
        index = torch.arange(len(self.discounts), device=queries.device)
        places = self._starts[queries][:, :, None] + index
        there = index < n_documents[:, :, None]
        heads = scores[ordered.by_level[torch.where(there, places, 0)]].masked_fill(~there, torch.nan)
        values = self._reach(heads, queries)
        last = self._states_at[None, :] == self._n_ranked[queries][:, None]
        totals = values.masked_fill(~last, -torch.inf)
        if ordered.tail_sums is not None:
            self._add_tails(totals, scores, ordered, queries)
        return self._trace_back(totals.argmax(1), values, heads, places, queries)

    def _reach(self, heads: Any, queries: Any) -> Any:
        """Return the largest sum over the ranks so far, by query and state, for states that a best ranking passes."""
        torch, (counts, successors, _, first) = self.device.torch, self.states
        values = torch.full((len(queries), len(counts)), -torch.inf, dtype=heads.dtype, device=heads.device)
        values[:, 0] = 0.0
        levels = torch.arange(heads.shape[1], device=heads.device)
        for rank in range(len(self.discounts)):
            query, state = torch.nonzero(values[:, first[rank] : first[rank + 1]] > -torch.inf).unbind(1)
            state = state + first[rank]
            head, gains = heads[query[:, None], levels, counts[state]], self.gains[queries[query]]
            value = values[query, state][:, None] + self.profile[rank] * head - self.discounts[rank] * gains
            value = value.masked_fill(~self._can_follow(rank, head, gains, queries[query]), -torch.inf)
            to = query[:, None] * len(counts) + successors[state]
            values.view(-1).scatter_reduce_(0, to.view(-1), value.view(-1), "amax")
        return values

    def _can_follow(self, rank: int, head: Any, gains: Any, queries: Any) -> Any:
        """Return whether the next document of each level can be at a rank of a best ranking.

        No document of a worse level comes first wherever this one goes, and none of a better one; `rank_sums_kernel`
        says when that is.
        """
        torch, infinity = self.device.torch, self.device.torch.inf
        least_a, least_d, most_a, most_d = self.falls[rank, :4]
        # Of the falls to ranks that do not count, where D is 0, the one to the last rank has the least ratio.
        drop, discount = self._drops[rank][queries], self.discounts[rank]
        further = discount * least_a < least_d * drop
        least_a, least_d = torch.where(further, drop, least_a), torch.where(further, discount, least_d)
        worth = (least_a[:, None] * head - least_d[:, None] * gains).nan_to_num(-infinity, infinity, -infinity)
        free = worth > _max_before(torch, worth.flip(1)).flip(1)
        worth = (most_a * head - most_d * gains).masked_fill(~free, -infinity)
        sizes = most_a * head.abs().nan_to_num(0.0).amax(1, keepdim=True) + most_d * gains[:, :1]
        return free & (_max_before(torch, worth) <= worth + _ROUNDING * sizes)

    def _add_tails(self, totals: Any, scores: Any, ordered: _Sorted, queries: Any) -> None:
        """Add the ranks after the first ones, which go to the other documents in score order, up to a constant.

        If the c-th document of a state in score order is at position m, those before it are one rank higher than
        without it, and it is not at rank depth + m − c − 1 itself.
        """
        depth, torch = len(self.discounts), self.device.torch
        longer = self._lengths[queries] > depth
        query, state = torch.nonzero((totals > -torch.inf) & longer[:, None]).unbind(1)
        (level, number), number_of = self._members[:, state], queries[query][:, None]
        position = ordered.positions[self._starts[number_of, level] + number].sort(1).values
        row = self.segments.offsets[number_of] + position
        lost = ordered.tail_sums[self._shifts.clamp(max=len(ordered.tail_sums) - 1), row]
        lost = lost + self.profile[depth + position - self._shifts - 1] * scores[ordered.by_score[row]]
        totals[query, state] -= lost.sum(1)

    def _tail_sums(self, values: Any) -> Any:
        """Return what the documents before each position lose by one rank, when c of them are gone, as c × position."""
        segments, depth, last = self.segments, len(self.discounts), len(self.profile) - 2
        falls = -self.profile.diff()
        position = self.device.torch.arange(len(values), device=values.device) - segments.starts
        terms = [falls[(depth + position - c - 1).clamp(min=0, max=last)] * values for c in range(self._n_shifts)]
        return self.device.torch.stack([segments.running_sum(term) - term for term in terms])

    def _trace_back(self, state: Any, values: Any, heads: Any, places: Any, queries: Any) -> tuple[Any, Any]:
        """Return the places at the first ranks that lead to a state of each query, and what they gain."""
        torch, (counts, _, predecessors, _) = self.device.torch, self.states
        query, gains, n_ranked = torch.arange(len(queries), device=state.device), self.gains[queries], self._n_ranked
        path, gained = torch.full((len(queries), len(self.discounts)), -1, device=state.device), 0.0
        for rank in reversed(range(len(self.discounts))):
            before, last = predecessors[state], (counts[state] - 1).clamp(min=0)
            value = values.gather(1, before) + self.profile[rank] * heads.gather(2, last[:, :, None])[:, :, 0]
            value -= self.discounts[rank] * gains
            level = value.masked_fill((counts[state] == 0) | value.isnan(), -torch.inf).argmax(1)
            counted = rank < n_ranked[queries]
            path[:, rank] = torch.where(counted, places[query, level, last[query, level]], -1)
            gained = gained + torch.where(counted, self.discounts[rank] * gains[query, level], 0.0)
            state = torch.where(counted, before[query, level], state)
        return path, gained

    @cached_property
    def _active(self) -> Any:
        return self.device.tensor(self.active)

    @cached_property
    def _batches(self) -> list[Any]:
        """Queries that count, as many together as fit in memory."""
        return list(self.device.tensor(np.flatnonzero(self.active)).split(max(1, _MOST_STATES // len(self._states_at))))

    @cached_property
    def _lengths(self) -> Any:
        return self.segments.offsets.diff()

    @cached_property
    def _n_ranked(self) -> Any:
        """The number of the first ranks that each query has; 0 if it does not count."""
        return self.device.torch.where(self._active, self._lengths.clamp(max=len(self.discounts)), 0)

    @cached_property
    def _sizes(self) -> Any:
        """Documents of each level, as queries × levels."""
        level = self.segments.numbers * self.gains.shape[1] + self.levels
        return self.device.torch.bincount(level, minlength=self.gains.numel()).view(self.gains.shape)

    @cached_property
    def _starts(self) -> Any:
        """The first place of each level, as queries × levels."""
        return self.segments.offsets[:-1, None] + self._sizes.cumsum(1) - self._sizes

    @cached_property
    def _worst_first(self) -> Any:
        return self.device.torch.sort(self.levels, descending=True, stable=True).indices

    @cached_property
    def _drops(self) -> Any:
        """The decrease of A from each of the first ranks to the last rank of each query, 0 if that is one of them."""
        last = self.profile[(self._lengths - 1).clamp(min=0)]
        falls = self.profile[: len(self.discounts), None] - last
        return self.device.torch.where(self._lengths > len(self.discounts), falls, 0.0)

    @cached_property
    def _has_tail(self) -> bool:
        return bool((self.profile[len(self.discounts) :] != 0.0).any())

    @cached_property
    def _shifts(self) -> Any:
        return self.device.torch.arange(len(self.discounts), device=self.profile.device)

    @cached_property
    def _n_shifts(self) -> int:
        """Sums of the tail that differ: one if A is linear."""
        falls = self.profile.diff()
        return 1 if bool((falls == falls[0]).all()) else len(self.discounts)

    @cached_property
    def _states_at(self) -> Any:
        """The number of documents placed in each state."""
        return self.states.counts.sum(1)

    @cached_property
    def _members(self) -> Any:
        """Level and number in it of the documents of each state, as 2 × states × depth; any, if there are fewer."""
        torch, counts, depth = self.device.torch, self.states.counts, len(self.discounts)
        ends = counts.cumsum(1)
        index = self._shifts.expand(len(counts), depth).contiguous()
        level = torch.searchsorted(ends, index, right=True).clamp(max=counts.shape[1] - 1)
        return torch.stack([level, index - (ends - counts).gather(1, level)])


def _max_before(torch: Any, values: Any) -> Any:
    """Return the maximum of the entries before each one, along the second axis; −inf before the first."""
    least = values.new_full((len(values), 1), -torch.inf)
    return torch.cat([least, values[:, :-1]], 1).cummax(1).values
