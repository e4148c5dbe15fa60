"""Fields of documents as features: NaN is a missing value, as None is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from marginrank import Additive, DataError, Queries, Ranker
from marginrank.integrations.document_fields import rerank_fields
from marginrank.scorers.base import Scorer
from marginrank.scorers.scoring_function import ScoringFunction


def trained(scorer: str | Scorer) -> ScoringFunction:
    X = np.random.default_rng(0).standard_normal((60, 2))
    judged = Queries.from_arrays(X, X[:, 0] > 0, qid=np.arange(60) // 6, feature_names=["bm25", "clicks"])
    return Ranker("svmauc", scorer=scorer).fit(judged).model_.function


@pytest.mark.parametrize("missing", [None, math.nan, np.float32("nan")], ids=str)
def test_nan_is_a_missing_value(missing: Any) -> None:
    documents = [{"bm25": 1.0, "clicks": 0.0}, {"bm25": missing, "clicks": 1.0}]
    with pytest.raises(DataError, match=rf"document 1: metadata\['bm25'\] is {missing}; fill it, or train with"):
        rerank_fields(trained("linear"), documents, None, "metadata")
    taken = rerank_fields(trained(Additive(bins=4)), documents, None, "metadata")
    assert np.isfinite(taken.scores).all()
