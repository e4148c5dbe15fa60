"""Steps that every text reader takes."""

from __future__ import annotations

from typing import Final

import numpy as np

from marginrank.data.formats.number_kernel import OK, parse_number
from marginrank.runtime.kernels import njit

TAB: Final = 9
LINE_FEED: Final = 10
RETURN: Final = 13
SPACE: Final = 32
HASH: Final = 35


@njit()
def skip_blanks(text, at):  # type: ignore[no-untyped-def]
    """Go past spaces, tabs and carriage returns; the text must end in a line feed."""
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@njit()
def ends_word(byte):  # type: ignore[no-untyped-def]
    """Whether a byte parts words; control characters do not, so that none can cut a word short unseen."""
    return byte == SPACE or byte == LINE_FEED or byte == TAB or byte == RETURN


@njit()
def gather_words(text, spans, out):  # type: ignore[no-untyped-def]
    """Copy the bytes between each pair of places into a row of the output, padded with zeros."""
    for row in range(len(spans)):
        start, end = spans[row, 0], spans[row, 1]
        for k in range(out.shape[1]):
            out[row, k] = text[start + k] if start + k < end else 0


@njit()
def split_lines(text, spans, lines):  # type: ignore[no-untyped-def]
    """Find the first columns of each line that is not blank; further columns are passed over.

    Returns the number of rows and the place where a line lacks a column, or -1.
    """
    at = row = line = 0
    width = spans.shape[1]
    while at < len(text):
        at = skip_blanks(text, at)
        if text[at] == LINE_FEED:
            at += 1
            line += 1
            continue
        lines[row] = line
        for column in range(width):
            at = skip_blanks(text, at)
            start = at
            while text[at] > SPACE or not ends_word(text[at]):
                at += 1
            if at == start:
                return row, start
            spans[row, column, 0] = start
            spans[row, column, 1] = at
        while text[at] != LINE_FEED:
            at += 1
        row += 1
    return row, -1


@njit()
def parse_numbers(text, spans, values, ok):  # type: ignore[no-untyped-def]
    """Read the number between each pair of places; those to be read by Python, or wrong, are not ok."""
    for row in range(len(spans)):
        value, end, status = parse_number(text, spans[row, 0])
        values[row] = value
        ok[row] = status == OK and end == spans[row, 1] and not np.isinf(value)
