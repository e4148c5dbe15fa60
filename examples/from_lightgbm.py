"""
Compare with LightGBM
=====================

Read LightGBM's own text format, train LightGBM and a linear ranker on the same queries, and test which is better.
Without LightGBM, the linear ranker is compared with the best single feature.
"""

from pathlib import Path

import numpy as np

from marginrank import Ranker, compare, evaluate, read, tune

# %%
# LightGBM's format is one line per document, and beside it a file with the number of lines of each query.
rng = np.random.default_rng(0)
n_queries, n_documents = 120, 20
X = rng.standard_normal((n_queries * n_documents, 6))
relevance = X @ [1.0, 0.8, 0.5, 0.0, 0.0, 0.0] + rng.standard_normal(len(X))
lines = np.column_stack([np.digitize(relevance, [1.0, 2.0]), X])
np.savetxt("rank.train", lines, "%d " + " ".join(f"{k}:%.4f" for k in range(1, 7)))
Path("rank.train.query").write_text(f"{n_documents}\n" * n_queries)

queries = read("rank.train")
print(queries)
train, test = queries.split(0.5, 0.5)

# %%
# `LGBMRanker` takes the arrays of the queries. Its scores are a system like any other.
linear = tune(Ranker("ndcg@10"), train).ranker
systems = {"feature 1": test.X[:, 0], "linear": linear}
try:
    from lightgbm import LGBMRanker

    trees = LGBMRanker(n_estimators=60, num_leaves=4, n_jobs=1, verbosity=-1)
    trees.fit(train.X, train.grades, group=train.lengths)
    systems["lightgbm"] = trees.predict(test.X)
except ImportError:
    print("LightGBM is not installed: pip install lightgbm")

# %%
# Sixty queries are few for trees, and here grades depend on a weighted sum. On your data the order may be another.
for name, system in systems.items():
    print(f"{name:10} {evaluate(test, system).mean['ndcg@10']:.3f}")
print(compare(systems, test, measure="ndcg@10", baseline="linear"))
