"""``ideal="rows"`` is the order of the caller's rows, however a ranker is trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marginrank import Boosted, Neural, Queries, Ranker
from marginrank.losses import MaxLoss, StructuredLoss, SumLoss
from marginrank.ranker.learned_profile import learn_profile

LOSS = StructuredLoss("ndcg@5", "dorm", ideal="rows")
#: Rows that a sort by content puts in another order than the caller's.
N_QUERIES, N = 8, 9


def mixed_rows():
    """Rows of all queries mixed, query ids in no order."""
    rng = np.random.default_rng(3)
    qid = rng.permutation(np.repeat(rng.permutation(N_QUERIES), N))
    X = rng.standard_normal((len(qid), 3))
    return Queries.from_arrays(X, rng.integers(0, 3, len(qid)), qid=qid, query_weights=rng.random(N_QUERIES) + 0.5)


def risk_of(queries, scores):
    """The mean loss, from the rows of each query as the caller has them."""
    total = weight = 0.0
    for at, query in enumerate(queries.query_ids):
        rows = np.flatnonzero(queries.query_ids[queries.query_of_row] == query)
        (xi,), _ = LOSS(queries.grades[rows], scores[rows])
        share = queries.query_weights[at] * (len(set(queries.grades[rows].tolist())) > 1)
        total, weight = total + share * xi, weight + share
    return total / weight


def ranker(**parameters):
    return Ranker(**({"loss": LOSS, "bound": "hinge", "scaling": None, "C": 20.0, "n_jobs": 1} | parameters))


def test_fit_partial_fit_and_learn_profile_have_the_objective_of_these_rows():
    queries = mixed_rows()
    fitted = ranker().fit(queries)
    expected = 0.5 * fitted.coef_ @ fitted.coef_ + 20.0 * risk_of(queries, fitted.predict(queries))
    assert fitted.objective_ == pytest.approx(expected)
    assert ranker().partial_fit(queries).objective_ == pytest.approx(expected, rel=2e-3)
    learned = learn_profile(ranker(), queries, rounds=1)
    assert learned.objectives[0] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(
    "scorer", [Boosted(trees=5, min_documents=2), Neural(hidden=(4,), epochs=5)], ids=["boosted", "neural"]
)
def test_stages_have_the_loss_of_these_rows(scorer):
    pytest.importorskip("lightgbm" if isinstance(scorer, Boosted) else "torch")
    queries = mixed_rows()
    trained = ranker(scorer=scorer, C=1.0).fit(queries)
    assert trained.model_.health.average_slack == pytest.approx(risk_of(queries, trained.predict(queries)), rel=1e-6)


def test_which_losses_depend_on_rows():
    hashed, po = replace(LOSS, ideal="random"), StructuredLoss("ndcg@5", "po", ideal="rows")
    assert [loss.depends_on_rows for loss in (LOSS, hashed, po)] == [True, False, False]
    assert SumLoss((hashed, LOSS)).depends_on_rows
    assert not MaxLoss((hashed, po)).depends_on_rows
