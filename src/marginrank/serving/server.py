"""The server: its socket, its connections, signals, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import math
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from marginrank.errors import DataError
from marginrank.serving.limits import ServiceLimits
from marginrank.serving.routes import create_app
from marginrank.serving.served_model import ServedModel

LOG: Final = logging.getLogger("marginrank.serving")
#: Connections that wait to be accepted, and that asyncio accepts at a time, before any can be closed.
_BACKLOG: Final = 128
#: What the system says if there are no descriptors, or no memory, for another connection.
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Seconds between two lines about it; asyncio tries again every second.
_BETWEEN_WARNINGS: Final = 0.5


def serve(
    path: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: ServiceLimits | None = None,
    reload_every: float = 2.0,
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve a model until SIGINT or SIGTERM, and then finish the requests that have begun; SIGHUP reads it again.

    Args:
        path: A model file, of a ranker or a fusion.
        host: Address to listen at; ``0.0.0.0`` is every network.
        port: Port to listen at; 0 takes one that is free.
        limits: How much clients may ask for.
        reload_every: Seconds between two looks at the model file; 0 never looks.
        ready: Called with the address once the model is read and the port is open.

    Raises:
        DataError: The file is no such model, or the address cannot be listened at.
    """
    limits = ServiceLimits() if limits is None else limits
    app = create_app(path, limits, reload_every=reload_every)
    listening = listen(host, port)
    config = uvicorn.Config(
        app,
        http=type("LimitedConnection", (_Connection,), {"limits": limits}),
        ws="none",
        loop="asyncio",
        backlog=_BACKLOG,
        log_config=None,
        log_level="error",  # what clients do wrong is no news
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(2 * limits.timeout)),
    )
    # A request may have millions of lists. To look for garbage after every 700 of them takes longer than to parse them.
    gc.set_threshold(100_000)
    server = _Server(config, app.state.served)
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
        listening.listen(_BACKLOG)
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


class _Server(uvicorn.Server):
    """uvicorn's server, which also reads the model again on SIGHUP, and bears a lack of descriptors."""

    def __init__(self, config: uvicorn.Config, served: ServedModel) -> None:
        super().__init__(config)
        self._served, self._told = served, -math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and handle errors and signals."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._handle_error)
        if hasattr(signal, "SIGHUP"):
            reload = partial(self._served.refresh, always=True)
            loop.add_signal_handler(signal.SIGHUP, loop.run_in_executor, None, reload)
        await super().startup(sockets)

    def _handle_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Close idle connections if there are no descriptors left; asyncio waits a second, and accepts again."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            loop.default_exception_handler(context)
        elif loop.time() - self._told > _BETWEEN_WARNINGS:
            self._told = loop.time()
            LOG.warning("cannot accept connections: %s; idle ones are closed", error.strerror)
            for connection in _open_connections(self.server_state.connections):
                if not connection.is_answering:
                    connection.transport.abort()


def _open_connections(connections: Iterable[object]) -> set[_Connection]:
    """Return the connections that are not being closed."""
    return {one for one in connections if isinstance(one, _Connection) and not one.transport.is_closing()}


class _Connection(H11Protocol):
    """uvicorn's connection with limits that uvicorn has not.

    There are limits on the number of connections, on the time that the head of a request takes to come, and on the time
    that a response takes to be read.
    """

    limits: ClassVar[ServiceLimits]
    #: Ends the wait for a request.
    _receiving: asyncio.TimerHandle | None = None
    #: Ends the wait for a client that does not read.
    _sending: asyncio.TimerHandle | None = None
    _idle_since: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; if there are too many connections, close the one that has been idle for longest."""
        super().connection_made(transport)
        # Writing is paused whenever anything is unread, so that its time can be taken.
        transport.set_write_buffer_limits(high=0)
        self._idle_since = self.loop.time()
        self._receiving = self.loop.call_later(self.limits.timeout, self._end_receiving)
        if len(self.connections) > self.limits.max_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_receiving()
        self._stop_sending()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait until an answer is being made: then the head is here, and the application times the body."""
        super().data_received(data)
        if self.is_answering:
            self._stop_receiving()
        elif self._receiving is None and not self.transport.is_closing():
            self._receiving = self.loop.call_later(self.limits.timeout, self._end_receiving)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(self.limits.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Wait no longer, unless the response continues."""
        super().resume_writing()
        if not (self.is_answering and self.cycle.response_started):
            self._stop_sending()

    def on_response_complete(self) -> None:
        """Wait no longer if everything is read."""
        if not self.flow.write_paused:
            self._stop_sending()
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse what is not HTTP, whatever was answered before; uvicorn fails if anything was."""
        if self.is_answering and self.cycle.response_started:
            self.transport.abort()
        else:
            self._refuse("400 Bad Request", "this is not HTTP/1.1; send a valid request")

    @property
    def is_answering(self) -> bool:
        """Tell whether there is a request that is not answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _make_room(self) -> None:
        """Close the connection that has been idle for longest, or this one if there is no other."""
        others = _open_connections(self.connections) - {self}
        if len(others) < self.limits.max_connections:
            return
        idle = [other for other in others if not other.is_answering]
        if idle:
            min(idle, key=lambda other: other._idle_since).transport.abort()
        else:
            self._refuse("503 Service Unavailable", "there are too many connections; try again later")

    def _stop_receiving(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _end_receiving(self) -> None:
        if not self.is_answering and not self.transport.is_closing():
            seconds = self.limits.timeout
            self._refuse("408 Request Timeout", f"no whole request came within {seconds:g} seconds; send it faster")

    def _refuse(self, status: str, reason: str) -> None:
        body = json.dumps({"error": reason})
        head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()
