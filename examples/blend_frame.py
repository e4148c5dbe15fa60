"""
Blend BM25, vector similarity and clicks
========================================

A frame has one row per judged document, with three scores. One weight per score is learned for NDCG@10.
"""

import numpy as np
import pandas as pd

from marginrank import Ranker, evaluate, from_frame

# %%
# Generate 200 queries with 15 judged documents each.
rng = np.random.default_rng(0)
n = 200 * 15
grade = rng.choice(3, n, p=[0.7, 0.2, 0.1])
frame = pd.DataFrame(
    {
        "query": np.arange(n) // 15,
        "document": [f"d{row}" for row in range(n)],
        "grade": grade,
        "bm25": 8 + 3 * grade + 5 * rng.standard_normal(n),
        "cosine": 0.6 + 0.05 * grade + 0.1 * rng.standard_normal(n),
        "clicks": np.maximum(0, np.round(3 * grade + 5 * rng.standard_normal(n))),
    }
)

# %%
# Split by query, train, and compare with each score on its own.
queries = from_frame(frame, qid="query", grade="grade", document_id="document")
train, test = queries.split(0.5, 0.5)
ranker = Ranker("ndcg@10").fit(train)

for column, name in enumerate(test.feature_names):
    print(f"{name:8} {evaluate(test, test.X[:, column]).mean['ndcg@10']:.3f}")
print(f"{'blend':8} {evaluate(test, ranker.predict(test)).mean['ndcg@10']:.3f}")
