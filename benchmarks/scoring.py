"""Light scoring: how long it takes to start beside NumPy, and to score 200 documents beside X @ w.

Run it with ``python benchmarks/scoring.py``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import Any, Final

import numpy as np

from marginrank import Ranker
from marginrank.model import scoring

RUNS: Final = 15
DOCUMENTS: Final = 200
START: Final = "import time; start = time.perf_counter()\n{}\nprint(time.perf_counter() - start)"


def started(code: str, *words: str) -> float:
    """Return the shortest time that some lines take in a new process, in seconds."""
    command = [sys.executable, "-c", START.format(code), *words]
    times = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(RUNS)]
    return min(times)


def milliseconds(work: Any) -> float:
    return 1e3 * min(timeit.repeat(work, number=200, repeat=RUNS)) / 200


def compare(path: Path, n_features: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, n_features)) * 10.0 ** rng.integers(-2, 3, n_features)
    y = X[:, 0] > np.median(X[:, 0])
    Ranker("svmmap").fit(X, y, qid=np.arange(2000) // 20).save(path)
    model, rows, weights = scoring.load(path), np.ascontiguousarray(X[:DOCUMENTS]), np.ones(n_features)
    own, product = milliseconds(lambda: model.score(rows)), milliseconds(lambda: rows @ weights)
    ranked = milliseconds(lambda: model.rerank(rows, 10))
    print(
        f"{DOCUMENTS} documents, {n_features} features: score {own:.3f} ms, rerank {ranked:.3f} ms, "
        f"X @ w {product:.3f} ms"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        for n_features in (10, 46, 136):
            compare(path, n_features)
        load = "import sys\nfrom marginrank.model import scoring\nscoring.load(sys.argv[1])"
        light, numpy = started(load, str(path)), started("import numpy")
        print(f"start and load: {light:.3f} s, of which NumPy {numpy:.3f} s, ratio {light / numpy:.2f}")


if __name__ == "__main__":
    main()
