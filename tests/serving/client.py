"""A client of an ASGI application in this process, and one of a service over the network."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

JSON = {"content-type": "application/json"}


class Answer(NamedTuple):
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class InProcess:
    """Calls an application; its errors are answers, as they are over a network."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def post(self, path: str, *, json: Any = None, body: bytes = b"", headers: Mapping[str, str] = JSON) -> Answer:
        return self.send("POST", path, [body if json is None else _dumped(json)], headers)

    def send(
        self,
        method: str,
        path: str,
        parts: Iterable[bytes] = (b"",),
        headers: Mapping[str, str] | None = None,
        *,
        goes: bool = False,
    ) -> Answer:
        """Send a request in parts; a client that goes does not wait for the answer."""
        return asyncio.run(self._send(method, path, list(parts), headers or {}, goes))

    async def _send(self, method: str, path: str, parts: list[bytes], headers: Mapping[str, str], goes: bool) -> Answer:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        waiting, sent = iter(enumerate(parts, 1)), []

        async def receive() -> dict[str, Any]:
            number, part = next(waiting, (0, b""))
            if not number and goes:
                return {"type": "http.disconnect"}
            if not number:
                await asyncio.Event().wait()  # until the answer is sent
            return {"type": "http.request", "body": part, "more_body": number < len(parts)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        with suppress(RuntimeError):
            await self.app(scope, receive, send)
        head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], head, b"".join(one.get("body", b"") for one in sent[1:]))


class Connection:
    """One connection to a service, kept open."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)

    def get(self, path: str) -> Answer:
        return self._send("GET", path, None, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def post(self, path: str, *, json: Any = None, body: bytes = b"", headers: Mapping[str, str] = JSON) -> Answer:
        return self._send("POST", path, body if json is None else _dumped(json), headers)

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def _dumped(request: Any) -> bytes:
    return json.dumps(request).encode()
