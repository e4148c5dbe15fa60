"""Retrievers over texts, each of which scores every document for every query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

import numpy as np
from threadpoolctl import threadpool_limits

from marginrank.sparse import sp
from marginrank.typing import FloatArray

#: Runs of capitals, words with or without a capital, and numbers: LinearSVC is linear, svc.
_WORD: Final = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(text: str) -> list[str]:
    """Split text and the names in it into words in lower case, without plural endings.

    >>> words("Solves LinearSVC's dual; see numpy.unravel_index.")
    ['solve', 'linear', 'svc', 'dual', 'see', 'numpy', 'unravel', 'index']
    """
    return [_singular(word) for word in _WORD.findall(text) if len(word) > 1 or word.isdigit()]


@cache
def _singular(word: str) -> str:
    word = word.lower()
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each word occurs in each document and query; words of no document are left out."""

    documents: sp.csr_array
    queries: sp.csr_array

    @classmethod
    def of(cls, documents: Sequence[str], queries: Sequence[str]) -> Self:
        """Count the words of texts."""
        from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415

        vectorizer = CountVectorizer(analyzer=words, dtype=np.float64)
        return cls(sp.csr_array(vectorizer.fit_transform(documents)), sp.csr_array(vectorizer.transform(queries)))


def bm25(counts: Counts, *, k1: float = 1.2, b: float = 0.75) -> FloatArray:
    """Score documents by BM25, Robertson and Zaragoza (2009): one row per query.

    >>> bm25(Counts.of(["red apple", "green apple", "pear tree"], ["red apples"])).round(2).tolist()
    [[1.45, 0.47, 0.0]]
    """
    weights = counts.documents.copy()
    n, lengths = weights.shape[0], weights.sum(axis=1)
    occurs = np.bincount(weights.indices, minlength=weights.shape[1])
    idf = np.log1p((n - occurs + 0.5) / (occurs + 0.5))
    rows = np.repeat(np.arange(n), np.diff(weights.indptr))
    saturation = k1 * (1 - b + b * lengths / lengths.mean())
    weights.data = idf[weights.indices] * weights.data * (k1 + 1) / (weights.data + saturation[rows])
    return np.asarray((counts.queries @ weights.T).toarray())


def latent_cosine(counts: Counts, *, dimensions: int = 300, random_state: int = 0) -> FloatArray:
    """Score documents by the cosine of LSA vectors: TF-IDF, reduced by a truncated SVD.

    Args:
        counts: Counts of words.
        dimensions: Length of the vectors; less where there are fewer documents or words.
        random_state: Seed of the SVD.
    """
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415
    from sklearn.feature_extraction.text import TfidfTransformer  # noqa: PLC0415

    transformer = TfidfTransformer(sublinear_tf=True)
    tfidf = transformer.fit_transform(counts.documents)
    svd = TruncatedSVD(min(dimensions, *(size - 1 for size in tfidf.shape)), random_state=random_state)
    with threadpool_limits(1):  # the matrices are small, and sums are the same on any number of cores
        documents = _normalized(svd.fit_transform(tfidf))
        return _normalized(svd.transform(transformer.transform(counts.queries))) @ documents.T


def _normalized(vectors: Any) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float64)


def ngram_cosine(documents: Sequence[str], queries: Sequence[str]) -> FloatArray:
    """Score documents by the cosine of TF-IDF vectors of character n-grams: three to five characters within words."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    tfidf = sp.csr_array(vectorizer.fit_transform(documents))
    return np.asarray((sp.csr_array(vectorizer.transform(queries)) @ tfidf.T).toarray())
