"""Bins of feature values, scores from bin values, and gradient sums of bins.

Steps have codes, which training reads in words of four bytes. Features share a byte as long as their codes have at most
256 combinations: one lookup, in an array of the sums of their values, then serves all of them, and so does one addition
to a histogram, whose marginals are added to the features at the end. The members of byte b are
``features[bounds[b]:bounds[b + 1]]``, the first of them the fastest to change; feature f has ``sizes[f]`` codes, and
its first bin is ``firsts[f]``.

Lines have positions: the bin in the highest byte, and below it the fraction of the way to the next bin value, in units
of 2⁻²⁴. Four bytes hold what a float32 holds, and the fraction is exact to 3·10⁻⁸.
"""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

_LOW = np.uint32(255)
_SECOND, _THIRD, _FOURTH = np.uint32(8), np.uint32(16), np.uint32(24)
_FRACTION_MASK = np.uint32((1 << 24) - 1)
_UNIT = 2.0**-24


@njit()
def _count_exceeded(X, row, grid, exceeded):  # type: ignore[no-untyped-def]
    """Count the thresholds that each value of a row exceeds, by bisection of rows padded with inf to a power of two.

    All features take the same step together, without branches, which could not be predicted.
    """
    for feature in range(len(exceeded)):
        exceeded[feature] = 0
    step = grid.shape[1] // 2
    while step:
        for feature in range(len(exceeded)):
            passed = np.float64(X[row, feature]) > grid[feature, exceeded[feature] + step - 1]
            exceeded[feature] += step * passed
        step //= 2


@njit()
def encode_rows(X, grid, missing_codes, codes):  # type: ignore[no-untyped-def]
    """Write the number of thresholds that each value exceeds."""
    exceeded = np.empty(X.shape[1], dtype=np.int64)
    for row in range(X.shape[0]):
        _count_exceeded(X, row, grid, exceeded)
        for feature in range(X.shape[1]):
            codes[row, feature] = missing_codes[feature] if np.isnan(X[row, feature]) else exceeded[feature]


@njit()
def locate_rows(X, grid, starts, missing_codes, positions):  # type: ignore[no-untyped-def]
    """Write the position of each value: its bin, and the fraction of the way from one knot to the next."""
    exceeded = np.empty(X.shape[1], dtype=np.int64)
    for row in range(X.shape[0]):
        _count_exceeded(X, row, grid, exceeded)
        for feature in range(X.shape[1]):
            value, bin_index = np.float64(X[row, feature]), exceeded[feature]
            if np.isnan(value):
                positions[row, feature] = np.uint32(missing_codes[feature] << 24)
                continue
            low = starts[feature] if bin_index == 0 else grid[feature, bin_index - 1]
            high = grid[feature, bin_index] if bin_index < grid.shape[1] else np.inf
            fraction = 0.0
            if value > low and high < np.inf:
                # In halves, since the difference of two numbers can overflow.
                width = 0.5 * high - 0.5 * low
                fraction = (0.5 * value - 0.5 * low) / width if width > 1e-300 else (value - low) / (high - low)
            positions[row, feature] = np.uint32((bin_index << 24) + np.int64(np.rint(fraction * 16777216.0)))


@njit()
def score_positions(positions, firsts, bin_values, scores):  # type: ignore[no-untyped-def]
    """Write the sum of the values at the positions of each row; ``bin_values`` has an extra element."""
    for row in range(positions.shape[0]):
        total = 0.0
        for feature in range(positions.shape[1]):
            position = positions[row, feature]
            bin_index = firsts[feature] + np.int64(position >> _FOURTH)
            value = bin_values[bin_index]
            total += value + (position & _FRACTION_MASK) * _UNIT * (bin_values[bin_index + 1] - value)
        scores[row] = total


@njit()
def score_codes(codes, firsts, bin_values, scores):  # type: ignore[no-untyped-def]
    """Write the sum of the bin values of each row."""
    for row in range(codes.shape[0]):
        total = 0.0
        for feature in range(codes.shape[1]):
            total += bin_values[firsts[feature] + codes[row, feature]]
        scores[row] = total


@njit()
def running_sums(thetas, sizes, missing, bin_values):  # type: ignore[no-untyped-def]
    """Write the cumulative sums of the increments of each feature, from 0, and the weight of NaN, for each row of θ."""
    for row in range(thetas.shape[0]):
        at, bin_index = 0, 0
        for feature in range(len(sizes)):
            total = 0.0
            bin_values[row, bin_index] = 0.0
            for value in range(bin_index + 1, bin_index + sizes[feature] - missing[feature]):
                total += thetas[row, at]
                bin_values[row, value] = total
                at += 1
            bin_index += sizes[feature]
            if missing[feature]:
                bin_values[row, bin_index - 1] = thetas[row, at]
                at += 1


@njit()
def reversed_sums(gradient_sums, sizes, missing, gradients):  # type: ignore[no-untyped-def]
    """Write the transpose of `running_sums`, for each row of ``gradient_sums``."""
    for row in range(gradient_sums.shape[0]):
        at, bin_index = gradients.shape[1], gradient_sums.shape[1]
        for feature in range(len(sizes) - 1, -1, -1):
            if missing[feature]:
                at -= 1
                gradients[row, at] = gradient_sums[row, bin_index - 1]
            total = 0.0
            first = bin_index - sizes[feature]
            for value in range(bin_index - missing[feature] - 1, first, -1):
                total += gradient_sums[row, value]
                at -= 1
                gradients[row, at] = total
            bin_index = first


@njit()
def pack_rows(codes, features, bounds, sizes, words):  # type: ignore[no-untyped-def]
    """Write the codes of rows as words."""
    for row in range(codes.shape[0]):
        for number in range(words.shape[0]):
            word = 0
            for byte in range(4):
                joint, stride = 0, 1
                for member in range(bounds[4 * number + byte], bounds[4 * number + byte + 1]):
                    joint += stride * codes[row, features[member]]
                    stride *= sizes[features[member]]
                word |= joint << (8 * byte)
            words[number, row] = word


@njit()
def score_packed_columns(words, features, bounds, firsts, sizes, bin_values, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write the scores of the rows from ``start`` to ``stop``."""
    joint = np.empty((4, 256))
    out = scores[start:stop]
    out[:] = 0.0
    for number in range(words.shape[0]):
        for byte in range(4):
            members = features[bounds[4 * number + byte] : bounds[4 * number + byte + 1]]
            _joint_values(joint[byte], members, firsts, sizes, bin_values)
        column = words[number, start:stop]
        for row in range(len(column)):
            word = column[row]
            total = out[row]
            total += joint[0, word & _LOW]
            total += joint[1, (word >> _SECOND) & _LOW]
            total += joint[2, (word >> _THIRD) & _LOW]
            total += joint[3, word >> _FOURTH]
            out[row] = total


@njit()
def add_packed_columns(words, features, bounds, firsts, sizes, gradient, gradient_sums, start, stop):  # type: ignore[no-untyped-def]
    """Add the gradient of the rows from ``start`` to ``stop`` to the sums of their bins.

    Two rows at a time, each with its own histogram: most documents can share a code, and an addition to a bin has to
    wait for the one before.
    """
    histograms = np.empty((8, 256))
    row_gradient = gradient[start:stop]
    for number in range(words.shape[0]):
        histograms[:] = 0.0
        column = words[number, start:stop]
        for row in range(0, len(column) - 1, 2):
            word, next_word = column[row], column[row + 1]
            value, next_value = row_gradient[row], row_gradient[row + 1]
            histograms[0, word & _LOW] += value
            histograms[4, next_word & _LOW] += next_value
            histograms[1, (word >> _SECOND) & _LOW] += value
            histograms[5, (next_word >> _SECOND) & _LOW] += next_value
            histograms[2, (word >> _THIRD) & _LOW] += value
            histograms[6, (next_word >> _THIRD) & _LOW] += next_value
            histograms[3, word >> _FOURTH] += value
            histograms[7, next_word >> _FOURTH] += next_value
        if len(column) % 2:
            word, value = column[-1], row_gradient[-1]
            histograms[0, word & _LOW] += value
            histograms[1, (word >> _SECOND) & _LOW] += value
            histograms[2, (word >> _THIRD) & _LOW] += value
            histograms[3, word >> _FOURTH] += value
        for byte in range(4):
            members = features[bounds[4 * number + byte] : bounds[4 * number + byte + 1]]
            # Sums of whole rows would take four fifths of the time to compile.
            for code in range(256):
                histograms[byte, code] += histograms[byte + 4, code]
            _add_marginals(histograms[byte], members, firsts, sizes, gradient_sums)


@njit()
def score_position_columns(positions, firsts, sizes, bin_values, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write the scores of the rows from ``start`` to ``stop``, given the positions of one feature after the other."""
    values = np.empty((256, 2))
    out = scores[start:stop]
    for row in range(len(out)):
        out[row] = 0.0
    for feature in range(positions.shape[0]):
        first, size = firsts[feature], sizes[feature]
        for code in range(size):
            values[code, 0] = bin_values[first + code]
            rise = bin_values[first + code + 1] - bin_values[first + code] if code + 1 < size else 0.0
            values[code, 1] = _UNIT * rise
        column = positions[feature, start:stop]
        for row in range(len(column)):
            code = column[row] >> _FOURTH
            out[row] += values[code, 0] + np.float64(column[row] & _FRACTION_MASK) * values[code, 1]


@njit()
def add_position_columns(positions, firsts, sizes, gradient, gradient_sums, start, stop):  # type: ignore[no-untyped-def]
    """Add the gradient of the rows to the sums of the two bins beside each position, the transpose of scoring.

    Four rows at a time, each with its own sums: most documents can share a bin, and an addition to it waits for the one
    before.
    """
    sums = np.empty((4, 256, 2))
    row_gradient = gradient[start:stop]
    for feature in range(positions.shape[0]):
        first, size = firsts[feature], sizes[feature]
        for copy in range(4):
            for code in range(size):
                sums[copy, code, 0] = sums[copy, code, 1] = 0.0
        column = positions[feature, start:stop]
        for row in range(len(column)):
            code, copy = column[row] >> _FOURTH, row & 3
            sums[copy, code, 0] += row_gradient[row]
            sums[copy, code, 1] += row_gradient[row] * np.float64(column[row] & _FRACTION_MASK)
        before = 0.0
        for code in range(size):
            total = (sums[0, code, 0] + sums[1, code, 0]) + (sums[2, code, 0] + sums[3, code, 0])
            moved = _UNIT * ((sums[0, code, 1] + sums[1, code, 1]) + (sums[2, code, 1] + sums[3, code, 1]))
            gradient_sums[first + code] += total - moved + before
            before = moved


@njit()
def _joint_values(joint, members, firsts, sizes, bin_values):  # type: ignore[no-untyped-def]
    """Write the sum of the bin values of all members for every combination of codes."""
    joint[0] = 0.0
    stride = 1
    for member in members:
        # Downwards, since the sums so far are those of code 0.
        for code in range(sizes[member] - 1, -1, -1):
            height = bin_values[firsts[member] + code]
            for below in range(stride):
                joint[code * stride + below] = joint[below] + height
        stride *= sizes[member]


@njit()
def _add_marginals(histogram, members, firsts, sizes, gradient_sums):  # type: ignore[no-untyped-def]
    """Add the transpose of `_joint_values`; the histogram is overwritten."""
    stride = 1
    for member in members:
        stride *= sizes[member]
    for member in members[::-1]:
        stride //= sizes[member]
        for code in range(sizes[member]):
            total = 0.0
            for below in range(stride):
                total += histogram[code * stride + below]
            gradient_sums[firsts[member] + code] += total
        for code in range(1, sizes[member]):
            for below in range(stride):
                histogram[below] += histogram[code * stride + below]
