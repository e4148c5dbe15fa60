"""Lines of blank-separated columns to places."""

from __future__ import annotations

import numpy as np

from marginrank.data.numbers import OK, parse_number
from marginrank.data.text_kernel import LINE_FEED, SPACE, ends_word, skip_blanks
from marginrank.kernels import njit


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def parse_numbers(text, spans, values, ok):  # type: ignore[no-untyped-def]
    """Read the number between each pair of places; those to be read by Python, or wrong, are not ok."""
    for row in range(len(spans)):
        value, end, status = parse_number(text, spans[row, 0])
        values[row] = value
        ok[row] = status == OK and end == spans[row, 1] and not np.isinf(value)
