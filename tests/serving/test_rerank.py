"""The route in the format of Cohere and Jina: rankings, what it refuses and why, and a client of Cohere."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from marginrank import load
from marginrank.model import scoring
from marginrank.serving import ServiceLimits, create_app
from tests.serving.client import InProcess
from tests.serving.conftest import judged
from tests.serving.malformed import NAMES
from tests.serving.process import Service

RUNS = [[3.0, 0.25], [1.0, None], [2.0, None], [None, 0.5]]


@pytest.fixture
def rerank(clients):
    """Send a request that is answered: ``rerank("linear", documents=[...])``."""

    def send(name, path="/v1/rerank", **request):
        answer = clients[name].post(path, json={"query": "a spade", **request})
        assert answer.status == 200, answer.text
        return answer.json()["results"]

    return send


@pytest.fixture
def refused(clients):
    """Send a request that is refused, and return status and reason."""

    def send(name, **request):
        answer = clients[name].post("/v1/rerank", json=request)
        return answer.status, answer.json()["error"]

    return send


def documents_of(X, seed=0):
    """Objects with features in any order, and other fields between them."""
    rng, documents = random.Random(seed), []
    for number, row in enumerate(X.tolist()):
        fields = [*zip(NAMES, row, strict=True), ("text", f"Döcument {number}"), ("tags", ["a", {"b": None}])]
        documents.append(dict(rng.sample(fields, len(fields))))
    return documents


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
@pytest.mark.parametrize("name", ["linear", "additive", "by-query", "kernel"])
def test_results_are_those_of_the_ranker(name, path, models, rerank):
    X = judged(7).X[:12]
    scores = load(models[name]).model_.score(X, group=[12])
    results = rerank(name, path, documents=documents_of(X))
    assert [one["index"] for one in results] == np.argsort(-scores, kind="stable").tolist()
    np.testing.assert_allclose([one["relevance_score"] for one in results], np.sort(scores)[::-1], rtol=1e-9)
    assert set(results[0]) == {"index", "relevance_score"}
    assert rerank(name, path, documents=documents_of(X), top_n=3) == results[:3]
    assert rerank(name, path, documents=documents_of(X), top_n=100, return_documents=None) == results


def test_documents_come_back_as_they_were_sent(rerank):
    documents = documents_of(judged(7).X[:4])
    results = rerank("linear", documents=documents, return_documents=True, top_n=2)
    assert [one["document"] for one in results] == [documents[one["index"]] for one in results]
    texts = [json.dumps(document) for document in documents]
    from_text = rerank("linear", documents=texts, return_documents=True, top_n=2)
    assert [one["document"] for one in from_text] == [{"text": texts[one["index"]]} for one in results]
    scored = [[(one["index"], one["relevance_score"]) for one in ranked] for ranked in (results, from_text)]
    assert scored[0] == scored[1]


def test_a_fusion_takes_the_scores_of_its_runs_and_null_for_documents_a_run_did_not_return(models, rerank):
    documents = [{"id": number, "bm25": bm25, "dense": dense} for number, (bm25, dense) in enumerate(RUNS)]
    rows, scores = scoring.load(models["fusion"]).rerank(np.array(RUNS, dtype=float))
    results = rerank("fusion", documents=documents)
    assert [one["index"] for one in results] == rows.tolist()
    assert [one["relevance_score"] for one in results] == scores.tolist()
    assert rerank("fusion", documents=[]) == []


def test_missing_features_are_null_if_the_model_takes_them(models, rerank, refused):
    X = judged(7).X[:4].copy()
    X[2, 1] = np.nan
    documents = documents_of(X)
    documents[2]["clicks"] = None
    results = rerank("additive", documents=documents)
    assert [one["index"] for one in results] == scoring.load(models["additive"]).rerank(X).rows.tolist()
    status, reason = refused("linear", documents=documents)
    assert status == 422
    assert reason.startswith("documents[2]: feature 'clicks' is null; fill it, or train with the scorer ")


def test_what_clients_send_besides_has_no_effect(rerank):
    documents = documents_of(judged(7).X[:4])
    besides = {"model": "rerank-v3.5", "rank_fields": ["text"], "max_chunks_per_doc": 10, "max_tokens_per_doc": 4096}
    assert rerank("linear", documents=documents, **besides) == rerank("linear", documents=documents)


GOOD = dict(zip(NAMES, [1, 2, 3], strict=True))


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({}, 'documents: it is not there; send {"query": "...", "documents": [{...}]}'),
        ({"documents": {}}, "documents: it is an object; give a list"),
        ({"documents": None}, "documents: it is null; give a list"),
        ({"documents": [GOOD], "query": ["a"]}, "query: it is a list; give text"),
        ({"documents": [GOOD], "top_n": 0}, "top_n: 0 is not a number of documents; give a whole number of at least 1"),
        ({"documents": [GOOD], "top_n": True}, "top_n: True is not a number of documents"),
        ({"documents": [GOOD], "return_documents": 1}, "return_documents: it is a number; give true or false"),
        ({"documents": [GOOD], "top": 3}, "the request: 'top' is unknown; did you mean 'top_n'?"),
        ({"documents": [GOOD, 3]}, "documents[1]: it is a number; give an object with bm25, clicks, price in €"),
        ({"documents": ["A spade."]}, "documents[0]: it is text, which this model does not read; give an object with"),
        ({"documents": ['{"bm25": 1,']}, "documents[0]: line 1, column "),
        ({"documents": ['{"bm25": 1, "bm25": 2}']}, "documents[0]: 'bm25' appears twice in an object"),
        ({"documents": [GOOD, {"bm25": 1, "click": 2}]}, "documents[1]: there is no feature 'clicks'; the model needs"),
        ({"documents": [{**GOOD, "clicks": "2"}]}, "documents[0]: feature 'clicks' is text; give a number"),
        ({"documents": [{**GOOD, "clicks": 10**400}]}, "documents[0]: feature 'clicks' is beyond 1.8e308"),
    ],
)
def test_reasons_name_the_place_and_the_way_out(request_, reason, refused):
    status, said = refused("linear", **request_)
    assert status == (400 if "line 1" in reason else 422)
    assert said.startswith(reason)


def test_runs_that_are_not_named_are_refused(refused):
    status, reason = refused("fusion", documents=[{"bm25": 1.0}])
    assert (status, reason) == (
        422,
        "documents[0]: there is no run 'dense'; give it, null if it did not return the document",
    )


def test_limits_of_the_service_hold(models, refused):
    documents = [GOOD] * 51
    assert refused("linear", documents=documents) == (413, "documents: 51 of them; send 50 at a time at most")
    document = {**GOOD, "text": "x" * 3000}
    client = InProcess(create_app(models["linear"], ServiceLimits(max_response_bytes=5000), reload_every=0))
    assert client.post("/v1/rerank", json={"documents": [document] * 4}).status == 200
    answer = client.post("/v1/rerank", json={"documents": [document] * 4, "return_documents": True})
    assert answer.status == 413
    assert answer.json()["error"].endswith(" bytes; set top_n, or leave return_documents out")
    assert client.post("/v1/rerank", json={"documents": [document], "return_documents": True}).status == 200


@pytest.mark.parametrize("depth", [100, 500, 900, 950, 980, 990, 100_000])
def test_deeply_nested_documents_are_returned_or_refused(depth, models):
    client = InProcess(create_app(models["linear"], reload_every=0))
    nested = json.dumps(GOOD)[:-1] + ', "more": ' + "[" * depth + "]" * depth + "}"
    for body in (f'{{"documents": [{nested}], "return_documents": true}}', json.dumps({"documents": [nested]})):
        answer = client.post("/v1/rerank", body=body.encode())
        assert answer.status in ((200,) if depth <= 500 else (200, 400, 422)), answer.text


def test_the_openapi_page_describes_the_route_and_metrics_count_it(models):
    client = InProcess(create_app(models["linear"], reload_every=0))
    described = client.get("/openapi.json").json()["paths"]["/v1/rerank"]["post"]
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    assert {"query", "documents", "top_n", "return_documents"} <= set(schema["properties"])
    client.post("/v1/rerank", json={"documents": [GOOD] * 3})
    text = client.get("/metrics").text
    assert 'marginrank_requests_total{path="/v1/rerank",status="200"} 1.0' in text
    assert "marginrank_documents_total 3.0" in text


def test_a_client_of_cohere_gets_our_ranking(models):
    cohere = pytest.importorskip("cohere", reason="the client is not installed: pip install cohere")
    import httpx

    kinds = (cohere.Client, cohere.ClientV2)
    X = judged(7).X[:8]
    rows, scores = scoring.load(models["linear"]).rerank(X, 5)
    documents = documents_of(X)
    texts = [json.dumps(document) for document in documents]
    service = Service(models["linear"])
    try:
        with httpx.Client() as connection:
            clients = [kind("no key", base_url=service.address, httpx_client=connection) for kind in kinds]
            answers = [
                client.rerank(query="a spade", documents=sent, top_n=5, model="any")
                for client, sent in zip(clients, (documents, texts), strict=True)
            ]
    finally:
        service.stop()
    for answer in answers:
        assert [one.index for one in answer.results] == rows.tolist()
        assert [one.relevance_score for one in answer.results] == pytest.approx(scores.tolist(), rel=1e-9)
