"""Kill training at random moments, and go on: ``python -m tests.fuzz.resumes 100``.

Every trial starts a run with a checkpoint, kills it with SIGKILL once to three times, each time going on from what was
left, and lets it end. What it ends with has to be, bit for bit, what a run without a kill ends with. Runs are forks of
one process that has imported everything.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import marginrank.training.checkpoint
from marginrank import Queries, Ranker, tune
from marginrank.losses import PairwiseHinge
from marginrank.scorers import Additive
from marginrank.solvers import Bundle, ConcaveConvex, FrankWolfe, Newton, Stochastic

#: Seconds between two writes, short beside the runs.
INTERVAL: Final = 0.05
#: Seconds after which a run hangs.
PATIENCE: Final = 600.0


@cache
def queries() -> Queries:
    """Return what is trained on."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 30))
    hidden = X @ rng.standard_normal(30) + 6.0 * rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [4.0, 9.0]), qid=np.repeat(np.arange(300), 20))


def _fit(ranker: Ranker) -> Callable[..., list[Ranker]]:
    return lambda **more: [ranker.fit(queries(), **more)]


def _tune(**more: Any) -> list[Any]:
    return [tune(Ranker("svmmap", solver=Bundle(tol=1e-5)), queries(), folds=2, Cs=[0.1, 1.0, 10.0], **more).ranker]


#: Runs by name; each takes the arguments of a checkpoint.
KINDS: Mapping[str, Callable[..., list[Any]]] = {
    "bundle": _fit(Ranker("svmmap", C=100.0, solver=Bundle(tol=1e-7), n_jobs=1)),
    "newton": _fit(Ranker(PairwiseHinge(power=2), C=100.0, solver=Newton(tol=1e-12), n_jobs=1)),
    "additive": _fit(Ranker("svmndcg@10", scorer=Additive(bins=16), n_jobs=1)),
    "tight": _fit(Ranker("svmmap", bound="tight", solver=ConcaveConvex(tol=1e-6), n_jobs=1)),
    "frank-wolfe": _fit(Ranker("svmmap", solver=FrankWolfe(tol=1e-5), n_jobs=1)),
    "stochastic": _fit(Ranker("svmauc", solver=Stochastic(tol=1e-4), n_jobs=1)),
    "path": lambda **more: Ranker("svmmap", n_jobs=1).fit_path(queries(), Cs=[0.1, 1.0, 10.0, 100.0], **more),
    "tune": _tune,
}


def content(rankers: list[Any]) -> bytes:
    """Return a digest of all that training leaves, but times."""
    total = hashlib.sha256()
    for ranker in rankers:
        solution = ranker.solution_
        total.update(solution.theta.tobytes())
        total.update(np.array([(step.primal, step.dual, step.passes) for step in solution.trace]).tobytes())
        total.update(f"{solution.reason} {ranker.health_}".encode())
    return total.digest()


def start(name: str, path: Path | None, result: Path) -> int:
    """Start a run in a fork, which writes the digest of what it ends with; return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of this process do nothing the child needs
        child = os.fork()
    if child:
        return child
    try:
        marginrank.training.checkpoint.INTERVAL = INTERVAL  # type: ignore[misc]
        more = {} if path is None else {"checkpoint": path, "resume": True}
        result.write_bytes(content(KINDS[name](**more)))
        os._exit(0)
    finally:
        os._exit(99)


def _wait(child: int, limit: float) -> int | None:
    """Return the exit code of a process, or None if it has not ended in time."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def finish(name: str, path: Path | None) -> tuple[bytes, float]:
    """Run to the end, and return the digest of the result, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        result, began = Path(folder, "result"), time.monotonic()
        child = start(name, path, result)
        code = _wait(child, PATIENCE)
        if code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if code != 0:
            raise RuntimeError(f"{name}: exit code {code}")
        return result.read_bytes(), time.monotonic() - began


def kill(name: str, path: Path, seconds: float) -> str:
    """Start a run, or let it go on, and kill it; say whether it had ended before."""
    with tempfile.TemporaryDirectory() as folder:
        child = start(name, path, Path(folder, "result"))
        code = _wait(child, seconds)
        if code is None:
            os.kill(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"{name}: exit code {code}")
        return "had ended" if code == 0 else "killed"


def run(n_kills: int, seed: int, names: list[str], folder: Path) -> Counter[str]:
    """Kill so many runs, and count what was met."""
    expected, seconds = {}, {}
    for name in names:
        KINDS[name]()  # compiles what the forks need
        expected[name], seconds[name] = finish(name, None)
    print("  ".join(f"{name} {time:.2f} s" for name, time in seconds.items()), flush=True)
    rng, met = random.Random(seed), Counter[str]()
    while sum(n for state, n in met.items() if state.endswith(": killed")) < n_kills:
        name, path = rng.choice(names), folder / "run"
        for _ in range(rng.randint(1, 3)):
            met[f"{name}: {kill(name, path, rng.uniform(0.0, seconds[name]))}"] += 1
        result, _ = finish(name, path)
        assert result == expected[name], f"{name}: not what it is without a kill"
        path.unlink()
        assert not list(folder.iterdir()), "something is left beside the checkpoint"
    return met


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kills", type=int, help="number of runs to kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(KINDS), help="names of runs, with commas")
    return parser.parse_args()


if __name__ == "__main__":
    asked, began = parse(), time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        counts = run(asked.kills, asked.seed, asked.only.split(","), Path(temporary))
    for state, n in sorted(counts.items()):
        print(f"{n:6,}  {state}")
    print(f"{asked.kills:,} kills in {time.monotonic() - began:.0f} s: every run ended as one without a kill")
