"""A small collection, whose relevant documents are found by words or by vectors, and hits by plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Fusion, Queries, evaluate

N_DOCUMENTS, N_QUERIES, DIMENSIONS, K = 240, 60, 8, 25
RUNS = ("words", "vector")


class Collection:
    """Documents of two topics each: words name one with noise, vectors point to the other with more of it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        places = rng.standard_normal((12, DIMENSIONS))
        topics = rng.integers(0, 12, N_DOCUMENTS)
        self.ids = [f"d'{number}" for number in rng.permutation(N_DOCUMENTS)]
        self.texts = [
            " ".join([f"t{topic}"] * int(rng.integers(0, 4)) + [f"w{word}" for word in rng.integers(0, 90, 12)])
            for topic in topics
        ]
        self.vectors = self._unit(places[topics] + 0.9 * rng.standard_normal((N_DOCUMENTS, DIMENSIONS)))
        self.query_ids = [f"q{number}" for number in range(N_QUERIES)]
        wanted = rng.integers(0, 12, N_QUERIES)
        self.query_texts = [f't{topic}? w{rng.integers(0, 90)} "w{rng.integers(0, 90)}"' for topic in wanted]
        self.query_vectors = self._unit(places[wanted] + 0.7 * rng.standard_normal((N_QUERIES, DIMENSIONS)))
        self.qrels = {
            query: {self.ids[at]: 1 for at in np.flatnonzero(topics == topic).tolist()}
            for query, topic in zip(self.query_ids, wanted.tolist(), strict=True)
        }

    @staticmethod
    def _unit(vectors: np.ndarray) -> np.ndarray:
        # Engines store float32, and what they return is compared with these.
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def nearest(self, query: int, k: int = K) -> dict[str, float]:
        """Return the cosines of the nearest documents."""
        cosines = self.vectors.astype(np.float64) @ self.query_vectors[query].astype(np.float64)
        return {self.ids[at]: float(cosines[at]) for at in np.argsort(-cosines)[:k]}

    def matching(self, query: int) -> set[str]:
        """Return the documents that have a word of the query."""
        words = set(self.query_texts[query].replace("?", "").replace('"', "").split())
        return {name for name, text in zip(self.ids, self.texts, strict=True) if words & set(text.split())}


def check_candidates(found: Queries, collection: Collection) -> None:
    """Check ids, grades and columns against plain Python."""
    assert found.feature_names == RUNS
    assert found.query_ids.tolist() == collection.query_ids
    for number, query in enumerate(collection.query_ids):
        one = found[number]
        words, vector = one.X.T
        ids = one.document_ids
        nearest = dict(zip(ids[~np.isnan(vector)].tolist(), vector[~np.isnan(vector)].tolist(), strict=True))
        expected = collection.nearest(number)
        assert len(nearest) == K
        np.testing.assert_allclose([nearest[name] for name in expected], list(expected.values()), atol=1e-5)
        by_words = set(ids[~np.isnan(words)].tolist())
        matching = collection.matching(number)
        assert by_words <= matching
        assert len(by_words) == min(K, len(matching))
        assert set(ids.tolist()) == by_words | set(expected)
        assert one.grades.tolist() == [collection.qrels[query].get(name, 0) for name in ids.tolist()]


def ndcg(collection: Collection, run: dict[str, dict[str, float]]) -> float:
    """Return NDCG@10 of a run of some of the queries."""
    judged = {query: collection.qrels[query] for query in run}
    return evaluate(judged, run, "ndcg@10").mean["ndcg@10"]


def check_scores(fusion: Fusion, later: Queries, inside: dict[str, dict[str, float]], collection: Collection) -> None:
    """Check that an engine returns the documents with the scores and the NDCG@10 that Python has."""
    outside = {query: dict[str, float]() for query in later.query_ids.tolist()}
    qid = np.repeat(later.query_ids, later.lengths).tolist()
    for query, document, score in zip(qid, later.document_ids.tolist(), fusion.predict(later).tolist(), strict=True):
        outside[query][document] = score
    assert inside.keys() == outside.keys()
    for query, scores in outside.items():
        assert inside[query].keys() == scores.keys()
        names = list(scores)
        assert [inside[query][name] for name in names] == pytest.approx([scores[name] for name in names], rel=1e-5)
    assert abs(ndcg(collection, inside) - ndcg(collection, outside)) <= 1e-6
