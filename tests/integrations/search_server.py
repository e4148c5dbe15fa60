"""A server that answers the requests of a file, as Elasticsearch and OpenSearch document their answers."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

RECORDED = Path(__file__).parent / "recorded"


class Recording:
    """The exchanges of a file; hybrid searches, which hold learned weights, are computed from its other answers."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.exchanges = json.loads((RECORDED / f"{engine}.json").read_text("utf-8"))["exchanges"]
        self.shift: dict[str, float] = {}
        self.unknown: list[Any] = []

    def answer(self, path: str, parameters: dict[str, str], body: Any) -> dict[str, Any] | None:
        """Return the answer to a request, or None if it is not known."""
        for one in self.exchanges:
            if (path, parameters, body) == (one["path"], one["parameters"], one["request"]):
                return one["answer"]
        weighted = self._weighted(body)
        if weighted is None:
            self.unknown.append((path, parameters, body))
            return None
        scores: dict[str, float] = {}
        for weight, search in weighted:
            answer = self.answer(path, parameters, {**search, "size": body["size"], "_source": False})
            assert answer is not None
            for document, part in self._scaled(body, [(hit["_id"], hit["_score"]) for hit in answer["hits"]["hits"]]):
                scores[document] = scores.get(document, 0.0) + weight * part
        ranked = sorted(((score + self.shift.get(name, 0.0), name) for name, score in scores.items()), reverse=True)
        hits = [{"_index": "pages", "_id": name, "_score": score} for score, name in ranked[: body["size"]]]
        return {**self.exchanges[0]["answer"], "hits": {"max_score": ranked[0][0], "hits": hits}}

    def _weighted(self, body: Any) -> list[tuple[float, Any]] | None:
        """Return the weights and the searches of a hybrid search, or None if it is not one."""
        if self.engine == "elasticsearch" and set(body.get("retriever", {})) & {"linear", "rrf"}:
            ((kind, options),) = body["retriever"].items()
            assert options["rank_window_size"] == body["size"]
            assert kind == "rrf" or all(one["normalizer"] == "minmax" for one in options["retrievers"])
            return [(one["weight"], {"retriever": one["retriever"]}) for one in options["retrievers"]]
        if self.engine == "opensearch" and "hybrid" in body.get("query", {}):
            (processor,) = body["search_pipeline"]["phase_results_processors"][0].values()
            weights = processor["combination"]["parameters"]["weights"]
            assert abs(sum(weights) - 1) < 1e-6
            queries = body["query"]["hybrid"]["queries"]
            return [(weight, {"query": query}) for weight, query in zip(weights, queries, strict=True)]
        return None

    def _scaled(self, body: Any, hits: list[tuple[str, float]]) -> list[tuple[str, float]]:
        """Scale the scores of one retriever as the request says.

        OpenSearch gives equal scores 1, and the least of others 0.001; Elasticsearch leaves equal scores as they are.
        """
        if '"rrf"' in json.dumps(body):
            assert '"rank_constant": 60' in json.dumps(body)
            return [(document, 1 / (60 + rank)) for rank, (document, _) in enumerate(hits, 1)]
        high, low = hits[0][1], hits[-1][1]
        if high - low < 1e-6:
            return [(document, 1.0 if self.engine == "opensearch" else low) for document, _ in hits]
        least = 0.001 if self.engine == "opensearch" else 0.0
        return [(document, (score - low) / (high - low) or least) for document, score in hits]


@contextmanager
def serve(recording: Recording) -> Iterator[str]:
    """Serve a recording on a free port of this machine; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            url = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = recording.answer(url.path, dict(parse_qsl(url.query)), body)
            error = {"error": {"type": "parsing_exception", "reason": "not recorded"}, "status": 400}
            content = json.dumps(error if answer is None else answer).encode()
            self.send_response(400 if answer is None else 200)
            if recording.engine == "elasticsearch":
                # The official client refuses answers without.
                self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class PlainClient:
    """What the integrations call of the official clients."""

    def __init__(self, address: str) -> None:
        self.address = address

    def search(self, *, index: str, body: Any, **parameters: Any) -> Any:
        texts = {name: str(value).lower() for name, value in parameters.items()}
        request = urllib.request.Request(
            f"{self.address}/{index}/_search?{urlencode(texts)}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())
