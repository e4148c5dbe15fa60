"""
Curves with a monotone constraint
=================================

One curve per feature instead of one weight. Here relevance increases with clicks and is highest for a medium length.
"""

import numpy as np

from marginrank import Queries, Ranker
from marginrank.model.plots import plot_shapes
from marginrank.scorers import Additive

rng = np.random.default_rng(0)
n = 200 * 20
clicks, length = rng.exponential(1.0, n), rng.uniform(0, 10, n)
utility = np.log1p(clicks) - 0.1 * (length - 5) ** 2
y = (utility + 0.3 * rng.standard_normal(n) > 0).astype(int)
queries = Queries.from_arrays(
    np.column_stack([clicks, length]),
    y,
    qid=np.arange(n) // 20,
    feature_names=["clicks", "length"],
)
train, test = queries.split(0.5, 0.5)

# %%
# A weight cannot express that a medium length is best; a curve can.
linear = Ranker("svmmap", C=10.0).fit(train)
scorer = Additive(monotone={"clicks": "increasing"})
curves = Ranker("svmmap", scorer=scorer, C=10.0).fit(train)
print(f"linear   {linear.score(test):.3f}")
print(f"additive {curves.score(test):.3f}")

# %%
# The curve of clicks is increasing.
plot_shapes(curves.shapes(), "curves.png")
