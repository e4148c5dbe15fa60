"""Time and memory of the kernel, neural and boosted scorers beside their peers, all in one run.

    python benchmarks/scorers.py [--queries 1000] [--threads 1] [--repeat 2]

Every trainer runs in a process of its own, in turns, on the same generated queries of 100 documents and 136 features,
of which 80% train. Before it is measured, it trains on a few queries, so that what has to be compiled is. Seconds are
CPU seconds, the least of the repeats; memory is the peak of the process beyond what it held before training.

Kernel: an RBF kernel of 300 landmarks, beside scikit-learn's Nystroem and our linear scorer on its features. Neural: 64
hidden units, ten epochs, batches of 32 queries, beside a loop in PyTorch with the softmax cross entropy of a padded
batch. Boosted: 100 trees of 31 leaves with LightGBM, beside LightGBM's own objectives.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from boosting import interactions
from peers import BOTH

from marginrank import Queries, Ranker, evaluate
from marginrank.losses import Loss
from marginrank.runtime.text import table
from marginrank.scorers import Boosted, Kernel, Neural
from marginrank.typing import FloatArray

LENGTH, RANK, HIDDEN, EPOCHS, BATCH, TREES, LEAVES = 100, 300, 64, 10, 32, 100, 31
#: Scores of the test queries, given training and test queries and a number of threads.
Trainer = Callable[[Queries, Queries, int], FloatArray]


def with_ranker(method: str | Loss, **parameters: Any) -> Trainer:
    def train(queries: Queries, test: Queries, threads: int) -> FloatArray:
        return Ranker(method, n_jobs=threads, **parameters).fit(queries).predict(test)

    return train


def nystroem(queries: Queries, test: Queries, threads: int) -> FloatArray:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    X = scaler.fit_transform(queries.X)
    features = Nystroem(gamma=1.0 / X.shape[1], n_components=RANK, random_state=0)
    mapped = queries.with_features(features.fit_transform(X).astype(np.float64))
    ranker = Ranker("svmmap", C=10.0, scaling=None, n_jobs=threads).fit(mapped)
    return ranker.predict(test.with_features(features.transform(scaler.transform(test.X)).astype(np.float64)))


def torch_loop(queries: Queries, test: Queries, threads: int) -> FloatArray:
    """Train as a PyTorch user would: all queries have the same length, so a batch is a plain tensor."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rows = np.asarray(queries.X)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    X = torch.from_numpy((rows - mean) / deviation).reshape(-1, LENGTH, queries.n_features)
    grades = torch.from_numpy(queries.grades.astype(np.float32)).reshape(-1, LENGTH)
    target = grades / grades.sum(dim=1, keepdim=True).clamp_min(1.0)
    model = torch.nn.Sequential(
        torch.nn.Linear(queries.n_features, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for _ in range(EPOCHS):
        for taken in torch.randperm(len(X)).split(BATCH):
            loss = -(target[taken] * model(X[taken]).squeeze(-1).log_softmax(dim=1)).sum(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.inference_mode():
        return np.asarray(model(torch.from_numpy((test.X - mean) / deviation)).squeeze(-1).double().numpy())


def lightgbm(objective: str) -> Trainer:
    def train(queries: Queries, test: Queries, threads: int) -> FloatArray:
        import lightgbm

        settings = {
            "objective": objective,
            "num_leaves": LEAVES,
            "num_threads": threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        data = lightgbm.Dataset(queries.X, queries.grades, group=queries.lengths)
        return np.asarray(lightgbm.train(settings, data, TREES).predict(test.X))

    return train


_BOOSTED = Boosted(TREES, LEAVES)
_NEURAL = Neural(HIDDEN, epochs=EPOCHS, batch=BATCH, device="cpu")
#: The trainers of each comparison; the first is the peer that ratios refer to.
GROUPS: dict[str, dict[str, Trainer]] = {
    "kernel": {
        "Nystroem, linear svmmap": nystroem,
        "Kernel, svmmap": with_ranker("svmmap", scorer=Kernel(rank=RANK), C=10.0),
    },
    "neural": {
        "PyTorch loop, softmax": torch_loop,
        "Neural, softmax": with_ranker("softmax", scorer=_NEURAL),
        "Neural, svmndcg@10": with_ranker("svmndcg@10", scorer=_NEURAL),
    },
    "boosted": {
        "LightGBM lambdarank": lightgbm("lambdarank"),
        "LightGBM rank_xendcg": lightgbm("rank_xendcg"),
        "Boosted, softmax": with_ranker("softmax", scorer=_BOOSTED),
        "Boosted, ranksvm-squared": with_ranker("ranksvm-squared", scorer=_BOOSTED),
        "Boosted, softmax + squared": with_ranker(BOTH, scorer=_BOOSTED),
        "Boosted, softmax, refit": with_ranker("softmax", scorer=Boosted(TREES, LEAVES, refit="grown"), C=10.0),
    },
}


def measure(trainer: Trainer, folder: Path, threads: int) -> dict[str, float]:
    """Train once, and return CPU seconds, megabytes beyond those held before, and the test value."""
    X, grades = (np.load(folder / f"{name}.npy") for name in ("X", "grades"))
    queries = Queries.from_arrays(X, grades, group=[LENGTH] * (len(X) // LENGTH))
    cut = int(0.8 * len(queries))
    train, test = queries[:cut], queries[cut:]
    trainer(train[:20], test[:5], threads)
    held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    began = time.process_time()
    scores = trainer(train, test, threads)
    cpu = time.process_time() - began
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value = evaluate(test, scores, "ndcg@10").mean["ndcg@10"]
    return {"cpu": cpu, "megabytes": (peak - held) / 1e6, "data": cut * LENGTH * X.shape[1] * 4e-6, "ndcg": value}


def in_process(group: str, name: str, folder: Path, threads: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", group, name, str(folder), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def report(group: str, folder: Path, threads: int, repeat: int) -> None:
    names = list(GROUPS[group])
    runs = [{name: in_process(group, name, folder, threads) for name in names} for _ in range(repeat)]
    least = {name: min((run[name] for run in runs), key=lambda result: result["cpu"]) for name in names}
    peer = least[names[0]]
    heads = [f"{group}, {peer['data']:.0f} MB of features", "CPU s", "ratio", "MB", "ratio", "test ndcg@10"]
    rows = [
        [
            name,
            f"{one['cpu']:.1f}",
            f"{one['cpu'] / peer['cpu']:.2f}",
            f"{one['megabytes']:.0f}",
            f"{one['megabytes'] / peer['megabytes']:.2f}",
            f"{one['ndcg']:.4f}",
        ]
        for name, one in least.items()
    ]
    print(table([heads, *rows], right=range(1, 6)), "\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--group", choices=list(GROUPS), action="append", help="one comparison; all by default")
    parser.add_argument("--one", nargs=3, metavar=("GROUP", "NAME", "FOLDER"), help="measure one trainer, print JSON")
    options = parser.parse_args()
    if options.one:
        group, name, folder = options.one
        print(json.dumps(measure(GROUPS[group][name], Path(folder), options.threads)))
        return
    with TemporaryDirectory() as folder:
        queries = interactions(options.queries, LENGTH, 136, seed=3)
        np.save(Path(folder) / "X.npy", np.asarray(queries.X))
        np.save(Path(folder) / "grades.npy", queries.grades)
        for group in options.group or GROUPS:
            report(group, Path(folder), options.threads, options.repeat)


if __name__ == "__main__":
    main()
