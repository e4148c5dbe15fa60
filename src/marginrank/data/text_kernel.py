"""Steps that every text reader takes."""

from __future__ import annotations

from typing import Final

from marginrank.kernels import njit

TAB: Final = 9
LINE_FEED: Final = 10
RETURN: Final = 13
SPACE: Final = 32
HASH: Final = 35


@njit(nogil=True, cache=True)
def skip_blanks(text, at):  # type: ignore[no-untyped-def]
    """Go past spaces, tabs and carriage returns; the text must end in a line feed."""
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@njit(nogil=True, cache=True)
def ends_word(byte):  # type: ignore[no-untyped-def]
    """Whether a byte parts words; control characters do not, so that none can cut a word short unseen."""
    return byte == SPACE or byte == LINE_FEED or byte == TAB or byte == RETURN


@njit(nogil=True, cache=True)
def gather_words(text, spans, out):  # type: ignore[no-untyped-def]
    """Copy the bytes between each pair of places into a row of the output, padded with zeros."""
    for row in range(len(spans)):
        start, end = spans[row, 0], spans[row, 1]
        for k in range(out.shape[1]):
            out[row, k] = text[start + k] if start + k < end else 0
