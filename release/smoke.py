"""The installed package as its users meet it: run in a clean environment with the names of the extras that it has.

It imports nothing of this repository. Every extra is tried: one that is installed has to work, and any other has to
say how to install it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marginrank import Queries


def write_judged(path: Path, seed: int) -> None:
    """Write 40 queries of 8 documents, whose grades follow the first feature, roughly."""
    draw = random.Random(seed)
    rows = ["query_id,document_id,grade,bm25,vectors,age"]
    for query in range(40):
        for document in range(8):
            bm25, vectors, age = (draw.random() for _ in range(3))
            rows.append(
                f"q{query},d{document},{int(2 * bm25 + 0.6 * draw.random())},{bm25:.4f},{vectors:.4f},{age:.4f}"
            )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def command_line(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `marginrank` as it was installed."""
    program = Path(sys.executable).with_name("marginrank")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def judged(path: str) -> Queries:
    """Read judged queries."""
    from marginrank import Queries, read  # noqa: PLC0415

    queries = read(path)
    assert isinstance(queries, Queries)
    return queries


def try_base() -> None:
    """Read, train, evaluate, compare, save, load and export, from Python and from the shell."""
    import marginrank  # noqa: PLC0415
    from marginrank import Ranker, compare, evaluate, load, tune  # noqa: PLC0415

    place = Path(marginrank.__file__).parent
    assert "site-packages" in place.parts, f"{place} is not where packages are installed"
    assert (place / "py.typed").exists()
    train, test = judged("train.csv"), judged("test.csv")
    assert (len(train), train.feature_names) == (40, ("bm25", "vectors", "age"))
    ranker = Ranker("ndcg@10", C=10).fit(train)
    assert ranker.gap_ <= 1e-3 * ranker.objective_
    assert evaluate(test, ranker).mean["ndcg@10"] > evaluate(test, test.feature("age")).mean["ndcg@10"] + 0.1
    assert compare({"learned": ranker, "age": test.feature("age")}, test).rows[0].p_randomization < 0.01
    assert len(tune(Ranker("svmmap"), train, Cs=[0.1, 1.0]).candidates) == 2
    ranker.save("model.safetensors")
    assert (load("model.safetensors").predict(test) == ranker.predict(test)).all()

    for words in (
        ("--version",),
        ("train", "train.csv", "-C", "1", "-o", "shell.safetensors"),
        ("evaluate", "test.csv", "shell.safetensors"),
        ("rank", "shell.safetensors", "test.csv", "--k", "3", "-o", "ranking.csv"),
        ("explain", "shell.safetensors", "test.csv", "--query", "q0"),
        ("export", "shell.safetensors", "--to", "python", "-o", "ranker.py"),
        ("inspect", "shell.safetensors"),
        ("verify", "shell.safetensors"),
    ):
        done = command_line(*words)
        assert done.returncode == 0, f"marginrank {' '.join(words)}: {done.stderr}"
    assert len(Path("ranking.csv").read_text(encoding="utf-8").splitlines()) == 1 + 40 * 3
    wrong = command_line("inspect", "absent.csv")
    assert wrong.returncode == 1
    assert "absent.csv" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def boosted() -> None:
    """Grow trees."""
    from marginrank import Boosted, Ranker  # noqa: PLC0415

    Ranker("softmax", scorer=Boosted(trees=3)).fit(judged("train.csv"))


def dask() -> None:
    """Train on a worker."""
    done = command_line("train", "train.csv", "-C", "1", "--workers", "1", "-o", "cluster.safetensors")
    if done.returncode:
        raise ImportError(done.stderr)


def jax() -> None:
    """Differentiate a loss in JAX."""
    from marginrank.integrations.jax import JaxRankingLoss  # noqa: PLC0415

    assert float(JaxRankingLoss("softmax")([0.0, 0.0], [1, 0])) > 0


def neural() -> None:
    """Train a network."""
    from marginrank import Neural, Ranker  # noqa: PLC0415

    Ranker("softmax", scorer=Neural(hidden=(4,), epochs=2)).fit(judged("train.csv"))


def onnx() -> None:
    """Export to ONNX."""
    from marginrank import Model  # noqa: PLC0415

    Model.load("model.safetensors").export("onnx", "model.onnx")


def plot() -> None:
    """Draw weights."""
    from marginrank.model.plots import plot_weights  # noqa: PLC0415

    plot_weights(["bm25", "age"], [0.9, 0.1], "weights.png")
    assert Path("weights.png").stat().st_size > 1000


def report() -> None:
    """Write a report."""
    from marginrank import load, write_report  # noqa: PLC0415

    data = judged("test.csv")
    write_report("report.html", data, {"learned": load("model.safetensors"), "age": data.feature("age")})
    assert Path("report.html").stat().st_size > 10_000


def serve() -> None:
    """Serve a model on a free port and ask for its health."""
    program = Path(sys.executable).with_name("marginrank")
    words = ["serve", "model.safetensors", "--port", "0"]
    service = subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    try:
        for line in service.stdout or ():
            lines.append(line)
            address = next((word for word in line.split() if word.startswith("http://")), None)
            if address:
                with urllib.request.urlopen(f"{address.rstrip('/.,')}/health/ready", timeout=30) as answer:
                    assert answer.status == 200
                return
        raise ImportError("".join(lines))
    finally:
        with contextlib.suppress(ProcessLookupError):
            service.send_signal(signal.SIGTERM)
        service.communicate(timeout=60)


def zstd() -> None:
    """Read a compressed table back."""
    from marginrank.data import write_delimited  # noqa: PLC0415

    write_delimited("test.csv.zst", judged("test.csv"))
    assert len(judged("test.csv.zst")) == 40


#: What each extra adds; a test compares the names with those of pyproject.toml.
EXTRAS: dict[str, Callable[[], None]] = {
    "boosted": boosted,
    "dask": dask,
    "jax": jax,
    "neural": neural,
    "onnx": onnx,
    "plot": plot,
    "report": report,
    "serve": serve,
    "zstd": zstd,
}


def try_extra(name: str, *, installed: bool) -> None:
    """Use what an extra adds: it has to work, or to say how to install it."""
    said = ""
    try:
        EXTRAS[name]()
    except ImportError as error:
        said = str(error)
    if installed:
        assert not said, f"extra {name}: {said}"
    else:
        assert f"pip install 'marginrank[{name}]'" in said, f"without the extra {name}: {said or 'it works'}"


def main() -> None:
    """Try the package, and each extra."""
    os.environ["COLUMNS"] = "200"
    installed = sys.argv[1:]
    write_judged(Path("train.csv"), seed=0)
    write_judged(Path("test.csv"), seed=1)
    try_base()
    for name in EXTRAS:
        try_extra(name, installed=name in installed)
    print("all as expected")


if __name__ == "__main__":
    main()
