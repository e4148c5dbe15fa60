"""Where records of CSV text end."""

from __future__ import annotations

from typing import Final

from marginrank.data.formats.text_kernel import LINE_FEED
from marginrank.runtime.kernels import njit

QUOTE: Final = 34
#: Where a place is: at the beginning of a field, in one without quotes, inside quotes, after a quote inside quotes.
START: Final = 0
FIELD: Final = 1
QUOTED: Final = 2
CLOSED: Final = 3


@njit(nogil=True, cache=True)
def last_record_end(text, separator, state):  # type: ignore[no-untyped-def]
    """Return the place after the last record that ends in the text, 0 where none does, and the state at its end.

    A quote means something at the beginning of a field and inside quotes, where two stand for one.
    """
    end = 0
    for at in range(len(text)):
        byte = text[at]
        if state == QUOTED:
            if byte == QUOTE:
                state = CLOSED
        elif byte == QUOTE and state != FIELD:
            state = QUOTED
        elif byte == LINE_FEED:
            end, state = at + 1, START
        elif byte == separator:
            state = START
        else:
            state = FIELD
    return end, state
