"""Features of the text of a query, as context for weights that depend on the query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from marginrank.typing import FloatArray

#: Columns of `query_text_features`.
QUERY_TEXT_FEATURES: Final = ("n_words", "mean_word_length", "has_digit", "has_code", "is_question")
_WORD: Final = re.compile(r"[^\W_]+(?:[-./_'’][^\W_]+)*")
_QUESTION: Final = re.compile(
    r"(?:who|what|when|where|why|which|how|is|are|was|were|do|does|did|can|could|should|will|would)\b", re.IGNORECASE
)


def query_text_features(texts: Iterable[str]) -> FloatArray:
    """Describe the texts of queries: one row per text, one column for each of `QUERY_TEXT_FEATURES`.

    ``has_code`` is 1 if a word has letters and digits, such as a part number; ``is_question`` is 1 if the text ends
    with a question mark, or begins with an English question word.

    >>> query_text_features(["bolt M8x40", "How are bolts made?"]).tolist()
    [[2.0, 4.5, 1.0, 1.0, 0.0], [4.0, 3.75, 0.0, 0.0, 1.0]]
    """
    return np.array([_features(text) for text in texts], dtype=np.float64).reshape(-1, len(QUERY_TEXT_FEATURES))


def _features(text: str) -> tuple[float, ...]:
    words = _WORD.findall(text)
    has_code = any(any(map(str.isalpha, word)) and any(map(str.isdigit, word)) for word in words)
    is_question = text.rstrip().endswith(("?", "？", "؟")) or _QUESTION.match(text.lstrip()) is not None
    length = sum(map(len, words)) / len(words) if words else 0.0
    return len(words), length, any(map(str.isdigit, text)), has_code, is_question
