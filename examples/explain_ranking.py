"""
Explain a ranking
=================

Why is the first document above the second? Each feature contributes a part of the difference of their scores. The same
works for weights, curves and trees.
"""

import numpy as np

from marginrank import Queries, Ranker
from marginrank.plots import plot_waterfall

# %%
# A shop: text match, price and rating of 15 products per query. Moderate prices sell best.
rng = np.random.default_rng(0)
n = 200 * 15
match, price, rating = rng.uniform(0, 1, n), rng.uniform(5, 95, n), rng.uniform(1, 5, n)
bought = 2 * match - ((price - 40) / 30) ** 2 + 0.3 * rating + 0.3 * rng.standard_normal(n) > 2
shop = Queries.from_arrays(
    np.column_stack([match, price, rating]), bought, qid=np.arange(n) // 15, feature_names=["match", "price", "rating"]
)
train, test = shop.split(0.5, 0.5)
ranker = Ranker("svmmap", scorer="additive", C=100.0).fit(train)
print(f"average precision {ranker.score(test):.3f}")

# %%
# Contributions are relative to the second document, and sum to the difference of the scores. Here a better price makes
# up for a worse match.
query = test[2]
first, second = ranker.rank(query, k=2)[0]
scores = ranker.predict(query)
parts = ranker.explain(query, reference=int(second))[first]
print(f"scores {scores[first]:.2f} and {scores[second]:.2f}, difference {parts.sum():+.2f}")
for name, mine, other, part in zip(query.feature_names, query.X[first], query.X[second], parts, strict=True):
    print(f"{name:7} {mine:6.2f} against {other:6.2f}  {part:+.2f}")

# %%
# The same as a picture.
labels = [f"{name} = {value:.3g}" for name, value in zip(query.feature_names, query.X[first], strict=True)]
plot_waterfall(labels, parts, "waterfall.png", base=float(scores[second]), start="second document")
