"""Metrics of the service, in the text format of Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
