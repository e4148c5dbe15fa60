"""The server: its socket, limits for slow clients, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from marginrank.errors import DataError
from marginrank.serving.requests import RequestLimits
from marginrank.serving.routes import create_app


def serve(
    path: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: RequestLimits | None = None,
    reload_every: float = 2.0,
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve a model until SIGINT or SIGTERM, and then finish the requests that have begun.

    Args:
        path: A model file, of a ranker or a fusion.
        host: Address to listen at; ``0.0.0.0`` is every network.
        port: Port to listen at; 0 takes one that is free.
        limits: How much a request may ask for.
        reload_every: Seconds between two looks at the model file; 0 never looks.
        ready: Called with the address once the model is read and the port is open.

    Raises:
        DataError: The file is no such model, or the address cannot be listened at.
    """
    limits = RequestLimits() if limits is None else limits
    app = create_app(path, limits, reload_every=reload_every)
    listening = listen(host, port)
    config = uvicorn.Config(
        app,
        http=_protocol(limits.timeout),
        ws="none",
        loop="auto",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(2 * limits.timeout)),
    )
    server = uvicorn.Server(config)
    if ready is not None:
        ready(address_of(listening))
    # Once all is finished, uvicorn raises the signal that ended it.
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Open a port, and say what is in the way if that fails."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError:
        raise DataError(f"there is no host {host!r}; give the address of this machine, such as 127.0.0.1") from None
    # asyncio sends small answers at once only on sockets that say TCP; others wait for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(place)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise DataError(_in_the_way(error, host, port)) from None
    return listening


def _in_the_way(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use; stop what uses it, or give another port"
    if error.errno == errno.EACCES:
        return f"port {port} is reserved for the system; give one from 1024 on"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; give one that is, such as 127.0.0.1"
    return f"cannot listen at {host}, port {port}: {error.strerror}; give another address"


def address_of(listening: socket.socket) -> str:
    """Return the address of a socket, as a browser takes it.

    >>> with listen("127.0.0.1", 0) as listening:
    ...     address_of(listening).rpartition(":")[0]
    'http://127.0.0.1'
    """
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _protocol(seconds: float) -> type[H11Protocol]:
    """Return the protocol with a time limit."""
    return type("Timely", (_Timely,), {"seconds": seconds})


class _Timely(H11Protocol):
    """uvicorn's protocol with a limit on the time that the head of a request takes, which uvicorn has not."""

    seconds: ClassVar[float]
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._waiting = self.loop.call_later(self.seconds, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait until an answer is being made: then the head is here, and the application times the body."""
        super().data_received(data)
        if self._answering:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(self.seconds, self._end)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self) -> None:
        if self._answering or self.transport.is_closing():
            return
        reason = json.dumps({"error": f"no whole request came within {self.seconds:g} seconds; send it faster"})
        head = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(reason)}\r\n\r\n{reason}".encode())
        self.transport.close()
