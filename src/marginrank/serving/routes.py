"""The ASGI application: routes, error responses, and reloads of the model."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marginrank.serving.limits import HeldBytes, Refusal, ServiceLimits
from marginrank.serving.openapi import REQUEST_BODY, RERANK_BODY, RERANK_RESPONSES, RESPONSES
from marginrank.serving.requests import RankRequest, parse_json, read_body, read_request
from marginrank.serving.rerank import read_rerank
from marginrank.serving.responses import write_ranking, write_rerank
from marginrank.serving.served_model import Loaded, Metrics, ServedModel
from marginrank.version import __version__

LOG: Final = logging.getLogger("marginrank.serving")
#: Statuses after which the rest of a body may still be on its way, so that the connection cannot be used again.
_UNREAD: Final = (408, 413, 415, 503)
#: Paths that are counted under their own name.
_PATHS: Final = (
    "/rank",
    "/v1/rerank",
    "/v2/rerank",
    "/model",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/docs",
    "/openapi.json",
)
#: Bytes from which a request is large: ranking it has threads of its own, so that small requests do not wait for it.
_LARGE: Final = 1 << 18
#: Threads for large requests, which take up to twenty times their size in memory while they are parsed.
_LARGE_THREADS: Final = 2
#: Bytes of a response that are sent before the client has to have read those before.
_PIECE: Final = 1 << 16
#: Where the middleware leaves the function that counts the bytes of a request.
_TAKE: Final = "marginrank.take"
_ALLOWED: Final = "POST /rank, POST /v1/rerank, GET /model, GET /health, GET /metrics and GET /docs"


def create_app(path: str | Path, limits: ServiceLimits | None = None, *, reload_every: float = 2.0) -> FastAPI:
    """Make an ASGI application that ranks with a model.

    Args:
        path: A model file, of a ranker or a fusion.
        limits: How much a request may ask for.
        reload_every: Seconds between two looks at the model file; 0 never looks.

    Raises:
        DataError: The file is no such model, or is damaged.
    """
    limits = ServiceLimits() if limits is None else limits
    metrics = Metrics()
    served = ServedModel(path, metrics)

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
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,  # the address would come from the Host header
    )
    app.state.served = served
    app.add_middleware(_Accounting, metrics=metrics, held=HeldBytes(limits.max_total_bytes))
    _handle_errors(app)
    _add_rank(app, served, limits)
    _add_status(app, served)
    return app


def _handle_errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Any) -> Response:
        headers = {"connection": "close"} if error.status in _UNREAD else {}
        if error.status == 503:
            headers["retry-after"] = "1"
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


def _add_rank(app: FastAPI, served: ServedModel, limits: ServiceLimits) -> None:
    small = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="rank")
    large = ThreadPoolExecutor(_LARGE_THREADS, thread_name_prefix="rank-large")

    async def answered(request: Request, wire: _Format) -> Response:
        take = request.scope[_TAKE]
        body = await read_body(request, limits, take)
        pool = small if len(body) < _LARGE else large
        # One look at the model: it may be replaced meanwhile.
        answer, rank_request = await _in_time(pool, limits, request, body, served.loaded, wire)
        take(len(answer))
        served.metrics.queries.inc(len(rank_request.queries))
        served.metrics.documents.inc(sum(len(query.documents) for query in rank_request.queries))
        return _response(answer)

    @app.post("/rank", openapi_extra=REQUEST_BODY, responses=RESPONSES, response_class=Response)
    async def rank(request: Request) -> Response:
        """Rank the documents of each query, best first."""
        return await answered(request, _RANK)

    @app.post("/v1/rerank", openapi_extra=RERANK_BODY, responses=RERANK_RESPONSES, response_class=Response)
    @app.post("/v2/rerank", include_in_schema=False)
    async def rerank(request: Request) -> Response:
        """Rank the documents of one query, in the format of the rerank routes of Cohere and Jina."""
        return await answered(request, _RERANK)


class _Format(NamedTuple):
    """Reader of requests from JSON and writer of responses, with advice on making them smaller."""

    read: Callable[..., Any]
    write: Callable[..., Iterator[str]]
    smaller: str


_RANK: Final = _Format(read_request, write_ranking, "set k, or leave explain out")
_RERANK: Final = _Format(read_rerank, write_rerank, "set top_n, or leave return_documents out")


async def _in_time(
    pool: ThreadPoolExecutor, limits: ServiceLimits, request: Request, body: bytes, loaded: Loaded, wire: _Format
) -> tuple[bytes, RankRequest]:
    """Answer on another thread, until the time is up or the client is gone, so that nobody else waits for it."""
    stopped = threading.Event()
    work = asyncio.get_running_loop().run_in_executor(pool, _answer, body, loaded, limits, stopped, wire)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait((work, gone), timeout=limits.timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if gone.done():
            raise Refusal(400, "the connection was closed before the answer; leave it open")
        raise Refusal(503, f"the answer took more than {limits.timeout:g} seconds; send fewer documents, or try again")
    finally:
        stopped.set()
        work.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(
    body: bytes, loaded: Loaded, limits: ServiceLimits, stopped: threading.Event, wire: _Format
) -> tuple[bytes, RankRequest]:
    """Return the answer to a request, as JSON, and the parsed request; end early once it is stopped."""

    def check_stop() -> None:
        if stopped.is_set():
            raise Refusal(503, "nobody waits for the answer; ask again")

    rank_request: RankRequest = wire.read(parse_json(body, check_stop), loaded.model, limits, check_stop)
    pieces, size = [], 0
    for piece in wire.write(rank_request, loaded):
        check_stop()
        size += len(piece)
        if size > limits.max_response_bytes:
            raise Refusal(413, f"the response has more than {limits.max_response_bytes:,} bytes; {wire.smaller}")
        pieces.append(piece)
    return "".join(pieces).encode(), rank_request


def _response(answer: bytes) -> Response:
    """Send a large answer in pieces: each waits until the client has read those before."""
    if len(answer) <= _PIECE:
        return Response(answer, media_type="application/json")

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(answer), _PIECE):
            yield answer[start : start + _PIECE]

    headers = {"content-length": str(len(answer))}
    return StreamingResponse(pieces(), headers=headers, media_type="application/json")


def _add_status(app: FastAPI, served: ServedModel) -> None:
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Report whether the service is live and ready, which model is in use, and why its file cannot be read."""
        loaded = served.loaded
        return {
            "live": True,
            "ready": True,
            "model": {"path": str(served.path), "digest": loaded.digest, "loaded_at": loaded.loaded_at},
            "reload_problem": served.problem,
        }

    @app.get("/health/live")
    async def live() -> dict[str, bool]:
        """Answer as long as the service runs."""
        return {"live": True}

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


class _Accounting:
    """Counts and times requests, holds their bytes to the limit, and answers HEAD as GET without a body."""

    def __init__(self, app: ASGIApp, metrics: Metrics, held: HeldBytes) -> None:
        self.app, self.metrics, self.held = app, metrics, held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        path = scope["path"] if scope["path"] in _PATHS else "other"
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        with self.metrics.in_progress.track_inprogress(), self.held.share() as take:
            method = "GET" if is_head else scope["method"]
            try:
                await self.app({**scope, "method": method, _TAKE: take}, receive, noted)
            finally:
                self.metrics.requests.labels(path, status).inc()
                self.metrics.seconds.labels(path).observe(time.perf_counter() - began)
