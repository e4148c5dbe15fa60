"""A new baseline and a new loss are one file each: dropped into their folder, they are known everywhere."""

from __future__ import annotations

import importlib
import sys
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

from marginrank import Queries, Ranker, load, tune
from marginrank.cli.app import app
from marginrank.losses.base import Loss
from marginrank.methods import all_presets, presets
from marginrank.runtime.option_objects import OptionObject, registered

BASELINE = '''
"""Ranks by the sum of all features."""

from dataclasses import dataclass

import numpy as np

from marginrank.methods.baselines.base import Baseline
from marginrank.scorers.staged_scorer import Stage
from marginrank.methods.presets import Preset
from marginrank.scorers.linear.form import LinearForm


@dataclass(frozen=True)
class FeatureSum(Baseline):
    """The sum of the features, times a number."""

    name = "feature-sum"
    factor: float = 1.0

    def stages(self, plan, queries, limits):
        yield Stage(LinearForm(queries.n_features), np.full(queries.n_features, self.factor), 0.0)


PRESETS = (Preset("feature-sum", "sum of features", "nobody", FeatureSum, 2),)
'''

LOSS = '''
"""Squared distance of the scores of a query to their grades, times a number."""

from dataclasses import dataclass

import numpy as np

from marginrank.losses.base import Loss, PreparedLoss


@dataclass(frozen=True)
class Distance(Loss):
    name = "my-loss"
    factor: float = 1.0

    @property
    def criterion(self):
        return "ndcg@3"

    def _prepare(self, judged):
        return _Prepared(judged.grades, judged.offsets, self.factor)


class _Prepared(PreparedLoss):
    def __init__(self, grades, offsets, factor):
        self.grades, self.offsets, self.factor = grades, offsets, factor
        self.active = np.ones(len(offsets) - 1, dtype=bool)

    def evaluate(self, scores, xi, gradient, first, end):
        for query in range(first, end):
            own = slice(self.offsets[query], self.offsets[query + 1])
            distance = scores[own] - self.grades[own]
            xi[query] = self.factor * float(distance @ distance)
            gradient[own] = 2 * self.factor * distance
'''


@pytest.fixture
def drop(tmp_path, monkeypatch):
    """Put a module into the folder of a package, and forget it afterwards."""
    before, dropped = dict(OptionObject.registry), []

    def put(package, name, text):
        folder = importlib.import_module(package)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
        dropped.append(f"{package}.{name}")
        presets._baseline_presets.cache_clear()
        importlib.invalidate_caches()

    yield put
    for module in dropped:
        sys.modules.pop(module, None)
    OptionObject.registry.clear()
    OptionObject.registry.update(before)
    presets._baseline_presets.cache_clear()


def judged():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    return Queries.from_arrays(X, np.digitize(X.sum(axis=1), [0.5, 1.5]), qid=np.arange(60) // 6)


def test_a_baseline_is_one_file(drop, tmp_path):
    assert "feature-sum" not in all_presets()
    drop("marginrank.methods.baselines", "feature_sum", BASELINE)
    queries = judged()
    ranker = Ranker("feature-sum@3").fit(queries)
    assert ranker.predict(queries) == pytest.approx(3 * queries.X.sum(axis=1))
    assert (ranker.model_.method.preset, ranker.gap_) == ("feature-sum@3", np.inf)
    assert ranker.coef_.dtype == np.float64
    assert ranker.score(queries) == 1.0
    assert Ranker("feature-sum").fit(queries).coef_.tolist() == [2.0] * 3
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.fit(queries).coef_, ranker.coef_)
    assert len(tune(Ranker("feature-sum"), queries, folds=2).candidates) == 1
    listed = CliRunner().invoke(app, ["presets", "--json"], catch_exceptions=False)
    assert "feature-sum" in listed.stdout
    from marginrank.methods.baselines.feature_sum import FeatureSum

    Ranker(FeatureSum(3.0)).fit(queries).save(tmp_path / "alone")
    assert load(tmp_path / "alone").method == FeatureSum(3.0)
    assert np.array_equal(Ranker("feature-sum(factor=3)").fit(queries).coef_, ranker.coef_)


def test_a_loss_is_one_file(drop, tmp_path):
    with pytest.raises(ValueError, match="'my-loss' is neither a preset nor a measure"):
        Ranker("my-loss").fit(judged())
    drop("marginrank.losses", "distance", LOSS)
    queries = judged()
    assert "my-loss" in registered(Loss)
    ranker = Ranker("my-loss(factor=2)", C=3.0, solver="bundle(tol=1e-10)", scaling=None).fit(queries)
    # Ridge regression: ½‖w‖² + 3 · 2/10 · ‖Xw − y‖².
    expected = np.linalg.solve(np.eye(3) + 1.2 * queries.X.T @ queries.X, 1.2 * queries.X.T @ queries.grades)
    assert ranker.coef_ == pytest.approx(expected, abs=1e-4)
    assert (ranker.measure_, ranker.criterion) == ("ndcg@3", "ndcg@3")
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(queries), ranker.predict(queries))
    assert np.array_equal(again.fit(queries).coef_, ranker.coef_)
    again.set_params(loss__factor=0.5)
    assert again.loss.factor == 0.5
    from marginrank.losses.distance import Distance

    as_object = Ranker(Distance(2.0), C=3.0, solver="bundle(tol=1e-10)", scaling=None).fit(queries)
    assert np.array_equal(as_object.coef_, ranker.coef_)
    as_object.save(tmp_path / "object")
    assert load(tmp_path / "object").method == Distance(2.0)
