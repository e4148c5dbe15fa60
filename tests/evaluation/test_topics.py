"""Topics by document id and by row, in rankings of many queries."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries, Ranker, Recommender
from marginrank.errors import DataError
from marginrank.evaluation import Cover, Diversify
from marginrank.evaluation.topics import topic_weights

RNG = np.random.default_rng(0)
X, GRADES, QID = RNG.standard_normal((60, 3)), RNG.integers(0, 3, 60), np.array([f"q{n % 6}" for n in range(60)])
IDS = np.array([f"d{n}" for n in RNG.permutation(60)])
WEIGHTS = RNG.integers(0, 5, (60, 3)) / 4 * (RNG.random((60, 3)) < 0.6)
#: Topics of documents that are named in another order than they come, two of them without topics.
BY_ID = {
    name: {topic: weight for topic, weight in zip("abc", row, strict=True) if weight}
    for name, row in reversed(list(zip(IDS.tolist(), WEIGHTS.tolist(), strict=True)))
    if any(row)
}


@pytest.fixture(scope="module")
def ranker():
    return Ranker("ranksvm", C=1.0).fit(X, GRADES, qid=QID)


@pytest.mark.parametrize("diversify", [None, Diversify(1.5), Cover(2.0)], ids=str)
def test_a_ranker_ranks_every_query_as_the_diversifier_does(ranker, diversify):
    queries = Queries.from_arrays(X, qid=QID, document_ids=IDS)
    scores = ranker.predict(X)
    assert np.any(np.diff([int(name[1:]) for name in QID]) < 0)
    expected = []
    for name in [f"q{n}" for n in range(6)]:
        rows = np.flatnonzero(name == QID)
        expected.append(rows[(diversify or Diversify()).order(scores[rows], WEIGHTS[rows], 3).order].tolist())
    by_rows = ranker.rank(X, qid=QID, k=3, topics=WEIGHTS, diversify=diversify)
    by_ids = ranker.rank(queries, k=3, topics=BY_ID, diversify=diversify)
    names = ranker.rank(queries, k=3, topics=BY_ID, diversify=diversify, ids=True)
    assert [order.tolist() for order in by_rows] == [order.tolist() for order in by_ids] == expected
    assert names == [IDS[order].tolist() for order in expected]
    assert expected != [order.tolist() for order in ranker.rank(queries, k=3)]


def test_a_recommender_limits_topics_among_unseen_items():
    users, items = np.nonzero(np.random.default_rng(1).random((40, 12)) < 0.5)
    trained = Recommender(factors=2).fit((users, items, 1 + (users * items) % 5))
    topics = {item: ["even"] if item % 2 == 0 else {"odd": 0.5} for item in range(12)}
    seen = set(items[users == 3].tolist())
    for limit in (1.0, 2.0):
        listed = [one.item for one in trained.recommend(3, 5, topics=topics, diversify=Diversify(limit))]
        assert not seen & set(listed)
        assert sum(item % 2 == 0 for item in listed) <= limit
        assert sum(item % 2 for item in listed) <= 2 * limit
        assert trained.recommend_to([3], 5, topics=topics, diversify=Diversify(limit))[0] == trained.recommend(
            3, 5, topics=topics, diversify=Diversify(limit)
        )
    every = trained.recommend(3, 5, exclude_seen=False, topics=topics, diversify=Diversify(100.0))
    assert every == trained.recommend(3, 5, exclude_seen=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": {"x": ["a"]}}, "no document has topics: documents are called .*d.*, and topics are of 'x'"),
        ({"topics": {"d1": "sport"}}, "topics of 'd1' are 'sport'; give a list of topics, or a dict of weights"),
        ({"topics": np.zeros((3, 2))}, r"topics have shape \(3, 2\) for 60 documents; give a row for each"),
        ({"diversify": Diversify()}, "diversify needs the topics of the documents; give topics"),
        ({"topics": BY_ID, "document_groups": GRADES}, "documents have groups and topics"),
    ],
)
def test_bad_topics_are_refused(ranker, options, message):
    with pytest.raises(DataError, match=message):
        ranker.rank(Queries.from_arrays(X, qid=QID, document_ids=IDS), **options)


def test_topics_by_id_need_ids(ranker):
    with pytest.raises(DataError, match="topics by document id need documents with ids"):
        ranker.rank(X, qid=QID, topics=BY_ID)
    with pytest.raises(DataError, match="diversify needs the topics of the items"):
        Recommender().fit(([1, 1, 2, 2], [1, 2, 1, 2], [1, 2, 2, 1])).recommend(1, diversify=Diversify())


def test_columns_are_the_topics_in_order_of_name():
    assert topic_weights({7: {"z": 2.0, "a": 1.0}}, np.array([7, 8]), 2).tolist() == [[1.0, 2.0], [0.0, 0.0]]
