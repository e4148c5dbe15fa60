"""The audit of a machine against plain NumPy, on shuffled tables, and the coverage of its intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginrank.errors import DataError
from marginrank.judging import Judgements, agreement, audit
from marginrank.judging.intervals import document_mean, document_share


@pytest.fixture(scope="module")
def graded():
    """A shuffled frame with grades of ann, bob (on half of the documents) and llm, which over-rates in the tail."""
    rng = np.random.default_rng(0)
    rows = []
    for query in range(20):
        for document in range(8):
            truth = int(rng.integers(0, 4))
            given = {"ann": truth, "llm": min(3, truth + int(rng.random() < (0.6 if query < 10 else 0.1)))}
            if rng.random() < 0.5:
                given["bob"] = int(np.clip(truth + rng.integers(-1, 2), 0, 3))
            rows += [(f"q{query}", f"d{document}", rater, grade) for rater, grade in given.items()]
    frame = pd.DataFrame(rows, columns=["query", "doc_id", "annotator", "label"])
    return frame.sample(frac=1, random_state=1)


def test_over_rating_and_shares_are_those_of_pandas(graded):
    segments = {f"q{query}": "tail" if query < 10 else "head" for query in range(20)}
    result = audit(Judgements.from_frame(graded), "llm", segments=segments)
    wide = graded.pivot_table(index=["query", "doc_id"], columns="annotator", values="label").reset_index()
    people = wide[["ann", "bob"]].mean(axis=1)
    apart = wide["llm"] - people
    assert result.people == ("ann", "bob")
    assert result.everything.over_rating.value == pytest.approx(apart.mean())
    assert result.everything.equal.value == pytest.approx((apart == 0).mean())
    assert result.everything.higher.value == pytest.approx((apart > 0).mean())
    nearest = people.map(lambda mean: min(range(4), key=lambda level: (abs(mean - level), level)))
    for one in result.by_grade:
        among = apart[nearest == int(one.name)]
        assert one.over_rating.documents == len(among)
        assert one.over_rating.value == pytest.approx(among.mean())
    for one in result.by_segment:
        among = apart[wide["query"].map(segments) == one.name]
        assert one.over_rating.value == pytest.approx(among.mean())
    head, tail = result.by_segment
    assert head.over_rating.interval[1] < tail.over_rating.interval[0]
    kappa = agreement(Judgements.from_frame(graded)).kappa
    assert result.kappa == {"ann": kappa["ann", "llm"], "bob": kappa["bob", "llm"]}
    assert result.kappa_of_people == {("ann", "bob"): kappa["ann", "bob"]}
    assert "llm minus people" in str(result)
    assert result.to_dict()["all"]["over_rating"]["documents"] == 160


def test_what_cannot_be_audited_is_refused(graded):
    table = Judgements.from_frame(graded)
    with pytest.raises(DataError, match="no rater is called 'lm'; did you mean 'llm'"):
        audit(table, "lm")
    with pytest.raises(DataError, match="query q0 has no segment"):
        audit(table, "llm", segments={"q1": "a"})
    apart = Judgements.of(["q", "q"], ["a", "b"], ["ann", "llm"], [1, 1])
    with pytest.raises(DataError, match="llm judged no document that somebody else judged"):
        audit(apart, "llm")


def test_intervals_of_a_mean_are_those_of_queries_of_equal_size():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((12, 5))
    means = values.mean(axis=1)
    half = 2.200985 * means.std(ddof=1) / np.sqrt(12)  # Student's t with 11 degrees of freedom
    one = document_mean(values.ravel(), np.repeat(np.arange(12), 5))
    assert one.interval == pytest.approx((means.mean() - half, means.mean() + half), abs=1e-6)
    assert document_mean(values[0], np.zeros(5, dtype=int)).interval == (-np.inf, np.inf)
    assert document_share(np.ones(5), np.zeros(5, dtype=int)).interval == (0, 1)


def test_shares_of_documents_that_go_together_have_wider_intervals():
    hits = np.repeat([1.0, 0.0], 50)
    apart = document_share(hits, np.arange(100)).interval
    together = document_share(hits, np.arange(100) // 10).interval
    assert apart == pytest.approx((0.403, 0.597), abs=0.005)  # Wilson's score interval of 50 of 100: .404 to .596
    assert np.ptp(together) > 2 * np.ptp(apart)
