"""Topics of documents: weights by document id or by row, and rankings of many queries under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from marginrank.errors import DataError
from marginrank.evaluation.diversity import DiverseRanking, Diversify
from marginrank.typing import AnyArray, FloatArray, IntArray

#: Weights of documents × topics; or by document id the weights by topic, or the topics, which then have weight 1.
Topics: TypeAlias = npt.ArrayLike | Mapping[Any, Mapping[str, float] | Iterable[str]]


@runtime_checkable
class Diversifier(Protocol):
    """Ranks the documents of one query by scores and topics: `Diversify` or `Cover`."""

    def order(self, scores: npt.ArrayLike, topics: npt.ArrayLike, k: int | None = None) -> DiverseRanking:
        """Rank the documents."""


def topic_weights(topics: Topics, ids: AnyArray | None, n: int) -> FloatArray:
    """Return the weights of n documents, with a column per topic in the order of the topics' names.

    Args:
        topics: Weights, or a dict by document id; documents that are not in it have no topics.
        ids: Document ids; None if documents have none.
        n: Number of documents.

    >>> topic_weights({"a": {"sport": 0.5}, "b": ["news", "sport"]}, np.array(["b", "a", "c"]), 3).tolist()
    [[1.0, 1.0], [0.0, 0.5], [0.0, 0.0]]
    """
    if not isinstance(topics, Mapping):
        weights = np.asarray(topics, dtype=np.float64)
        if weights.ndim != 2 or len(weights) != n:
            raise DataError(f"topics have shape {weights.shape} for {n} documents; give a row for each")
        return weights
    if ids is None:
        raise DataError("topics by document id need documents with ids; give weights with a row for each document")
    by_id = {
        document: dict(given) if isinstance(given, Mapping) else dict.fromkeys(_names(document, given), 1.0)
        for document, given in topics.items()
    }
    names = sorted({topic for given in by_id.values() for topic in given})
    column = {topic: at for at, topic in enumerate(names)}
    weights = np.zeros((n, len(names)))
    known = 0
    for row, document in enumerate(ids.tolist()):
        for topic, weight in by_id.get(document, {}).items():
            weights[row, column[topic]] = weight
        known += document in by_id
    if not known and n:
        example = next(iter(by_id), None)
        raise DataError(f"no document has topics: documents are called {ids[0]!r}, and topics are of {example!r}")
    return weights


def _names(document: Any, given: Iterable[str]) -> Iterable[str]:
    if isinstance(given, str):
        raise DataError(f"topics of {document!r} are {given!r}; give a list of topics, or a dict of weights")
    return given


def diverse_orderings(
    scores: FloatArray,
    offsets: IntArray,
    order: IntArray | None,
    k: int | None,
    weights: FloatArray,
    diversify: Diversifier | None,
) -> list[IntArray]:
    """Order the documents of every query by scores and topics, as row numbers; see `systems.orderings`."""
    ranker = Diversify() if diversify is None else diversify
    ranked = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        rows = np.arange(start, stop) if order is None else order[start:stop]
        ranked.append(rows[ranker.order(scores[rows], weights[rows], k).order])
    return ranked
