"""Connections of the service, over a socket that holds less than an answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'marginrank[serve]'")

import uvicorn
from uvicorn.server import ServerState

from marginrank.serving.limits import ServiceLimits
from marginrank.serving.server import _Connection

SIZE = 60_000


class Impatient(_Connection):
    limits = ServiceLimits(timeout=0.5)


async def answer_at_once(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(SIZE).encode())]})
    await send({"type": "http.response.body", "body": bytes(SIZE)})


def test_who_has_read_an_answer_may_ask_again_after_the_timeout():
    """The answer is complete while most of it is unread; once it is read, nothing is waited for."""

    async def ask_twice():
        config = uvicorn.Config(answer_at_once, http=Impatient, ws="none", log_config=None, access_log=False)
        config.load()
        client, server = socket.socketpair()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Impatient(config, ServerState(), {}), server)
        reader, writer = await asyncio.open_connection(sock=client)
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            assert await reader.readexactly(SIZE) == bytes(SIZE)
            await asyncio.sleep(1.0)
        writer.close()
        await writer.wait_closed()

    asyncio.run(ask_twice())
