"""Features of the text of a query."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Adaptive, Queries, Ranker
from marginrank.errors import DataError
from marginrank.preparation import QUERY_TEXT_FEATURES, WordRarity, add_query_features, query_text_features


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0, 0, 0, 0)),
        ("?", (0, 0, 0, 0, 1)),
        ("is", (1, 2, 0, 0, 1)),
        ("island", (1, 6, 0, 0, 0)),
        ("iso-9001 2015", (2, 6, 1, 1, 0)),
        ("größe 42", (2, 3.5, 1, 0, 0)),
        ("  Where is it", (3, 3, 0, 0, 1)),
    ],
)
def test_features_by_hand(text, expected):
    assert query_text_features([text]).tolist() == [pytest.approx(expected)]


def test_they_are_context_for_adaptive_weights():
    """Queries with a part number are answered by words, others by meaning."""
    rng = np.random.default_rng(0)
    texts = [f"bolt m{n}x40" if n % 2 else "something to hold two boards together" for n in range(60)]
    x = rng.standard_normal((600, 2))
    y = x[np.arange(600), (np.repeat(np.arange(60), 10) + 1) % 2] > 0.8
    z = np.repeat(query_text_features(texts), 10, axis=0)
    names = ["bm25", "dense", *QUERY_TEXT_FEATURES]
    queries = Queries.from_arrays(np.hstack([x, z]), y, group=[10] * 60, feature_names=names)
    ranker = Ranker("svmmap", scorer=Adaptive(context=QUERY_TEXT_FEATURES), C=10.0).fit(queries[:40])
    assert ranker.score(queries[40:]) > Ranker("svmmap", C=10.0).fit(queries[:40]).score(queries[40:]) + 0.1
    weights = ranker.query_weights(queries[40:42])
    assert weights.weights[1, 0] > weights.weights[1, 1]
    assert weights.weights[0, 0] < weights.weights[0, 1]


def test_no_texts_have_no_rows():
    assert query_text_features([]).shape == (0, 5)


def test_rarity_by_hand():
    rarity = WordRarity.of(["Bolt bolt M8", "bolt, nut", "washer"])
    assert (rarity.n_documents, rarity.counts["bolt"], rarity.counts["m8"]) == (3, 2, 1)
    # ln 4/3 for a word of two of three documents, ln 4/2 of one, ln 4 of none.
    expected = [[np.log(4), (np.log(4 / 3) + np.log(2) + np.log(4)) / 3], [0.0, 0.0]]
    np.testing.assert_allclose(rarity.features(["BOLT washer gasket", "?"]), expected, rtol=1e-14)
    assert WordRarity.of([]).features(["bolt"]).tolist() == [[0.0, 0.0]]
    assert rarity.features([]).shape == (0, 2)


def test_columns_of_queries_whose_rows_are_mixed():
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(["b", "a", "c"], 5))
    queries = Queries.from_arrays(rng.random((15, 2)), qid=ids, feature_names=["bm25", "dense"])
    values = {"a": 1.0, "b": 2.0, "c": 3.0}
    both = add_query_features(queries, [[values[query], -1.0] for query in queries.query_ids], ["length", "flag"])
    assert both.feature("length").tolist() == [values[name] for name in ids]
    np.testing.assert_array_equal(both.X[:, :2], queries.X)
    with pytest.raises(DataError, match=r"values have shape \(2, 1\); give one row for each of 3 queries"):
        add_query_features(queries, [[1.0], [2.0]], ["length"])
    with pytest.raises(DataError, match="no feature names"):
        add_query_features(Queries.from_arrays([[1.0]], group=[1]), [[1.0]], ["length"])


def test_a_column_of_that_name_is_refused():
    queries = Queries.from_arrays(np.zeros((2, 1)), qid=[1, 2], feature_names=["n_words"])
    with pytest.raises(DataError, match="there would be two columns 'n_words'; give another name"):
        add_query_features(queries, [[1.0], [2.0]], ["n_words"])
    with pytest.raises(DataError, match="there would be two columns 'a'; give another name"):
        add_query_features(queries, np.zeros((2, 2)), ["a", "a"])


@pytest.mark.parametrize("describe", [query_text_features, WordRarity.of, WordRarity(1, {}).features])
def test_one_text_is_not_a_list_of_texts(describe):
    with pytest.raises(TypeError, match="this is one text; give a list of texts"):
        describe("steel bolt")
