"""
Learn to rank from a pandas frame
=================================

A frame has one row per judged document: the query, the grade and three scores to combine. Train for NDCG@10, choose C
by cross-validation, and test whether the ranker beats the best score on its own.
"""

import numpy as np
import pandas as pd

from marginrank import Ranker, compare, evaluate, from_frame, tune

# %%
# Here is a frame with 200 queries of 15 judged documents each. Yours comes from a log or a spreadsheet.
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
# Split by query, then train. Features that are not named otherwise are the remaining columns.
queries = from_frame(frame, qid="query", grade="grade", document_id="document")
train, test = queries.split(0.5, 0.5)
ranker = tune(Ranker("ndcg@10"), train).ranker

# %%
# Evaluate each score and the ranker on queries that were not trained on.
systems = {name: test.feature(name) for name in test.feature_names}
systems["learned"] = ranker
for name, system in systems.items():
    print(f"{name:8} {evaluate(test, system).mean['ndcg@10']:.3f}")
print(compare(systems, test, measure="ndcg@10", baseline="clicks"))
