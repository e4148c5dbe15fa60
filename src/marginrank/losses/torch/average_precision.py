"""Average precision, and other measures with two levels, under φpo in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from marginrank.losses.oracles.base import CreditShares
from marginrank.losses.oracles.grade_levels import Levels
from marginrank.losses.torch.base import QuerySubset, TorchLoss
from marginrank.runtime.torch_device import Device, Segments
from marginrank.typing import IntArray


class _Places(NamedTuple):
    """Places of documents, the relevant ones of each query first.

    Args:
        levels: Level of each document over all queries: 2·query for relevant documents, 2·query + 1 for others.
        relevant: Whether each place is for a relevant document.
        inside: Number of each place inside its level.
        first: The first place of each query.
        n_relevant: Relevant documents of each query.
        irrelevant: The places of irrelevant documents in queries that count.
    """

    levels: Any
    relevant: Any
    inside: Any
    first: Any
    n_relevant: Any
    irrelevant: Any


@dataclass(frozen=True, eq=False)
class TorchInterleaving(TorchLoss):
    """The structured hinge of measures like AP, whose credits are a share times a convex discount.

    The later an irrelevant document is among those of its query, the more relevant documents are before it where it
    pays most to place it. So once this is known for every other document, the places to try for those between are
    bounded by their neighbors, and a query of n documents takes O(n log n) (Mohapatra et al., 2018).

    Args:
        device: The device.
        offsets: Start of each query, and end of the last.
        n_relevant: Relevant documents of each query; −1 if it has no others, or none.
        levels: 0 for relevant documents, 1 for the others.
        shares: Share of the documents, relevant ones first.
        discounts: Discount of each rank.
        scales: Scale of φpo, by query.
    """

    n_relevant: IntArray
    levels: Any
    shares: Any
    discounts: Any
    scales: Any

    @classmethod
    def of(cls, device: Device, levels: Levels, placement: CreditShares) -> Self:
        """Copy to the device what is given by document and by query."""
        sizes = np.append(np.diff(levels.offsets), 0)
        n_relevant = np.where(levels.ordered, sizes[levels.of_query[:-1]], -1)
        # `_best` reads one discount more than there are ranks, and does not use it.
        discounts = np.append(placement.discounts, 0.0)
        columns = map(device.tensor, (levels.of_document, placement.shares, discounts, placement.scales))
        return cls(device, levels.queries, n_relevant, *columns)

    def take(self, subset: QuerySubset) -> Self:
        """Return the loss of some of the queries."""
        queries, documents, offsets = subset
        n_relevant, scales = self.n_relevant[queries.cpu().numpy()], self.scales[queries]
        levels, shares = self.levels[documents], self.shares[documents]
        return type(self)(self.device, offsets, n_relevant, levels, shares, self.discounts, scales)

    def __call__(self, scores: Any) -> tuple[Any, Any]:
        """Return ξ of each query and ∂ξ/∂s of each document."""
        torch, places, query = self.device.torch, self._places, self.segments.numbers
        documents = self.sort(scores, places.levels, torch.arange(len(scores), device=scores.device))
        values, pair = scores[documents], 2.0 * self.scales[query]
        before = self._place(values)
        passed = self._count_passed(before)
        n_above = torch.where(places.relevant, -passed, places.n_relevant[query] - before)
        changes = torch.where(self._counted[query], pair * n_above, 0.0)
        rank = torch.where(places.relevant, places.inside, 0)
        lost = self.discounts[rank] - self.discounts[rank + torch.where(places.relevant, passed, 0)]
        gradient = torch.empty_like(scores)
        gradient[documents] = changes
        return self.segments.sum(self.shares * lost + changes * values).clamp_(min=0.0), gradient

    def _place(self, values: Any) -> Any:
        """Return by place how many relevant documents are before each irrelevant one in the most violated ranking."""
        torch, places, before = self.device.torch, self._places, self.device.torch.zeros_like(self._places.inside)
        for step, chosen in self._rounds:
            query, following = self.segments.numbers[chosen], chosen + step
            low = torch.where(places.inside[chosen] >= step, before[(chosen - step).clamp(min=0)], 0)
            high = before[following.clamp(max=len(before) - 1)]
            high = torch.where(following < self.segments.offsets[query + 1], high, places.n_relevant[query])
            before[chosen] = self._best(values, chosen, low, high)
        return before

    def _best(self, values: Any, chosen: Any, low: Any, high: Any) -> Any:
        """Return the best place for irrelevant documents, after ``low`` to ``high`` relevant ones; the last of several.

        Before one relevant document more, Δ rises by its share times the fall of the discount, and φ costs a pair.
        """
        torch, places = self.device.torch, self._places
        counts = high - low + 1
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        tries = Segments(torch, offsets, int(offsets[-1]))
        document = chosen[tries.numbers]
        # From the last place to the first.
        passed = high[tries.numbers] - (torch.arange(tries.size, device=chosen.device) - tries.starts)
        query = self.segments.numbers[document]
        place, rank = places.first[query] + passed, passed + places.inside[document]
        fall = self.discounts[rank] - self.discounts[rank + 1]
        rise = self.shares[place] * fall - 2.0 * self.scales[query] * (values[place] - values[document])
        value = tries.running_sum(torch.where(passed == high[tries.numbers], 0.0, rise))
        best = torch.where(value == tries.max(value)[tries.numbers], passed, -1)
        return tries.max(best.double()).long()

    def _count_passed(self, before: Any) -> Any:
        """Return by place how many irrelevant documents are placed before each relevant one."""
        places, query = self._places, self.segments.numbers
        # One place more for each query, since a document may be behind all relevant ones.
        place = places.first[query] + query
        chosen = places.irrelevant
        counts = self.device.torch.bincount((place + before)[chosen], minlength=len(before) + len(self.scales))
        up_to = self.device.torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return up_to[place + places.inside + 1] - up_to[place]

    @cached_property
    def _counted(self) -> Any:
        return self.device.tensor(self.n_relevant >= 0)

    @cached_property
    def _places(self) -> _Places:
        torch, query = self.device.torch, self.segments.numbers
        first, n_relevant = self.segments.offsets[:-1], self.device.tensor(np.maximum(self.n_relevant, 0))
        place = torch.arange(len(query), device=query.device) - first[query]
        relevant = place < n_relevant[query]
        inside = torch.where(relevant, place, place - n_relevant[query])
        irrelevant = torch.nonzero(~relevant & self._counted[query])[:, 0]
        return _Places(2 * query + self.levels, relevant, inside, first, n_relevant, irrelevant)

    @cached_property
    def _rounds(self) -> list[tuple[int, Any]]:
        """The irrelevant documents that are placed together, and how far their neighbors of earlier rounds are."""
        irrelevant, longest = self._places.irrelevant, int(np.diff(self.offsets).max(initial=0))
        number = self._places.inside[irrelevant] + 1
        steps = [1 << power for power in reversed(range(longest.bit_length()))]
        rounds = [(step, irrelevant[number % (2 * step) == step]) for step in steps]
        return [(step, chosen) for step, chosen in rounds if len(chosen)]
