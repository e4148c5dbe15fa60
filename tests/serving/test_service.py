"""The service in this process: rankings, refusals with a reason, status pages, and reloads."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from marginrank import DataError, Ranker, load
from marginrank.fusion import Fusion
from marginrank.model import scoring
from marginrank.serving import ServiceLimits, create_app, routes
from marginrank.serving.limits import Refusal
from tests.serving.client import InProcess
from tests.serving.conftest import LIMITS, judged
from tests.serving.malformed import NAMES, judge, requests


@pytest.fixture
def rank(clients):
    """Send a request that is answered: ``rank("linear", queries=[...])``."""

    def send(name, **request):
        answer = clients[name].post("/rank", json=request)
        assert answer.status == 200, answer.text
        return answer.json()["queries"]

    return send


@pytest.fixture
def refused(clients):
    """Send a request that is refused, and return status and reason."""

    def send(name, **request):
        answer = clients[name].post("/rank", json=request)
        return answer.status, answer.json()["error"]

    return send


def shapes_of(X, rng):
    """The same features as rows, as rows by name in any order, and as columns in any order."""
    names = list(NAMES)
    named = []
    for row in X.tolist():
        pairs = list(zip(names, row, strict=True))
        rng.shuffle(pairs)
        named.append(dict(pairs))
    columns = {name: X[:, at].tolist() for at, name in enumerate(names)}
    return X.tolist(), named, dict(rng.sample(list(columns.items()), len(columns)))


def test_a_service_does_without_scikit_learn(models):
    code = (
        "import sys\n"
        "from marginrank.serving import create_app\n"
        "from tests.serving.client import InProcess\n"
        "client = InProcess(create_app(sys.argv[1], reload_every=0))\n"
        "answer = client.post('/rank', json={'queries': [{'features': [[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]]}]})\n"
        "print(answer.status, 'sklearn' in sys.modules, 'numba' in sys.modules)"
    )
    words = [sys.executable, "-c", code, str(models["by-query"])]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", "False", "False"]


@pytest.mark.parametrize("name", ["linear", "additive", "by-query", "kernel"])
def test_rankings_are_those_of_the_ranker_whatever_the_shape_and_the_order_of_rows(name, models, rank):
    rng = random.Random(0)
    X, ranker = judged(7).X[:12], load(models[name])
    scores = ranker.model_.score(X, group=[12])
    ids = [f"dök {row}" for row in range(12)]
    best = [ids[row] for row in np.argsort(-scores, kind="stable")]
    for features in shapes_of(X, rng):
        (query,) = rank(name, queries=[{"id": "q", "documents": ids, "features": features}])
        assert query["id"] == "q"
        assert [one["id"] for one in query["documents"]] == best
        assert [one["rank"] for one in query["documents"]] == list(range(1, 13))
        np.testing.assert_allclose([one["score"] for one in query["documents"]], np.sort(scores)[::-1], rtol=1e-9)
    order = rng.sample(range(12), 12)
    (query,) = rank(name, queries=[{"documents": [ids[row] for row in order], "features": X[order].tolist()}])
    assert [one["id"] for one in query["documents"]] == best


def test_ids_are_text_or_numbers_and_row_numbers_without_any(rank):
    X = judged(7).X[:3].tolist()
    (named,) = rank("linear", queries=[{"documents": [10, "10", 10**40], "features": X}])
    (plain,) = rank("linear", queries=[{"features": X}])
    known = {10: 0, "10": 1, 10**40: 2}
    assert [known[one["id"]] for one in named["documents"]] == [one["id"] for one in plain["documents"]]
    assert plain["id"] == 0


def test_odd_ids_come_back_as_they_were_sent(clients):
    ids = ["\ud800", "\u0000", "a\u2028b", "", "é"]
    body = json.dumps({"queries": [{"id": "\udfff", "documents": ids, "features": judged(7).X[:5].tolist()}]})
    answer = clients["linear"].post(
        "/rank", body=body.encode(), headers={"content-type": "application/json; charset=UTF-8"}
    )
    (query,) = answer.json()["queries"]
    assert query["id"] == "\udfff"
    assert sorted(one["id"] for one in query["documents"]) == sorted(ids)


@pytest.mark.parametrize("name", ["linear", "by-query"])
def test_queries_are_ranked_each_by_itself_and_cut_at_k(name, models, rank):
    X, ranker = judged(7).X[:20], load(models[name])
    parts = [X[:5], X[5:5], X[5:20]]
    answer = rank(name, queries=[{"id": f"q{n}", "features": part.tolist()} for n, part in enumerate(parts)], k=4)
    assert [query["id"] for query in answer] == ["q0", "q1", "q2"]
    for query, part in zip(answer, parts, strict=True):
        scores = ranker.model_.score(part, group=[len(part)]) if len(part) else part[:, 0]
        best = np.argsort(-scores, kind="stable")[:4].tolist()
        assert [one["id"] for one in query["documents"]] == best


@pytest.mark.parametrize("name", ["linear", "additive"])
def test_contributions_sum_to_the_difference_from_the_mean_score(name, models, rank):
    X = judged(7).X[:10]
    (query,) = rank(name, queries=[{"features": X.tolist()}], k=3, explain=True)
    scores = scoring.load(models[name]).score(X)
    expected = load(models[name]).model_.explain(X, group=[10])
    for document in query["documents"]:
        parts = document["contributions"]
        assert list(parts) == list(NAMES)
        assert sum(parts.values()) == pytest.approx(document["score"] - scores.mean(), abs=1e-9)
        np.testing.assert_allclose(list(parts.values()), expected[document["id"]], atol=1e-7)


def test_missing_values_are_null_where_the_model_takes_them(models, rank, refused):
    X = judged(7).X[:4].copy()
    X[2, 1] = np.nan
    rows = [[None if np.isnan(x) else x for x in row] for row in X.tolist()]
    (query,) = rank("additive", queries=[{"features": rows}])
    assert [one["id"] for one in query["documents"]] == scoring.load(models["additive"]).rerank(X).rows.tolist()
    status, reason = refused("linear", queries=[{"features": rows}])
    assert (status, reason) == (
        422,
        "queries[0].features[2]: feature 'clicks' is null; fill it, or train with the scorer linear(missing=mean) or "
        "additive",
    )


def test_a_fusion_takes_runs_of_documents_by_id(models, rank):
    runs = {"bm25": {"a": 3.0, "b": 1.0, "7": 2.0}, "dense": {"c": 0.5, "a": 0.25}}
    table = np.array([[3.0, 0.25], [1.0, np.nan], [2.0, np.nan], [np.nan, 0.5]])
    scores = dict(zip("ab7c", scoring.load(models["fusion"]).score(table).tolist(), strict=True))
    ranked = sorted(scores, key=lambda one: -scores[one])
    (query,) = rank("fusion", queries=[{"runs": runs}])
    assert [one["id"] for one in query["documents"]] == ranked
    assert [one["score"] for one in query["documents"]] == sorted(scores.values(), reverse=True)
    pairs = {"dense": [["a", 0.25], ["c", 0.5]], "bm25": [["a", 3.0], ["b", 1.0], [7, 2.0]]}
    (query,) = rank("fusion", queries=[{"runs": pairs}], k=2, explain=True)
    assert [str(one["id"]) for one in query["documents"]] == ranked[:2]
    assert set(query["documents"][0]["contributions"]) == {"minmax(bm25)", "minmax(dense)"}
    assert rank("fusion", queries=[{"runs": {"bm25": {}, "dense": []}}])[0]["documents"] == []


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"features": [[1, 2]]}, "queries[0].features: this model combines runs; give runs"),
        ({}, "queries[0].runs: give an object with what each run returned"),
        ({"runs": {"bm25": {}}}, "queries[0].runs: there is no run 'dense'; give it, empty if it returned nothing"),
        ({"runs": {"bm25": {}, "dens": {}}}, "queries[0].runs: the model has no run 'dens'; did you mean 'dense'?"),
        ({"runs": {"bm25": {"a": "1"}, "dense": {}}}, "queries[0].runs.bm25: the score of 'a' is text; give a number"),
        ({"runs": {"bm25": {"a": None}, "dense": {}}}, "queries[0].runs.bm25: the score of 'a' is null; give a number"),
        (
            {"runs": {"bm25": [["a", 1], ["a", 2]], "dense": {}}},
            "queries[0].runs.bm25[1]: two documents have the id 'a'",
        ),
        ({"runs": {"bm25": [["a"]], "dense": {}}}, "queries[0].runs.bm25[0]: a list is not a pair; give [id, score]"),
        (
            {"runs": {"bm25": [[1.5, 1]], "dense": {}}},
            "queries[0].runs.bm25[0]: 1.5 is not an id; give text",
        ),
        ({"runs": {"bm25": 3, "dense": {}}}, "queries[0].runs.bm25: it is a number; give an object of scores"),
        ({"runs": {"bm25": {"a": 10**400}, "dense": {}}}, "queries[0].runs.bm25: 'a' is beyond 1.8e308; send a number"),
    ],
)
def test_runs_that_make_no_sense_are_refused(query, reason, refused):
    status, said = refused("fusion", queries=[query])
    assert status == 422
    assert said.startswith(reason)


def test_a_fusion_of_raw_scores_needs_every_score(tmp_path):
    runs = judged(1).with_features(judged(1).X[:, :2], ["bm25", "dense"])
    Fusion("score", Cs=[1.0]).fit(runs, folds=2).save(tmp_path / "m.safetensors")
    client = InProcess(create_app(tmp_path / "m.safetensors", LIMITS, reload_every=0))
    answer = client.post("/rank", json={"queries": [{"runs": {"bm25": {"a": 1.0}, "dense": {"b": 1.0}}}]})
    assert answer.status == 422
    assert answer.json()["error"] == (
        "queries[0].runs.dense: there is no score for 'a'; this model needs all runs to score it"
    )


def test_true_and_false_are_one_and_zero(rank):
    numbers = [[1, 2, 0], [0, 2, 1]]
    named = [dict(zip(NAMES, row, strict=True)) for row in ([True, 2, False], [False, 2, True])]
    columns = {NAMES[0]: [True, False], NAMES[1]: [2, 2], NAMES[2]: [False, True]}
    for features in (named, columns, [list(row.values()) for row in named]):
        assert rank("linear", queries=[{"features": features}]) == rank("linear", queries=[{"features": numbers}])


ROW = [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            {"features": [{"bm25": 1, "clicks": 2, "price": 3}]},
            ".features[0]: the model has no feature 'price'; ",
        ),
        ({"features": [[1, 2, []]]}, ".features[0]: feature 'price in €' is a list; give a number"),
        ({"features": [ROW], "documents": ["a", "b"]}, ".documents: 2 ids for 1 document; give one for each row"),
        ({"features": [ROW] * 2, "documents": ["a", "a"]}, ".documents[1]: two documents have the id 'a'; give each"),
        (
            {"features": [[1, 2]]},
            ".features[0]: 2 numbers, and the model has 3 features: bm25, ",
        ),
        ({"feature": [ROW]}, ": 'feature' is unknown; did you mean 'features'?"),
    ],
)
def test_reasons_name_the_place_and_the_way_out(query, reason, refused):
    status, said = refused("linear", queries=[query])
    assert status == 422
    assert said.startswith(f"queries[0]{reason}")


def test_reasons_about_the_whole_request(refused):
    assert refused("linear", k=3)[1].startswith("queries: it is not there; send {")
    assert refused("linear", queries=[], top=3) == (422, "the request: 'top' is unknown; known: queries, k, explain")
    status, reason = refused("linear", queries=[{"features": [ROW] * 51}])
    assert (status, reason) == (413, "queries[0]: more than 50 documents; send fewer, or fewer queries")


def test_scores_beyond_numbers_are_refused(tmp_path):
    Ranker("svmmap", scaling=None, C=100.0).fit(judged()).save(tmp_path / "m.safetensors")
    client = InProcess(create_app(tmp_path / "m.safetensors", LIMITS, reload_every=0))
    answer = client.post("/rank", json={"queries": [{"features": [[1e308] * 3] * 2}], "k": 10**30})
    assert answer.status == 422
    assert answer.json()["error"].startswith("queries[0]: document 0 has score ")


def test_what_cannot_be_explained_is_said(refused):
    status, reason = refused("kernel", queries=[{"features": judged(7).X[:3].tolist()}], explain=True)
    assert status == 422
    assert reason.startswith("explain: the scores of a kernel model are not made of features")
    assert reason.endswith("leave explain out")


def test_every_malformed_request_is_refused_with_a_reason(clients):
    client, problems = clients["linear"], []
    for one in requests(400, seed=1):
        problems.append(judge(one.what, client.post("/rank", body=one.body, headers=one.headers)))
    assert [problem for problem in problems if problem is not None] == []


def test_compressed_bodies_are_refused(clients):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = clients["linear"].post("/rank", body=b"\x1f\x8b", headers=headers)
    assert (answer.status, answer.json()["error"].partition(";")[0]) == (415, "Content-Encoding is 'gzip'")


def test_a_body_without_a_length_has_the_same_limit(clients):
    def parts():
        yield b'{"queries": ['
        for _ in range(30):
            yield b" " * 1000
        yield b"]}"

    answer = clients["linear"].send("POST", "/rank", parts(), {"content-type": "application/json"})
    assert (answer.status, answer.json()["error"]) == (
        413,
        "the body has more than 20,000 bytes; send fewer documents at a time",
    )
    assert answer.headers["connection"] == "close"


def test_an_answer_that_takes_too_long_is_given_up(models, monkeypatch):
    def slow(*_):
        import time

        time.sleep(0.4)

    monkeypatch.setattr("marginrank.serving.routes._answer", slow)
    client = InProcess(create_app(models["linear"], ServiceLimits(timeout=0.05), reload_every=0))
    answer = client.post("/rank", json={"queries": []})
    assert answer.status == 503
    assert answer.json()["error"] == "the answer took more than 0.05 seconds; send fewer documents, or try again"


@pytest.mark.parametrize("goes", [False, True])
def test_work_stops_when_the_time_is_up_or_the_client_is_gone(goes, models, monkeypatch):
    ended = threading.Event()

    def endless(body, loaded, limits, stopped, *_):
        stopped.wait()
        ended.set()

    monkeypatch.setattr("marginrank.serving.routes._answer", endless)
    client = InProcess(create_app(models["linear"], ServiceLimits(timeout=60 if goes else 0.05), reload_every=0))
    answer = client.send("POST", "/rank", [b"{}"], {"content-type": "application/json"}, goes=goes)
    assert answer.status == (400 if goes else 503)
    assert ended.wait(60)


@pytest.mark.parametrize(
    "body",
    [
        b'{"queries": [{"features": [{"bm25": 1, "clicks": 2, "price in \\u20ac": 3}]}]}',
        b'{"queries": [{"features": []}]}',
        b'{"queries": []}',
    ],
)
def test_stopped_work_ends_wherever_it_is(body, models):
    """It is looked whether the work is stopped once for every object, query, and piece of the answer."""

    class StoppedAfter:
        def __init__(self, looks):
            self.looks = looks

        def is_set(self):
            self.looks -= 1
            return self.looks < 0

    loaded, ends = create_app(models["linear"], reload_every=0).state.served.loaded, []
    for looks in range(100):
        try:
            routes._answer(body, loaded, ServiceLimits(), StoppedAfter(looks), routes._RANK)
        except Refusal as refusal:
            ends.append(refusal.status)
        else:
            break
    n_objects, n_queries = body.count(b"{"), body.count(b"features")
    assert len(ends) >= n_objects + n_queries + 2
    assert set(ends) == {503}


def test_small_requests_do_not_wait_for_large_ones(models, monkeypatch):
    """As many large requests are stuck as there are threads; a small one is answered."""
    stuck, free, answered = threading.Semaphore(0), threading.Event(), []
    whole = routes._answer

    def slow(body, *more):
        if len(body) > 1 << 18:
            stuck.release()
            free.wait()
        return whole(body, *more)

    monkeypatch.setattr("marginrank.serving.routes._answer", slow)
    client = InProcess(create_app(models["linear"], reload_every=0))
    body = b'{"queries": []}'.ljust(1 << 19)
    clients = [
        threading.Thread(target=lambda: answered.append(client.post("/rank", body=body).status)) for _ in range(40)
    ]
    for thread in clients:
        thread.start()
    for _ in range(2):
        stuck.acquire()
    assert client.post("/rank", json={"queries": []}).status == 200
    free.set()
    for thread in clients:
        thread.join()
    assert answered == [200] * 40


def test_queries_are_counted(models):
    client = InProcess(create_app(models["linear"], ServiceLimits(max_queries=3), reload_every=0))
    assert client.post("/rank", json={"queries": [{"features": []}] * 3}).status == 200
    answer = client.post("/rank", json={"queries": [{"features": []}] * 4})
    assert (answer.status, answer.json()["error"]) == (413, "queries: 4 of them; send 3 at a time at most")


def test_large_answers_are_whole_and_too_large_ones_are_refused(models):
    X = np.tile(judged(7).X, (10, 1)).tolist()
    request = {"queries": [{"features": X}], "explain": True}
    whole = InProcess(create_app(models["linear"], reload_every=0)).post("/rank", json=request)
    assert len(whole.body) > 3 << 16
    assert int(whole.headers["content-length"]) == len(whole.body)
    assert [document["rank"] for document in whole.json()["queries"][0]["documents"]] == list(range(1, 2001))
    limits = ServiceLimits(max_response_bytes=len(whole.body))
    assert InProcess(create_app(models["linear"], limits, reload_every=0)).post("/rank", json=request) == whole
    limits = ServiceLimits(max_response_bytes=len(whole.body) - 1)
    client = InProcess(create_app(models["linear"], limits, reload_every=0))
    answer = client.post("/rank", json=request)
    assert answer.status == 413
    assert answer.json()["error"].endswith(" bytes; set k, or leave explain out")
    assert client.post("/rank", json={**request, "k": 10}).status == 200


def test_requests_and_answers_share_a_limit_and_give_back_what_they_took(models):
    request = {"queries": [{"features": judged(7).X[:20].tolist()}]}
    size = len(json.dumps(request))
    sizes = {
        size - 1: 503,  # the request alone is too large
        size + 10: 503,  # the answer is
        size + len(InProcess(create_app(models["linear"], reload_every=0)).post("/rank", json=request).body): 200,
    }
    for limit, status in sizes.items():
        client = InProcess(create_app(models["linear"], ServiceLimits(max_total_bytes=limit), reload_every=0))
        for _ in range(3):
            answer = client.post("/rank", json=request)
            assert answer.status == status
        if status == 503:
            assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
            assert "the service is busy with " in answer.json()["error"]


def test_an_error_of_the_service_is_an_answer_too(models, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr("marginrank.serving.routes._answer", broken)
    client = InProcess(create_app(models["linear"], reload_every=0))
    answer = client.post("/rank", json={"queries": []})
    assert (answer.status, answer.json()) == (500, {"error": "an error in the service; its log has the reason"})
    assert "boom" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/rank", 405), ("POST", "/health", 405), ("GET", "/x", 404)]
)
def test_other_places_and_methods_are_refused_with_those_that_exist(method, path, status, clients):
    answer = clients["linear"].send(method, path)
    assert answer.status == status
    assert answer.json()["error"].endswith(
        "use POST /rank, POST /v1/rerank, GET /model, GET /health, GET /metrics and GET /docs"
    )


@pytest.mark.parametrize("path", ["/rank/", "/health/", "/docs/", "/docs/oauth2-redirect", "//evil.example/health"])
def test_no_answer_leads_to_the_host_of_the_request(path, clients):
    for method in ("GET", "POST", "HEAD"):
        status, headers, body = clients["linear"].send(method, path, headers={"host": "evil.example"})
        assert status == 404
        assert "location" not in headers
        assert b"http://evil.example" not in body


def test_status_pages(models, clients):
    client = clients["linear"]
    health = client.get("/health").json()
    assert (health["live"], health["ready"], health["reload_problem"]) == (True, True, None)
    assert client.get("/health/live").json() == {"live": True}
    assert client.get("/health/ready").json() == {"ready": True}
    for place in ("/health", "/health/live", "/health/ready", "/model", "/docs", "/openapi.json"):
        status, headers, body = client.send("HEAD", place)
        assert (status, headers, body) == (200, client.get(place).headers, b"")
        assert set(client.get("/openapi.json").json()["paths"].get(place, {"get"})) == {"get"}
    assert client.send("HEAD", "/metrics")[::2] == (200, b"")
    assert client.send("HEAD", "/rank")[::2] == (405, b"")
    described = client.get("/model").json()
    assert described["inputs"] == list(NAMES)
    assert (described["kind"], described["measure"], described["form"]) == ("ranker", "ap", "linear")
    assert described["digest"] == health["model"]["digest"]
    assert clients["fusion"].get("/model").json()["inputs"] == ["bm25", "dense"]


def test_the_openapi_page_describes_requests(clients):
    assert "swagger" in clients["linear"].get("/docs").text
    paths = clients["linear"].get("/openapi.json").json()["paths"]
    schema = paths["/rank"]["post"]["requestBody"]["content"]["application/json"]
    assert set(schema["schema"]["properties"]) == {"queries", "k", "explain"}
    assert set(paths["/rank"]["post"]["responses"]) >= {"200", "400", "408", "413", "415", "422", "503"}
    assert set(paths) == {"/rank", "/v1/rerank", "/model", "/health", "/health/live", "/health/ready", "/metrics"}


def metrics_of(client):
    lines = re.findall(r"^(marginrank_\S+?)(\{.*\})? (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return {name + labels: float(value) for name, labels, value in lines}


def test_metrics_count_requests_queries_and_documents(models):
    client = InProcess(create_app(models["linear"], LIMITS, reload_every=0))
    X = judged(7).X[:3].tolist()
    client.post("/rank", json={"queries": [{"id": 1, "features": X}, {"id": 2, "features": X}]})
    client.post("/rank", json={})
    client.get("/nowhere")
    counts = metrics_of(client)
    assert counts['marginrank_requests_total{path="/rank",status="200"}'] == 1
    assert counts['marginrank_requests_total{path="/rank",status="422"}'] == 1
    assert counts['marginrank_requests_total{path="other",status="404"}'] == 1
    assert counts["marginrank_queries_total"] == 2
    assert counts["marginrank_documents_total"] == 6
    assert counts['marginrank_request_seconds_count{path="/rank"}'] == 2
    assert counts["marginrank_model_stale"] == 0
    assert counts["marginrank_requests_in_progress"] == 1


def test_a_new_model_file_is_used_and_a_damaged_one_is_not(models, tmp_path, caplog):
    path = tmp_path / "m.safetensors"
    shutil.copy(models["linear"], path)
    app = create_app(path, LIMITS, reload_every=0)
    client, served = InProcess(app), app.state.served
    first = client.get("/health").json()["model"]["digest"]
    served.refresh()
    assert metrics_of(client)['marginrank_model_reloads_total{outcome="ok"}'] == 0

    Ranker("svmmap", C=7.0).fit(judged(3)).save(path)
    served.refresh()
    health = client.get("/health").json()
    second = health["model"]["digest"]
    assert (second != first, health["reload_problem"]) == (True, None)
    assert client.get("/model").json()["C"] == 7.0

    whole = path.read_bytes()
    request = {"queries": [{"features": judged(7).X[:5].tolist()}]}
    before = client.post("/rank", json=request).json()
    for damage in (whole[:-9], b"", b"text", whole[:-1] + bytes([whole[-1] ^ 1]), None):
        path.unlink(missing_ok=True)
        if damage is not None:
            path.write_bytes(damage)
        with caplog.at_level(logging.ERROR, logger="marginrank.serving"):
            served.refresh()
        health = client.get("/health").json()
        assert health["model"]["digest"] == second
        assert str(path) in health["reload_problem"]
        assert health["reload_problem"].endswith("; the previous model stays in use")
        assert health["reload_problem"] in caplog.text
        assert metrics_of(client)["marginrank_model_stale"] == 1
        assert client.post("/rank", json=request).json() == before
    assert metrics_of(client)['marginrank_model_reloads_total{outcome="failed"}'] == 5

    shutil.copy(models["fusion"], path)
    served.refresh()
    assert client.get("/health").json()["reload_problem"] is None
    assert client.get("/model").json()["kind"] == "fusion"
    counts = metrics_of(client)
    assert (counts["marginrank_model_stale"], counts['marginrank_model_reloads_total{outcome="ok"}']) == (0, 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_only_regular_files_are_read(models, tmp_path):
    path = tmp_path / "m.safetensors"
    shutil.copy(models["linear"], path)
    served = create_app(path, LIMITS, reload_every=0).state.served
    digest = served.loaded.digest
    for put in (os.mkfifo, Path.mkdir, lambda place: place.symlink_to("/dev/zero")):
        path.unlink()
        put(path)
        served.refresh()
        assert served.problem == f"{path}: not a regular file; put a file there; the previous model stays in use"
        assert served.loaded.digest == digest
        with pytest.raises(DataError, match="not a regular file"):
            create_app(path, LIMITS)
        if path.is_dir():
            path.rmdir()
            path.touch()
    path.unlink()
    shutil.copy(models["additive"], path)
    served.refresh()
    assert (served.problem, served.loaded.digest != digest) == (None, True)


def test_what_the_system_refuses_once_is_tried_again(models, tmp_path, monkeypatch, caplog):
    path = tmp_path / "m.safetensors"
    shutil.copy(models["linear"], path)
    served = create_app(path, LIMITS, reload_every=0).state.served
    digest = served.loaded.digest
    shutil.copy(models["additive"], path)

    def exhausted(_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("marginrank.serving.served_model.open_regular", exhausted)
        served.refresh()
        served.refresh()
    assert served.loaded.digest == digest
    assert caplog.text.count("Too many open files") == 1
    served.refresh()
    assert (served.problem, served.loaded.digest != digest) == (None, True)
