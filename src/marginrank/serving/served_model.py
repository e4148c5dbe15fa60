"""The model in use, which is reloaded when its file changes."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from marginrank.model.scoring import load
from marginrank.runtime.files import open_regular
from marginrank.runtime.text import plain
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction

_PREFIX: Final = "marginrank_"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters of one service; services in one process do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests that were answered.", "path", "status")
        self.seconds = Histogram(
            f"{_PREFIX}request_seconds",
            "Time to answer a request.",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_progress = self._gauge("requests_in_progress", "Requests that are being answered.")
        self.queries = self._counter("queries", "Queries that were ranked.")
        self.documents = self._counter("documents", "Documents that were scored.")
        self.reloads = self._counter("model_reloads", "Attempts to read a changed model file.", "outcome")
        self.loaded = self._gauge("model_loaded_timestamp_seconds", "When the model in use was read.")
        self.stale = self._gauge("model_stale", "1 if the model file has changed but cannot be read.")
        self.model = self._gauge("model_info", "The model in use.", "digest", "measure", "form")
        for outcome in ("ok", "failed"):
            self.reloads.labels(outcome)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}{name}", text, labels, registry=self.registry)

    def text(self) -> bytes:
        """Return everything in the text format."""
        return generate_latest(self.registry)


LOG: Final = logging.getLogger("marginrank.serving")
#: What a file that changes has other values of; None for a file that is not there.
_Signature: TypeAlias = tuple[int, int, int, int] | None


@dataclass(frozen=True)
class Loaded:
    """A model, the first digits of the SHA-256 of its file, and when it was read."""

    model: ScoringFunction
    digest: str
    loaded_at: float

    def describe(self) -> dict[str, Any]:
        """Return what the model is, as plain values."""
        header = self.model.header
        record = {
            "kind": "fusion" if isinstance(self.model, FusedFunction) else "ranker",
            "digest": self.digest,
            "loaded_at": self.loaded_at,
            "inputs": self.model.inputs,
            **({"context": self.model.context} if isinstance(self.model, FusedFunction) else {}),
            "takes_missing": self.model.takes_missing,
            **{name: header.get(name) for name in ("measure", "trained", "preset", "form", "scaling", "C")},
            "trained_on": header.get("trained_on"),
        }
        described: dict[str, Any] = plain(record)
        return described


class ServedModel:
    """The model in use; it is replaced as a whole, so that a request sees the old one or the new one.

    Args:
        path: The model file.
        metrics: Counters of reloads.
    """

    def __init__(self, path: str | Path, metrics: Metrics) -> None:
        self.path, self.metrics = Path(path), metrics
        #: Why the file cannot be read, since it changed; None if the model in use is the one in the file.
        self.problem: str | None = None
        self._signature = self._sign()
        self._refreshing = threading.Lock()
        self._use(self._read())

    async def watch(self, seconds: float) -> None:
        """Look at the file every so many seconds, and read it when it has changed."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)

    def refresh(self, *, always: bool = False) -> None:
        """Read the file if it has changed, or always; a file that cannot be read leaves the model in use."""
        with self._refreshing:
            signature = self._sign()
            if signature == self._signature and not always:
                return
            try:
                loaded = self._read()
            except Exception as error:
                # What the system refuses, such as another open file, it may allow the next time.
                self._signature = None if isinstance(error, OSError) else signature
                self._complain(f"{error}; the previous model stays in use")
                return
            self._signature = signature
            self.metrics.reloads.labels("ok").inc()
            if loaded.digest != self.loaded.digest:
                LOG.info("%s: reloaded, now %s", self.path, loaded.digest)
            self._use(loaded)

    def _complain(self, problem: str) -> None:
        self.metrics.reloads.labels("failed").inc()
        self.metrics.stale.set(1)
        if problem != self.problem:
            LOG.error("%s", problem)
        self.problem = problem

    def _use(self, loaded: Loaded) -> None:
        self.loaded, self.problem = loaded, None
        header = loaded.model.header
        self.metrics.stale.set(0)
        self.metrics.loaded.set(loaded.loaded_at)
        self.metrics.model.clear()
        self.metrics.model.labels(loaded.digest, str(header.get("measure")), str(header.get("form"))).set(1)

    def _read(self) -> Loaded:
        with open_regular(self.path) as file:
            content = file.read()
        model = load(self.path, io.BytesIO(content))
        return Loaded(model, hashlib.sha256(content).hexdigest()[:16], time.time())

    def _sign(self) -> _Signature:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
