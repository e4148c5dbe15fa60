"""The fusion experiment trains the model of the paper, without the system that is best."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import yue_fusion, yue_fusion_report
from experiments.rankers import TOLERANCE
from marginrank.data.queries import Queries
from marginrank.fusion import Fusion
from marginrank.scorers import Additive


@pytest.fixture
def runs() -> Queries:
    """Thirty queries of 12 documents, ranked at random by systems 0 and 2 and well by system 1."""
    rng = np.random.default_rng(0)
    grades = np.tile([1, 1, 1, *[0] * 9], 30)
    good = (grades + rng.normal(0, 0.5, 360)).reshape(30, 12)
    ranks = [(-scores).argsort(axis=1).argsort(axis=1).ravel() + 1.0 for scores in (rng.random((30, 12)), good)]
    X = np.column_stack([ranks[0], ranks[1], ranks[0][::-1]])
    X[rng.random(X.shape) < 0.2] = np.nan
    return Queries.from_arrays(X, grades, group=[12] * 30, allow_nan=True)


def test_the_best_system_is_left_out(runs):
    assert yue_fusion.best_first(runs)[0] == 1
    left = yue_fusion._with_systems(runs, "without the best")
    np.testing.assert_array_equal(left.X, runs.dense()[:, [0, 2]])


def test_the_model_is_that_of_a_fusion_with_thresholds(runs):
    train, valid, test = runs[:10], runs[10:15], runs[15:]
    own = yue_fusion.BinnedSVM("svmmap").fit(train, valid).predict(test)
    fusion = Fusion(
        "score",
        preset="svmmap",
        scorer=Additive(bins=51, spacing="quantile", shape="steps"),
        nonnegative=False,
        ranks=True,
        Cs=yue_fusion.CS,
        tol=TOLERANCE,
        n_jobs=1,
    )
    np.testing.assert_allclose(own, fusion.fit(train, valid).predict(test))


@pytest.mark.parametrize("preset", ["svmacc3", "svmacc4"])
def test_accuracy_svms_learn_from_systems_with_gaps(runs, preset):
    found = yue_fusion._trial_values(runs, yue_fusion.BinnedSVM(preset), 3)
    worst = yue_fusion._trial_values(runs.with_features(runs.dense()[:, [0]]), yue_fusion.BinnedSVM(preset), 3)
    assert np.nanmean(found["per_trial"]) > np.nanmean(worst["per_trial"]) + 0.2


def test_every_query_is_tested(runs):
    splits = yue_fusion._splits(runs, 6)
    assert all(sorted(np.concatenate(split)) == list(range(30)) for split in splits)
    assert all(len(split[0]) == 10 and len(split[1]) == 5 for split in splits)


def test_verdicts_follow_the_numbers():
    noise = np.random.default_rng(1).normal(0, 0.05, 60)
    noise -= noise.mean()
    base = np.full(60, 0.5)
    found = {
        f"all/{systems}/{name}": {"per_query": values.tolist(), "per_trial": [float(values.mean())], "system": 1}
        for systems in yue_fusion_report.SYSTEMS
        for name, values in {
            "svmmap": base + noise,
            "svmauc": base - 0.1,
            "svmacc": base + 0.1,
            "best system": base + (0.2 if systems == "without the best" else noise),
            yue_fusion_report.CHOSEN: base - 0.1,
        }.items()
    }
    report = yue_fusion_report.report(found)
    verdicts = {finding.claim: finding.verdict for finding in report.findings}
    assert verdicts["SVMmap is better than the best single system."] == "undecided"
    assert verdicts["SVMmap is better than SVMroc, all systems."] == "holds"
    assert verdicts["SVMmap is better than SVMacc, all systems."] == "does not hold"
    assert verdicts["SVMroc is better than SVMacc."] == "does not hold"
    assert verdicts["Leaving out the best system costs SVMmap less than 0.01 of MAP."] == "holds"
    assert verdicts["Without the best system SVMmap is less than 0.01 of MAP behind it."] == "does not hold"
