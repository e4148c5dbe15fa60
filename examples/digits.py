"""
Learn image search
==================

Rank images of digits by their similarity to a query image. Features are the squared differences of the pixels, so equal
weights mean Euclidean distance. Two rankers learn the weights, one for average precision and one for NDCG@10.
"""

import numpy as np
from matplotlib import pyplot as plt

from marginrank import Ranker, compare, evaluate
from marginrank.datasets import digits

train, test = digits(n_queries=300, n_documents=60).split(0.7, 0.3)
rankers = {name: Ranker(name, C=10.0).fit(train) for name in ("svmmap", "svmndcg@10")}

# %%
# Both are better than Euclidean distance on test queries.
results = {"euclidean": evaluate(test, -test.X.sum(axis=1), ["ap", "ndcg@10"])}
results |= {name: evaluate(test, ranker.predict(test), ["ap", "ndcg@10"]) for name, ranker in rankers.items()}
for name, result in results.items():
    print(f"{name:<12}", {measure: round(value, 4) for measure, value in result.mean.items()})
print(compare(results, measure="ap", baseline="euclidean"))

# %%
# The gap is a certificate: no weights have a lower objective by more than this.
for name, ranker in rankers.items():
    print(f"{name:<12}at most {100 * ranker.gap_ / ranker.objective_:.3f} % above the optimum")

# %%
# The weight of each pixel: the redder, the more it matters that the pixel agrees.
figure, grid = plt.subplots(1, len(rankers), figsize=(6.4, 3.4), layout="constrained")
for axes, (name, ranker) in zip(grid, rankers.items(), strict=True):
    reach = np.abs(ranker.coef_).max()
    axes.imshow(ranker.coef_.reshape(8, 8), cmap="RdBu", vmin=-reach, vmax=reach)
    axes.set(title=name, xticks=[], yticks=[])
figure.savefig("digits.png")
