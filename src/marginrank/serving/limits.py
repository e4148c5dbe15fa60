"""Limits on what clients may ask of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

import typer


@dataclass(frozen=True)
class ServiceLimits:
    """Limits on requests; ``marginrank serve --help`` describes each."""

    panel: ClassVar = "Limits"

    max_queries: Annotated[int, typer.Option(min=1, help="Maximum number of queries per request.")] = 1_000
    max_documents: Annotated[int, typer.Option(min=1, help="Maximum number of documents per request.")] = 10_000
    max_bytes: Annotated[int, typer.Option(min=1, help="Maximum size of a request, in bytes.")] = 16 << 20
    max_response_bytes: Annotated[int, typer.Option(min=1, help="Maximum size of a response, in bytes.")] = 16 << 20
    max_total_bytes: Annotated[
        int, typer.Option(min=1, help="Maximum size of all requests and responses at a time, in bytes.")
    ] = 256 << 20
    max_connections: Annotated[int, typer.Option(min=1, help="Maximum number of open connections.")] = 500
    timeout: Annotated[
        float,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="Maximum time to receive a request, to rank, and to send the response.",
        ),
    ] = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}; give a number above 0")


class Refusal(Exception):  # noqa: N818
    """An error response: its status, and a reason that names the place in the request and the fix."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class HeldBytes:
    """The bytes of all requests and responses in memory.

    >>> held = HeldBytes(100)
    >>> with held.share() as take:
    ...     take(60)
    ...     take(60)
    Traceback (most recent call last):
    ...
    marginrank.serving.limits.Refusal: the service is busy with 60 bytes of requests and responses; try again later
    >>> held.count
    0
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.count = limit, 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes bytes for one request, which are given back at the end."""
        taken = 0

        def take(n_bytes: int) -> None:
            nonlocal taken
            if self.count + n_bytes > self.limit:
                raise Refusal(
                    503, f"the service is busy with {self.count:,} bytes of requests and responses; try again later"
                )
            self.count += n_bytes
            taken += n_bytes

        try:
            yield take
        finally:
            self.count -= taken
