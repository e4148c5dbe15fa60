"""The page to judge in, served on this machine alone.

The standard library's server is enough for a few people who click, so that judging needs no extra.
"""

from __future__ import annotations

import errno
import hmac
import json
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs

from marginrank.errors import DataError, Parameter
from marginrank.judging.judging_session import JudgingSession, RefusedAnswer

_HOST: Final = "127.0.0.1"
#: Maximum size of a request, in bytes; a note of 4,000 characters takes less.
_MAX_BODY: Final = 64 << 10
_MAX_CONNECTIONS: Final = 64
#: Seconds that a client may take.
_TIMEOUT: Final = 30.0
_FILES: Final = {
    "": ("judging_page.html", "text/html; charset=utf-8"),
    "page.css": ("judging_page.css", "text/css; charset=utf-8"),
    "page.js": ("judging_page.js", "text/javascript; charset=utf-8"),
}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class JudgingServer(ThreadingHTTPServer):
    """A server of one session at 127.0.0.1.

    Args:
        session: What is judged.
        port: Port to listen on; 0 for any free port, None for that of the last time, or any free one.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, session: JudgingSession, port: int | None = None) -> None:
        self.session = session
        self.token = session.store.token()
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        preferred = int(session.store.setting("port", "0")) if port is None else port
        try:
            super().__init__((_HOST, preferred), _Handler)
        except OSError as error:
            raise _in_the_way(error, preferred) from None
        self.session.store.set("port", str(self.server_port))

    @property
    def address(self) -> str:
        """The address of the page, which holds the token."""
        return f"http://{_HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The allowed Host headers: any other is that of a page which pretends to be this server."""
        return (f"{_HOST}:{self.server_port}", f"localhost:{self.server_port}")

    def serve(self, ready: Callable[[str], object] | None = None) -> None:
        """Serve until Ctrl-C or SIGTERM; ``ready`` is called with the address."""
        with self:
            if ready is not None:
                ready(self.address)
            with suppress(KeyboardInterrupt):
                self.serve_forever(poll_interval=0.1)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if not too many are busy."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about broken connections."""


def _in_the_way(error: OSError, port: int) -> DataError:
    if error.errno == errno.EADDRINUSE:
        said = f"port {port} is in use, perhaps by this page already; stop what uses it, or give another "
    else:
        said = f"cannot listen on port {port}: {error.strerror}; give another "
    return DataError(said, Parameter("port", ...))


class _Refusal(Exception):  # noqa: N818
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: JudgingServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "marginrank", ""
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        """Answer with the page, its files, or the state of a rater."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Store what a rater decided."""
        self._answer(self._post)

    def _answer(self, work: Callable[[str], tuple[bytes, str]]) -> None:
        try:
            body, kind = work(self._checked_path())
            self._send(HTTPStatus.OK, body, kind)
        except _Refusal as refusal:
            # What was not read of the request would be taken for the next one.
            self.close_connection = True
            self._send_error(refusal.status, str(refusal))
        except RefusedAnswer as refusal:
            self._send_error(HTTPStatus.BAD_REQUEST, str(refusal))
        except sqlite3.Error as error:
            self._send_error(HTTPStatus.SERVICE_UNAVAILABLE, f"not stored: {error}")

    def _checked_path(self) -> str:
        """Return the path after the token; refuse other hosts, other pages and other tokens."""
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            raise _Refusal(HTTPStatus.MISDIRECTED_REQUEST, "this is not the host of this page")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in self.server.hosts]:
            raise _Refusal(HTTPStatus.FORBIDDEN, "this request comes from another page")
        token, slash, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _Refusal(HTTPStatus.FORBIDDEN, "wrong address; use the one that marginrank judge printed")
        return path

    def _get(self, path: str) -> tuple[bytes, str]:
        if path in _FILES:
            name, kind = _FILES[path]
            return (resources.files("marginrank.judging") / name).read_bytes(), kind
        if path == "raters":
            return _as_json({"raters": self.server.session.store.raters()})
        if path == "state":
            values = parse_qs(self.path.partition("?")[2])
            until = values.get("skipped_until", [None])[0]
            if until is not None and not (until.isdecimal() and len(until) < 19):
                raise _Refusal(HTTPStatus.BAD_REQUEST, "skipped_until is not a number")
            rater = values.get("rater", [""])[0]
            return _as_json(self.server.session.state(rater, skipped_until=None if until is None else int(until)))
        raise _Refusal(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _post(self, path: str) -> tuple[bytes, str]:
        message = _Message(self._body())
        session, rater = self.server.session, message.text("rater")
        if path == "judge":
            grade, note = message.grade(), message.text("note")
            session.judge(rater, message.text("request"), message.number("document"), grade, note)
            return _as_json(session.state(rater, skipped_until=message.optional("skipped_until")))
        if path == "undo":
            return _as_json(session.state(rater, document=session.undo(rater, message.number("decision"))))
        raise _Refusal(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _body(self) -> Any:
        if self.headers.get_content_type() != "application/json":
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "send the length of the request")
        if len(length) > 10 or int(length) > _MAX_BODY:
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {_MAX_BODY:,} bytes")
        try:
            return json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            raise _Refusal(HTTPStatus.BAD_REQUEST, "this is not JSON") from None

    def _send_error(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, *_as_json({"error": reason}))

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: addresses hold the token."""


def _as_json(value: Any) -> tuple[bytes, str]:
    return json.dumps(value, ensure_ascii=True).encode(), "application/json"


class _Message:
    """A request as JSON, whose values have the types that they should have."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise RefusedAnswer("send an object")
        self._value = value

    def text(self, name: str) -> str:
        value = self._value.get(name, "")
        if not isinstance(value, str):
            raise RefusedAnswer(f"{name} is not text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RefusedAnswer(f"{name} is not valid Unicode") from None
        return value

    def number(self, name: str) -> int:
        value = self._value.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
            raise RefusedAnswer(f"{name} is not a whole number")
        return value

    def optional(self, name: str) -> int | None:
        return None if self._value.get(name) is None else self.number(name)

    def grade(self) -> float | None:
        value = self._value.get("grade", 0)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or "grade" not in self._value:
            raise RefusedAnswer("give a grade, or null to skip the document")
        try:
            return float(value)
        except OverflowError:
            raise RefusedAnswer("this grade is too large") from None


__all__ = ["JudgingServer"]
