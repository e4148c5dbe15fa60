"""Bodies of requests: read within limits, and parsed as strict JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from marginrank.serving.limits import Limits, Refusal


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read the body of a request of JSON, in time and no more than allowed, whether it says its length or not."""
    _check_headers(request.headers)
    too_large = Refusal(413, f"the body has more than {limits.max_bytes:,} bytes; send fewer documents at a time")
    declared = request.headers.get("content-length", "0")
    if "expect" in request.headers and declared.isdecimal() and int(declared) > limits.max_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.timeout):
            async for part in request.stream():
                size += len(part)
                if size <= limits.max_bytes:
                    parts.append(part)
                elif size > 2 * limits.max_bytes:
                    break
    except TimeoutError:
        raise Refusal(
            408, f"the body did not arrive within {limits.timeout:g} seconds; send it faster, or fewer documents"
        ) from None
    except ClientDisconnect:
        raise Refusal(400, "the connection was closed before the body was complete; send all of it") from None
    # A client that is still sending would not read the answer, so a body that is not far too large is read to its end.
    if size > limits.max_bytes:
        raise too_large
    return b"".join(parts)


def _check_headers(headers: Headers) -> None:
    kind, _, parameters = headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind != "application/json":
        shown = f"Content-Type is {kind!r}" if kind else "there is no Content-Type"
        raise Refusal(415, f"{shown}; send JSON with Content-Type: application/json")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if charset not in ("", "utf-8", "utf8"):
        raise Refusal(415, f"Content-Type has {parameters.strip()!r}; send UTF-8")
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refusal(415, f"Content-Encoding is {encoding!r}; send the body as it is, not compressed")


def parse_json(body: bytes) -> Any:
    """Parse a body; refuse what JSON does not have, and names that stand twice.

    >>> parse_json(b'{"queries": [], "k": NaN}')
    Traceback (most recent call last):
    ...
    marginrank.serving.limits.Refusal: NaN is not JSON; send null for a missing value, if the model takes them
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(400, f"byte {error.start} of the body is not UTF-8; send JSON in UTF-8") from None
    if not text.strip():
        raise Refusal(400, 'the body is empty; send JSON such as {"queries": [{"features": [[0.5, 1.0]]}]}')
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Refusal(
            400, f"line {error.lineno}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}; send valid JSON"
        ) from None
    except RecursionError:
        raise Refusal(400, "the JSON is nested too deep; a request has six levels at most") from None
    except ValueError:
        raise Refusal(400, "the JSON has a number of thousands of digits; send numbers that float64 holds") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Refusal(422, f"{name[:80]!r} appears twice in an object; give it once")
    return table


def _no_constant(name: str) -> NoReturn:
    raise Refusal(400, f"{name} is not JSON; send null for a missing value, if the model takes them")
