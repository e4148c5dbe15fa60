"""A loss that prepares parts of the queries differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from marginrank.losses.base import Judgements, PreparedLoss
from marginrank.typing import FloatArray, IntArray


class PreparedPerQuery(PreparedLoss):
    """A loss that prepares parts of the queries differently."""

    def __init__(
        self, parts: Sequence[tuple[IntArray, Callable[[Judgements], PreparedLoss]]], judged: Judgements
    ) -> None:
        self.offsets = judged.offsets
        self.active = np.zeros(len(self.offsets) - 1, dtype=np.bool_)
        self._parts: list[tuple[IntArray, IntArray, PreparedLoss, FloatArray, FloatArray, FloatArray]] = []
        for queries, prepare in parts:
            documents, judged_part = judged.select(queries)
            part = prepare(judged_part)
            self.active[queries] = part.active
            n = len(documents)
            self._parts.append((queries, documents, part, np.empty(n), np.zeros(len(queries)), np.empty(n)))

    @property
    def exact(self) -> bool:
        """Whether every part is."""
        return all(part.exact for _, _, part, _, _, _ in self._parts)

    def evaluate(self, scores: FloatArray, xi: FloatArray, gradient: FloatArray, first: int, end: int) -> None:
        """Evaluate the queries of each part among these."""
        for queries, documents, part, part_scores, part_xi, part_gradient in self._parts:
            low, high = np.searchsorted(queries, (first, end)).tolist()
            rows = slice(part.offsets[low], part.offsets[high])
            part_scores[rows] = scores[documents[rows]]
            part.evaluate(part_scores, part_xi, part_gradient, low, high)
            xi[queries[low:high]] = part_xi[low:high]
            gradient[documents[rows]] = part_gradient[rows]

    def curve(self, scores: FloatArray, direction: FloatArray, product: FloatArray, first: int, end: int) -> None:
        """Write the generalized Hessian of the queries of each part among these, times the direction."""
        if not self.definition.smooth:
            super().curve(scores, direction, product, first, end)
        for queries, documents, part, part_scores, _, part_product in self._parts:
            low, high = np.searchsorted(queries, (first, end)).tolist()
            rows = slice(part.offsets[low], part.offsets[high])
            part_scores[rows] = scores[documents[rows]]
            part_direction = np.zeros(len(documents))
            part_direction[rows] = direction[documents[rows]]
            part.curve(part_scores, part_direction, part_product, low, high)
            product[documents[rows]] = part_product[rows]

    def diagonal(self, scores: FloatArray) -> FloatArray:
        """Return the diagonal of the generalized Hessian at the scores."""
        if not self.definition.smooth:
            super().diagonal(scores)
        out = np.zeros(len(scores))
        for _, documents, part, _, _, _ in self._parts:
            out[documents] = part.diagonal(scores[documents])
        return out

    def counted(self, query_weights: FloatArray | None) -> FloatArray:
        """Return the weight of each query in its part."""
        out = np.zeros(len(self.active))
        for queries, _, part, _, _, _ in self._parts:
            out[queries] = part.counted(None if query_weights is None else query_weights[queries])
        return out
