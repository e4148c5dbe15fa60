"""The model in use, which is reloaded when its file changes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from marginrank.errors import DataError
from marginrank.model.scoring import load
from marginrank.runtime.text import plain
from marginrank.scorers.scoring_function import FusedFunction, ScoringFunction

_PREFIX: Final = "marginrank_"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What one service counts; services in one process do not share counts."""

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
#: Seconds that other requests may wait for one.
_QUICK: Final = 0.005
#: Changes of the file during one attempt to read it.
_MOST_CHANGES: Final = 5

#: What a file that changes has other values of; None for a file that is not there.
_Signature: TypeAlias = tuple[int, int, int, int] | None


class Pace:
    """How long answers take, by the size of the request, as known from those before."""

    def __init__(self) -> None:
        self._per_byte = math.inf

    def is_quick(self, body: bytes) -> bool:
        """Tell whether an answer takes so little time that another thread would cost more than it brings."""
        # Explanations take another time than rankings, and their first may be compiled.
        return self._per_byte * len(body) < _QUICK and b'"explain"' not in body

    @contextmanager
    def timed(self, body: bytes) -> Iterator[None]:
        """Learn from one answer, unless the request is refused."""
        began = time.thread_time()
        yield
        latest = (time.thread_time() - began) / max(len(body), 1)
        self._per_byte = latest if math.isinf(self._per_byte) else 0.8 * self._per_byte + 0.2 * latest


@dataclass(frozen=True)
class Loaded:
    """A model, the first digits of the SHA-256 of its file, when it was read, and how fast it is."""

    model: ScoringFunction
    digest: str
    loaded_at: float
    pace: Pace = field(default_factory=Pace)

    def describe(self) -> dict[str, Any]:
        """Return what the model is, as plain values."""
        header = self.model.header
        record = {
            "kind": "fusion" if isinstance(self.model, FusedFunction) else "ranker",
            "digest": self.digest,
            "loaded_at": self.loaded_at,
            "inputs": self.model.inputs,
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
        self._use(self._read())

    async def watch(self, seconds: float) -> None:
        """Look at the file every so many seconds, and read it when it has changed."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read the file if it has changed; a file that cannot be read leaves the model in use."""
        signature = self._sign()
        if signature == self._signature:
            return
        self._signature = signature
        try:
            loaded = self._read()
        except Exception as error:
            self.problem = f"{error}; the previous model stays in use"
            self.metrics.reloads.labels("failed").inc()
            self.metrics.stale.set(1)
            LOG.error("%s", self.problem)
            return
        self.metrics.reloads.labels("ok").inc()
        if loaded.digest != self.loaded.digest:
            LOG.info("%s: read again, now %s", self.path, loaded.digest)
        self._use(loaded)

    def _use(self, loaded: Loaded) -> None:
        self.loaded, self.problem = loaded, None
        header = loaded.model.header
        self.metrics.stale.set(0)
        self.metrics.loaded.set(loaded.loaded_at)
        self.metrics.model.clear()
        self.metrics.model.labels(loaded.digest, str(header.get("measure")), str(header.get("form"))).set(1)

    def _read(self) -> Loaded:
        for _ in range(_MOST_CHANGES):
            before = self._sign()
            model = load(self.path)
            digest = hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]
            # Otherwise the digest could be that of another model.
            if self._sign() == before:
                return Loaded(model, digest, time.time())
        raise DataError("the file changes faster than it can be read; replace it as a whole", path=self.path)

    def _sign(self) -> _Signature:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
