"""The transformer in pipelines of PyTerrier, evaluated by its own experiment; without its indices, which need Java."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyterrier", reason="PyTerrier is not installed: pip install python-terrier")

import pandas as pd
import pyterrier as pt

from marginrank import DataError
from marginrank.integrations.pyterrier import Reranker
from tests.integrations.judged_documents import fused_runs, ranked_features

# Of PyTerrier 1.0 with pandas 3.1, and of ranx, which it imports.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
    pytest.mark.filterwarnings("ignore:invalid escape sequence"),
]


def experiment(example, pipeline):
    """Return what pt.Experiment prints about the pipeline; queries without relevant documents count 0."""
    topics = pd.DataFrame({"qid": list(example.queries), "query": list(example.queries)})
    qrels = pd.DataFrame(
        [
            {"qid": qid, "docno": one["id"], "label": int(one["grade"])}
            for qid, judged in example.queries.items()
            for one in judged
        ]
    )
    table = pt.Experiment([pipeline], topics, qrels, ["recip_rank", "map", "ndcg"], names=["ours"])
    return {"rr": table["recip_rank"][0], "ap": table["map"][0], "ndcg": table["ndcg"][0]}


def results(example, columns, seed=0):
    """A frame of shuffled rows with an odd index."""
    frame = pd.DataFrame(
        [
            {"qid": qid, "query": qid, "docno": one["id"], **one["features"]}
            for qid, judged in example.queries.items()
            for one in judged
        ]
    ).rename(columns=columns)
    frame = frame.sample(frac=1.0, random_state=seed).assign(**({} if "score" in frame else {"score": 0.0}))
    return pt.model.add_ranks(frame.set_index(np.arange(len(frame)) * 7 % 5))


def test_an_experiment_finds_our_numbers_for_columns(tmp_path):
    example = ranked_features(tmp_path)
    pipeline = pt.Transformer.from_df(results(example, {})) >> Reranker(example.path)
    assert experiment(example, pipeline) == pytest.approx(example.expected, abs=1e-12)
    pipeline = pt.Transformer.from_df(results(example, {"bm25": "score"})) >> Reranker(
        example.path, ["score", "clicks"]
    )
    assert experiment(example, pipeline) == pytest.approx(example.expected, abs=1e-12)


def test_an_experiment_finds_our_numbers_for_a_feature_union(tmp_path):
    example = ranked_features(tmp_path)
    frame = results(example, {"bm25": "score"}).drop(columns=["clicks"])
    clicks = {one["id"]: one["features"]["clicks"] for judged in example.queries.values() for one in judged}
    second = pt.apply.doc_score(lambda row: clicks[row["docno"]])
    pipeline = pt.Transformer.from_df(frame) >> pt.Transformer.identity() ** second >> Reranker(example.path)
    assert experiment(example, pipeline) == pytest.approx(example.expected, abs=1e-12)


def test_an_experiment_finds_our_numbers_for_a_fusion(tmp_path):
    example, runs = fused_runs(tmp_path)
    frame = pd.DataFrame(
        [
            {"qid": qid, "query": qid, "docno": one["id"]}
            | {name: run[qid].get(one["id"]) for name, run in runs.items()}
            for qid, judged in example.queries.items()
            for one in judged
        ]
    )
    pipeline = pt.Transformer.from_df(frame) >> Reranker(example.path)
    assert experiment(example, pipeline) == pytest.approx(example.expected, abs=1e-12)


def test_frames_stay_as_they_were_and_mistakes_are_named(tmp_path):
    example = ranked_features(tmp_path)
    reranker, frame = Reranker(example.path), results(example, {})
    before = frame.copy()
    ranked = reranker(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert ranked["docno"].tolist() == frame["docno"].tolist()
    best = ranked[ranked["rank"] == 0].set_index("qid")["score"]
    assert best.to_dict() == ranked.groupby("qid")["score"].max().to_dict()
    assert len(reranker(frame.iloc[:0])) == 0
    with pytest.raises(KeyError, match="clicks"):
        reranker(frame.drop(columns=["clicks"]))
    with pytest.raises(DataError, match="columns has 1 name; the model has 2 inputs: bm25, clicks"):
        Reranker(example.path, ["bm25"])(frame)
    with pytest.raises(DataError, match=r"bm25, clicks: could not convert string to float: 'x'; give numbers"):
        reranker(frame.assign(clicks="x"))
    torn = frame.drop(columns=["bm25", "clicks"]).assign(features=[[1.0] * (1 + row % 2) for row in range(len(frame))])
    with pytest.raises(DataError, match="features: all input arrays must have the same shape; give numbers, as many"):
        reranker(torn)
    frame["clicks"] = frame["clicks"].mask(np.arange(len(frame)) == 3)
    with pytest.raises(DataError, match=r"qid 'q\d+', docno 'd\d+': clicks is NaN"):
        reranker(frame)
