"""The service in a process of its own: slow clients, a model that is replaced under load, and the end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from tests.serving.client import Connection
from tests.serving.conftest import judged
from tests.serving.process import Service

REQUEST = {"queries": [{"id": "q", "features": judged(7).X[:8].tolist()}], "k": 3}


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service with little patience, whose model file may be replaced."""
    path = tmp_path_factory.mktemp("served") / "m.safetensors"
    shutil.copy(models["linear"], path)
    running = Service(path, "--timeout", "1", "--reload-every", "0.02", "--max-bytes", "20000")
    running.path = path
    yield running
    code, errors = running.stop()
    assert code == 0, errors


def read_all(connection):
    """Read until the other side closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts).decode()


HEAD = "POST /rank HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


SLOW = {
    "": "no whole request came within 1 seconds",
    "POST /rank HT": "no whole request came within 1 seconds",
    HEAD: "no whole request came within 1 seconds",
    f'{HEAD}content-length: 100\r\n\r\n{{"quer': "the body did not arrive within 1 seconds",
    f'{HEAD}transfer-encoding: chunked\r\n\r\n3\r\n{{"q\r\n': "the body did not arrive within 1 seconds",
}


def test_slow_clients_are_told_to_hurry(service):
    with ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in SLOW]
        for connection, sent in zip(connections, SLOW, strict=True):
            connection.sendall(sent.encode())
        for connection, reason in zip(connections, SLOW.values(), strict=True):
            answer = read_all(connection)
            assert answer.startswith("HTTP/1.1 408 ")
            assert reason in answer


def test_a_client_that_sends_byte_by_byte_has_no_more_time(service):
    began = time.monotonic()
    with service.connect() as connection:
        answer = ""
        connection.settimeout(0.2)
        for byte in f"{HEAD}x: {'y' * 100}".encode():
            try:
                connection.sendall(bytes([byte]))
                answer = connection.recv(65536).decode()
                break
            except TimeoutError:
                continue
    assert answer.startswith("HTTP/1.1 408 ")
    assert time.monotonic() - began < 10


def test_a_body_in_chunks_has_the_limit_of_bytes(service):
    with service.connect() as connection:
        connection.sendall(f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode())
        connection.sendall(b"7530\r\n" + b" " * 30_000 + b"\r\n0\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith("HTTP/1.1 413 ")
    assert "the body has more than 20,000 bytes" in answer


def test_what_is_not_http_is_refused(service):
    with service.connect() as connection:
        connection.sendall(b"\x16\x03\x01 this is TLS\r\n\r\n")
        assert read_all(connection).startswith("HTTP/1.1 400 ")
    with Connection(service.address) as client:
        assert client.post("/rank", json=REQUEST).status == 200


def test_a_model_that_is_replaced_under_load_costs_no_request(service, models):
    """Half of the replacements are atomic, and half damaged for a moment."""
    contents = [models["linear"].read_bytes(), models["additive"].read_bytes()]
    statuses, digests, stop = [], set(), threading.Event()

    def ask():
        with Connection(service.address) as client:
            while not stop.is_set():
                answer = client.post("/rank", json=REQUEST)
                statuses.append(answer.status)
                digests.add(answer.json().get("model"))

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for number in range(20):
        waiting = service.path.with_suffix(".new")
        waiting.write_bytes(contents[number % 2])
        if number % 4 == 3:
            service.path.write_bytes(contents[number % 2][:1000])
            time.sleep(0.05)
        waiting.replace(service.path)
        time.sleep(0.05)
    stop.set()
    for client in clients:
        client.join()
    assert set(statuses) == {200}
    assert len(digests) == 2
    deadline = time.monotonic() + 10
    with Connection(service.address) as client:
        while client.get("/health").json()["reload_problem"] is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_end_finishes_what_has_begun(models):
    running = Service(models["linear"])
    body = json.dumps(REQUEST).encode()
    with running.connect() as connection:
        connection.sendall(f"{HEAD}content-length: {len(body)}\r\n\r\n".encode() + body[:20])
        time.sleep(0.3)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        with pytest.raises(OSError):  # noqa: PT011
            running.connect()
        connection.sendall(body[20:])
        assert read_all(connection).startswith("HTTP/1.1 200 ")
    _, errors = running.process.communicate(timeout=20)
    assert (running.process.returncode, errors) == (0, "")


def test_a_port_that_is_in_use_is_named(service, models):
    words = ["serve", str(models["linear"]), "--port", str(service.port)]
    command = [sys.executable, "-m", "marginrank", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"error: port {service.port} is in use; stop what uses it, or give another port\n",
    )
