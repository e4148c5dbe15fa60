"""Waiting times of a new user: the import of `Ranker`, the first fit and the first LETOR file, which compile kernels.

    python benchmarks/first_call.py [--repeats 5]
    python benchmarks/first_call.py --kernels    # CPU seconds to compile each kernel, with what it calls

Every figure is the median of fresh processes; each first call has an empty folder for compiled kernels, and the second
loads what the first has left there. CPU time is that of all threads, without waiting for other processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from statistics import median

PRESETS = ("svmmap", "svmndcg", "ranksvm", "softmax")
_CLOCK = "import time\nwall, cpu = time.perf_counter(), time.process_time()\n"
_STOP = "\nprint(time.perf_counter() - wall, time.process_time() - cpu)"
_FIT = """
import numpy as np
from marginrank import Ranker
rng = np.random.default_rng(0)
X, y = rng.standard_normal((300, 10)), rng.integers(0, 3, 300)
"""
_READ = """
import tempfile
from pathlib import Path
from marginrank.data import read_letor
path = Path(tempfile.mkdtemp(), "judged.txt")
path.write_text("1 qid:1 1:0.5 2:3\\n0 qid:1 1:0.25 2:1e-3\\n")
# begin
read_letor(path)
"""
#: Prints how long each kernel takes to compile, by Numba's events; what a kernel calls is compiled with it.
_LISTEN = """
import time
import numba.core.event as events
import marginrank.runtime.kernels
class Compilations(events.Listener):
    def __init__(self):
        self.starts = []
    def on_start(self, event):
        self.starts.append(time.process_time())
    def on_end(self, event):
        seconds = time.process_time() - self.starts.pop()
        function = event.data["dispatcher"].py_func
        if not self.starts:
            print(function.__module__.rpartition(".")[2], function.__name__, seconds)
with events.install_listener("numba:compile", Compilations()):
"""
_EVALUATE = """
from marginrank import evaluate
evaluate(y, ranker.predict(X), group=[10] * 30)
"""


def run(code: str, cache: str | None = None) -> list[str]:
    """Run code in a fresh process, and return the lines that it prints."""
    environment = os.environ if cache is None else {**os.environ, "NUMBA_CACHE_DIR": cache}
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).splitlines()


def seconds(code: str, cache: str | None = None) -> tuple[float, float]:
    """Return wall and CPU time of what comes after the first line ``# begin``."""
    before, _, timed = code.rpartition("# begin\n")
    wall, cpu = run(before + _CLOCK + timed + _STOP, cache)[-1].split()
    return float(wall), float(cpu)


def row(name: str, times: list[tuple[float, float]], unit: float) -> str:
    wall, cpu = (median(column) for column in zip(*times, strict=True))
    return f"| {name} | {wall:.2f} | {cpu:.2f} | {cpu / unit:.1f} |"


def fit_call(preset: str) -> str:
    return f"ranker = Ranker({preset!r}).fit(X, y, group=[10] * 30)"


def fit(preset: str) -> str:
    return f"{_FIT}# begin\n{fit_call(preset)}"


def print_kernels() -> None:
    """Print the CPU seconds that each kernel takes to compile, the dearest first."""
    columns: dict[tuple[str, str], dict[str, float]] = {}
    works = {"read_letor": _READ, **{preset: _FIT + fit_call(preset) + _EVALUATE for preset in PRESETS}}
    for work, code in works.items():
        indented = "".join(f"    {line}\n" for line in code.splitlines())
        with tempfile.TemporaryDirectory() as cache:
            for line in run(_LISTEN + indented, cache):
                module, kernel, seconds = line.split()
                columns.setdefault((module, kernel), {})[work] = float(seconds)
    print("| module | kernel | CPU seconds | compiled by |\n| --- | --- | --- | --- |")
    for (module, kernel), by_work in sorted(columns.items(), key=lambda item: -median(item[1].values())):
        print(f"| `{module}` | `{kernel}` | {median(by_work.values()):.2f} | {', '.join(by_work)} |")


def main() -> None:
    """Print a table of seconds, and the CPU time as a multiple of that of importing NumPy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="number of fresh processes for each figure")
    parser.add_argument("--kernels", action="store_true", help="time each kernel instead")
    options = parser.parse_args()
    if options.kernels:
        print_kernels()
        return
    imports = {"import numpy": "import numpy", "import Ranker": "from marginrank import Ranker"}
    times: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.repeats):
        for name, code in imports.items():
            times.setdefault(name, []).append(seconds(f"# begin\n{code}"))
        calls = {"read_letor": _READ, **{f"fit, {preset}": fit(preset) for preset in PRESETS}}
        for call, code in calls.items():
            with tempfile.TemporaryDirectory() as cache:
                for name in ("first", "second"):
                    times.setdefault(f"{name} {call}", []).append(seconds(code, cache))
    unit = median(cpu for _, cpu in times["import numpy"])
    print("| | seconds | CPU seconds | CPU, times `import numpy` |\n| --- | --- | --- | --- |")
    for name, found in times.items():
        print(row(name, found, unit))


if __name__ == "__main__":
    main()
