"""The additive scorer: one step function per feature."""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from marginrank.data.queries import Queries
from marginrank.losses.base import Loss
from marginrank.risk import RankingRisk
from marginrank.scorers.base import Scorer
from marginrank.scorers.bins import Bins
from marginrank.typing import AnyArray, ByteArray, FloatArray, IntArray


class AdditiveScorer(Scorer):
    """Scores Σ_f T_f[code of f], with T_f the running sums of the increments of feature f.

    The features are read once, and only their codes kept: `queries` here have no features. A pass over the rows reads a
    byte for each feature, and less where features with few bins share one. The cells are a histogram of slopes over
    codes, and the gradient is their running sums from the last code down.
    """

    def __init__(self, queries: Queries, bins: Bins, n_jobs: int | None = None) -> None:
        self.queries = queries.without_features()
        self.bins = self.form = bins
        self.n_parameters = bins.n_parameters
        self._packing = _pack(bins)
        self._words = _encode(queries, bins, self._packing, n_jobs)
        self.n_bytes = self._words.nbytes

    def table(self, theta: FloatArray) -> FloatArray:
        """The value of each code, feature after feature."""
        return self.bins.table(theta)

    def score(self, table: FloatArray, scores: FloatArray, start: int, stop: int) -> None:
        """Write the sums of the values of codes for the rows from ``start`` to ``stop``."""
        from marginrank.scorers.additive_kernel import score_words  # noqa: PLC0415

        score_words(self._words, *self._packing, table, scores, start, stop)

    def pull_back(self, slopes: FloatArray, cells: FloatArray, start: int, stop: int) -> None:
        """Add each slope to the cells of the codes of its row."""
        from marginrank.scorers.additive_kernel import add_words  # noqa: PLC0415

        add_words(self._words, *self._packing, slopes, cells, start, stop)

    def gradient(self, cells: FloatArray) -> FloatArray:
        """Sums of the cells above each threshold."""
        return self.bins.gradient(cells)


class AdditiveRisk(RankingRisk):
    """Mean loss over the queries that carry an order, and its gradient, as a function of the increments θ.

    >>> from marginrank.losses.structured import StructuredLoss
    >>> queries = Queries.from_arrays([[3.0], [1.0]], [1, 0], group=[2])
    >>> risk = AdditiveRisk(queries, StructuredLoss("auc", "po"), Bins((np.array([0.0, 2.0]),), np.array([False])))
    >>> value, gradient = risk(np.array([1.0, 0.25]))         # scores 1.25 and 1
    >>> value, gradient.tolist()
    (0.5, [0.0, -2.0])
    """

    def __init__(self, queries: Queries, loss: Loss, bins: Bins, n_jobs: int | None = None) -> None:
        if not isinstance(queries, Queries) or not isinstance(loss, Loss) or not isinstance(bins, Bins):
            raise TypeError("AdditiveRisk(queries, loss, bins) takes Queries, a Loss and Bins, such as Bins.learn(X)")
        super().__init__(AdditiveScorer(queries, bins, n_jobs), loss, n_jobs)


class _Packing(NamedTuple):
    """Which features share a byte, as the kernels take it."""

    features: IntArray
    bounds: IntArray
    first_cells: IntArray
    n_codes: IntArray


def _pack(bins: Bins) -> _Packing:
    groups = share_bytes(bins.n_codes.tolist())
    groups += [[]] * (-len(groups) % 4)
    features = [feature for group in groups for feature in group]
    bounds = list(accumulate(map(len, groups), initial=0))
    return _Packing(
        np.array(features, dtype=np.int64), np.array(bounds, dtype=np.int64), bins.first_cells, bins.n_codes
    )


def share_bytes(n_codes: list[int]) -> list[list[int]]:
    """Group features so that the codes of each group have at most 256 combinations; constant ones need no byte.

    >>> share_bytes([16, 2, 17, 1, 16, 8])        # 17·2 and 16·8; 16 with nothing left
    [[2, 1], [4, 5], [0]]
    """
    left = deque(sorted((f for f, size in enumerate(n_codes) if size > 1), key=n_codes.__getitem__))
    groups = []
    while left:
        group = [left.pop()]
        combinations = n_codes[group[0]]
        while left and combinations * n_codes[left[0]] <= 256:
            combinations *= n_codes[left[0]]
            group.append(left.popleft())
        groups.append(group)
    return groups


def _encode(queries: Queries, bins: Bins, packing: _Packing, n_jobs: int | None) -> AnyArray:
    """Codes of all rows, four bytes to a word, word after word."""
    from marginrank.scorers.additive_kernel import pack_rows  # noqa: PLC0415

    words = np.empty(((len(packing.bounds) - 1) // 4, queries.n_documents), dtype=np.uint32)

    def pack(start: int, codes: ByteArray) -> None:
        pack_rows(codes, packing.features, packing.bounds, packing.n_codes, words, start)

    bins.encode_blocks(queries.X, pack, n_jobs)
    return words
