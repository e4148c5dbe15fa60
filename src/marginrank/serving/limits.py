"""Limits of the service, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much a request may ask for.

    Args:
        max_documents: Maximum number of documents per request, over all its queries.
        max_bytes: Maximum size of a body.
        timeout: Most seconds to send a request, and to answer it.
    """

    max_documents: int = 10_000
    max_bytes: int = 16 << 20
    timeout: float = 10.0

    def __post_init__(self) -> None:
        for name in ("max_documents", "max_bytes", "timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number above 0")


class Refusal(Exception):  # noqa: N818
    """A request that is not answered: the status, and why, with the place and the way out."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
