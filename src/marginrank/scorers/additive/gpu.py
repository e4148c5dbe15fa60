"""Bins of features on a PyTorch device."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.errors import DataError
from marginrank.runtime.torch_device import Device, Segments
from marginrank.scorers.additive.form import AdditiveForm
from marginrank.typing import AnyArray, Features, IntArray

#: Bits of a position on lines for the fraction of the way to the next bin value.
_FRACTION_BITS: Final = 24
#: Maximum number of values of the features that are processed together.
_CHUNK_VALUES: Final = 1 << 26


class _SortedRows(NamedTuple):
    """The rows sorted by bin and part, for some features.

    Args:
        order: The rows, feature after feature.
        fractions: Fraction of the way to the next bin value for each; None for steps.
        segments: The rows of each bin and part.
    """

    order: Any
    fractions: Any
    segments: Segments


class GpuBins:
    """The bins of all rows on a PyTorch device, and the fraction of the way to the next bin value.

    They take sixteen bytes for each row and feature, and eight if curves are steps.

    Args:
        X: Features.
        bins: Thresholds.
        device: The device.
        n_jobs: Number of threads.
    """

    def __init__(self, X: Features, bins: AdditiveForm, device: Device, n_jobs: int | None = None) -> None:
        torch, (n, n_features), lines = device.torch, X.shape, bins.shape == "lines"
        self.device, self._first_bins, self._n_codes = device, bins.first_bins, bins.n_codes
        size = max(1, _CHUNK_VALUES // max(1, n))
        #: Features that are processed together.
        self._chunks = list(pairwise([*range(0, n_features, size), n_features]))
        self._sorted: tuple[tuple[int, ...], list[_SortedRows]] | None = None
        try:
            self._bins = torch.empty((n_features, n), dtype=torch.int32, device=device.device)
            self._fractions = torch.empty_like(self._bins, dtype=torch.float32) if lines else None
        except torch.OutOfMemoryError:
            raise DataError(
                f"{n:,} documents of {n_features:,} features do not fit into the memory of {device.device}; leave out "
                "device"
            ) from None

        def store(start: int, block: AnyArray) -> None:
            rows, words = slice(start, start + len(block)), block.T.astype(np.int64)
            codes = words >> _FRACTION_BITS if lines else words
            self._bins[:, rows] = device.tensor((codes + self._first_bins[:, None]).astype(np.int32))
            if self._fractions is not None:
                fractions = np.ldexp((words & ((1 << _FRACTION_BITS) - 1)).astype(np.float32), -_FRACTION_BITS)
                self._fractions[:, rows] = device.tensor(fractions)

        bins.encode_blocks(X, store, n_jobs)

    def scores(self, values: Any) -> Any:
        """Return the scores of all rows, given all bin values."""
        rises = self.device.torch.cat([values.diff(), values.new_zeros(1)])
        scores = values.new_zeros(self._bins.shape[1])
        for first, end in self._chunks:
            bins = self._bins[first:end]
            scores += values[bins].sum(0)
            if self._fractions is not None:
                scores += (rises[bins] * self._fractions[first:end]).sum(0)
        return scores

    def sums(self, gradient: Any, bounds: IntArray) -> Any:
        """Return the gradient with respect to all bin values for the rows between each two bounds."""
        torch, sums, fraction_sums = self.device.torch, [gradient[:0]], [gradient[:0]]
        for order, fractions, segments in self._sort_rows(bounds):
            ordered = gradient[order]
            sums.append(segments.sum(ordered))
            if fractions is not None:
                fraction_sums.append(segments.sum(ordered * fractions))
        by_bin = torch.cat(sums).view(-1, len(bounds) - 1)
        if self._fractions is not None:
            # A row between two bin values counts for both; none is beyond the last value of a feature.
            to_next = torch.cat(fraction_sums).view(by_bin.shape)
            by_bin -= to_next
            by_bin[1:] += to_next[:-1]
        return by_bin.T

    def _sort_rows(self, bounds: IntArray) -> list[_SortedRows]:
        """Sort the rows by bin and part, once for as long as the parts are the same."""
        key = tuple(bounds.tolist())
        if self._sorted is None or self._sorted[0] != key:
            part = self.device.segments(bounds).numbers
            self._sorted = key, [self._sort_chunk(*chunk, part, len(bounds) - 1) for chunk in self._chunks]
        return self._sorted[1]

    def _sort_chunk(self, first: int, end: int, part: Any, n_parts: int) -> _SortedRows:
        torch, order, counts = self.device.torch, self.device.torch.empty_like(self._bins[first:end]), []
        for rows, feature in zip(order, range(first, end), strict=True):
            keys = (self._bins[feature].long() - int(self._first_bins[feature])) * n_parts + part
            counts.append(torch.bincount(keys, minlength=int(self._n_codes[feature]) * n_parts))
            rows.copy_(torch.sort(keys, stable=True).indices)
        ends = torch.cat(counts).cumsum(0)
        segments = Segments(torch, torch.cat([ends.new_zeros(1), ends]), order.numel())
        fractions = None if self._fractions is None else self._fractions[first:end].gather(1, order.long()).ravel()
        return _SortedRows(order.ravel(), fractions, segments)
