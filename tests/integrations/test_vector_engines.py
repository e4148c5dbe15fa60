"""Hybrid search in Qdrant, LanceDB and tantivy: what is collected, and the learned weights in the engine."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from marginrank import Fusion, Queries
from marginrank.errors import DataError
from marginrank.ranker.selection import Candidate
from tests.integrations.collection import DIMENSIONS, Collection, K, check_candidates, check_scores, ndcg


@pytest.fixture(scope="module")
def collection() -> Collection:
    return Collection()


def own_rrf(later: Queries, constant: int = 60) -> dict[str, dict[str, float]]:
    """Return reciprocal rank fusion of both columns, by plain Python."""
    fused: dict[str, dict[str, float]] = {}
    for number, query in enumerate(later.query_ids.tolist()):
        one = later[number]
        scores = dict.fromkeys(one.document_ids.tolist(), 0.0)
        for column in one.X.T:
            order = [at for at in np.argsort(-column, kind="stable") if not math.isnan(column[at])]
            for rank, at in enumerate(order, 1):
                scores[one.document_ids[at]] += 1 / (constant + rank)
        fused[query] = scores
    return fused


@pytest.fixture(scope="module")
def qdrant() -> ModuleType:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: make engines")
    from marginrank.integrations import qdrant

    return qdrant


def words(text: str) -> list[str]:
    return text.replace("?", "").replace('"', "").split()


class InQdrant:
    """A collection in local mode; words are sparse vectors, of which many have the same score."""

    def __init__(self, collection: Collection) -> None:
        from qdrant_client import QdrantClient, models

        vocabulary = sorted({word for text in collection.texts for word in words(text)})
        numbers = {word: number for number, word in enumerate(vocabulary)}
        self.client = QdrantClient(":memory:")
        self.client.create_collection(
            "pages",
            vectors_config={"vector": models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)},
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )

        def sparse(text: str) -> Any:
            counts = Counter(numbers[word] for word in words(text) if word in numbers)
            values = [count / (count + 1) for count in counts.values()]
            return models.SparseVector(indices=list(counts), values=values)

        points = [
            models.PointStruct(
                id=number,
                vector={"words": sparse(text), "vector": vector.tolist()},
                payload={"name": name},
            )
            for number, (name, text, vector) in enumerate(
                zip(collection.ids, collection.texts, collection.vectors, strict=True)
            )
        ]
        self.client.upsert("pages", points)
        self.queries = {
            query: {"words": sparse(text), "vector": vector.tolist()}
            for query, text, vector in zip(
                collection.query_ids, collection.query_texts, collection.query_vectors, strict=True
            )
        }

    def run(self, arguments: dict[str, Any], limit: int = 100) -> dict[str, float]:
        points = self.client.query_points("pages", limit=limit, with_payload=True, **arguments).points
        assert [point.score for point in points] == sorted((point.score for point in points), reverse=True)
        return {point.payload["name"]: point.score for point in points}


def test_qdrant_ranks_by_the_learned_weights(qdrant: ModuleType, collection: Collection) -> None:
    from qdrant_client import models

    engine = InQdrant(collection)
    found = qdrant.collect(engine.client, "pages", engine.queries, collection.qrels, k=K, document="name")
    check_candidates(found, collection)
    judged, later = found[:40], found[40:]
    fusion = Fusion("rrf", Cs=[1.0, 10.0]).fit(judged)
    asked = {query: engine.queries[query] for query in collection.query_ids[40:]}
    inside = {query: engine.run(qdrant.hybrid_query(fusion, one, k=K)) for query, one in asked.items()}
    check_scores(fusion, later, inside, collection)
    rrf = models.RrfQuery(rrf=models.Rrf(k=61))
    by_rrf = {
        query: engine.run(
            {"prefetch": [models.Prefetch(query=one[run], using=run, limit=K) for run in one], "query": rrf}
        )
        for query, one in asked.items()
    }
    assert ndcg(collection, by_rrf) == pytest.approx(ndcg(collection, own_rrf(later)), abs=1e-6)


def test_qdrant_refuses_what_it_cannot_compute(qdrant: ModuleType, collection: Collection) -> None:
    engine = InQdrant(collection)
    found = qdrant.collect(engine.client, "pages", engine.queries, collection.qrels, k=K, document="name")
    with pytest.raises(DataError, match=r"this fusion takes minmax; train Fusion\('rrf'\)"):
        qdrant.hybrid_query(Fusion("minmax", Cs=[1.0]).fit(found), engine.queries["q0"])
    with pytest.raises(DataError, match="combines words, vector, and the retrievers are words"):
        qdrant.hybrid_query(Fusion("rrf", Cs=[1.0]).fit(found), {"words": engine.queries["q0"]["words"]})
    with pytest.raises(DataError, match=r"point [0-9]+ has no 'title' in its payload; add it"):
        qdrant.collect(engine.client, "pages", engine.queries, collection.qrels, k=K, document="title")


@pytest.mark.parametrize("kind", ["minmax", "rrf"])
def test_lancedb_ranks_by_the_learned_weights(kind: str, collection: Collection, tmp_path: Path) -> None:
    engine = pytest.importorskip("lancedb", reason="lancedb is not installed: make engines")
    from lancedb.index import FTS

    from marginrank.integrations import lancedb

    rows = [
        {"id": name, "body": text, "vector": vector.tolist()}
        for name, text, vector in zip(collection.ids, collection.texts, collection.vectors, strict=True)
    ]
    table = engine.connect(tmp_path).create_table("pages", rows)
    table.create_index("body", config=FTS(stem=False, remove_stop_words=False))
    plain = [" ".join(words(text)) for text in collection.query_texts]
    queries = dict(zip(collection.query_ids, zip(plain, collection.query_vectors, strict=True), strict=True))
    found = lancedb.collect(table, queries, collection.qrels, k=K, metric="dot")
    check_candidates(found.with_features(found.X + np.array([0.0, 1.0]), found.feature_names), collection)
    judged, later = found[:40], found[40:]
    fusion = Fusion(kind, Cs=[1.0, 10.0]).fit(judged)

    def search(query: str, reranker: Any) -> dict[str, float]:
        text, vector = queries[query]
        hybrid = table.search(query_type="hybrid").text(text).vector(vector).distance_type("dot").limit(K)
        rows = hybrid.rerank(reranker).to_list()
        assert len(rows) == K
        return {row["id"]: row["_relevance_score"] for row in rows}

    inside = {query: search(query, lancedb.FusionReranker(fusion)) for query in collection.query_ids[40:]}
    outside = fused(fusion, later)
    for query, scores in inside.items():
        best = sorted(outside[query].values(), reverse=True)[:K]
        assert sorted(scores.values(), reverse=True) == pytest.approx(best, rel=1e-4)
        assert list(scores.values()) == pytest.approx([outside[query][name] for name in scores], rel=1e-4)
    assert ndcg(collection, inside) == pytest.approx(ndcg(collection, outside), abs=1e-6)
    both = search("q41", lancedb.FusionReranker(fusion, return_score="all"))
    assert both == inside["q41"]


@pytest.mark.parametrize("context", ["best", "gap"])
def test_lancedb_refuses_weights_that_depend_on_scores_it_does_not_show(
    context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb", reason="LanceDB is not installed: make engines")
    from marginrank.integrations import lancedb

    monkeypatch.setattr(Candidate, "clearly_better", lambda *_: True)
    rng = np.random.default_rng(0)
    queries = Queries.from_arrays(
        rng.random((400, 2)), rng.integers(0, 2, 400), qid=np.arange(400) // 10, feature_names=["words", "vector"]
    )
    fusion = Fusion("minmax", adaptive=True, context=context, Cs=[1.0]).fit(queries)
    with pytest.raises(DataError, match=f"LanceDB scales scores, which changes minmax.{context}; train Fusion"):
        lancedb.FusionReranker(fusion)


def fused(fusion: Fusion, later: Queries) -> dict[str, dict[str, float]]:
    return {
        query: dict(zip(one.document_ids.tolist(), fusion.predict(one).tolist(), strict=True))
        for number, query in enumerate(later.query_ids.tolist())
        for one in [later[number]]
    }


def test_tantivy_hits_are_ranked_by_the_learned_weights(collection: Collection) -> None:
    engine = pytest.importorskip("tantivy", reason="tantivy is not installed: make engines")
    from marginrank.integrations import tantivy

    schema = (
        engine.SchemaBuilder().add_text_field("id", stored=True, tokenizer_name="raw").add_text_field("body").build()
    )
    index = engine.Index(schema)
    writer = index.writer()
    for name, text in zip(collection.ids, collection.texts, strict=True):
        writer.add_document(engine.Document(id=name, body=text))
    writer.commit()
    index.reload()
    retrievers = {
        "words": tantivy.field_retriever(index, "body", k=K),
        "vector": lambda number: collection.nearest(number).items(),
    }
    queries = {
        query: {"words": text, "vector": number}
        for number, (query, text) in enumerate(zip(collection.query_ids, collection.query_texts, strict=True))
    }
    found = tantivy.collect(queries, retrievers, collection.qrels)
    check_candidates(found, collection)
    for adaptive in (True, False):
        fusion = Fusion("minmax", adaptive=adaptive, Cs=[1.0, 10.0]).fit(found[:40])
        inside = {
            query: dict(tantivy.search(fusion, queries[query], retrievers)) for query in collection.query_ids[40:]
        }
        check_scores(fusion, found[40:], inside, collection)
    assert tantivy.search(fusion, {"words": "?", "vector": 3}, retrievers | {"vector": lambda _: []}) == []
    with pytest.raises(DataError, match="query 'q' has nothing for retriever 'vector', only for words; add it"):
        tantivy.collect({"q": {"words": "a"}}, retrievers)
    with pytest.raises(DataError, match="the query has nothing for retriever 'vector', only for words; add it"):
        tantivy.search(fusion, {"words": "a"}, retrievers)


@pytest.mark.parametrize(
    ("hits", "problem"),
    [
        ([("a", 2.0), ("b", math.nan)], "document 'b' has no score"),
        ([("a", 2.0), ("b", None)], "document 'b' has no score"),
        ([("a", 2.0), ("a", 1.0)], "document 'a' appears twice"),
    ],
)
def test_tantivy_refuses_the_same_hits_in_searches_as_in_training(
    hits: list[Any], problem: str, collection: Collection
) -> None:
    from marginrank.integrations import tantivy

    retrievers = {"words": lambda _: hits, "vector": lambda _: [("a", 1.0), ("b", 0.5)]}
    with pytest.raises(DataError, match=f"retriever 'words', query 'q': {problem}"):
        tantivy.collect({"q": {"words": "", "vector": ""}}, retrievers)
    X = np.random.default_rng(0).standard_normal((60, 2))
    judged = Queries.from_arrays(X, X[:, 0] > 0, qid=np.arange(60) // 6, feature_names=["words", "vector"])
    with pytest.raises(DataError, match=f"retriever 'words': {problem}"):
        tantivy.search(Fusion("rrf", Cs=[1.0]).fit(judged), {"words": "", "vector": ""}, retrievers)
