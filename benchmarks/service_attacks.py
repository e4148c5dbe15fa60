"""The service under attack: memory, CPU time, what it logs, and how long others wait.

Run it with ``python benchmarks/service_attacks.py``, or with the names of some attacks. Each has a server process of
its own, while an ordinary client asks ten times a second; "away" is the time from the start of the attack to the last
request of that client that failed. Linux only.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank import Queries, Ranker

SECONDS: Final = 25.0
FEATURES: Final = 100
NAMES: Final = [f"clicks_in_the_last_thirty_days_of_group_{number}" for number in range(FEATURES)]
DESCRIPTORS: Final = 1024


class Server:
    """``marginrank serve`` with as many descriptors as most systems allow."""

    def __init__(self, folder: Path) -> None:
        self.model, self.log = folder / "model.safetensors", folder / "log"
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, FEATURES))
        Ranker("svmmap").fit(Queries.from_arrays(X, X[:, 0] > 0.5, qid=np.arange(400) // 20, feature_names=NAMES)).save(
            self.model
        )
        words = [sys.executable, "-m", "marginrank", "serve", str(self.model), "--port", "0", "--json"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        assert self.process.stdout is not None
        printed = "".join(iter(self.process.stdout.readline, "}\n")) + "}"
        self.port = int(json.loads(printed)["address"].rpartition(":")[2])

    def ask(self, timeout: float = 2.0) -> bool:
        """Tell whether an ordinary request is answered."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        body = json.dumps({"queries": [{"features": [[0.5] * FEATURES] * 5}]})
        try:
            client.request("POST", "/rank", body, {"content-type": "application/json"})
            return client.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=2.0)

    def send(self, body: bytes, times: int = 1) -> socket.socket:
        """Send the same request some times, and read nothing; a socket that takes no more is left as it is."""
        head = (
            f"POST /rank HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        connection = self.connect()
        with contextlib.suppress(OSError):
            connection.sendall((head.encode() + body) * times)
        return connection

    def megabytes(self, field: str) -> float:
        """Return VmRSS, the memory in use, or VmHWM, its peak."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> str:
        """Stop it as a container is stopped; return how long that takes."""
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "killed after 30"
        return f"{time.perf_counter() - began:.1f}"


def unread_answers(server: Server) -> Any:
    """Ask for large answers on 8 connections, four at a time on each, and read none."""
    column = [0] * 10_000
    body = json.dumps({"queries": [{"features": dict.fromkeys(NAMES, column)}], "explain": True}).encode()
    return [server.send(body, 4) for _ in range(8)]


def unread_answers_within_limits(server: Server) -> Any:
    """Ask for answers of 12 MB, which are allowed, on 60 connections, and read none."""
    column = [0] * 2_300
    body = json.dumps({"queries": [{"features": dict.fromkeys(NAMES, column)}], "explain": True}).encode()
    return [server.send(body, 2) for _ in range(60)]


def many_queries(server: Server) -> Any:
    """Send a million empty queries on each of 4 connections, and go."""
    _send_and_go(server, b'{"features":[]}', 1_000_000)


def many_lists(server: Server) -> Any:
    """Send five million empty lists on each of 4 connections, which take most memory for their bytes, and go."""
    _send_and_go(server, b"[]", 5_000_000)


def _send_and_go(server: Server, query: bytes, count: int) -> None:
    body = b'{"queries":[' + b",".join([query] * count) + b"]}"
    connections = [server.send(body) for _ in range(4)]
    time.sleep(1.0)
    for connection in connections:
        connection.close()


def idle_connections(server: Server) -> Any:
    """Open 1,500 connections, and say nothing."""
    connections = []
    for _ in range(1500):
        with contextlib.suppress(OSError):
            connections.append(server.connect())
    return connections


def pipe_for_model(server: Server) -> Any:
    """Put a pipe in place of the model file, so that reading it never ends."""
    server.model.unlink()
    os.mkfifo(server.model)


ATTACKS: Final[tuple[Callable[[Server], Any], ...]] = (
    unread_answers,
    unread_answers_within_limits,
    many_queries,
    many_lists,
    idle_connections,
    pipe_for_model,
)


def attacked(attack: Callable[[Server], Any]) -> list[str]:
    """Attack a server of its own, and return the cells of a row."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        server.ask()
        resting, cpu, began, away = server.megabytes("VmRSS"), server.cpu_seconds(), time.perf_counter(), 0.0
        held = attack(server)
        while time.perf_counter() - began < SECONDS:
            answered = server.ask()
            away = away if answered else time.perf_counter() - began
            time.sleep(0.1)
        spent, peak, after = server.cpu_seconds() - cpu, server.megabytes("VmHWM"), server.megabytes("VmRSS")
        stopped = server.stop()
        del held
        ended = f"{away:.1f}" if away < SECONDS - 3 else f"over {SECONDS:.0f}"
        figures = [f"{resting:.0f}", f"{peak:.0f}", f"{after:.0f}", f"{spent:.1f}", ended, stopped]
        return [attack.__name__.replace("_", " "), *figures, f"{server.log.stat().st_size / 1e6:.2f}"]


def main(names: list[str]) -> None:
    print("| attack | MB before | peak | after | CPU, s | away, s | to stop, s | log, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for attack in ATTACKS:
        if not names or attack.__name__ in names:
            print(f"| {' | '.join(attacked(attack))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
