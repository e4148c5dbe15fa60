"""Kill commands at random moments: ``python -m tests.fuzz.kills 1000``.

Every trial starts a command that replaces a file, kills it with SIGKILL, and looks at the file: it has to be the old or
the new one, whole and readable. Then the command that writes the old one runs to its end, after which nothing may be
left beside the file. Half of the kills come at any moment of the command, the others within milliseconds of its save.

Commands run in forks of one process that has imported everything, or else starting them would take all the time; one in
twenty is a process of its own.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marginrank import Queries, Ranker, load, read, read_qrels
from marginrank.cli.app import app, main
from marginrank.data import write_letor, write_parquet
from marginrank.data.fingerprint import fingerprint
from marginrank.fusion import Fusion, pool_runs, read_runs

#: One command in so many is a process of its own.
FRESH = 20
#: Seconds after which a command hangs.
PATIENCE = 600.0


@dataclass(frozen=True)
class Save:
    """A command that writes a file, in two versions.

    Args:
        target: The file that is written.
        old: The command that writes the old version, with ``{}`` for the target.
        new: The command that writes the new one.
        content: What the versions are told apart by.
    """

    target: str
    old: str
    new: str
    content: Callable[[Path], object]


def model(path: Path) -> object:
    """Return the weights of a model; times in its trace differ from run to run."""
    return load(path).coef_.tobytes()


def data(path: Path) -> object:
    """Return the fingerprint of judged data."""
    return fingerprint(read(path))


def page(path: Path) -> object:
    """Return which of the models a report is about, if all of it is there."""
    text = path.read_text("utf-8")
    assert text.rstrip().endswith("</html>")
    return tuple(name in text for name in ("weak", "strong"))


def text(path: Path) -> object:
    """Return the bytes of a file."""
    return path.read_bytes()


_TUNE = "tune train.txt --folds 2 -o {}"
_REPORT = "report -o {} test.txt"
_FUSE = "fuse bm25.run dense.run -o {}"
SAVES = {
    "train": Save("m.safetensors", "train train.txt -o {} -C 1", "train train.txt -o {} -C 5", model),
    "tune": Save("t.safetensors", f"{_TUNE} --Cs 1", f"{_TUNE} --Cs 5", model),
    "convert": Save("c.queries", "convert train.txt {}", "convert other.txt {}", data),
    "table": Save("c.parquet", "convert train.txt {}", "convert other.txt {}", data),
    "report": Save(
        "r.html", "report -o {} test.txt weak.safetensors", "report -o {} test.txt strong.safetensors", page
    ),
    "fuse": Save("f.run", f"{_FUSE} --apply ap.safetensors", f"{_FUSE} --apply p.safetensors", text),
    "rank": Save("s.tsv", "rank weak.safetensors test.txt -o {}", "rank strong.safetensors test.txt -o {}", text),
}
#: Reports take ten times as long as the others.
WEIGHTS = {"report": 1}


def prepare(folder: Path) -> None:
    """Write what the commands read."""
    for number, name in enumerate(("train", "other", "test")):
        rng = np.random.default_rng(number)
        X = rng.standard_normal((160, 5)).round(3)
        grades = np.digitize(X @ [1.0, -0.5, 0.0, 0.0, 0.2] + rng.standard_normal(160), [1.0, 2.0])
        ids = [f"d{number}-{row}" for row in range(160)]
        queries = Queries.from_arrays(X, grades, qid=np.repeat(np.arange(20), 8) + 100 * number, document_ids=ids)
        write_letor(folder / f"{name}.txt", queries)
        write_parquet(folder / f"{name}.parquet", queries)
    rng = np.random.default_rng(9)
    sides = rng.standard_normal((200, 2))
    topics, relevant = np.repeat(np.arange(1, 11), 20), sides.sum(axis=1) > 1.0
    judged = [f"{topic} 0 doc{row} {int(relevant[row])}\n" for row, topic in enumerate(topics)]
    (folder / "judged.qrels").write_text("".join(judged))
    for number, tag in enumerate(("bm25", "dense")):
        lines = [f"{topic} Q0 doc{row} 0 {sides[row, number]:.4f} {tag}\n" for row, topic in enumerate(topics)]
        (folder / f"{tag}.run").write_text("".join(lines))
    for name, C in (("weak", 0.01), ("strong", 10.0)):
        Ranker("svmmap", C=C).fit(read(folder / "train.txt")).save(folder / f"{name}.safetensors")
    runs = pool_runs(read_runs([folder / "bm25.run", folder / "dense.run"]), read_qrels(folder / "judged.qrels"))
    for name, measure in (("ap", "ap"), ("p", "p@1")):
        Fusion("minmax", measure=measure, Cs=[1.0]).fit(runs).save(folder / f"{name}.safetensors")


class Running:
    """A command under way."""

    def __init__(self, folder: Path, words: str, *, fresh: bool) -> None:
        self._errors = folder.parent / "errors.txt"
        if fresh:
            with self._errors.open("wb") as errors:
                command = [sys.executable, "-m", "marginrank", *words.split()]
                self._child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
            self.pid = self._child.pid
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of this process do nothing the child needs
            self.pid = os.fork()
        if self.pid == 0:
            self._become(folder, words)

    def _become(self, folder: Path, words: str) -> None:
        os.chdir(folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        errors = os.open(self._errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, place in ((0, nowhere), (1, nowhere), (2, errors)):
            os.dup2(place, number)
        sys.argv = ["marginrank", *words.split()]
        try:
            main()
        finally:
            os._exit(99)

    def ended(self) -> bool:
        """Tell whether it has ended, and leave its status to be read."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def status(self) -> int:
        """Wait for the end and return the exit code, negative for a signal."""
        limit = time.monotonic() + PATIENCE
        while not self.ended():
            if time.monotonic() > limit:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"no end after {PATIENCE:.0f} s")
            time.sleep(0.001)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def errors(self) -> str:
        """Return what it printed on standard error."""
        return self._errors.read_text(errors="replace")


def warm_up(folder: Path, words: str) -> None:
    """Run a command in this process, so that its forks have everything imported and compiled."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(io.StringIO()), suppress(SystemExit):
            app([*words.split(), "--force", "--quiet"], prog_name="marginrank")
    finally:
        os.chdir(before)


def finish(folder: Path, words: str) -> float:
    """Run a command to its end, and return the seconds it took."""
    began = time.monotonic()
    running = Running(folder, f"{words} --force", fresh=False)
    code = running.status()
    if code != 0:
        raise RuntimeError(f"marginrank {words}: exit code {code}: {running.errors()}")
    return time.monotonic() - began


def kill(running: Running, target: Path, seconds: float, near_save: bool, rng: random.Random) -> str:
    """Kill a command at a random moment, and say when that was."""
    if near_save:
        while not running.ended() and not leftovers(target):
            time.sleep(0.0002)
        time.sleep(rng.uniform(0.0, 0.004))
    else:
        limit = time.monotonic() + rng.uniform(0.0, 1.05 * seconds)
        while not running.ended() and time.monotonic() < limit:
            time.sleep(0.0005)
    os.kill(running.pid, signal.SIGKILL)
    return "killed" if running.status() == -signal.SIGKILL else "had ended"


def leftovers(target: Path) -> list[str]:
    """Return the names of what lies beside a file because of it."""
    names = [path.name for path in target.parent.iterdir()]
    return [name for name in names if name != target.name and target.name in name]


def trial(folder: Path, save: Save, versions: tuple[object, object], seconds: float, rng: random.Random) -> str:
    """Kill the command that writes the new version, and then write the old one; say what was met."""
    target, near_save, fresh = folder / save.target, rng.random() < 0.5, rng.random() < 1 / FRESH
    running = Running(folder, f"{save.new.format(save.target)} --force", fresh=fresh)
    state = kill(running, target, seconds + 1.5 * fresh, near_save, rng)
    content = save.content(target)
    assert content in versions, f"{save.new}: {target.name} is neither the old nor the new version"
    finish(folder, save.old.format(save.target))
    assert save.content(target) == versions[0], f"{save.old}: not what it was before"
    assert leftovers(target) == [], f"{save.old}: left {leftovers(target)}"
    return f"{state}, {'old' if content == versions[0] else 'new'}"


def run(n_kills: int, seed: int, names: list[str], folder: Path) -> Counter[str]:
    """Kill so many commands, and count what was met."""
    prepare(folder)
    versions, seconds = {}, {}
    for name in names:
        save, contents = SAVES[name], []
        if name != "report":  # whose engine for charts has threads that a fork would lack
            warm_up(folder, save.new.format(save.target))
        for words in (save.new, save.old):
            seconds[name] = finish(folder, words.format(save.target))
            contents.append(save.content(folder / save.target))
        assert contents[0] != contents[1]
        versions[name] = contents[1], contents[0]
    print("  ".join(f"{name} {time:.2f} s" for name, time in seconds.items()), flush=True)
    rng, met = random.Random(seed), Counter[str]()
    weights = [WEIGHTS.get(name, 5) for name in names]
    while sum(n for state, n in met.items() if ": killed" in state) < n_kills:
        name = rng.choices(names, weights)[0]
        met[f"{name}: {trial(folder, SAVES[name], versions[name], seconds[name], rng)}"] += 1
    return met


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kills", type=int, help="number of commands to kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(SAVES), help="names of commands, with commas")
    return parser.parse_args()


if __name__ == "__main__":
    asked, began = parse(), time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary, "work")
        place.mkdir()
        counts = run(asked.kills, asked.seed, asked.only.split(","), place)
    for state, n in sorted(counts.items()):
        print(f"{n:6,}  {state}")
    print(f"{asked.kills:,} kills in {time.monotonic() - began:.0f} s: every file was the old or the new one")
