"""A search task on the documentation of NumPy, SciPy and scikit-learn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Self

import numpy as np
from threadpoolctl import threadpool_limits

from marginrank.data.queries import Queries
from marginrank.datasets.docstrings import Pages, read_pages
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.text import count
from marginrank.typing import BoolArray, FloatArray

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
    """Term counts of documents and queries; words of no document are left out."""

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
        dimensions: Length of the vectors; less if there are fewer documents or words.
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


PACKAGES: Final = ("numpy", "scipy", "sklearn")
#: Descriptions that only make sense on the page they are on, such as "equivalent function".
_RELATIVE: Final = re.compile(r"\b(above|alias|corresponding|equivalent|same|similar|these|this)\b", re.IGNORECASE)
_LEAST_WORDS: Final = 3
_MOST_TARGETS: Final = 3
#: Decimals that scores are rounded to, as the last bits of a sum depend on the processor.
_DECIMALS: Final = 6


@dataclass(frozen=True, eq=False, repr=False)
class Collection:
    """Judged queries with their texts.

    Args:
        queries: All queries. Features are the scores of the retrievers.
        train: The training queries.
        test: The test queries. No document is the target of queries in both parts.
        texts: The text of each query, by query id.
        summaries: The summary of each document, by document id.
    """

    queries: Queries
    train: Queries
    test: Queries
    texts: Mapping[str, str]
    summaries: Mapping[str, str]

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} training, {len(self.test):,} test"
        return f"Collection({count(len(self.queries), 'query', 'queries')}: {sizes}; {len(self.summaries):,} documents)"


def pydocs(*, top: int = 30, test_share: float = 0.5, random_state: int = 0) -> Collection:
    """Build a search task from the docstrings of NumPy, SciPy and scikit-learn.

    Documents are the docstrings of public functions and classes, without their *See Also* and *Examples* sections.
    Queries are the descriptions in the *See Also* sections of other pages: "Convert a flat index into an index tuple."
    describes `numpy.unravel_index` on the page of `numpy.ravel_multi_index`. The target of a query has grade 2, and the
    documents that the target's own *See Also* section refers to have grade 1.

    Five retrievers search the documents: BM25 on the docstring, its summary and its name, the cosine of LSA vectors of
    the docstring, and the cosine of character n-grams of name and summary. The candidates of a query are the documents
    among the best of any retriever. Documents that no retriever finds are not among them and do not count in measures.

    Nothing is downloaded, and the same versions of the packages give the same collection. Building it takes a few
    seconds; a process that asks for the same collection again gets a copy.

    >>> docs = pydocs()
    >>> docs.train.feature_names
    ('bm25_body', 'bm25_summary', 'bm25_name', 'vectors', 'ngrams')
    >>> docs.texts["numpy.unravel_index/1"]
    'Convert a flat index into an index tuple.'

    Args:
        top: Number of documents that each retriever contributes to a query.
        test_share: Share of the queries to test on.
        random_state: Seed of the split and of the LSA vectors.
    """
    if top < 1 or not 0 < test_share < 1:
        raise ValueError(f"top is {top} and test_share {test_share}; give at least 1, and a share between 0 and 1")
    return deepcopy(_build(top, test_share, random_state))


@lru_cache(maxsize=2)
def _build(top: int, test_share: float, random_state: int) -> Collection:
    """Build and cache the collection, which takes seconds."""
    pages = read_pages(PACKAGES)
    judged = described_targets(pages)
    texts = dict(zip(_query_ids(judged), judged, strict=True))
    scores = _scores(pages, list(judged), random_state)
    queries = _candidates(pages, judged, texts, scores, top)
    in_test = split_by_target(list(judged.values()), test_share, random_state)
    return Collection(
        queries=queries,
        train=queries[~in_test],
        test=queries[in_test],
        texts=texts,
        summaries={name: document.summary for name, document in pages.documents.items()},
    )


def described_targets(pages: Pages) -> dict[str, list[str]]:
    """Return the targets of each description in a *See Also* section, ordered by target.

    Descriptions of fewer than three words or of more than three targets, and those that refer to the page they are on,
    are left out.
    """
    targets: dict[str, set[str]] = {}
    for page, document in pages.documents.items():
        for entry in document.references:
            named = {pages.resolve(name, page) for name in entry.names} - {None, page}
            if named and len(entry.text.split()) >= _LEAST_WORDS and not _RELATIVE.search(entry.text):
                targets.setdefault(entry.text, set()).update(name for name in named if name is not None)
    described = [(sorted(names), text) for text, names in targets.items() if len(names) <= _MOST_TARGETS]
    return {text: names for names, text in sorted(described)}


def judge(pages: Pages, targets: Sequence[str]) -> dict[str, float]:
    """Grade documents for a query: 2 for its targets, 1 for what their pages refer to; all others have 0."""
    related = dict.fromkeys((name for target in targets for name in pages.references(target)), 1.0)
    return related | dict.fromkeys(targets, 2.0)


def split_by_target(targets: Sequence[Sequence[str]], test_share: float, random_state: int) -> BoolArray:
    """Choose the test queries, so that queries with a target in common are on the same side.

    >>> split_by_target([["a"], ["a", "b"], ["c"], ["b"]], 0.75, random_state=0).tolist()
    [True, True, False, True]
    """
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    names, columns = np.unique([name for query in targets for name in query], return_inverse=True)
    rows = np.repeat(np.arange(len(targets)), [len(query) for query in targets])
    has_target = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(targets), len(names)))
    _, groups = connected_components(has_target @ has_target.T, directed=False)
    sizes = np.bincount(groups)
    order = np.random.default_rng(random_state).permutation(len(sizes))
    # A group goes to the test queries if most of it lies before the cut.
    chosen = order[np.cumsum(sizes[order]) - sizes[order] / 2 < test_share * len(targets)]
    return np.isin(groups, chosen)


def _query_ids(judged: Mapping[str, Sequence[str]]) -> list[str]:
    """Name queries by their first target, and number those of one target.

    >>> _query_ids({"Go up.": ["up"], "Rise up high.": ["up"], "Go down.": ["down", "up"]})
    ['up/1', 'up/2', 'down/1']
    """
    seen: dict[str, int] = {}
    for first, *_ in judged.values():
        seen[first] = seen.get(first, 0)
    names = []
    for first, *_ in judged.values():
        seen[first] += 1
        names.append(f"{first}/{seen[first]}")
    return names


def _scores(pages: Pages, queries: Sequence[str], random_state: int) -> dict[str, FloatArray]:
    """Return the score of every document for every query, by retriever."""
    names = list(pages.documents)
    texts = [document.text for document in pages.documents.values()]
    summaries = [document.summary for document in pages.documents.values()]
    titles = [f"{name} {summary}" for name, summary in zip(names, summaries, strict=True)]
    body = Counts.of(texts, queries)
    return {
        "bm25_body": bm25(body),
        "bm25_summary": bm25(Counts.of(summaries, queries)),
        "bm25_name": bm25(Counts.of(names, queries)),
        "vectors": latent_cosine(body, random_state=random_state),
        "ngrams": ngram_cosine(titles, queries),
    }


def _candidates(
    pages: Pages,
    judged: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    scores: Mapping[str, FloatArray],
    top: int,
) -> Queries:
    """Join the best documents of each retriever, with the scores of all retrievers and grades."""
    names = np.array(list(pages.documents))
    top = min(top, len(names))
    rounded = [column.round(_DECIMALS) for column in scores.values()]
    retrieved = np.zeros((len(judged), len(names)), dtype=np.bool_)
    for column in rounded:
        # Less than the last decimal decides between equal scores: the first by name wins.
        distinct = column - 0.1 * 10.0**-_DECIMALS * np.arange(len(names)) / len(names)
        retrieved |= distinct >= np.partition(distinct, -top, axis=1)[:, [-top]]
    rows, columns = np.nonzero(retrieved)
    place = {name: at for at, name in enumerate(names.tolist())}
    grades = np.zeros(retrieved.shape)
    for row, targets in enumerate(judged.values()):
        for name, grade in judge(pages, targets).items():
            grades[row, place[name]] = grade
    return Queries.from_arrays(
        np.stack([column[rows, columns] for column in rounded], axis=1),
        grades[rows, columns],
        qid=np.array(list(texts))[rows],
        document_ids=names[columns],
        feature_names=list(scores),
    )
