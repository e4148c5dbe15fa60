"""Features of queries, as context for weights that depend on the query."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.typing import FloatArray

#: Columns of `query_text_features`.
QUERY_TEXT_FEATURES: Final = ("n_words", "mean_word_length", "has_digit", "has_code", "is_question")
#: Columns of `WordRarity.features`.
RARITY_FEATURES: Final = ("rarest_word", "mean_rarity")
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
    return np.array([_features(text) for text in _several(texts)], dtype=np.float64).reshape(
        -1, len(QUERY_TEXT_FEATURES)
    )


def _several(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise TypeError("this is one text; give a list of texts")
    return texts


def _features(text: str) -> tuple[float, ...]:
    words = _WORD.findall(text)
    has_code = any(any(map(str.isalpha, word)) and any(map(str.isdigit, word)) for word in words)
    is_question = text.rstrip().endswith(("?", "？", "؟")) or _QUESTION.match(text.lstrip()) is not None
    length = sum(map(len, words)) / len(words) if words else 0.0
    return len(words), length, any(map(str.isdigit, text)), has_code, is_question


@dataclass(frozen=True)
class WordRarity:
    """Rarity of words in documents: ln((n + 1) / (d + 1)) for a word that d of n documents have.

    >>> rarity = WordRarity.of(["steel bolt", "brass bolt", "steel nut"])
    >>> rarity.features(["brass bolt", "titanium"]).round(3).tolist()             # ln 2 and ln 4/3; ln 4
    [[0.693, 0.49], [1.386, 1.386]]

    Args:
        n_documents: Number of documents.
        counts: In how many documents each word is, in lower case.
    """

    n_documents: int
    counts: Mapping[str, int]

    @classmethod
    def of(cls, documents: Iterable[str]) -> Self:
        """Count the words of documents."""
        counts: Counter[str] = Counter()
        n = 0
        for n, text in enumerate(_several(documents), 1):  # noqa: B007
            counts.update({word.lower() for word in _WORD.findall(text)})
        return cls(n, dict(counts))

    def features(self, texts: Iterable[str]) -> FloatArray:
        """Describe the texts of queries by their rarest word and the mean; 0 without words."""
        rows = [[self._rarity(word) for word in _WORD.findall(text)] or [0.0] for text in _several(texts)]
        return np.array([(max(row), sum(row) / len(row)) for row in rows], dtype=np.float64).reshape(-1, 2)

    def _rarity(self, word: str) -> float:
        return math.log((self.n_documents + 1) / (self.counts.get(word.lower(), 0) + 1))


def add_query_features(queries: Queries, values: npt.ArrayLike, names: Sequence[str]) -> Queries:
    """Add columns that describe the query, with the same value for all its documents.

    >>> runs = Queries.from_arrays([[7.0], [5.0], [9.0]], qid=["b", "a", "b"], feature_names=["bm25"])
    >>> texts = {"a": "hold boards", "b": "bolt M8x40 steel"}
    >>> features = query_text_features(texts[query] for query in runs.query_ids)
    >>> both = add_query_features(runs, features[:, :1], ["n_words"])
    >>> both.feature_names, both.X.tolist()
    (('bm25', 'n_words'), [[7.0, 3.0], [5.0, 2.0], [9.0, 3.0]])

    Args:
        queries: Queries with feature names.
        values: One row per query, in the order of ``queries.query_ids``, and one column per name.
        names: Names of the columns.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.shape != (len(queries), len(names)):
        raise DataError(
            f"values have shape {table.shape}; give one row for each of {len(queries)} queries, in the order of "
            f"query_ids, and one column for each of {len(names)} names"
        )
    if queries.feature_names is None:
        raise DataError("these queries have no feature names; give feature_names to Queries.from_arrays")
    columns = (*queries.feature_names, *names)
    twice = next((name for name in names if columns.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"there would be two columns {twice!r}; give another name")
    return queries.with_features(np.hstack([queries.dense(), table[queries.query_of_row]]), columns)
