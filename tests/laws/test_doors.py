"""Laws over all scorers: the same documents get the same scores, whatever they come in and whatever comes with them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from marginrank import DataError, Queries, Ranker, from_frame, load
from marginrank.runtime.option_objects import registered
from marginrank.scorers import Scorer, parse_scorer

NAMES = ["bm25", "clicks", "age", "flat"]
#: Small ones of every kind; some kinds more than once.
SPELLED = {
    "linear": ["linear", "linear(missing=mean)"],
    "adaptive": ["adaptive(context=2)", "adaptive(context=2,nonnegative=true)"],
    "additive": ["additive(bins=8)", "additive(bins=8,shape=steps)"],
    "kernel": ["kernel(rank=20)", "kernel(kernel=poly,rank=20)"],
    "neural": ["neural(hidden=8,epochs=2)"],
    "boosted": [
        "boosted(trees=5,leaves=4,min_documents=1)",
        "boosted(trees=5,leaves=4,min_documents=1,refit=grown)",
        "boosted(trees=5,leaves=4,min_documents=1,start=linear)",
    ],
}
LIBRARY = {"neural": "torch", "boosted": "lightgbm"}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
every_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
every_scorer = pytest.mark.parametrize("scorer", [one for spelled in SPELLED.values() for one in spelled])


def test_every_scorer_is_among_them():
    assert SPELLED.keys() == registered(Scorer).keys()


def documents(seed=0):
    """Return rows, grades and text ids of twelve queries: one has a single document, one a single grade."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((72, 4)) * [1.0, 10.0, 0.1, 0.0] + [0.0, 0.0, 0.0, 2.5]).round(3)
    y = np.digitize(X @ [1.0, 0.05, -5.0, 0.0] + 0.5 * rng.standard_normal(72), [0.5, 1.5])
    qid = np.array([f"q{(7 * (row // 6)) % 12:02d}" for row in range(72)])
    y[:6] = 1
    kept = np.r_[0:6, 11:72]
    return X[kept], y[kept], qid[kept]


def ranker(scorer, **options):
    pytest.importorskip(LIBRARY.get(scorer.partition("(")[0], "numpy"))
    C = 10.0 if parse_scorer(scorer).takes_C else 1.0
    return Ranker("svmmap", scorer=scorer, C=C, n_jobs=1, **options)


@cache
def scores_from_arrays(scorer):
    X, y, qid = documents()
    return ranker(scorer).fit(X, y, qid=qid).predict(X)


@every_scorer
@every_frame
def test_frames_are_arrays_with_names(scorer, frame, tmp_path):
    X, y, qid = documents()
    scores = scores_from_arrays(scorer)
    columns = dict(zip(NAMES, X.T, strict=True))
    fitted = ranker(scorer).fit(frame(columns), y, qid=qid)
    assert fitted.feature_names_in_.tolist() == list(fitted.model_.feature_names) == NAMES
    whole = from_frame(frame({**columns, "qid": qid, "grade": y}))
    by_queries = ranker(scorer).fit(whole)
    fitted.save(tmp_path / "model.safetensors")
    for other in (fitted, by_queries, load(tmp_path / "model.safetensors")):
        for kind in FRAMES.values():
            np.testing.assert_allclose(other.predict(kind(columns)), scores, rtol=1e-12, atol=1e-12)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):  # scikit-learn's
            np.testing.assert_allclose(other.predict(X), scores, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(other.predict(whole), scores, rtol=1e-12, atol=1e-12)


@every_frame
def test_columns_in_another_order_are_refused(frame):
    X, y, qid = documents()
    columns = dict(zip(NAMES, X.T, strict=True))
    fitted = Ranker().fit(frame(columns), y, qid=qid)
    turned = frame({name: columns[name] for name in reversed(NAMES)})
    said = r"^X has the columns that the model was trained on in another order; give bm25, clicks, age, flat$"
    for call in (fitted.predict, lambda X: fitted.rank(X, qid=qid), lambda X: fitted.score(X, y, qid=qid)):
        with pytest.raises(DataError, match=said):
            call(turned)
    with pytest.raises(DataError, match=r"^X has no column 'flat', which the model was trained on"):
        fitted.predict(frame({name: columns[name] for name in NAMES[:3]}))


@every_frame
def test_a_column_of_text_is_named(frame):
    X, y, qid = documents()
    columns = {**dict(zip(NAMES, X.T, strict=True)), "title": ["a text"] * len(X)}
    with pytest.raises(DataError, match=r"^column 'title' of X holds 'a text', which is not a number"):
        Ranker().fit(frame(columns), y, qid=qid)


@every_frame
def test_a_missing_value_is_named_by_its_column(frame):
    X, y, qid = documents()
    columns = dict(zip(NAMES, X.T.tolist(), strict=True))
    fitted = Ranker().fit(frame(columns), y, qid=qid)
    columns["age"][5] = np.nan
    for call in (lambda X: Ranker().fit(X, y, qid=qid), fitted.predict, lambda X: fitted.score(X, y, qid=qid)):
        with pytest.raises(DataError, match=r"^row 5 of column 'age' is NaN; fill it"):
            call(frame(columns))


@every_scorer
@pytest.mark.parametrize("scaling", [None, "standard"])
def test_a_score_depends_on_nothing_beside_the_document(scorer, scaling):
    """So that equal documents are tied, and a score is the same for one query, for all, and in any order."""
    X, y, qid = documents()
    fitted = ranker(scorer, scaling=scaling).fit(X, y, qid=qid)
    scores = fitted.predict(X)
    assert [fitted.predict(row[None])[0] for row in X] == scores.tolist()
    order = np.random.default_rng(1).permutation(len(X))
    assert fitted.predict(X[order]).tolist() == scores[order].tolist()
    for n in (3, 5, 17, 50, 401):
        assert set(fitted.predict(X[np.arange(n) % 2])) == {scores[0], scores[1]}


@every_scorer
def test_whole_numbers_and_truth_values_are_numbers(scorer):
    X, y, qid = documents()
    whole = np.round(10 * X).astype(int)
    for given in (whole, whole > 0):
        expected = ranker(scorer).fit(given.astype(float), y, qid=qid).predict(given.astype(float))
        for form in (given, given.tolist(), np.asfortranarray(given), pd.DataFrame(given), given.astype(object)):
            np.testing.assert_allclose(ranker(scorer).fit(form, y, qid=qid).predict(form), expected, rtol=1e-12)


@every_scorer
def test_a_single_query_is_enough(scorer):
    X, y, qid = documents()
    one = qid == "q02"
    fitted = ranker(scorer).fit(X[one], y[one], qid=qid[one])
    queries = Queries.from_arrays(X, y, qid=qid)
    assert len(fitted.rank(queries)) == len(queries)
    assert [order.tolist() for order in fitted.rank(X[:1], qid=qid[:1])] == [[0]]
