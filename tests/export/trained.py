"""Models of every form and scaling on made-up data, and documents to score with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from marginrank import Adaptive, Additive, Boosted, Kernel, Linear, Ranker
from marginrank.methods.baselines.gaussian_process import GaussianProcess
from marginrank.methods.baselines.mcrank import McRank
from marginrank.model.model import Model
from marginrank.scorers.neural.form import NeuralForm
from marginrank.scorers.terms import ACTIVATIONS
from marginrank.solvers.auto import Auto

NAMES = ("bm25", "clicks", "price in €", "age", "constant")
#: Documents to score: a fifth of the values of each feature are on thresholds, so this is many for each.
N_DOCUMENTS = 800
_QUICK = Auto(tol=1e-2)

#: How to train each model: an estimator, and whether its features may be missing.
TRAINERS: dict[str, tuple[Callable[[], object], bool]] = {
    "linear": (lambda: Ranker("svmmap", scaling=None, solver=_QUICK), False),
    "linear-standard": (lambda: Ranker("svmmap", scaling="standard", solver=_QUICK), False),
    "linear-minmax": (lambda: Ranker("svmmap", scaling="query-minmax", solver=_QUICK), False),
    "linear-zscore": (lambda: Ranker("svmmap", scaling="query-standard", solver=_QUICK), False),
    "linear-percentile": (lambda: Ranker("svmmap", scaling="query-percentile", solver=_QUICK), False),
    "linear-zero": (lambda: Ranker("svmmap", scorer=Linear(missing="zero"), scaling="standard", solver=_QUICK), True),
    "linear-mean": (
        lambda: Ranker("svmmap", scorer=Linear(missing="mean"), scaling="query-minmax", solver=_QUICK),
        True,
    ),
    "linear-flags": (lambda: Ranker("svmmap", scorer=Linear(missing="indicator"), solver=_QUICK), True),
    "adaptive": (lambda: Ranker("svmmap", scorer=Adaptive(context=[1, 3]), solver=_QUICK), False),
    "adaptive-standard": (
        lambda: Ranker("svmmap", scorer=Adaptive(context=[1, 4], nonnegative=True), scaling="standard", solver=_QUICK),
        False,
    ),
    "steps": (lambda: Ranker("svmmap", scorer=Additive(bins=20, shape="steps"), solver=_QUICK), True),
    "steps-standard": (
        lambda: Ranker("svmmap", scorer=Additive(bins=9, shape="steps"), scaling="standard", solver=_QUICK),
        True,
    ),
    "lines": (lambda: Ranker("svmmap", scorer=Additive(bins=20), solver=_QUICK), True),
    "lines-percentile": (
        lambda: Ranker("svmmap", scorer=Additive(bins=9), scaling="query-percentile", solver=_QUICK),
        True,
    ),
    "trees": (lambda: Ranker("ndcg@10", scorer=Boosted(trees=12, leaves=9)), True),
    "trees-on-linear": (lambda: Ranker("svmmap", scorer=Boosted(trees=5, start="linear")), False),
    "trees-on-steps": (
        lambda: Ranker("svmmap", scorer=Boosted(trees=5, start=Additive(bins=9, shape="steps"))),
        True,
    ),
    "expected-grades": (lambda: Ranker(McRank(rounds=4)), False),
    "kernel": (lambda: Ranker("svmmap", scorer=Kernel(rank=20), solver=_QUICK), False),
    "kernel-poly": (lambda: Ranker("svmmap", scorer=Kernel("poly", rank=15), solver=_QUICK), False),
    "gaussian-process": (lambda: Ranker(GaussianProcess()), False),
}


def documents(n: int, seed: int, *, missing: bool) -> np.ndarray:
    """Draw documents that are numbers of float32, many of them equal in some feature, and some values missing."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            np.round(rng.gamma(3.0, 4.0, n), 1),
            rng.poisson(2.0, n),
            rng.lognormal(3.0, 2.0, n),
            1e6 + rng.integers(0, 1000, n),
            np.full(n, 7.0),
        ]
    )
    X = X.astype(np.float32).astype(np.float64)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


@cache
def trained(name: str) -> Model:
    """Train a model once."""
    make, missing = TRAINERS[name]
    n = 200 if name == "gaussian-process" else 600  # it keeps all documents, and is slow by them
    X = documents(n, 1, missing=missing)
    known = np.nan_to_num(X, nan=3.0)
    noise = np.random.default_rng(2).standard_normal(n)
    y = np.digitize(known[:, 0] / 8 + known[:, 1] / 2 - np.log(known[:, 2]) / 3 + noise, [0.5, 2.0])
    estimator = make()
    estimator.fit(X, y, qid=np.arange(n) // 20)  # type: ignore[attr-defined]
    model = replace(estimator.model_, feature_names=NAMES)  # type: ignore[attr-defined]
    return CHANGES[name](model) if name in CHANGES else model


def _network(activation: str) -> Callable[[Model], Model]:
    """Put a network with random weights in the place of a form, so that PyTorch is not needed."""

    def change(model: Model) -> Model:
        form = NeuralForm((len(NAMES), 7, 4, 1), activation)
        theta = np.random.default_rng(5).standard_normal(form.n_parameters)
        return replace(model, form=form, solution=replace(model.solution, theta=theta))

    return change


def _single(model: Model) -> Model:
    """Round features to float32 before they are compared, as trees of XGBoost do."""
    return replace(model, form=replace(model.form, single=True))  # type: ignore[type-var]


#: What is done to models after training.
CHANGES = {f"network-{activation}": _network(activation) for activation in ACTIVATIONS} | {"trees-single": _single}
for _name in CHANGES:
    TRAINERS[_name] = TRAINERS["trees" if _name == "trees-single" else "linear-standard"]


def takes_missing(name: str) -> bool:
    return TRAINERS[name][1]


def hard_documents(name: str, n: int = N_DOCUMENTS) -> np.ndarray:
    """Draw new documents, and put many values exactly on thresholds of the model."""
    X = documents(n, 3, missing=takes_missing(name))
    rng = np.random.default_rng(4)
    model = trained(name)
    if model.scaling is None:
        for term in model.form.terms(model.theta):
            for feature in range(X.shape[1]):
                cuts = _thresholds(term, feature)
                if len(cuts):
                    chosen = rng.random(n) < 0.2
                    X[chosen, feature] = rng.choice(cuts, int(chosen.sum()))
    return X


def _thresholds(term: object, feature: int) -> np.ndarray:
    if hasattr(term, "curves"):
        cuts = term.curves[feature].thresholds
    elif hasattr(term, "threshold"):
        cuts = term.threshold[term.feature == feature]
    else:
        return np.zeros(0)
    cuts = np.where(np.abs(cuts) < 1e-30, 0.0, cuts)
    return np.asarray(cuts).astype(np.float32).astype(np.float64)
