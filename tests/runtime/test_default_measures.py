"""One measure to judge by if none is named."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from marginrank import Queries, Ranker, Recommender, evaluate, load, tune, write_report
from marginrank.cli.options.evaluation_options import EvaluationOptions
from marginrank.fusion import BestRun, Fusion, compare_on_random_splits, compare_on_splits
from marginrank.losses import StructuredLoss
from marginrank.ranker.resolution import resolve
from marginrank.runtime.default_measures import DEFAULT_MEASURE, DEFAULT_MEASURES


@pytest.fixture
def judged() -> Queries:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    return Queries.from_arrays(X, X[:, 0] + rng.standard_normal(80) > 1, qid=np.arange(80) // 8)


def test_a_ranker_without_a_method_is_judged_by_the_default_measure(judged: Queries, tmp_path: Path) -> None:
    ranker = Ranker().fit(judged)
    assert (ranker.criterion, ranker.measure_) == (DEFAULT_MEASURE, DEFAULT_MEASURE)
    assert ranker.score(judged) == evaluate(judged, ranker.predict(judged), DEFAULT_MEASURE).mean[DEFAULT_MEASURE]
    ranker.save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").measure_ == DEFAULT_MEASURE
    assert tune(Ranker(), judged, Cs=[1.0], folds=2).criterion == DEFAULT_MEASURE


@pytest.mark.parametrize(
    ("ranker", "measure"),
    [(Ranker("svmmap"), "ap"), (Ranker("ndcg@5"), "ndcg@5"), (Ranker(loss=StructuredLoss("ap")), "ap")],
    ids=["preset", "measure", "loss"],
)
def test_a_method_that_is_named_is_judged_by_its_own_measure(ranker: Ranker, measure: str) -> None:
    assert ranker.criterion == measure


def test_the_default_loss_is_a_choice_of_its_own() -> None:
    assert resolve(Ranker()).loss == resolve(Ranker("svmmap")).loss


def test_a_fusion_chooses_by_the_default_measure() -> None:
    assert (Fusion().criterion, Fusion(measure="ap").criterion) == (DEFAULT_MEASURE, "ap")
    assert Fusion(preset="ranksvm").criterion == DEFAULT_MEASURE


@pytest.mark.parametrize("function", [BestRun, Recommender, compare_on_random_splits, compare_on_splits])
def test_functions_of_one_measure_have_the_same_default(function: object) -> None:
    assert inspect.signature(function).parameters["measure"].default == DEFAULT_MEASURE


@pytest.mark.parametrize("function", [evaluate, write_report])
def test_functions_of_several_measures_have_the_same_default(function: object) -> None:
    assert inspect.signature(function).parameters["measures"].default == DEFAULT_MEASURES
    assert EvaluationOptions().spellings == [*DEFAULT_MEASURES]
