"""
Explain a ranking
=================

Why is the first document above the second? Each feature contributes a part of the difference of their scores. The same
works for weights, curves and trees.
"""

import numpy as np

from marginrank import Queries, Ranker
from marginrank.model.plots import plot_waterfall

# %%
# A shop: text match, price and rating of 15 products per query. Moderate prices sell best.
rng = np.random.default_rng(0)
n = 200 * 15
X = rng.uniform([0, 5, 1], [1, 95, 5], (n, 3))
match, price, rating = X.T
appeal = 2 * match - ((price - 40) / 30) ** 2 + 0.3 * rating
bought = appeal + 0.3 * rng.standard_normal(n) > 2
names = ["match", "price", "rating"]
shop = Queries.from_arrays(X, bought, qid=np.arange(n) // 15, feature_names=names)
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
for number, name in enumerate(names):
    values = f"{query.X[first, number]:6.2f} against {query.X[second, number]:6.2f}"
    print(f"{name:7} {values}  {parts[number]:+.2f}")
print(f"score   {scores[first]:6.2f} against {scores[second]:6.2f}  {parts.sum():+.2f}")

# %%
# The same as a picture.
base = float(scores[second])
plot_waterfall(names, parts, "waterfall.png", base=base, start="second document")
