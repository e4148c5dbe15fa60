"""Values and differences by segment of the queries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginrank import Queries, compare, evaluate, from_frame
from marginrank.errors import DataError
from marginrank.evaluation.paired_tests import holm

QUERIES, DOCUMENTS = 24, 6
LANGUAGES = ["de", "en", "fr"]


def judged_frame(seed=0):
    rng = np.random.default_rng(seed)
    n = QUERIES * DOCUMENTS
    query = np.repeat(rng.permutation(QUERIES), DOCUMENTS)
    return pd.DataFrame(
        {
            "qid": [f"q{q:02d}" for q in query],
            "grade": rng.integers(0, 3, n),
            "bm25": rng.normal(size=n),
            "dense": rng.normal(size=n),
            "language": [LANGUAGES[q % 3] for q in query],
        }
    )


FRAME = judged_frame()
LANGUAGE = dict(zip(FRAME["qid"], FRAME["language"], strict=True))
FEATURES = ["bm25", "dense"]


def queries_of(frame):
    return from_frame(frame, features=FEATURES)


def forms(frame, queries):
    """The same segments in every form that `by` takes."""
    return {
        "dict": LANGUAGE,
        "per query": [LANGUAGE[query] for query in queries.query_ids.tolist()],
        "per row": frame["language"],
        "per row, categorical": frame["language"].astype("category"),
        "per row, polars": pl.Series(frame["language"].to_numpy()),
        "groupby": frame.groupby("qid")["language"].first(),
    }


@pytest.mark.parametrize("form", forms(FRAME, queries_of(FRAME)))
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_form_selects_the_same_queries(form, shuffled):
    frame = FRAME.sample(frac=1, random_state=3) if shuffled else FRAME
    queries = queries_of(frame)
    result = evaluate(queries, frame["bm25"], ["ndcg@5", "ap"], by=forms(frame, queries)[form])
    assert list(result.by_segment) == LANGUAGES
    for language, part in result.by_segment.items():
        inside = FRAME[FRAME["language"] == language]
        alone = evaluate(queries_of(inside), inside["bm25"], ["ndcg@5", "ap"])
        assert set(part.query_ids) == set(alone.query_ids)
        assert part.mean == pytest.approx(alone.mean)


@given(
    labels=st.lists(st.integers(0, 4), min_size=QUERIES, max_size=QUERIES),
    weights=st.lists(st.floats(0.1, 10), min_size=QUERIES, max_size=QUERIES),
)
def test_the_whole_is_the_weighted_mean_of_the_segments(labels, weights):
    queries = Queries.from_arrays(
        FRAME[FEATURES].to_numpy(), FRAME["grade"], qid=FRAME["qid"].to_numpy(), query_weights=weights
    )
    result = evaluate(queries, FRAME["bm25"].to_numpy(), "ap", by=labels)
    parts = [part for part in result.by_segment.values() if part.counted("ap")]
    shares = [part.weights[~np.isnan(part["ap"])].sum() for part in parts]
    assert result.mean["ap"] == pytest.approx(np.average([part.mean["ap"] for part in parts], weights=shares))
    assert sum(part.counted("ap") for part in parts) == result.counted("ap")
    systems = {"bm25": result, "dense": evaluate(queries, FRAME["dense"].to_numpy(), "ap")}
    compared = compare(systems, resamples=99)
    differences = [part.rows[0].difference for part in compared.by_segment.values()]
    assert compared.rows[0].difference == pytest.approx(np.average(differences, weights=shares))


def test_a_comparison_in_a_segment_is_that_of_its_queries_but_for_holm():
    systems = {name: FRAME[name] for name in FEATURES} | {"sum": FRAME["bm25"] + FRAME["dense"]}
    found = compare(systems, queries_of(FRAME), by=FRAME["language"])
    assert found.rows == compare(systems, queries_of(FRAME)).rows
    rows = []
    for language, part in found.by_segment.items():
        inside = FRAME["language"] == language
        alone = compare({name: scores[inside] for name, scores in systems.items()}, queries_of(FRAME[inside]))
        assert part.n_queries == alone.n_queries
        for row, expected in zip(part.rows, alone.rows, strict=True):
            for field in ("system", "other", "difference", "interval", "wins", "p_t", "p_wilcoxon", "p_randomization"):
                assert getattr(row, field) == getattr(expected, field)
        rows += part.rows
    assert len(rows) == 9
    for test in ("t", "wilcoxon", "randomization"):
        adjusted = holm([getattr(row, f"p_{test}") for row in rows])
        assert [getattr(row, f"holm_{test}") for row in rows] == adjusted.tolist()


def test_a_shuffled_frame_compares_alike():
    frame = FRAME.sample(frac=1, random_state=5)
    by = frame["language"]
    ours = compare({name: FRAME[name] for name in FEATURES}, queries_of(FRAME), by=FRAME["language"])
    theirs = compare({name: frame[name] for name in FEATURES}, queries_of(frame), by=by)
    for language in LANGUAGES:
        one, other = ours.by_segment[language].rows[0], theirs.by_segment[language].rows[0]
        assert one.difference == pytest.approx(other.difference)
        # Eight queries: all sign flips are tried, so no order of queries changes the value.
        assert one.p_randomization == other.p_randomization


def test_tables_and_records_have_a_row_per_segment():
    result = evaluate(queries_of(FRAME), FRAME["bm25"], "ap", by=LANGUAGE)
    assert [line.split()[0] for line in str(result).splitlines()[:5]] == ["segment", "all", *LANGUAGES]
    assert result.to_dict()["segments"]["de"] == {
        "mean": {"ap": result.by_segment["de"].mean["ap"]},
        "queries": {"ap": result.by_segment["de"].counted("ap")},
    }
    assert result.to_frame()["segment"].tolist() == [LANGUAGE[query] for query in result.query_ids.tolist()]
    compared = compare({"a": result, "b": evaluate(queries_of(FRAME), FRAME["dense"], "ap", by=LANGUAGE)})
    assert [line.split()[0] for line in str(compared).splitlines()[:5]] == ["segment", "all", *LANGUAGES]
    assert "for segments over 3 comparisons" in str(compared).splitlines()[-1]
    assert [record["segment"] for record in compared.to_dicts()] == [None, *LANGUAGES]
    assert compared.turned().by_segment["de"].rows[0].difference == -compared.by_segment["de"].rows[0].difference


def test_numbers_are_in_the_order_of_numbers():
    result = evaluate([1, 0, 1, 0], [1, 2, 3, 4], "ap", qid=["a", "a", "b", "b"], by={"a": 10, "b": 9})
    assert list(result.by_segment) == ["9", "10"]


def test_judgements_and_runs_have_segments_by_topic():
    judged = {"1": {"a": 1}, "2": {"a": 1}, "3": {"b": 1}}
    run = {"1": {"a": 1.0}, "3": {"a": 1.0}}
    result = evaluate(judged, run, "ap", missing_topics="skip", by=["x", "y", "z"])
    assert {name: part.query_ids.tolist() for name, part in result.by_segment.items()} == {"x": ["1"], "z": ["3"]}
    by_number = evaluate(judged, run, "ap", missing_topics="skip", by={"1": "x", "3": "z"})
    assert by_number.segments.tolist() == result.segments.tolist()


def test_arrays_of_values_are_compared_in_segments():
    found = compare({"a": [0.5, 1.0, 0.2, np.nan], "b": [0.4, 0.4, 0.2, np.nan]}, by=["x", "x", "y", "z"])
    assert {name: part.n_queries for name, part in found.by_segment.items()} == {"x": 2, "y": 1}


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        ({"a": "x"}, DataError, "query b has no segment in by; give every query one"),
        ({"a": "x", "b": None}, DataError, r"segment\[1\] is missing; every query needs a segment"),
        (["x", "x", "y", "x"], DataError, r"query b has the segments 'y' and 'x' \(row 3\); all rows of a query need"),
        (["x", "x", None, "x"], DataError, r"by\[2\] is missing; every query needs a segment"),
        (["x", "y", "z"], DataError, "by has 3 entries for 2 queries and 4 rows; give a dict from query id"),
        (
            "language",
            TypeError,
            "by takes segments of queries, not 'language'; give a dict from query id to segment, or an array",
        ),
        (pd.Series(["x", "y"], index=["a", "c"]), DataError, "query b has no segment"),
    ],
)
def test_mistakes_are_refused(by, error, message):
    with pytest.raises(error, match=message):
        evaluate([1, 0, 1, 0], [1, 2, 3, 4], "ap", qid=["a", "a", "b", "b"], by=by)


def test_a_series_with_another_index_is_refused():
    frame = FRAME.sample(frac=1, random_state=3)
    with pytest.raises(DataError, match="by has a different pandas index than judged"):
        evaluate(queries_of(frame), frame["bm25"], by=FRAME["language"])


def test_evaluations_with_different_segments_are_not_compared():
    one, other = (
        evaluate([1, 0, 1, 0], [1, 2, 3, 4], "ap", qid=["a", "a", "b", "b"], by=by) for by in (["x", "y"], ["x", "x"])
    )
    with pytest.raises(DataError, match="the evaluations have different segments"):
        compare({"one": one, "other": other})
