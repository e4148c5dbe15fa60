"""
From a click log to a ranking
=============================

A shop has no judgements, only a log of what was shown and clicked. Two rankers shared the traffic, so that the log
tells how often each position is looked at. Clicks that count 1/p train a ranker; clicks as they are teach it to repeat
what was shown. The grades that the simulated users click by say which of them is right.
"""

import numpy as np

from marginrank import Queries, Ranker, compare, load, tune
from marginrank.clicks import (
    ClickLog,
    PositionUser,
    Propensities,
    compare_clicks,
    compare_interleaved,
    estimate_propensities,
    interleave,
    read_clicks,
    simulate_clicks,
    write_clicks,
)

# %%
# Simulate the shop: 200 queries of 30 products, of which the first 10 are shown. The score of the ranker in production
# is a feature, too.
rng = np.random.default_rng(0)
n = 200 * 30
quality = rng.normal(size=(n, 3))
grades = np.digitize(quality @ [1.0, 0.8, 0.6] + rng.normal(0, 0.5, n), [1.0, 2.0])
production = quality @ [1.0, 0.0, -0.5] + rng.normal(0, 0.5, n)
shop = Queries.from_arrays(
    np.column_stack([quality, production]),
    grades,
    qid=np.arange(n) // 30,
    document_ids=[f"p{row}" for row in range(n)],
    feature_names=["match", "stars", "fresh", "production"],
)
systems = {"production": shop.feature("production"), "by match": shop.feature("match")}
write_clicks("log.csv", simulate_clicks(shop, systems, 30_000, user=PositionUser(eta=1.0), depth=10))

# %%
# Read the log, adding up equal rows, and join the features by query and document. The last 50 queries are held out.
log = read_clicks("log.csv", aggregate=True).with_features(shop)
is_held_out = log.documents.query_ids[log.query] >= 150
train, later = log.rows(~is_held_out), log.rows(is_held_out)
print(train)

# %%
# How often is each position examined? Products that both rankers show at different positions tell.
curve = estimate_propensities(train, clip=0.05)
print(curve)

# %%
# Train with corrected clicks, and with clicks as they are. C is chosen by clicks on held-out queries.
uncorrected = Propensities.power(0.0, depth=log.depth)
rankers = {
    name: tune(Ranker("ranksvm"), train.with_propensities(used), folds=3, Cs=[0.01, 0.1, 1.0]).ranker
    for name, used in {"corrected": curve, "uncorrected": uncorrected}.items()
}

# %%
# What do later clicks say of them, and what would judges say?
candidates = {**rankers, "production": later.documents.feature("production")}
print(compare_clicks(later, candidates, propensities=curve, baseline="production"))
judged = shop[150:]
print(compare({**rankers, "production": judged.feature("production")}, judged, baseline="production"))

# %%
# Deploy it to some users first, whose lists mix the new ranking with the old one, and count who wins.
rankers["corrected"].save("model.safetensors")
new = [order.tolist() for order in load("model.safetensors").rank(judged)]
scores = judged.feature("production").reshape(len(judged), 30)
old = [(30 * query + np.argsort(-scores[query])).tolist() for query in range(len(judged))]
rows = []
for session in range(2000):
    query = int(rng.integers(len(judged)))
    mixed = interleave(old[query], new[query], 5, random_state=rng)
    for place, (row, team) in enumerate(zip(mixed.documents, mixed.teams, strict=True), 1):
        clicked = rng.random() < (0.1 + 0.45 * judged.grades[row]) / place
        rows.append((query, row, place, clicked, session, {"a": "old", "b": "new"}[team]))
query, row, place, clicked, session, team = zip(*rows, strict=True)
print(compare_interleaved(ClickLog.from_arrays(query, row, place, clicked, impression=session, system=team)))
