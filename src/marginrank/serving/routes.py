"""The ASGI application: routes, error responses, and reloads of the model."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marginrank.errors import DataError
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.serving.requests import Query, RankRequest, Refusal, RequestLimits, parse_json, read_body, read_request
from marginrank.serving.served_model import Loaded, Metrics, ServedModel
from marginrank.version import __version__

_NUMBER: Final = {"type": ["number", "null"]}
_ID: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
_QUERY: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {**_ID, "description": "Id of the query; by default its number."},
        "documents": {"type": "array", "items": _ID, "description": "Ids of the documents; by default row numbers."},
        "features": {
            "description": "Features of documents: rows by name, rows in the order of the model, or columns by name.",
            "anyOf": [
                {"type": "array", "items": {"type": "object", "additionalProperties": _NUMBER}},
                {"type": "array", "items": {"type": "array", "items": _NUMBER}},
                {"type": "object", "additionalProperties": {"type": "array", "items": _NUMBER}},
            ],
        },
        "runs": {
            "description": "For a fusion: what each run returned, scores by document id or pairs of id and score.",
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "number"}},
                    {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}},
                ]
            },
        },
    },
}

_REQUEST: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["queries"],
    "properties": {
        "queries": {"type": "array", "items": _QUERY},
        "k": {"type": ["integer", "null"], "minimum": 1, "description": "How many documents; all by default."},
        "explain": {"type": "boolean", "default": False, "description": "Whether to add contributions of features."},
    },
}

_DOCUMENT: Final = {
    "type": "object",
    "properties": {
        "id": _ID,
        "rank": {"type": "integer"},
        "score": {"type": "number"},
        "contributions": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "What each feature adds to the score, relative to the mean score of the query.",
        },
    },
}

_RANKING: Final = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "First digits of the SHA-256 of the model file."},
        "queries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": _ID, "documents": {"type": "array", "items": _DOCUMENT}},
            },
        },
    },
}

_EXAMPLE: Final = {
    "queries": [{"id": "q1", "documents": ["a", "b"], "features": [[0.5, 1.0], [3.0, 0.0]]}],
    "k": 10,
}

_REASON: Final = {"type": "object", "properties": {"error": {"type": "string"}}}


def _json(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **more}}


REQUEST_BODY: Final = {"requestBody": {"required": True, "content": _json(_REQUEST, example=_EXAMPLE)}}
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Documents of each query, best first.", "content": _json(_RANKING)},
    400: {"description": "The body is not JSON.", "content": _json(_REASON)},
    408: {"description": "The body did not arrive in time.", "content": _json(_REASON)},
    413: {"description": "The body, or the number of documents, is too large.", "content": _json(_REASON)},
    415: {"description": "The Content-Type is not application/json.", "content": _json(_REASON)},
    422: {"description": "The request does not fit the model.", "content": _json(_REASON)},
    503: {"description": "The answer took too long.", "content": _json(_REASON)},
}

LOG: Final = logging.getLogger("marginrank.serving")
#: Statuses after which the rest of a body may still be on its way, so that the connection cannot be used again.
_UNREAD: Final = (408, 413, 415)
#: Paths that are counted under their own name.
_PATHS: Final = ("/rank", "/model", "/health", "/health/live", "/health/ready", "/metrics", "/docs", "/openapi.json")
_ALLOWED: Final = "POST /rank, GET /model, GET /health, GET /metrics and GET /docs"


def create_app(path: str | Path, limits: RequestLimits | None = None, *, reload_every: float = 2.0) -> FastAPI:
    """Make an ASGI application that ranks with a model.

    Args:
        path: A model file, of a ranker or a fusion.
        limits: How much a request may ask for.
        reload_every: Seconds between two looks at the model file; 0 never looks.

    Raises:
        DataError: The file is no such model, or is damaged.
    """
    limits = RequestLimits() if limits is None else limits
    metrics = Metrics()
    served = ServedModel(path, metrics)
    pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="rank")

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(served.watch(reload_every)) if reload_every > 0 else None
        yield
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    app = FastAPI(
        title="marginrank",
        version=__version__,
        description=f"Ranks documents with {Path(path).name}.",
        lifespan=lifespan,
        redoc_url=None,
    )
    app.state.served = served
    app.add_middleware(_Counted, metrics=metrics)
    _handle_errors(app)
    _add_rank(app, served, limits, pool)
    _add_status(app, served)
    return app


def _handle_errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Any) -> Response:
        headers = {"connection": "close"} if error.status in _UNREAD else None
        if error.status == 503:
            headers = {"retry-after": "1"}
        return JSONResponse({"error": error.reason}, error.status, headers)

    async def unknown(request: Request, error: Any) -> Response:
        reasons = {
            404: f"there is nothing at {request.url.path[:200]}; use {_ALLOWED}",
            405: f"{request.method} is not allowed at {request.url.path[:200]}; use {_ALLOWED}",
        }
        reason = reasons.get(error.status_code, str(error.detail))
        return JSONResponse({"error": reason}, error.status_code, error.headers)

    async def failed(_: Request, error: Exception) -> Response:
        LOG.error("a request failed: %s: %s", type(error).__name__, error)
        return JSONResponse({"error": "an error in the service; its log has the reason"}, 500)

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, failed)


def _add_rank(app: FastAPI, served: ServedModel, limits: RequestLimits, pool: ThreadPoolExecutor) -> None:
    @app.post("/rank", openapi_extra=REQUEST_BODY, responses=RESPONSES, response_class=Response)
    async def rank(request: Request) -> Response:
        """Rank the documents of each query, best first."""
        body = await read_body(request, limits)
        # One look at the model: it may be replaced meanwhile.
        loaded = served.loaded
        if loaded.pace.is_quick(body):
            answer, rank_request = _answer(body, loaded, limits)
        else:
            answer, rank_request = await _in_time(pool, limits, body, loaded)
        served.metrics.queries.inc(len(rank_request.queries))
        served.metrics.documents.inc(sum(len(query.documents) for query in rank_request.queries))
        return Response(answer, media_type="application/json")


async def _in_time(
    pool: ThreadPoolExecutor, limits: RequestLimits, body: bytes, loaded: Loaded
) -> tuple[bytes, RankRequest]:
    """Answer on another thread, so that a large request does not keep others, and health, waiting."""
    work = asyncio.get_running_loop().run_in_executor(pool, _answer, body, loaded, limits)
    try:
        return await asyncio.wait_for(work, limits.timeout)
    except TimeoutError:
        raise Refusal(
            503, f"the answer took more than {limits.timeout:g} seconds; send fewer documents, or try again"
        ) from None


def _answer(body: bytes, loaded: Loaded, limits: RequestLimits) -> tuple[bytes, RankRequest]:
    """Return the answer to a request, as JSON, and the parsed request."""
    with loaded.pace.timed(body):
        return _timed_answer(body, loaded, limits)


def _timed_answer(body: bytes, loaded: Loaded, limits: RequestLimits) -> tuple[bytes, RankRequest]:
    rank_request = read_request(parse_json(body), loaded.model, limits)
    ranked = [
        {"id": query.id, "documents": _ranked(query, f"queries[{number}]", rank_request, loaded.model)}
        for number, query in enumerate(rank_request.queries)
    ]
    # Characters beyond ASCII are escaped: ids may hold halves of a pair, which UTF-8 does not have.
    return json.dumps({"model": loaded.digest, "queries": ranked}, allow_nan=False).encode(), rank_request


def _ranked(query: Query, place: str, rank_request: RankRequest, model: ScoringFunction) -> list[dict[str, Any]]:
    try:
        rows, scores = (part.tolist() for part in model.rerank(query.table, rank_request.k))
        documents = [
            {"id": query.documents[row], "rank": rank, "score": score}
            for rank, (row, score) in enumerate(zip(rows, scores, strict=True), 1)
        ]
        if rank_request.explain and documents:
            parts = model.explain(query.table, rows=rows).tolist()
            for document, own in zip(documents, parts, strict=True):
                document["contributions"] = dict(zip(model.names, own, strict=True))
    except DataError as error:
        raise Refusal(422, f"{place}: {error}") from None
    except TypeError as error:
        raise Refusal(422, f"explain: {error}; leave explain out") from None
    return documents


def _add_status(app: FastAPI, served: ServedModel) -> None:
    # Load balancers ask without wanting the answer; GET alone is described.
    @app.head("/health", include_in_schema=False)
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Say whether the service is live and ready, which model is in use, and why its file cannot be read."""
        loaded = served.loaded
        return {
            "live": True,
            "ready": True,
            "model": {"path": str(served.path), "digest": loaded.digest, "loaded_at": loaded.loaded_at},
            "reload_problem": served.problem,
        }

    @app.head("/health/live", include_in_schema=False)
    @app.get("/health/live")
    async def live() -> dict[str, bool]:
        """Answer as long as the service runs."""
        return {"live": True}

    @app.head("/health/ready", include_in_schema=False)
    @app.get("/health/ready")
    async def ready() -> dict[str, bool]:
        """Answer once there is a model, which is before the first request."""
        return {"ready": True}

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Describe the model in use: what it takes, and how it was trained."""
        return served.loaded.describe()

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return metrics in the text format of Prometheus."""
        return Response(served.metrics.text(), media_type=CONTENT_TYPE_LATEST)


class _Counted:
    """Counts and times requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in _PATHS else "other"
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self.metrics.in_progress.track_inprogress():
            try:
                await self.app(scope, receive, noted)
            finally:
                self.metrics.requests.labels(path, status).inc()
                self.metrics.seconds.labels(path).observe(time.perf_counter() - began)
