"""The service under load from a second process, beside a bare FastAPI handler that parses the same body.

Run it with ``python benchmarks/serving.py``. With ``--replace 100`` it replaces the model so often under load instead,
and counts requests that fail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import uvicorn
from fastapi import FastAPI, Request

from marginrank import Queries, Ranker
from marginrank.serving.server import address_of, listen

CLIENTS: Final = (1, 8, 64)
SECONDS: Final = 4.0
ROUNDS: Final = 3
DOCUMENTS: Final = 100
FEATURES: Final = 46


def serve_bare() -> None:
    """Serve a handler that parses a body and returns as much as a ranking of ten."""
    app = FastAPI()

    @app.post("/rank")
    async def rank(request: Request) -> dict[str, Any]:
        body = json.loads(await request.body())
        rows = body["queries"][0]["features"]
        return {"queries": [{"id": 0, "documents": [{"id": n, "rank": n, "score": rows[n][0]} for n in range(10)]}]}

    listening = listen("127.0.0.1", 0)
    print(json.dumps({"address": address_of(listening)}), flush=True)
    config = uvicorn.Config(app, http="h11", log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


async def load(port: int, body: bytes, n_clients: int, seconds: float) -> None:
    """Send the same request over kept connections, each client as soon as it is answered; print times and failures."""
    head = f"POST /rank HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    message, times, failures = head.encode() + body, list[float](), 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal failures
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            began = time.perf_counter()
            writer.write(message)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            times.append(time.perf_counter() - began)
            failures += not answer.startswith(b"HTTP/1.1 200 ")
        writer.close()

    results = await asyncio.gather(*(client() for _ in range(n_clients)), return_exceptions=True)
    failures += sum(isinstance(one, BaseException) for one in results)
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    found = {"per_second": len(times) / seconds, "p50": p50, "p99": p99, "n": len(times), "failures": failures}
    print(json.dumps(found))


def measured(port: int, body: Path, n_clients: int, seconds: float = SECONDS) -> subprocess.Popen[str]:
    words = [sys.executable, __file__, "--load", str(port), str(body), str(n_clients), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = process.communicate()
    found: dict[str, float] = json.loads(out)
    return found


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Return the CPU time of a process, where the system tells."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def under_load(process: subprocess.Popen[str], port: int, body: Path, n_clients: int) -> dict[str, float]:
    """Measure a service, with its CPU time per request, which other processes change little."""
    before = cpu_seconds(process)
    found = result(measured(port, body, n_clients))
    return {**found, "cpu": (cpu_seconds(process) - before) / found["n"]}


def started(words: list[str]) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        text += process.stdout.readline()
    return process, int(json.loads(text)["address"].rpartition(":")[2])


def trained(seed: int, path: Path) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2000, FEATURES))
    Ranker("svmmap").fit(Queries.from_arrays(X, X[:, seed] > 0.5, qid=np.arange(2000) // 20)).save(path)


def compare(model: Path, body: Path) -> None:
    services = {
        "bare FastAPI": started([__file__, "--bare"]),
        "marginrank": started(["-m", "marginrank", "serve", str(model), "--port", "0", "--json"]),
    }
    print(f"{DOCUMENTS} documents with {FEATURES} features, {len(body.read_bytes()):,} bytes, ten returned\n")
    print("| clients | service | requests/s | ratio | p50, ms | p99, ms | ratio | CPU, ms | failures |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for n_clients in CLIENTS:
        # In turn, so that what else the machine does hits both; the best of each counts.
        rounds = [
            {name: under_load(process, port, body, n_clients) for name, (process, port) in services.items()}
            for _ in range(ROUNDS)
        ]
        best = {name: max((one[name] for one in rounds), key=lambda one: one["per_second"]) for name in services}
        bare = best["bare FastAPI"]
        for name, one in best.items():
            rate, slow = one["per_second"] / bare["per_second"], one["p99"] / bare["p99"]
            print(
                f"| {n_clients} | {name} | {one['per_second']:.0f} | {rate:.2f} | {1e3 * one['p50']:.1f} | "
                f"{1e3 * one['p99']:.1f} | {slow:.2f} | {1e3 * one['cpu']:.2f} | {one['failures']:g} |"
            )
    for process, _ in services.values():
        process.terminate()
        process.communicate()


def replace_under_load(model: Path, body: Path, n_times: int) -> None:
    """Replace the model so often while eight clients ask; every fourth time the file is cut short for a moment."""
    words = ["-m", "marginrank", "serve", str(model), "--port", "0", "--json", "--quiet", "--reload-every", "0.02"]
    process, port = started(words)
    other = model.with_suffix(".other")
    trained(1, other)
    contents = [model.read_bytes(), other.read_bytes()]
    loading = measured(port, body, 8, 3.0 + 0.15 * n_times)
    time.sleep(1.0)
    for number in range(n_times):
        waiting = model.with_suffix(".new")
        waiting.write_bytes(contents[number % 2])
        if number % 4 == 3:
            model.write_bytes(contents[number % 2][:1000])
            time.sleep(0.05)
        waiting.replace(model)
        time.sleep(0.1)
    found = result(loading)
    process.terminate()
    process.communicate()
    print(f"{n_times} replacements, {found['n']:,.0f} requests, {found['failures']:g} failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--load", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--replace", type=int, default=0)
    options = parser.parse_args()
    if options.bare:
        serve_bare()
        return
    if options.load:
        port, body, n_clients, seconds = options.load
        asyncio.run(load(int(port), Path(body).read_bytes(), int(n_clients), float(seconds)))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        model, sent = Path(folder, "model.safetensors"), Path(folder, "body.json")
        trained(0, model)
        rows = np.random.default_rng(2).standard_normal((DOCUMENTS, FEATURES)).round(6).tolist()
        documents = [f"d{number}" for number in range(DOCUMENTS)]
        sent.write_text(json.dumps({"queries": [{"documents": documents, "features": rows}], "k": 10}))
        if options.replace:
            replace_under_load(model, sent, options.replace)
        else:
            compare(model, sent)


if __name__ == "__main__":
    main()
