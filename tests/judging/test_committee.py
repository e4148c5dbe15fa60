"""What training would learn most from, against rankers trained by hand on the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.errors import DataError, ParameterError
from marginrank.judging import learn_next


def half_judged(seed=0, n_queries=12, n_documents=6):
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    X = rng.standard_normal((n, 3))
    grades = np.digitize(X @ [1.0, 0.5, 0.0] + rng.standard_normal(n), [0.0, 1.5]).astype(float)
    grades[rng.random(n) < 0.5] = np.nan
    qid, ids = np.repeat([f"q{at:02}" for at in range(n_queries)], n_documents), np.array([f"d{at}" for at in range(n)])
    return X, grades, qid, ids


def test_documents_are_those_that_rankers_on_samples_place_differently():
    X, grades, qid, ids = half_judged()
    queries = Queries.from_arrays(X, grades, qid=qid, document_ids=ids)
    result = learn_next(Ranker("ranksvm", C=2.0), queries, budget=10, committee=3, random_state=5)
    rng = np.random.default_rng(5)
    known = ~np.isnan(grades)
    names = list(dict.fromkeys(qid[known]))
    places = np.empty((3, len(X)))
    for member in places:
        drawn = np.bincount(rng.integers(0, len(names), len(names)), minlength=len(names))
        # Each query as often as it was drawn, under names of its own.
        rows, copies = [], []
        for number, times in enumerate(drawn):
            for copy in range(times):
                here = np.flatnonzero(known & (qid == names[number]))
                rows += here.tolist()
                copies += [f"{names[number]}-{copy}"] * len(here)
        ranker = Ranker("ranksvm", C=2.0).fit(X[rows], grades[rows], qid=copies)
        scores = ranker.predict(X)
        for query in np.unique(qid):
            here = np.flatnonzero(qid == query)
            member[here[np.argsort(-scores[here])]] = 1 / np.log2(np.arange(len(here)) + 2)
    spread = np.where(known, -1, places.std(axis=0))
    assert [one.leverage for one in result.documents] == pytest.approx(np.sort(spread)[::-1][:10].tolist())
    for one in result.documents:
        at = ids.tolist().index(one.document)
        assert np.isnan(grades[at])
        assert qid[at] == one.query
        assert one.leverage == pytest.approx(spread[at])


def test_rows_may_come_in_any_order():
    X, grades, qid, ids = half_judged(1)
    # Samples are of queries in the order in which they first come: the first row of each, then all others mixed.
    first = np.arange(0, len(X), 6)
    order = np.concatenate([first, np.random.default_rng(2).permutation(np.setdiff1d(np.arange(len(X)), first))])
    plain = learn_next(Ranker("ranksvm"), Queries.from_arrays(X, grades, qid=qid, document_ids=ids), budget=9)
    shuffled = Queries.from_arrays(X[order], grades[order], qid=qid[order], document_ids=ids[order])
    mixed = learn_next(Ranker("ranksvm"), shuffled, budget=9)
    assert [one.leverage for one in mixed.documents] == pytest.approx([one.leverage for one in plain.documents])
    assert {(one.query, one.document) for one in mixed.documents[:3]} <= {one[:2] for one in plain.documents}


def test_what_is_wrong_is_said_with_a_way_out(tmp_path):
    X, grades, qid, ids = half_judged()
    with pytest.raises(DataError, match="nothing left to judge"):
        learn_next(Ranker(), Queries.from_arrays(X, np.nan_to_num(grades), qid=qid))
    with pytest.raises(DataError, match=r"0 queries have judged documents.*judge the first documents"):
        learn_next(Ranker(), Queries.from_arrays(X, None, qid=qid))
    few = np.where(qid < "q03", grades, np.nan)
    with pytest.raises(DataError, match="3 queries have judged documents"):
        learn_next(Ranker(), Queries.from_arrays(X, few, qid=qid))
    queries = Queries.from_arrays(X, grades, qid=qid, document_ids=ids)
    with pytest.raises(ParameterError, match="budget is 0"):
        learn_next(Ranker(), queries, budget=0)
    with pytest.raises(ParameterError, match="committee is 1"):
        learn_next(Ranker(), queries, committee=1)
    result = learn_next(Ranker("ranksvm"), queries, budget=3)
    result.write(tmp_path / "next.csv")
    assert len((tmp_path / "next.csv").read_text().splitlines()) == 4
