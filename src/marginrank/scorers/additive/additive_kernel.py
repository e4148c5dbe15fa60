"""Codes of features, the scores they look up, and the slopes they collect.

Steps have codes, which training reads in words of four bytes. Features share a byte as long as their codes have at most
256 combinations: one lookup, in a table of the sums of their values, then serves all of them, and so does one addition
to a histogram, which is brought back to the features at the end. The members of byte b are
``features[bounds[b]:bounds[b + 1]]``, the first of them the fastest to change; feature f has ``sizes[f]`` codes, and
its first cell is ``firsts[f]``.

Lines have positions: the cell in the highest byte, and below it the part of the way to the next cell, in units of 2⁻²⁴.
Four bytes hold what a float32 holds, and the part is exact to 3·10⁻⁸.
"""

from __future__ import annotations

import numpy as np

from marginrank.runtime.kernels import njit

_LOW = np.uint32(255)
_SECOND, _THIRD, _FOURTH = np.uint32(8), np.uint32(16), np.uint32(24)
_PART = np.uint32((1 << 24) - 1)
_UNIT = 2.0**-24


@njit()
def _count_exceeded(X, row, grid, exceeded):  # type: ignore[no-untyped-def]
    """Count the thresholds that each value of a row exceeds, by bisection of rows filled up with inf to a power of two.

    All features take the same step together, so that they need no branches, which could not be foreseen.
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
    """Write how many thresholds each value exceeds."""
    exceeded = np.empty(X.shape[1], dtype=np.int64)
    for row in range(X.shape[0]):
        _count_exceeded(X, row, grid, exceeded)
        for feature in range(X.shape[1]):
            codes[row, feature] = missing_codes[feature] if np.isnan(X[row, feature]) else exceeded[feature]


@njit()
def locate_rows(X, grid, starts, missing_codes, positions):  # type: ignore[no-untyped-def]
    """Find each value between two neighbours of the start, the thresholds and inf, and how far it is on the way."""
    exceeded = np.empty(X.shape[1], dtype=np.int64)
    for row in range(X.shape[0]):
        _count_exceeded(X, row, grid, exceeded)
        for feature in range(X.shape[1]):
            value, cell = np.float64(X[row, feature]), exceeded[feature]
            if np.isnan(value):
                positions[row, feature] = np.uint32(missing_codes[feature] << 24)
                continue
            low = starts[feature] if cell == 0 else grid[feature, cell - 1]
            high = grid[feature, cell] if cell < grid.shape[1] else np.inf
            part = 0.0
            if value > low and high < np.inf:
                # In halves, since the difference of two numbers can be beyond float64.
                width = 0.5 * high - 0.5 * low
                part = (0.5 * value - 0.5 * low) / width if width > 1e-300 else (value - low) / (high - low)
            positions[row, feature] = np.uint32((cell << 24) + np.int64(np.rint(part * 16777216.0)))


@njit()
def score_positions(positions, firsts, table, scores):  # type: ignore[no-untyped-def]
    """Write the sum of the values at the positions of each row; the table has one cell more than there are."""
    for row in range(positions.shape[0]):
        total = 0.0
        for feature in range(positions.shape[1]):
            position = positions[row, feature]
            cell = firsts[feature] + np.int64(position >> _FOURTH)
            total += table[cell] + (position & _PART) * _UNIT * (table[cell + 1] - table[cell])
        scores[row] = total


@njit()
def score_codes(codes, firsts, table, scores):  # type: ignore[no-untyped-def]
    """Write the sum of the cells that the codes of each row stand for."""
    for row in range(codes.shape[0]):
        total = 0.0
        for feature in range(codes.shape[1]):
            total += table[firsts[feature] + codes[row, feature]]
        scores[row] = total


@njit()
def running_sums(thetas, sizes, missing, tables):  # type: ignore[no-untyped-def]
    """Sum up the increments of each feature, from 0, for each row of θ; the weight of NaN stands for itself."""
    for row in range(thetas.shape[0]):
        at, cell = 0, 0
        for feature in range(len(sizes)):
            total = 0.0
            tables[row, cell] = 0.0
            for value in range(cell + 1, cell + sizes[feature] - missing[feature]):
                total += thetas[row, at]
                tables[row, value] = total
                at += 1
            cell += sizes[feature]
            if missing[feature]:
                tables[row, cell - 1] = thetas[row, at]
                at += 1


@njit()
def reversed_sums(cells, sizes, missing, gradients):  # type: ignore[no-untyped-def]
    """Transpose of `running_sums`, for each row of cells."""
    for row in range(cells.shape[0]):
        at, cell = gradients.shape[1], cells.shape[1]
        for feature in range(len(sizes) - 1, -1, -1):
            if missing[feature]:
                at -= 1
                gradients[row, at] = cells[row, cell - 1]
            total = 0.0
            first = cell - sizes[feature]
            for value in range(cell - missing[feature] - 1, first, -1):
                total += cells[row, value]
                at -= 1
                gradients[row, at] = total
            cell = first


@njit()
def pack_rows(codes, features, bounds, sizes, words, start):  # type: ignore[no-untyped-def]
    """Write the codes of rows from ``start`` on as words."""
    for row in range(codes.shape[0]):
        for number in range(words.shape[0]):
            word = 0
            for byte in range(4):
                joint, stride = 0, 1
                for member in range(bounds[4 * number + byte], bounds[4 * number + byte + 1]):
                    joint += stride * codes[row, features[member]]
                    stride *= sizes[features[member]]
                word |= joint << (8 * byte)
            words[number, start + row] = word


@njit()
def score_words(words, features, bounds, firsts, sizes, table, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write the scores of the rows from ``start`` to ``stop``."""
    joint = np.empty((4, 256))
    out = scores[start:stop]
    out[:] = 0.0
    for number in range(words.shape[0]):
        for byte in range(4):
            members = features[bounds[4 * number + byte] : bounds[4 * number + byte + 1]]
            _add_tables(joint[byte], members, firsts, sizes, table)
        part = words[number, start:stop]
        for row in range(len(part)):
            word = part[row]
            total = out[row]
            total += joint[0, word & _LOW]
            total += joint[1, (word >> _SECOND) & _LOW]
            total += joint[2, (word >> _THIRD) & _LOW]
            total += joint[3, word >> _FOURTH]
            out[row] = total


@njit()
def add_words(words, features, bounds, firsts, sizes, slopes, cells, start, stop):  # type: ignore[no-untyped-def]
    """Add the slopes of the rows from ``start`` to ``stop`` to the cells of their codes.

    Two rows at a time, each with a histogram of its own: most documents can share a code, and one addition to a cell
    has to wait for the one before.
    """
    histograms = np.empty((8, 256))
    given = slopes[start:stop]
    for number in range(words.shape[0]):
        histograms[:] = 0.0
        part = words[number, start:stop]
        for row in range(0, len(part) - 1, 2):
            word, next_word = part[row], part[row + 1]
            slope, next_slope = given[row], given[row + 1]
            histograms[0, word & _LOW] += slope
            histograms[4, next_word & _LOW] += next_slope
            histograms[1, (word >> _SECOND) & _LOW] += slope
            histograms[5, (next_word >> _SECOND) & _LOW] += next_slope
            histograms[2, (word >> _THIRD) & _LOW] += slope
            histograms[6, (next_word >> _THIRD) & _LOW] += next_slope
            histograms[3, word >> _FOURTH] += slope
            histograms[7, next_word >> _FOURTH] += next_slope
        if len(part) % 2:
            word, slope = part[-1], given[-1]
            histograms[0, word & _LOW] += slope
            histograms[1, (word >> _SECOND) & _LOW] += slope
            histograms[2, (word >> _THIRD) & _LOW] += slope
            histograms[3, word >> _FOURTH] += slope
        for byte in range(4):
            members = features[bounds[4 * number + byte] : bounds[4 * number + byte + 1]]
            # Sums of whole rows would take four fifths of the time to compile.
            for code in range(256):
                histograms[byte, code] += histograms[byte + 4, code]
            _add_margins(histograms[byte], members, firsts, sizes, cells)


@njit()
def score_places(positions, firsts, sizes, table, scores, start, stop):  # type: ignore[no-untyped-def]
    """Write the scores of the rows from ``start`` to ``stop``, given the positions of one feature after the other."""
    values = np.empty((256, 2))
    out = scores[start:stop]
    for row in range(len(out)):
        out[row] = 0.0
    for feature in range(positions.shape[0]):
        first, size = firsts[feature], sizes[feature]
        for code in range(size):
            values[code, 0] = table[first + code]
            values[code, 1] = _UNIT * (table[first + code + 1] - table[first + code]) if code + 1 < size else 0.0
        part = positions[feature, start:stop]
        for row in range(len(part)):
            code = part[row] >> _FOURTH
            out[row] += values[code, 0] + np.float64(part[row] & _PART) * values[code, 1]


@njit()
def add_places(positions, firsts, sizes, slopes, cells, start, stop):  # type: ignore[no-untyped-def]
    """Transpose of `score_places`: add the slopes of the rows to the two cells beside each position.

    Four rows at a time, each with sums of its own: most documents can share a cell, and one addition to it waits for
    the one before.
    """
    sums = np.empty((4, 256, 2))
    given = slopes[start:stop]
    for feature in range(positions.shape[0]):
        first, size = firsts[feature], sizes[feature]
        for copy in range(4):
            for code in range(size):
                sums[copy, code, 0] = sums[copy, code, 1] = 0.0
        part = positions[feature, start:stop]
        for row in range(len(part)):
            code, copy = part[row] >> _FOURTH, row & 3
            sums[copy, code, 0] += given[row]
            sums[copy, code, 1] += given[row] * np.float64(part[row] & _PART)
        before = 0.0
        for code in range(size):
            slope = (sums[0, code, 0] + sums[1, code, 0]) + (sums[2, code, 0] + sums[3, code, 0])
            moved = _UNIT * ((sums[0, code, 1] + sums[1, code, 1]) + (sums[2, code, 1] + sums[3, code, 1]))
            cells[first + code] += slope - moved + before
            before = moved


@njit()
def _add_tables(joint, members, firsts, sizes, table):  # type: ignore[no-untyped-def]
    """Sums of the cells of all members, for every combination of codes."""
    joint[0] = 0.0
    stride = 1
    for member in members:
        # Downwards, since the sums so far are those of code 0.
        for code in range(sizes[member] - 1, -1, -1):
            height = table[firsts[member] + code]
            for below in range(stride):
                joint[code * stride + below] = joint[below] + height
        stride *= sizes[member]


@njit()
def _add_margins(histogram, members, firsts, sizes, cells):  # type: ignore[no-untyped-def]
    """Transpose of `_add_tables`, which uses up the histogram."""
    stride = 1
    for member in members:
        stride *= sizes[member]
    for member in members[::-1]:
        stride //= sizes[member]
        for code in range(sizes[member]):
            total = 0.0
            for below in range(stride):
                total += histogram[code * stride + below]
            cells[firsts[member] + code] += total
        for code in range(1, sizes[member]):
            for below in range(stride):
                histogram[below] += histogram[code * stride + below]
