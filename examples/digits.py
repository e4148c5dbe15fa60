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
# Both are a little better than Euclidean distance. With 90 test queries the difference is not significant.
systems = {"euclidean": -test.X.sum(axis=1), **rankers}
for name, system in systems.items():
    mean = evaluate(test, system, ["ap", "ndcg@10"]).mean
    print(f"{name:<12} ap {mean['ap']:.4f}  ndcg@10 {mean['ndcg@10']:.4f}")
print(compare(systems, test, measure="ap", baseline="euclidean"))

# %%
# The gap is a certificate: no weights have a lower objective by more than this.
for name, ranker in rankers.items():
    percent = 100 * ranker.gap_ / ranker.objective_
    print(f"{name:<12} at most {percent:.3f}% above the optimum")

# %%
# The weight of each pixel: the redder, the more it matters that the pixel agrees.
figure, grid = plt.subplots(1, 2, figsize=(6.4, 3.4), layout="constrained")
for axes, (name, ranker) in zip(grid, rankers.items(), strict=True):
    reach = np.abs(ranker.coef_).max()
    axes.imshow(ranker.coef_.reshape(8, 8), cmap="RdBu", vmin=-reach, vmax=reach)
    axes.set(title=name, xticks=[], yticks=[])
figure.savefig("digits.png")
