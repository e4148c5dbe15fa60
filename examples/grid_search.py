"""
Pipelines and grid search
=========================

`Ranker` is a scikit-learn estimator. With metadata routing, ``qid`` is passed to the ranker and its score.
"""

import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginrank import Ranker

sklearn.set_config(enable_metadata_routing=True)

rng = np.random.default_rng(0)
n = 100 * 10
qid = np.arange(n) // 10
y = rng.integers(0, 2, n)
X = y[:, None] + rng.normal(0, [1.0, 20.0, 3.0], (n, 3))

# %%
# Folds consist of whole queries, so the query ids are the groups of the splitter.
search = GridSearchCV(
    make_pipeline(StandardScaler(), Ranker("svmmap")),
    {"ranker__C": [0.1, 1.0, 10.0]},
    cv=GroupKFold(3),
)
search.fit(X, y, qid=qid, groups=qid)
print(search.best_params_, round(search.best_score_, 3))
