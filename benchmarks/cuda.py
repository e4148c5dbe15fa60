"""Whole calls with features on a GPU, beside the CPU of the same machine.

    python benchmarks/cuda.py [--queries 31500] [--device cuda]

First it prints what is installed, and compares training on the device with the CPU on little data. Then it times `fit`
and `predict` on queries of 120 generated documents with 136 float32 features and 5 grades; 31,500 queries are 3.8
million documents. Features are a NumPy array, trained on the CPU or on the device, or a tensor on the device. Each call
is repeated; the first one is cold. The second table splits the fastest call into its stages; ``rest`` is what
none of them covers. Passes, epochs of networks and the loss for PyTorch models follow.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from marginrank import Queries, Ranker
from marginrank.integrations.pytorch import TorchRankingLoss
from marginrank.losses import PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss
from marginrank.losses.base import Loss
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.scorers import Linear, Neural
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.typing import AnyArray, FloatArray

N_DOCUMENTS, N_FEATURES, C, REPEATS, PASSES = 120, 136, 10.0, 3, 10
PACKAGES = [
    "numpy",
    "scipy",
    "sklearn",
    "numba",
    "llvmlite",
    "pyarrow",
    "narwhals",
    "lazy_loader",
    "threadpoolctl",
    "typer",
    "rich",
    "torch",
]
PRESETS = ("svmauc", "svmmap", "svmndcg", "dorm-ndcg", "ranksvm", "ranksvm-squared", "softmax")
LOSSES: tuple[Loss, ...] = (
    StructuredLoss("auc"),
    StructuredLoss("ap"),
    StructuredLoss("ndcg@10"),
    StructuredLoss("ndcg@10", "dorm"),
    PairwiseHinge(),
    PairwiseHinge(power=2),
    SoftmaxCrossEntropy(),
)
#: The stages of a call, each with functions whose time is counted for it, less that of other stages inside.
STAGES = {
    "copy": ("marginrank.scorers.linear.scorer.on_device",),
    "checks": ("marginrank.ranker.input_queries.check_finite", "marginrank.data.queries.check_finite"),
    "statistics": ("marginrank.preparation.standardization.Standardize._learn",),
    "scaling": ("marginrank.preparation.standardization.Standardize._apply",),
    "grouping": ("marginrank.losses.base.Loss.prepare",),
    "binding": ("marginrank.training.loss_minimizer.ranking_risk",),
    "solver": ("marginrank.training.loss_minimizer._solve",),
    "fingerprint": ("marginrank.model.model.fingerprint",),
    "quantiles": ("marginrank.model.model.feature_quantiles",),
    "ties": ("marginrank.ranker.ranker.warn_of_ties",),
}


class _Stopwatch:
    """Wall time by stage, without that of the stages inside."""

    def __init__(self, device: str) -> None:
        self._device, self.seconds, self._inside = device, defaultdict[str, float](float), [0.0]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._inside.append(0.0)
        start = now(self._device)
        try:
            yield
        finally:
            total = now(self._device) - start
            self.seconds[name] += total - self._inside.pop()
            self._inside[-1] += total

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.stage(name):
                return function(*arguments, **named)

        return timed


def now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def stages(call: Callable[[], Any], device: str) -> dict[str, float]:
    """Return the seconds of each stage of a call, of the rest, and of the whole."""
    watch = _Stopwatch(device)
    with ExitStack() as patches:
        for name, targets in STAGES.items():
            for target in targets:
                path, _, attribute = target.rpartition(".")
                owner = pkgutil.resolve_name(path)
                patches.enter_context(patch.object(owner, attribute, watch.wrapped(name, getattr(owner, attribute))))
        with watch.stage("rest"):
            call()
    seconds = dict(watch.seconds)
    return {
        **{name: seconds.get(name, 0.0) for name in STAGES},
        "rest": seconds["rest"],
        "total": sum(seconds.values()),
    }


def seconds(call: Callable[[], Any], device: str) -> float:
    start = now(device)
    call()
    return now(device) - start


def generated(n_queries: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return features, grades and the size of each query."""
    rng = np.random.default_rng(0)
    X = rng.random((n_queries * N_DOCUMENTS, N_FEATURES), dtype=np.float32)
    hidden = X @ rng.standard_normal(N_FEATURES).astype(np.float32) + rng.standard_normal(len(X), dtype=np.float32)
    grades = np.digitize(hidden, np.quantile(hidden, [0.5, 0.8, 0.93, 0.98]))
    return X, grades, np.full(n_queries, N_DOCUMENTS)


def on(device: str, X: AnyArray) -> Any:
    """Return features as a tensor on a device, which on the CPU is not taken for an array."""
    tensor = torch.tensor(X, device=device)
    return DeviceFeatures(tensor) if device == "cpu" else tensor


def installed() -> None:
    for name in PACKAGES:
        try:
            print(f"{name} {getattr(importlib.import_module(name), '__version__', '')}", end="; ")
        except ImportError:
            print(f"{name} IS MISSING", end="; ")
    print(f"{os.cpu_count()} cores, {torch.get_num_threads()} threads of PyTorch")


def compare(device: str) -> None:
    """Print how far results on the device are from those of the CPU."""
    X, grades, group = generated(60)
    queries = Queries.from_arrays(X, grades, group=group)
    theta, direction = np.random.default_rng(1).standard_normal((2, N_FEATURES))
    print("\n| loss | risk | gradient | Hessian | loss for PyTorch models |\n| --- | --- | --- | --- | --- |")
    for loss in LOSSES:
        here, there = (empirical_risk(queries, loss, Linear(device=at)) for at in (None, device))
        cells = [distance(*pair) for pair in zip(here(theta), there(theta), strict=True)]
        cells.append(
            distance(*(risk.hessian_product(theta, direction) for risk in (here, there))) if loss.smooth else ""
        )
        cells.append(
            distance(*(torch_gradient(loss, X @ theta, grades, queries.offsets, at) for at in ("cpu", device)))
        )
        print(f"| {loss} | {' | '.join(cells)} |")
    print("\n| preset | objective from NumPy | from a tensor | weights | same fingerprint and predictions |")
    print("| --- | --- | --- | --- | --- |")
    for preset in PRESETS:
        here = Ranker(preset, C=C).fit(X, grades, group=group)
        there = Ranker(preset, C=C, scorer=Linear(device=device)).fit(X, grades, group=group)
        tensor = Ranker(preset, C=C).fit(on(device, X), grades, group=group)
        same = there.trained_on_ == here.trained_on_ == tensor.trained_on_
        same &= bool((tensor.predict(X) == tensor.predict(on(device, X))).all())
        objectives = [distance(here.objective_, ranker.objective_) for ranker in (there, tensor)]
        print(f"| {preset} | {' | '.join(objectives)} | {distance(here.coef_, there.coef_)} | {same} |")
    scores = [
        Ranker("softmax", scorer=Neural(8, epochs=20, device=at)).fit(queries).score(queries) for at in ("cpu", device)
    ]
    print(f"\nNeural, NDCG on its training data: CPU {scores[0]:.4f}, {device} {scores[1]:.4f}")


def distance(here: Any, there: Any) -> str:
    """Return ‖there − here‖ / ‖here‖."""
    return f"{np.linalg.norm(np.subtract(there, here)) / np.linalg.norm(here):.0e}"


def torch_gradient(loss: Loss, scores: FloatArray, grades: AnyArray, offsets: AnyArray, device: str) -> FloatArray:
    values = torch.tensor(scores, device=device, requires_grad=True)
    TorchRankingLoss(loss)(values, torch.tensor(grades, device=device), torch.tensor(offsets, device=device)).backward()
    gradient: FloatArray = values.grad.cpu().numpy()
    return gradient


def whole_calls(X: AnyArray, grades: AnyArray, group: AnyArray, device: str) -> None:
    tensor = on(device, X)
    copies = [seconds(lambda: torch.from_numpy(X).to(device), device) for _ in range(REPEATS)]
    print(f"\ntorch.from_numpy(X).to({device!r}): {min(copies):.3f} s")
    rows: list[tuple[str, dict[str, float]]] = []
    print("\n| call | cold, s | warm, s | solver, s | passes |\n| --- | --- | --- | --- | --- |")
    for preset in ("svmmap", "ranksvm", "softmax"):
        ways = {
            "NumPy, CPU": (Linear(), X),
            f"NumPy, {device}": (Linear(device=device), X),
            f"tensor, {device}": (Linear(), tensor),
        }
        for name, (scorer, features) in ways.items():
            if preset != "svmmap" and name == "NumPy, CPU":
                continue
            ranker = Ranker(preset, C=C, scorer=scorer)
            fit = partial(ranker.fit, features, grades, group=group)
            times = [seconds(fit, device) for _ in range(REPEATS)]
            last = ranker.solution_.trace[-1]
            warm = min(times[1:])
            print(
                f"| fit {preset}, {name} | {times[0]:.2f} | {warm:.2f} | {last.seconds:.3f} | {last.passes:.0f} |",
                flush=True,
            )
            rows.append((f"{preset}, {name}", stages(fit, device)))
            if preset == "svmmap":
                times = [seconds(partial(ranker.predict, features), device) for _ in range(REPEATS)]
                print(f"| predict, {name} | {times[0]:.2f} | {min(times[1:]):.2f} | | |", flush=True)
    names = list(rows[0][1])
    print(f"\n| seconds | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}")
    for name, times_of in rows:
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in times_of.values())} |")


def passes(queries: Queries, device: str) -> None:
    """Print the time of a pass, and that of the two products alone."""
    X = torch.from_numpy(queries.dense()).to(device).double()
    ones = [torch.ones(n, dtype=X.dtype, device=device) for n in reversed(X.shape)]
    products = min(seconds(partial(both_products, X, *ones), device) for _ in range(5))
    del X, ones
    print(f"\nX·w and X'·g by PyTorch in float64: {1e3 * products:.2f} ms")
    print("\n| loss | ms per pass | over the products |\n| --- | --- | --- |")
    rng = np.random.default_rng(1)
    for loss in LOSSES:
        risk, w = empirical_risk(queries, loss, Linear(device=device)), rng.standard_normal(N_FEATURES)
        steps = [w + 1e-3 * rng.standard_normal(len(w)) for _ in range(PASSES)]
        least = min(seconds(partial(risk, step), device) for step in steps)
        print(f"| {loss} | {1e3 * least:.2f} | {least / products:.1f} |", flush=True)


def both_products(X: Any, w: Any, gradient: Any) -> tuple[Any, Any]:
    return X.mv(w), X.T.mv(gradient)


def networks(queries: Queries, device: str) -> None:
    print("\n| Neural, batch of 256 | fit of 4 epochs, s | epoch, s |\n| --- | --- | --- |")
    for method in ("softmax", "svmmap"):
        ranker = Ranker(method, scorer=Neural(64, epochs=4, batch=256, device=device))
        whole = seconds(partial(ranker.fit, queries), device)
        # The first epoch allocates memory.
        epoch = float(np.diff([step.seconds for step in ranker.solution_.trace]).min())
        print(f"| {method} | {whole:.2f} | {epoch:.2f} |", flush=True)
    print("\n| loss for PyTorch models, 256 queries | ms |\n| --- | --- |")
    n = 256 * N_DOCUMENTS
    grades = torch.tensor(queries.grades[:n], device=device)
    offsets = torch.tensor(queries.offsets[:257], device=device)
    for loss in LOSSES:
        module, scores = TorchRankingLoss(loss), torch.randn(n, device=device, requires_grad=True)
        step = partial(lambda module, scores: module(scores, grades, offsets).backward(), module, scores)
        print(f"| {loss} | {1e3 * min(seconds(step, device) for _ in range(PASSES)):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=31_500)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    installed()
    compare(arguments.device)
    X, grades, group = generated(arguments.queries)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    print(f"\n{len(X):,} documents × {N_FEATURES}; {name}")
    whole_calls(X, grades, group, arguments.device)
    queries = Queries.from_arrays(X, grades, group=group)
    passes(queries, arguments.device)
    networks(queries, arguments.device)


if __name__ == "__main__":
    main()
