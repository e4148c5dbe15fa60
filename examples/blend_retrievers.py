"""
Blend two retrievers
====================

Two retrievers search the documentation of NumPy, SciPy and scikit-learn. Fifty judged queries are enough to learn how
much to trust each. The blend is compared with both and with reciprocal rank fusion (RRF) on hundreds of other queries.
"""

import numpy as np

from marginrank import Fusion, compare, evaluate
from marginrank.datasets import pydocs
from marginrank.fusion import UnsupervisedFusion

# %%
# Keep two of the five retrievers of the collection: BM25 on the docstring, and the cosine of character n-grams.
docs = pydocs()
names = ["bm25_body", "ngrams"]


def two_retrievers(queries):
    """Return the queries with the scores of the two retrievers as features."""
    columns = [queries.feature(name) for name in names]
    return queries.with_features(np.column_stack(columns), names)


judged, later = two_retrievers(docs.train)[:50], two_retrievers(docs.test)

# %%
# Scale the scores of each query to [0, 1], as search engines can do as well, and learn two weights.
fusion = Fusion("minmax").fit(judged)
total = sum(fusion.weights().values())
for name, weight in fusion.weights().items():
    print(f"{name:18} {weight / total:.2f}")

# %%
# Compare with both retrievers and with RRF, which gives them equal weight.
systems = {name: later.feature(name) for name in names}
systems |= {"rrf": UnsupervisedFusion("rrf"), "learned": fusion}
for name, system in systems.items():
    print(f"{name:10} NDCG@10 {evaluate(later, system).mean['ndcg@10']:.3f}")
print(compare(systems, later, measure="ndcg@10", baseline="rrf"))
