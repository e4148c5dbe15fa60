"""Hybrid search and feature logs in Elasticsearch and OpenSearch, against recorded answers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from marginrank import Fusion, Queries
from marginrank.data.formats.trec import Qrels
from marginrank.errors import DataError
from marginrank.integrations import elasticsearch, opensearch
from tests.integrations.search_server import PlainClient, Recording, serve

RETRIEVERS = {
    "elasticsearch": {
        "words": {"standard": {"query": {"match": {"body": "{{words}}"}}}},
        "vector": {"knn": {"field": "embedding", "query_vector": "{{vector}}", "k": 4, "num_candidates": 50}},
    },
    "opensearch": {
        "words": {"match": {"body": "{{words}}"}},
        "vector": {"knn": {"embedding": {"vector": "{{vector}}", "k": 4}}},
    },
}
QUERIES = {
    "q1": {"words": "red shoes", "vector": np.array([0.6, 0.8])},
    "q2": {"words": "boots", "vector": [1.0, 0.0]},
}
#: A part number with a single hit, and a word that all its hits have as often.
EQUAL = {
    "q3": {"words": "SKU-4711", "vector": [0.0, 1.0]},
    "q4": {"words": "shop", "vector": [0.8, 0.6]},
}
JUDGED = {"q1": {"p1": 2, "p2": 1, "p9": 1}}
KEYWORDS = {"q1": {"keywords": "red shoes"}}
NAMED = {
    "title_bm25": {"match": {"title": "{{keywords}}"}},
    "clicks": {"script_score": {"query": {"exists": {"field": "clicks"}}, "script": {"source": "doc['clicks'].value"}}},
}


@dataclass
class Engine:
    """A module, its client and the recording that answers."""

    module: ModuleType
    client: Any
    recording: Recording
    retrievers: dict[str, Any]

    def collect(self, **options: Any) -> Queries:
        return self.module.collect(self.client, "pages", QUERIES, self.retrievers, k=4, **options)


@pytest.fixture(params=["elasticsearch", "opensearch"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["plain client", "official client"])
def engine(name: str, request: pytest.FixtureRequest) -> Iterator[Engine]:
    module = {"elasticsearch": elasticsearch, "opensearch": opensearch}[name]
    recording = Recording(name)
    with serve(recording) as address:
        if request.param == "plain client":
            client: Any = PlainClient(address)
        elif name == "elasticsearch":
            client = pytest.importorskip(
                "elasticsearch", reason="elasticsearch is not installed: make engines"
            ).Elasticsearch(address)
        else:
            client = pytest.importorskip(
                "opensearchpy", reason="opensearch-py is not installed: make engines"
            ).OpenSearch(address)
        yield Engine(module, client, recording, RETRIEVERS[name])
        assert recording.unknown == []
        if request.param != "plain client":
            client.close()


def trained(kind: str, seed: int = 0) -> Fusion:
    """Train on runs of which words is twice as good."""
    rng = np.random.default_rng(seed)
    words, vector = rng.standard_normal((2, 400))
    relevant = 2 * words + vector + rng.standard_normal(400) > 2
    judged = Queries.from_arrays(
        np.column_stack([words, vector]), relevant, qid=np.arange(400) // 4, feature_names=["words", "vector"]
    )
    return Fusion(kind, Cs=[1.0, 10.0]).fit(judged)


def test_candidates_have_the_score_of_each_retriever(engine: Engine) -> None:
    found = engine.collect(judgements={"q1": {"p2": 2, "p5": 1}, "q2": {"p3": 1}})
    assert found.feature_names == ("words", "vector")
    nan = np.nan
    first, second = found[0], found[1]
    assert first.document_ids.tolist() == ["p1", "p2", "p3", "p4", "p5", "p6"]
    np.testing.assert_allclose(
        first.X, [[7.5, 0.6875], [6.0, 0.875], [6.0, nan], [1.5, nan], [nan, 0.8125], [nan, 0.5]]
    )
    assert first.X[1, 0] > first.X[2, 0], "equal scores keep the order of the engine"
    assert first.grades.tolist() == [0, 2, 0, 0, 1, 0]
    assert second.document_ids.tolist() == ["p1", "p2", "p3", "p4", "p6"]
    np.testing.assert_allclose(second.X, [[2.25, nan], [nan, 0.625], [nan, 0.5625], [3.0, 0.75], [nan, 0.9375]])


@pytest.mark.parametrize("kind", ["minmax", "rrf"])
def test_the_engine_ranks_by_the_learned_weights(kind: str, engine: Engine) -> None:
    fusion = trained(kind)
    a, b = fusion.weights().values()
    body = engine.module.hybrid_query(fusion, engine.retrievers, QUERIES["q2"], k=4)
    hits = engine.client.search(index="pages", body=body)["hits"]["hits"]
    if kind == "minmax":
        # words: p4 1, p1 0; vector: p6 1, p4 .5, p2 1/6, p3 0
        least = 0.001 if engine.module is opensearch else 0.0
        scores = {"p4": a + b / 2, "p6": b, "p2": b / 6, "p1": a * least, "p3": b * least}
    else:
        scores = {"p4": a / 61 + b / 62, "p1": a / 62, "p6": b / 61, "p2": b / 63, "p3": b / 64}
    expected = sorted((score / (a + b) for score in scores.values()), reverse=True)[:4]
    assert [hit["_score"] for hit in hits] == pytest.approx(expected, rel=1e-6)
    agreement = engine.module.verify(engine.client, "pages", fusion, QUERIES, engine.retrievers, k=4)
    assert (agreement.queries, agreement.documents) == (2, 8)
    assert agreement.difference < 1e-6


def test_single_hits_and_equal_scores_are_scaled_as_the_engine_does(engine: Engine) -> None:
    fusion = trained("minmax")
    a, b = fusion.weights().values()
    given = (engine.client, "pages", EQUAL, engine.retrievers)
    warning = r"2 of 4 lists of hits are a single hit or have equal scores, such as that of retriever 'words' for query"
    with pytest.warns(UserWarning, match=rf"{warning} 'q3'; .* training gives them 0: train Fusion\('rrf'\), or let"):
        found = engine.module.collect(*given, k=4)
    assert found[0].document_ids.tolist() == ["p1", "p2", "p5", "p6"]
    # vector: p2 1, p5 2/3, p6 1/3, p1 0
    np.testing.assert_allclose(fusion.predict(found[[0]]), [0, b, 2 / 3 * b, b / 3], atol=1e-12)
    body = engine.module.hybrid_query(fusion, engine.retrievers, EQUAL["q3"], k=4)
    scores = {hit["_id"]: hit["_score"] for hit in engine.client.search(index="pages", body=body)["hits"]["hits"]}
    single = 1.0 if engine.module is opensearch else 12.7
    assert scores["p5"] == pytest.approx((a * single + 2 / 3 * b) / (a + b), rel=1e-6)
    with pytest.warns(UserWarning, match=warning):
        agreement = engine.module.verify(engine.client, "pages", fusion, EQUAL, engine.retrievers, k=4)
    assert (agreement.queries, agreement.documents) == (2, 8)
    assert agreement.difference < 1e-6


def test_all_documents_with_the_lowest_score_are_last(engine: Engine) -> None:
    fusion, tied = trained("minmax"), {"q5": {"words": "sale", "vector": [0.6, 0.8]}}
    a, b = fusion.weights().values()
    body = engine.module.hybrid_query(fusion, engine.retrievers, tied["q5"], k=4)
    scores = {hit["_id"]: hit["_score"] for hit in engine.client.search(index="pages", body=body)["hits"]["hits"]}
    # words: p3 1, p1 and p2 0; vector: p2 1, p5 5/6, p1 .5, p6 0
    least = 0.001 if engine.module is opensearch else 0.0
    expected = {"p3": a, "p2": b + a * least, "p5": 5 / 6 * b, "p1": b / 2 + a * least}
    assert scores == pytest.approx({name: score / (a + b) for name, score in expected.items()}, rel=1e-6)
    agreement = engine.module.verify(engine.client, "pages", fusion, tied, engine.retrievers, k=4)
    assert (agreement.queries, agreement.documents) == (1, 4)
    assert agreement.difference < 1e-6


@pytest.mark.filterwarnings("error")
def test_reciprocal_ranks_of_single_hits_are_those_of_the_engine(engine: Engine) -> None:
    agreement = engine.module.verify(engine.client, "pages", trained("rrf"), EQUAL, engine.retrievers, k=4)
    assert agreement.difference < 1e-6


def test_fewer_documents_than_in_training_are_warned_of(engine: Engine) -> None:
    given = (engine.retrievers, QUERIES["q2"])
    message = r"k is 3, and in training retrievers returned up to 4 documents, .*; give k=4, and take the first hits"
    with pytest.warns(UserWarning, match=message):
        engine.module.hybrid_query(trained("minmax"), *given, k=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.module.hybrid_query(trained("minmax"), *given, k=4)
        engine.module.hybrid_query(trained("rrf"), *given, k=3)


def test_the_first_difference_is_named(engine: Engine) -> None:
    fusion = trained("minmax")
    engine.recording.shift = {"p6": 0.01}
    with pytest.raises(DataError, match=r"query 'q2', document 'p6': the score of the engine is 0\.\d+, and 0\.\d+ is"):
        engine.module.verify(engine.client, "pages", fusion, {"q2": QUERIES["q2"]}, engine.retrievers, k=4)
    engine.recording.shift = {"p4": -10.0}
    with pytest.raises(DataError, match=r"query 'q2', document 'p4': the score of the engine is none, and"):
        engine.module.verify(engine.client, "pages", fusion, {"q2": QUERIES["q2"]}, engine.retrievers, k=4)


@pytest.mark.parametrize("features", ["shop_features", NAMED], ids=["plugin", "named queries"])
def test_a_feature_that_is_absent_is_not_zero(features: Any, engine: Engine) -> None:
    with pytest.warns(UserWarning, match="1 of 3 judged documents are not in the index 'pages', such as 'p9' of query"):
        logged = engine.module.log_features(engine.client, "pages", KEYWORDS, JUDGED, features)
    assert logged.feature_names == ("title_bm25", "clicks")
    assert logged.document_ids.tolist() == ["p1", "p2"]
    assert logged.grades.tolist() == [2, 1]
    np.testing.assert_array_equal(logged.X, [[2.5, 10.0], [np.nan, 0.0]])


class Numbered:
    """A client whose index has document 7, with one feature."""

    def search(self, **_: Any) -> dict[str, Any]:
        hits = [{"_id": "7", "_score": 0.0, "matched_queries": {"title_bm25": 2.5}}]
        return {"timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}}


def test_ids_of_judgements_may_be_numbers_or_text() -> None:
    features = {"title_bm25": NAMED["title_bm25"]}
    for query, judgements in ((1, {"1": {"7": 2}}), ("1", {1: {7: 2}}), (1, Qrels.from_dict({"1": {"7": 2}}))):
        logged = elasticsearch.log_features(Numbered(), "pages", {query: {"keywords": "red"}}, judgements, features)
        assert (logged.X.tolist(), logged.grades.tolist(), logged.query_ids.tolist()) == ([[2.5]], [2.0], ["1"])


class ByHand:
    """2 title_bm25 + clicks / 2, as the engines score: 0 if there is no value."""

    def predict(self, queries: Queries) -> Any:
        return np.nan_to_num(queries.X) @ [2.0, 0.5]


@pytest.mark.filterwarnings("ignore:1 of 3 judged documents")
def test_scores_of_an_uploaded_model_are_compared(engine: Engine) -> None:
    given = (engine.client, "pages", ByHand(), KEYWORDS, JUDGED)
    agreement = engine.module.verify_model(*given, "shop_features", name="shop")
    assert (agreement.queries, agreement.documents, agreement.difference) == (1, 2, 0.0)
    with pytest.raises(DataError, match=r"query 'q1', document 'p2': the score of the engine is 0\.25, and 0 "):
        engine.module.verify_model(*given, "shop_features", name="stale")
    if engine.module is elasticsearch:
        assert engine.module.verify_model(*given, NAMED, name="shop") == agreement


class Sorted:
    """A client whose hits are sorted by a field, and have no scores."""

    def search(self, **_: Any) -> dict[str, Any]:
        hits = [{"_id": "p1", "_score": 2.0}, {"_id": "p2", "_score": None}]
        return {"timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": hits}}


@pytest.mark.parametrize("module", [elasticsearch, opensearch])
def test_hits_without_a_score_are_refused(module: ModuleType) -> None:
    with pytest.raises(
        DataError, match="retriever 'new', query 'q1': document 'p2' has no score; let it return scored"
    ):
        module.collect(Sorted(), "pages", {"q1": {}}, {"new": {}})


def test_what_cannot_be_searched_is_refused(engine: Engine) -> None:
    with pytest.raises(DataError, match=r"retriever 'vector', query 'q1' has no value for \{\{vector\}\}; its values"):
        engine.module.collect(engine.client, "pages", {"q1": {"words": "red shoes"}}, engine.retrievers, k=4)
    words = {"words": engine.retrievers["words"]}
    with pytest.raises(DataError, match=r"query 'q1': the search is not complete \(1 of 2 shards failed\); search aga"):
        engine.module.collect(engine.client, "torn", {"q1": {"words": "red shoes"}}, words, k=4)
    with pytest.raises(DataError, match="combines words, vector, and the retrievers are words; give the same ones"):
        engine.module.hybrid_query(trained("rrf"), words, QUERIES["q1"])
    with pytest.raises(ValueError, match="percentile"):
        engine.module.hybrid_query(trained("percentile"), engine.retrievers, QUERIES["q1"])
