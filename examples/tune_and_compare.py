"""
Choose C and test the difference
================================

Choose C by cross-validation, then test whether the ranker is significantly better than the best single feature.
"""

import numpy as np

from marginrank import Queries, Ranker, compare, evaluate, tune

rng = np.random.default_rng(0)
n = 150 * 12
grades = rng.integers(0, 3, n)
X = grades[:, None] + rng.normal(0, [2.0, 1.5, 1.2], (n, 3))
queries = Queries.from_arrays(X, grades, qid=np.arange(n) // 12, feature_names=["title", "body", "clicks"])
train, test = queries.split(0.5, 0.5)

# %%
# The folds are made of whole queries.
selection = tune(Ranker("ndcg@10"), train, folds=5)
print(selection)

# %%
# Paired tests over the queries of the test set.
results = {
    "clicks": evaluate(test, test.X[:, 2]),
    "learned": evaluate(test, selection.ranker.predict(test)),
}
print(compare(results, measure="ndcg@10", baseline="clicks"))
