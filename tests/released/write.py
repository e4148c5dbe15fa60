"""Writes the files of this version that all later ones have to read: `python -m tests.released.write`.

Scores are computed here from the arrays in each file, with NumPy and the formulas of the documentation, and nothing of
marginrank. What a version has written stays as it is: a folder that exists is not written again.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors import safe_open

HERE = Path(__file__).parent


def content(path):
    """The header and the arrays of a file, read without marginrank."""
    with safe_open(path, "np") as file:
        ((_, text),) = file.metadata().items()
        return json.loads(text)["header"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def linear(a, X):
    return X @ a["theta"]


def curves(a, X):
    """Steps: the sum of the increments of all thresholds below x. Lines: those of the page on the additive scorer."""
    ends = np.cumsum(a["threshold_counts"])
    scores, at = np.zeros(len(X)), 0
    slopes = list(a["theta"][len(a["theta"]) - np.count_nonzero(a["threshold_counts"]) :]) if "starts" in a else []
    for feature, end in enumerate(ends):
        cuts = a["thresholds"][end - a["threshold_counts"][feature] : end]
        x, increments = X[:, feature], a["theta"][at : at + len(cuts)]
        at += len(cuts) + int(a["missing"][feature])
        if "starts" not in a:
            scores += ((x[:, None] > cuts) * increments).sum(axis=1)
            continue
        knots = np.r_[a["starts"][feature], cuts]
        scores += slopes.pop(0) * (np.clip(x, knots[0], knots[-1]) - knots[0]) / knots.std()
        for (low, high), increment in zip(pairwise(knots), increments, strict=True):
            scores += increment / 10 * np.clip((x - low) / (high - low), 0, 1)
    return scores


def adaptive(a, X):
    """Σ (w + v·(t − center)) x, where t is the context scaled to [0, 1]."""
    (context,), (factor, mirrored) = a["adaptive.context"], a["adaptive.options"]
    assert not mirrored
    (low,), (width,), (center,) = a["adaptive.scale"]
    x = np.delete(X, context, axis=1)
    t = np.clip((X[:, context] - low) / width, 0, 1)
    w, v = np.split(a["theta"], 2)
    return x @ w + (x * (factor * (t - center))[:, None]) @ v


def kernel(a, X):
    """Σ β k(x, z) with Lᵀβ = θ and k(x, z) = exp(−γ‖x − z‖²)."""
    Z = a["kernel.documents"]
    lower = np.zeros((len(Z), len(Z)))
    lower[np.tril_indices(len(Z))] = a["kernel.factor"]
    beta = np.linalg.solve(lower.T, a["theta"])
    distances = ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2)
    return np.exp(-a["kernel.rbf"][0] * distances) @ beta


def trees(a, X):
    """The sum of the leaves that a row reaches: left if the feature is at most the threshold."""
    scores = np.zeros(len(X))
    for number, x in enumerate(X):
        for root in a["trees.roots"]:
            node = root
            while (feature := a["trees.feature"][node]) >= 0:
                side = "left" if x[feature] <= a["trees.threshold"][node] else "right"
                node = a[f"trees.{side}"][node]
            scores[number] += a["theta"][a["trees.left"][node]]
    return scores


def network(a, X):
    """Layers of weights and biases, with max(0, x) between them."""
    assert a["neural.activation"].tobytes() == b"relu"
    widths, values, rest = a["neural.widths"].tolist(), X, a["theta"]
    for n_in, n_out in pairwise(widths):
        weights, biases, rest = np.split(rest, [n_in * n_out, (n_in + 1) * n_out])
        values = (np.maximum(values, 0) if values is not X else X) @ weights.reshape(n_out, n_in).T + biases
    return values[:, 0]


FORMULAS = {
    "linear": linear,
    "additive": curves,
    "adaptive": adaptive,
    "kernel": kernel,
    "trees": trees,
    "neural": network,
}


def ranker_scores(path, X):
    header, arrays = content(path)
    if header["scaling"] == "standard":
        X = (X - arrays["scaler.mean_"]) / arrays["scaler.scale_"]
    else:
        assert header["scaling"] is None
    return FORMULAS[header["form"]](arrays, X)


def fusion_scores(path, X, size):
    """Weights of scores scaled to [0, 1] in each query."""
    header, arrays = content(path)
    assert (header["fusion"]["features"], header["model"]["form"]) == ("minmax", "linear")
    assert header["model"]["scaling"] is None
    blocks = X.reshape(-1, size, X.shape[1])
    low, high = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    return ((blocks - low) / (high - low)).reshape(X.shape) @ arrays["theta"]


def recommender_scores(path, pairs):
    """Products of factors: biases and what all users share are columns of the factors."""
    _, a = content(path)
    n_shared, n_columns = len(a["factors.shared"]), a["factors.user_columns"].shape[1]
    own = a["factors.users"].copy()
    own[:, :n_shared] += a["factors.shared"]
    users = np.hstack([a["factors.user_columns"], own])
    items = np.hstack([a["factors.items"][:, :n_columns], a["factors.item_columns"], a["factors.items"][:, n_columns:]])
    return np.array([users[user] @ items[item] for user, item in pairs])


def judged(seed):
    """Features with two digits, and grades that depend on them by a curve."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((120, 4)) * [1.0, 1.0, 1.0, 50.0], 2)
    noisy = X[:, 0] + 0.5 * X[:, 1] ** 2 + X[:, 3] / 100 + 0.3 * rng.standard_normal(120)
    return X, np.digitize(noisy, [0.5, 1.5]), np.arange(120) // 8


def write_rankers(folder, expected):
    from marginrank import Adaptive, Additive, Boosted, Kernel, Neural, Queries, Ranker

    X, y, qid = judged(0)
    queries = Queries.from_arrays(X, y, qid=qid, feature_names=["bm25", "vectors", "clicks", "age"])
    rankers = {
        "linear": Ranker("svmmap"),
        "listnet": Ranker("listnet", scaling="standard"),
        "lines": Ranker("softmax", scorer=Additive(bins=4)),
        "steps": Ranker("softmax", scorer=Additive(bins=4, shape="steps")),
        "adaptive": Ranker("softmax", scorer=Adaptive(context=["age"])),
        "kernel": Ranker("softmax", scorer=Kernel(rank=12)),
        "boosted": Ranker("softmax", scorer=Boosted(trees=3, leaves=4)),
        "neural": Ranker("softmax", scorer=Neural(hidden=(3,), epochs=3)),
    }
    new = judged(1)[0][:24]
    expected["X"] = new.tolist()
    for name, ranker in rankers.items():
        ranker.fit(queries).save(folder / f"{name}.safetensors")
        expected["rankers"][name] = ranker_scores(folder / f"{name}.safetensors", new).tolist()


def write_fusion(folder, expected):
    from marginrank import Fusion, Queries

    X, y, qid = judged(0)
    runs = np.abs(X[:, :2]) + np.arange(120)[:, None] / 1000  # no ties
    queries = Queries.from_arrays(runs, y, qid=qid, feature_names=["bm25", "vectors"])
    Fusion("minmax", preset="svmmap", Cs=[1.0]).fit(queries).save(folder / "fusion.safetensors")
    new = runs[::-1][:24]
    expected["fusion"] = {
        "X": new.tolist(),
        "group": [8, 8, 8],
        "scores": fusion_scores(folder / "fusion.safetensors", new, 8).tolist(),
    }


def write_recommender(folder, expected):
    from marginrank import Recommender

    rng = np.random.default_rng(2)
    pairs = [(user, item) for user in range(12) for item in rng.permutation(9)[:6].tolist()]
    ratings = [1 + (user * item) % 5 for user, item in pairs]
    users, items = [f"u{user:02}" for user, _ in pairs], [f"i{item}" for _, item in pairs]
    recommender = Recommender(factors=2).fit((users, items, ratings))
    recommender.save(folder / "recommender.safetensors")
    tried = pairs[:20]
    expected["recommender"] = {
        "users": users[:20],
        "items": items[:20],
        "scores": recommender_scores(folder / "recommender.safetensors", tried).tolist(),
    }


def write_data(folder, expected):
    """Queries with all that the binary form holds, dense and sparse."""
    import scipy.sparse as sp

    from marginrank import Queries
    from marginrank.data import write_binary

    rows = {
        "X": [[1.5, 0.0], [0.0, -2.25], [0.125, 3.0], [0.0, 0.0], [7.0, 1.0]],
        "grades": [2.0, 0.0, 1.0, 0.0, 3.0],
        "qid": ["first", "first", "second", "second", "second"],
        "document_ids": ["a", "b", "c", "ä", "猫"],
        "query_weights": [1.0, 2.5],
        "document_groups": [1, 2, 1, 1, 3],
        "feature_names": ["bm25", "age"],
    }
    expected["queries"] = rows
    labels = {name: rows[name] for name in ("document_ids", "query_weights", "document_groups", "feature_names")}
    for name, X in {"dense": np.array(rows["X"]), "sparse": sp.csr_array(np.array(rows["X"]))}.items():
        write_binary(folder / f"{name}.queries", Queries.from_arrays(X, rows["grades"], qid=rows["qid"], **labels))


def write_judgements(folder, expected):
    from marginrank.judging import JudgementStore

    grades = [["q1", "a", 2.0], ["q1", "b", 0.0], ["q2", "c", 1.0]]
    with JudgementStore(folder / "documents.judged.db") as store:
        numbers = store.add_documents([(query, document) for query, document, _ in grades])
        for number, (*_, grade) in zip(numbers, grades, strict=True):
            store.decide(f"request {number}", number, "ann", grade)
    expected["judgements"] = grades


def main():
    from marginrank.version import __version__

    folder = HERE / __version__
    if folder.exists():
        sys.exit(f"{folder} exists; files of a version stay as they are")
    folder.mkdir()
    expected = {"rankers": {}}
    for write in (write_rankers, write_fusion, write_recommender, write_data, write_judgements):
        write(folder, expected)
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
