"""Requests that are wrong: mutations of good ones, and known ways to break a parser.

``python -m tests.serving.malformed 10000`` sends so many to a service in a process of its own, over the network.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marginrank import Queries, Ranker
from tests.serving.client import Answer, Connection
from tests.serving.process import Service

NAMES = ("bm25", "clicks", "price in €")
RUNS = ("bm25", "dense")


class Wrong(NamedTuple):
    """A request that has to be refused."""

    what: str
    body: bytes
    content_type: str | None = "application/json"

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.content_type is None else {"content-type": self.content_type}


def good_request(rng: random.Random) -> dict[str, Any]:
    """A request that a model of three features answers."""
    queries = []
    for number in range(rng.randint(1, 3)):
        n = rng.randint(1, 6)
        rows = [[rng.gauss(0, 3) for _ in NAMES] for _ in range(n)]
        features: Any = rows
        kind = rng.randrange(3)
        if kind == 1:
            features = [dict(rng.sample(list(zip(NAMES, row, strict=True)), len(NAMES))) for row in rows]
        elif kind == 2:
            features = {name: [row[at] for row in rows] for at, name in enumerate(NAMES)}
        ids = rng.choice([[f"dök {row}" for row in range(n)], [row * 7 for row in range(n)]])
        queries.append({"id": rng.choice([f"q{number}", number]), "documents": ids, "features": features})
    return {"queries": queries, "k": rng.randint(1, 5), "explain": rng.random() < 0.5}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a request, but the outermost."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from _places(entry, (*path, key))


def _holder(request: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        request = request[key]
    return request


def _is_number_place(request: Any, path: tuple[Any, ...]) -> bool:
    return "features" in path and type(_holder(request, path)[path[-1]]) in (int, float)


def _of_another_kind(request: Any, rng: random.Random) -> None:
    path = rng.choice(list(_places(request)))
    holder, key = _holder(request, path), path[-1]
    old = holder[key]
    known = {"k": [0, -1, 1.5, "3", True, [], {}], "explain": [0, 1, "true", None, []], "documents": [{}, "a", 3, True]}
    # Neither null, which stands for what is left out, nor a number as an id is wrong everywhere.
    fits = {bool: (bool,), int: (int, float, str, type(None)), float: (int, float), str: (str, int)}
    wrong = [{"a": {"b": []}}, [[[]]], 1.5, "", True, None]
    others = [one for one in wrong if not isinstance(one, fits.get(type(old), (type(old),)))]
    holder[key] = rng.choice(known.get(key, others))


def _with_unknown_names(request: Any, rng: random.Random) -> None:
    target = rng.choice([request, *request["queries"]])
    target[rng.choice(["Queries", "feature", "runs", "x" * 500, "", "\ud800"])] = 1


def _without_a_feature(request: Any, rng: random.Random) -> None:
    features = rng.choice(request["queries"])["features"]
    if isinstance(features, dict):
        del features[rng.choice(NAMES)]
    elif isinstance(features[0], dict):
        del rng.choice(features)[rng.choice(NAMES)]
    else:
        rng.choice(features).pop()


def _with_one_id_more(request: Any, rng: random.Random) -> None:
    rng.choice(request["queries"])["documents"].append("one more")


def _with_one_id_twice(request: Any, rng: random.Random) -> None:
    query = rng.choice(request["queries"])
    query["documents"] = ["same"] * max(2, len(query["documents"]))
    if isinstance(query["features"], list) and len(query["features"]) == 1:
        query["features"] *= 2


CHANGES = (_of_another_kind, _with_unknown_names, _without_a_feature, _with_one_id_more, _with_one_id_twice)
WRONG_NUMBERS = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e400", "9" * 400, "9" * 5000, "null", '"1"', "0x1", "01",
)  # fmt: skip


def mutated(rng: random.Random) -> Wrong:
    """A good request with one change that makes it wrong."""
    request = good_request(rng)
    change = rng.choice([*CHANGES, "number", "cut", "bytes"])
    if change == "number":
        path = rng.choice([one for one in _places(request) if _is_number_place(request, one)])
        value = rng.choice(WRONG_NUMBERS)
        return Wrong(f"number {value[:9]}", json.dumps(_marked(request, path)).replace('"@"', value).encode())
    if callable(change):
        change(request, rng)
    body = json.dumps(request, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    at = rng.randrange(len(body))
    if change == "cut":
        return Wrong("cut short", body[:at])
    if change == "bytes":
        return Wrong("not UTF-8", body[:at] + bytes([rng.choice([0xFF, 0xC0, 0x80, 0xED])]) + body[at:])
    return Wrong(change.__name__, body)


def _marked(request: Any, path: tuple[Any, ...]) -> Any:
    marked = deepcopy(request)
    _holder(marked, path)[path[-1]] = "@"
    return marked


def nasty() -> list[Wrong]:
    """Known ways to break a parser."""
    good = json.dumps(good_request(random.Random(0))).encode()
    bodies = {
        "empty": b"",
        "blanks": b" \r\n",
        "null": b"null",
        "a number": b"3",
        "text": b'"queries"',
        "a list": b"[]",
        "an empty object": b"{}",
        "deep lists": b"[" * 9000 + b"]" * 9000,
        "deep objects": b'{"queries":' * 1500 + b"1" + b"}" * 1500,
        "deep features": b'{"queries":[{"features":' + b"[" * 9000 + b"]" * 9000 + b"}]}",
        "a key twice": b'{"queries": [], "queries": []}',
        "a feature twice": b'{"queries": [{"features": [{"bm25": 1, "bm25": 2, "clicks": 1, "price in \\u20ac": 1}]}]}',
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": good.decode().encode("utf-16"),
        "more after the end": good + b"{}",
        "a trailing comma": b'{"queries": [],}',
        "single quotes": b"{'queries': []}",
        "a comment": b'{"queries": [] /* none */}',
        "too many bytes": b'{"queries": [' + b" " * 30_000 + b"]}",
        "too many documents": json.dumps({"queries": [{"features": [[1, 2, 3]] * 60}]}).encode(),
        "too many in all": json.dumps(
            {"queries": [{"id": q, "features": [[1, 2, 3]] * 30} for q in range(2)]}
        ).encode(),
        "two queries of one id": json.dumps({"queries": [{"id": 1, "features": []}] * 2}).encode(),
        "an id of a fraction": json.dumps({"queries": [{"id": 1.0, "features": []}]}).encode(),
        "rows of two kinds": b'{"queries": [{"features": [[1, 2, 3], {"bm25": 1}]}]}',
        "rows of text": b'{"queries": [{"features": ["abc"]}]}',
        "columns of text": b'{"queries": [{"features": {"bm25": "1", "clicks": "2", "price in \\u20ac": "3"}}]}',
        "columns of two lengths": b'{"queries": [{"features": {"bm25": [1], "clicks": [], "price in \\u20ac": [1]}}]}',
        "runs for a ranker": b'{"queries": [{"runs": {"bm25": {"a": 1}}}]}',
        "a control character": b'{"queries": [{"id": "\x00", "features": []}]}',
    }
    wrong = [Wrong(what, body) for what, body in bodies.items()]
    kinds = [
        None,
        "",
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
    ]
    return [*wrong, *(Wrong(f"type {kind}", good, kind) for kind in kinds)]


def requests(count: int, seed: int = 0) -> Iterator[Wrong]:
    """The nasty ones, and then mutations."""
    yield from nasty()[:count]
    rng = random.Random(seed)
    for _ in range(count - len(nasty())):
        yield mutated(rng)


def judge(what: str, answer: Answer) -> str | None:
    """Say what is wrong with the answer to a wrong request; None if nothing is."""
    if not 400 <= answer.status < 500:
        return f"{what}: status {answer.status}: {answer.text[:200]}"
    reason = answer.json().get("error")
    if not isinstance(reason, str) or ";" not in reason or len(reason) < 20:
        return f"{what}: no reason with a way out: {answer.text[:200]}"
    return None


def main(count: int) -> int:
    """Send wrong requests to a service over the network; return how many were not refused with a reason."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    queries = Queries.from_arrays(X, X[:, 0] > 0, qid=np.arange(200) // 10, feature_names=list(NAMES))
    failures, statuses = [], Counter[int]()
    with tempfile.TemporaryDirectory() as folder:
        Ranker("svmmap").fit(queries).save(Path(folder, "model.safetensors"))
        service = Service(Path(folder, "model.safetensors"), "--max-bytes", "20000", "--max-documents", "50")
        for one in requests(count):
            with Connection(service.address) as client:
                answer = client.post("/rank", body=one.body, headers=one.headers)
            statuses[answer.status] += 1
            failures += [problem] if (problem := judge(one.what, answer)) is not None else []
        with Connection(service.address) as client:
            alive = client.post("/rank", json=good_request(random.Random(1))).status
        code, _ = service.stop()
    print(f"{count} wrong requests: {dict(statuses)}, {len(failures)} without a 4xx and a reason")
    print(f"then a good one: {alive}; exit code {code}")
    print("\n".join(failures[:20]))
    return len(failures) + (alive != 200) + code


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1])), 1))
