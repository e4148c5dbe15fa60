"""The service in a process of its own: slow clients, a model that is replaced under load, and the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress

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
    assert "Traceback" not in errors


def read_all(connection):
    """Read until the other side closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


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


def test_what_is_not_http_after_an_answer_is_refused_without_a_traceback(service):
    """The bad chunk comes after the answer that there is nothing."""
    with service.connect() as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        answer = connection.recv(65536).decode()
        connection.sendall(b"this is no chunk\r\n\r\n")
        answer += read_all(connection)
    assert answer.startswith("HTTP/1.1 404 ")
    assert "HTTP/1.1 400 " in answer


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
    with Connection(service.address) as client:
        wait_until(lambda: client.get("/health").json()["reload_problem"] is None)


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


@pytest.fixture
def started(models):
    """Start a service with options, which has to end well and without a traceback."""
    running = []

    def start(*words, path=models["linear"]):
        running.append(Service(path, *words))
        return running[-1]

    yield start
    for service in running:
        code, errors = service.stop()
        assert code == 0, errors
        assert "Traceback" not in errors
        assert len(errors) < 2000


def is_answered(service):
    try:
        with Connection(service.address) as client:
            return client.post("/rank", json=REQUEST).status == 200
    except OSError:
        return False


def rest_of(connection):
    """Read until the other side closes the connection, however it does."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)


def test_who_does_not_read_an_answer_does_not_get_all_of_it(started):
    """Neither is it held for a client that reads nothing, nor for one that reads a little now and then."""
    service = started("--timeout", "1")
    ids = [f"{number:0>1400}" for number in range(10_000)]
    body = json.dumps({"queries": [{"documents": ids, "features": [[1, 2, 3]] * 10_000}]}).encode()
    message = f"{HEAD}content-length: {len(body)}\r\n\r\n".encode() + body
    with ExitStack() as stack:
        connections = []
        for _ in range(2):
            connections.append(stack.enter_context(socket.socket()))
            connections[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connections[-1].settimeout(20)
            connections[-1].connect(("127.0.0.1", service.port))
            connections[-1].sendall(message)
        n_read = 0
        for _ in range(60):
            time.sleep(0.1)
            n_read += len(connections[1].recv(1000))
        for connection, n_before in zip(connections, (0, n_read), strict=True):
            assert n_before + len(rest_of(connection)) < len(body)
    assert is_answered(service)


def test_idle_connections_make_room_for_others(started):
    service = started("--max-connections", "10")
    with ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in range(60)]
        assert is_answered(service)
        for connection in connections[:45]:  # those that came first
            assert rest_of(connection) == b""
        connections[-1].sendall(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connections[-1].recv(65536).startswith(b"HTTP/1.1 200 ")


def test_requests_that_have_begun_do_not_make_room(started):
    service = started("--max-connections", "3")
    body = json.dumps(REQUEST).encode()
    with ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in range(3)]
        for connection in connections:
            connection.sendall(f"{HEAD}content-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n".encode())
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        with service.connect() as another:
            answer = read_all(another)
            assert answer.startswith("HTTP/1.1 503 ")
            assert "there are too many connections; try again later" in answer
        for connection in connections:
            connection.sendall(body)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert is_answered(service)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the descriptors of another process")
def test_a_lack_of_descriptors_is_borne(started):
    service = started()
    service.limit_descriptors(40)
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(service.connect())
        deadline = time.monotonic() + 60
        while not is_answered(service):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_pipe_in_place_of_the_model_stops_neither_reloads_nor_the_end(started, models, tmp_path):
    path = tmp_path / "m.safetensors"
    shutil.copy(models["linear"], path)
    service = started("--reload-every", "0.02", path=path)
    with Connection(service.address) as client:
        before = client.get("/health").json()["model"]["digest"]
        path.unlink()
        os.mkfifo(path)
        wait_until(lambda: client.get("/health").json()["reload_problem"] is not None)
        path.unlink()
        shutil.copy(models["additive"], path)
        wait_until(lambda: client.get("/health").json()["model"]["digest"] != before)
        path.unlink()
        os.mkfifo(path)
        wait_until(lambda: client.get("/health").json()["reload_problem"] is not None)


def test_a_hangup_reads_the_model_again(started, models, tmp_path):
    path = tmp_path / "m.safetensors"
    shutil.copy(models["linear"], path)
    service = started("--reload-every", "0", path=path)
    with Connection(service.address) as client:
        before = client.get("/health").json()["model"]["digest"]
        shutil.copy(models["additive"], path)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: client.get("/health").json()["model"]["digest"] != before)
        metrics = client.get("/metrics").text
        assert 'marginrank_model_reloads_total{outcome="ok"} 1.0' in metrics


def wait_until(happens):
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_port_that_is_in_use_is_named(service, models):
    words = ["serve", str(models["linear"]), "--port", str(service.port)]
    command = [sys.executable, "-m", "marginrank", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"error: port {service.port} is in use; stop what uses it, or give another port\n",
    )
