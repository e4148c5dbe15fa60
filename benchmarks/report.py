"""A report on 50,000 queries of 20 documents and three systems: a model and two files of scores.

    python benchmarks/report.py

The command is timed as a user runs it, in a process of its own, and then its parts. One interval is also computed by
``scipy.stats.bootstrap``, with fewer samples, to tell how long that would take for all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from marginrank import Queries, Ranker, evaluate
from marginrank.data import write_letor
from marginrank.evaluation.comparison import summarize
from marginrank.reporting.page import render
from marginrank.reporting.report_builder import gather_facts
from marginrank.typing import FloatArray

N_QUERIES, N_DOCUMENTS, N_FEATURES = 50_000, 20, 10
MEASURES = ("ndcg@10", "ap")
N_INTERVALS, RESAMPLES, SCIPY_RESAMPLES = 10, 9999, 500


def generated(n_queries: int, seed: int) -> Queries:
    """Queries with five grades, of which the features tell a part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * N_DOCUMENTS, N_FEATURES)).astype(np.float32)
    hidden = X @ rng.random(N_FEATURES) + 2 * rng.standard_normal(len(X))
    grades = np.digitize(hidden, np.quantile(hidden, [0.6, 0.8, 0.9, 0.97]))
    return Queries.from_arrays(X, grades, group=np.full(n_queries, N_DOCUMENTS))


class Timed(NamedTuple):
    """Seconds by the clock, seconds of CPU of this process and its children, and the result."""

    seconds: float
    cpu: float
    result: Any


def timed(work: Callable[[], Any]) -> Timed:
    start, before = time.perf_counter(), sum(os.times()[:4])
    result = work()
    return Timed(time.perf_counter() - start, sum(os.times()[:4]) - before, result)


def run_command(queries: Queries, model: Ranker, scores: dict[str, FloatArray]) -> Timed:
    """Run the command twice and time the second run; the result is the size of its page in MB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_letor(folder / "test.txt", queries)
        model.save(folder / "model.safetensors")
        for system, column in scores.items():
            np.savetxt(folder / f"{system}.txt", column, fmt="%.9g")
        files = ["test.txt", "model.safetensors", *(f"{system}.txt" for system in scores)]
        words = [sys.executable, "-m", "marginrank", "report", *files, "--force", "--quiet"]
        runs = [timed(lambda: subprocess.run(words, cwd=folder, check=True)) for _ in range(2)]
        return runs[-1]._replace(result=(folder / "report.html").stat().st_size / 1e6)


def main() -> None:
    test, rng = generated(N_QUERIES, 1), np.random.default_rng(2)
    model = Ranker("softmax").fit(generated(200, 0))
    columns = {name: np.asarray(test.X[:, at], dtype=np.float64) for at, name in enumerate(("first", "second"))}
    command = run_command(test, model, columns)
    rows = {f"`marginrank report`, a page of {command.result:.1f} MB": command}
    systems = {"model": model.predict(test), **columns}
    judged = timed(lambda: {name: evaluate(test, one, MEASURES) for name, one in systems.items()})
    results, questions = judged.result, [(measure, "model") for measure in MEASURES]
    rows["evaluation of three systems"] = judged
    rows["six intervals, four comparisons of three tests each"] = timed(lambda: summarize(results, MEASURES, questions))
    gathered = timed(lambda: gather_facts(test, systems, MEASURES))
    rows["all facts, these included"] = gathered
    rows["page from facts"] = timed(lambda: render(gathered.result))
    column = results["model"]["ap"]
    options: dict[str, Any] = {"n_resamples": SCIPY_RESAMPLES, "method": "percentile", "batch": 20, "random_state": rng}
    one = timed(lambda: scipy.stats.bootstrap((column[~np.isnan(column)],), np.mean, **options))
    times = N_INTERVALS * RESAMPLES / SCIPY_RESAMPLES
    by_scipy = one._replace(seconds=times * one.seconds, cpu=times * one.cpu)
    rows["ten intervals by scipy.stats.bootstrap, extrapolated"] = by_scipy
    print("| step | seconds | CPU s |\n| --- | --- | --- |")
    for name, row in rows.items():
        print(f"| {name} | {row.seconds:.1f} | {row.cpu:.1f} |")


if __name__ == "__main__":
    main()
