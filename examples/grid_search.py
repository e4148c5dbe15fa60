"""
Grid search over a pipeline
===========================

A ranker in a scikit-learn pipeline: metadata routing passes the query of each row to the steps that need it, and
`GridSearchCV` chooses C and the scorer on folds of whole queries.
"""

import numpy as np
import sklearn
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

from marginrank import Ranker

sklearn.set_config(enable_metadata_routing=True)

# %%
# 100 queries of 10 documents. Some values are missing, and the middle of the second feature is best.
rng = np.random.default_rng(0)
n = 100 * 10
qid = np.arange(n) // 10
X = rng.standard_normal((n, 3))
y = (X[:, 0] - X[:, 1] ** 2 + 0.5 * rng.standard_normal(n) > 0).astype(int)
X[rng.random(X.shape) < 0.05] = np.nan

# %%
# The query ids are the groups of the splitter, so that no query is on both sides of a split.
search = GridSearchCV(
    make_pipeline(SimpleImputer(), Ranker("svmmap")),
    {
        "ranker__C": [0.1, 1.0, 10.0],
        "ranker__scorer": ["linear", "additive(bins=16)"],
    },
    cv=GroupKFold(3),
)
search.fit(X, y, qid=qid, groups=qid)

# %%
# The additive scorer has a curve for each feature, and wins.
table = search.cv_results_
for setting, score in zip(table["params"], table["mean_test_score"], strict=True):
    print(f"{setting['ranker__scorer']:18} C {setting['ranker__C']:<5} {score:.3f}")
print("best:", search.best_params_)
