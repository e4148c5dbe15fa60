"""Two worker processes against two threads, what goes over the wire, and the memory of the client.

    python benchmarks/cluster.py passes [--documents 1200000] [--preset svmmap] [--partitions 8]
    python benchmarks/cluster.py client                  # peak memory of the client at two sizes
    python benchmarks/cluster.py hosts [--delay 10]      # workers in a network namespace of their own; needs root

`passes` evaluates the risk in turn with two local threads and with two workers of one thread each, on the same files,
and prints medians: both see the same load of the machine. Features are 136 random columns of float32.
`hosts` starts the scheduler here and two workers behind a virtual cable, whose packets wait in each direction, and
counts the bytes on it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from marginrank import Queries
from marginrank.data import write_binary
from marginrank.distributed import DistributedQueries
from marginrank.methods.presets import parse_preset
from marginrank.scorers import Linear
from marginrank.scorers.base import PreparedPartitions, prepare
from marginrank.solvers.problem import Problem
from marginrank.training.partitioned_risk import PartitionedRisk, ranking_risk
from marginrank.training.risk import RankingRisk
from marginrank.typing import FloatArray

N_FEATURES, PER_QUERY = 136, 100
SPACE, CABLE = "marginrank-there", "marginrank0"


def write_parts(folder: Path, n_documents: int, n_parts: int) -> Path:
    """Write random judged queries in the binary form."""
    for number in range(n_parts):
        rng = np.random.default_rng(number)
        n = n_documents // n_parts // PER_QUERY * PER_QUERY
        X = rng.standard_normal((n, N_FEATURES), dtype=np.float32)
        y = np.clip(np.round(X[:, 0] + rng.standard_normal(n)), 0, 4)
        qid = number * n + np.arange(n) // PER_QUERY
        write_binary(folder / f"part-{number:02}.queries", Queries.from_arrays(X, y, qid=qid))
    return folder / "part-*.queries"


def risk_on(files: Path, preset: str, client: Any, n_jobs: int | None = None) -> PartitionedRisk | RankingRisk:
    """Return the risk of a preset on the files."""
    loss = parse_preset(preset).loss
    if loss is None:
        raise SystemExit(f"{preset} has no loss")
    queries = DistributedQueries.from_files(files, client)
    if client is None:
        whole = Queries.concatenate(queries.partitions.map(lambda part: part))
        return ranking_risk(prepare(Linear(), whole, n_jobs), loss, n_jobs)
    return ranking_risk(PreparedPartitions(queries, Linear(), Linear().learn_partitioned(queries)), loss)


@contextmanager
def local_client(n_workers: int = 2) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    settings = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        yield client


def seconds_of(risk: Problem, theta: FloatArray) -> float:
    began = time.perf_counter()
    risk.parts(theta)
    return time.perf_counter() - began


def thetas(n: int) -> Iterator[FloatArray]:
    return iter(0.1 * np.random.default_rng(0).standard_normal((n, N_FEATURES)))


def compare_passes(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        files = write_parts(Path(folder), arguments.documents, arguments.partitions)
        with local_client() as client:
            here = risk_on(files, arguments.preset, None, n_jobs=2)
            there = risk_on(files, arguments.preset, client)
            times: dict[str, list[float]] = {"two threads": [], "two workers": []}
            for number, theta in enumerate(thetas(arguments.repeats + 2)):
                pair = [seconds_of(risk, theta) for risk in (here, there)]
                if number >= 2:
                    for own, seconds in zip(times.values(), pair, strict=True):
                        own.append(seconds)
    size = arguments.documents * N_FEATURES * 4
    for name, own in times.items():
        middle, low, high = np.quantile(own, [0.5, 0.1, 0.9])
        rate = size / middle / 1e9
        print(f"{name}: {middle:.3f} s per pass ({low:.3f} to {high:.3f}), {rate:.1f} GB/s of features")
    print(f"ratio of medians: {np.median(times['two workers']) / np.median(times['two threads']):.2f}")
    print(f"median of ratios: {np.median(np.divide(times['two workers'], times['two threads'])):.2f}")


def measure_client(arguments: argparse.Namespace) -> None:
    if arguments.peak is not None:
        with local_client() as client:
            risk = risk_on(Path(arguments.peak) / "part-*.queries", arguments.preset, client)
            for theta in thetas(5):
                risk.parts(theta)
            # Not getrusage, whose peak is that of the process that started this one, too.
            status = Path("/proc/self/status").read_text(encoding="ascii")
            print(f"{int(status.partition('VmHWM:')[2].split()[0]) / 1024:.0f} MB")
        return
    for n_documents in (300_000, 1_200_000):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write_parts(Path(folder), n_documents, arguments.partitions)
            command = [sys.executable, __file__, "client", "--peak", folder]
            peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        print(f"{n_documents:,} documents ({n_documents * N_FEATURES * 4 / 1e6:.0f} MB): client {peak} at its peak")


def shell(*words: str) -> None:
    subprocess.run(words, check=True)


def open_tunnel(name: str) -> int:
    """Make a network device whose packets this process reads and writes."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH", name.encode(), 0x0001 | 0x1000))  # TUNSETIFF, IP packets
    return device


def run_cable(delay: float) -> None:
    """Join this host and a network namespace, and deliver every packet after a delay, until the process is ended."""
    there, ends = ("ip", "netns", "exec", SPACE), [open_tunnel(CABLE), open_tunnel(f"{CABLE}b")]
    shell("ip", "link", "set", f"{CABLE}b", "netns", SPACE)
    for words, name, address in (((), CABLE, "10.77.0.1/24"), (there, f"{CABLE}b", "10.77.0.2/24")):
        shell(*words, "ip", "addr", "add", address, "dev", name)
        shell(*words, "ip", "link", "set", name, "mtu", "9000", "up")
    shell(*there, "ip", "link", "set", "lo", "up")
    print("ready", flush=True)
    under_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        left = None if not under_way else max(under_way[0][0] - time.perf_counter(), 0.0)
        for device in select.select(ends, [], [], left)[0]:
            with suppress(BlockingIOError):
                while True:
                    packet = os.read(device, 1 << 16)
                    under_way.append((time.perf_counter() + delay, ends[1 - ends.index(device)], packet))
        while under_way and under_way[0][0] <= time.perf_counter():
            _, device, packet = under_way.popleft()
            os.write(device, packet)


@contextmanager
def other_host(delay: int) -> Iterator[None]:
    """Make a network namespace behind a cable with a delay in each direction."""
    shell("ip", "netns", "add", SPACE)
    cable = subprocess.Popen([sys.executable, __file__, "cable", "--delay", str(delay)], stdout=subprocess.PIPE)
    try:
        if cable.stdout is None or not cable.stdout.readline():
            raise SystemExit("the cable could not be laid; this needs root, ip and /dev/net/tun")
        yield
    finally:
        cable.terminate()
        cable.wait()
        shell("ip", "netns", "del", SPACE)


def on_the_cable() -> int:
    statistics = Path("/sys/class/net") / CABLE / "statistics"
    return sum(int((statistics / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


def measure_hosts(arguments: argparse.Namespace) -> None:
    from distributed import Client, LocalCluster

    worker = ["ip", "netns", "exec", SPACE, sys.executable, "-m", "distributed.cli.dask_worker"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, other_host(arguments.delay):
        files = write_parts(Path(folder), arguments.documents, arguments.partitions)
        with LocalCluster(n_workers=0, host="10.77.0.1", dashboard_address=":0") as cluster, Client(cluster) as client:
            options = ["--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--no-nanny", "--host", "10.77.0.2"]
            started = [subprocess.Popen([*worker, cluster.scheduler_address, *options]) for _ in range(2)]
            try:
                client.wait_for_workers(2, timeout=120)
                risk = risk_on(files, arguments.preset, client)
                points = thetas(arguments.repeats + 2)
                for _ in range(2):
                    risk.parts(next(points))
                before = on_the_cable()
                times = [seconds_of(risk, theta) for theta in points]
                n_bytes = (on_the_cable() - before) / len(times)
            finally:
                for process in started:
                    process.terminate()
                    process.wait()
    print(
        f"{arguments.documents:,} documents, delay of {arguments.delay} ms each way: {np.median(times):.3f} s per "
        f"pass ({min(times):.3f} at best), {n_bytes / 1e3:.0f} KB per pass on the cable"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["passes", "client", "hosts", "cable"])
    parser.add_argument("--documents", type=int, default=1_200_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--preset", default="svmmap")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--delay", type=int, default=10)
    parser.add_argument("--folder", help="where to write the data; the folder for temporary files by default")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "cable":
        run_cable(arguments.delay / 1000)
    {"passes": compare_passes, "client": measure_client, "hosts": measure_hosts}[arguments.what](arguments)


if __name__ == "__main__":
    main()
