"""What is read off the slopes of two bounds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.cls_collapse import bounds_of
from marginrank.data.queries import Queries
from marginrank.evaluation.evaluation import evaluate


def test_rankings_of_figure_1_follow_from_the_slopes():
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 3, 60).astype(float)
    queries = Queries.from_arrays(np.zeros((60, 1)), grades, group=[20, 20, 20])
    scores = 0.05 * rng.standard_normal(60)
    found = bounds_of(queries, scores)
    loss = 1 - evaluate(queries, scores, "ndcg@10")["ndcg@10"]
    assert found["loss"] == pytest.approx(loss)
    assert (found["hinge"] >= found["tight"]).all()
    assert (found["tight"] >= loss - 1e-12).all()
    assert found["tight"] == pytest.approx(found["worst loss"] + found["worst above"] - found["above"])
    profile = np.maximum(10.0 - np.arange(20), 0.0)
    for query, (own, own_grades) in enumerate(zip(scores.reshape(3, 20), grades.reshape(3, 20), strict=True)):
        ideal = np.argsort(-own_grades, kind="stable")
        assert found["above"][query] == pytest.approx(profile @ np.sort(own)[::-1] - profile @ own[ideal])
