"""Words of a query, for the query languages of full text searches."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, each once, without what full text searches read as operators.

    >>> words_of('C++ or "NOT" c?')
    ['c', 'or', 'not']
    """
    return list(dict.fromkeys(_WORD.findall(text.lower())))
