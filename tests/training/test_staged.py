"""Scorers that are trained in stages: what is kept, when training stops, what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker, evaluate, load, tune
from marginrank.losses import ScoreRisk, SoftmaxCrossEntropy, StructuredLoss
from marginrank.runtime.option_objects import OptionObject
from marginrank.scorers import Linear, Stage, StagedScorer
from marginrank.scorers.linear.form import LinearForm
from marginrank.scorers.neural.form import NeuralForm
from marginrank.solvers import Auto, Bundle
from marginrank.training.partitioned_risk import empirical_risk
from marginrank.training.tight_bound import Tight


@pytest.fixture
def Steps():
    """A scorer of one file: steps of a fixed length along the slope; the last step leads away again."""

    @dataclass(frozen=True)
    class Steps(StagedScorer):
        name = "steps"
        steps: int = 5
        length: float = 0.5
        stop_at: int | None = None

        def stages(self, risk, limits):  # noqa: ARG002
            w, X = np.full(risk.queries.n_features, 0.01), risk.queries.X
            for number in range(1, self.steps + 1):
                _, slopes = risk(X @ w)
                w = w - self.length * X.T @ slopes if number < self.steps else -w
                if number == self.stop_at:
                    raise KeyboardInterrupt
                yield Stage(LinearForm(len(w)), w, risk(X @ w)[0])

    yield Steps
    del OptionObject.registry["Steps"]


def judged(seed=0, n=20):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6 * n, 3))
    return Queries.from_arrays(X, np.digitize(X @ [1.0, 0.5, 0.0], [0.5, 1.5]), qid=np.arange(6 * n) // 6)


def test_the_stage_of_the_lowest_objective_is_kept(Steps, tmp_path):
    queries = judged()
    ranker = Ranker("softmax", scorer=Steps(), scaling=None).fit(queries)
    values = [step.primal for step in ranker.solution_.trace]
    assert np.argmin(values) == 3
    assert ranker.objective_ == min(values)
    assert (ranker.gap_, ranker.solution_.reason, ranker.n_iter_) == (np.inf, "max_iter", 5)
    risk = empirical_risk(queries, SoftmaxCrossEntropy(divergence=True, target="share"))
    assert ranker.objective_ == pytest.approx(risk(ranker.coef_)[0], rel=1e-12)
    assert ranker.health_.slack_at_zero == pytest.approx(risk(np.zeros(3))[0], rel=1e-12)
    ranker.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.scorer == Steps()
    assert np.array_equal(again.fit(queries).coef_, ranker.coef_)


def test_rows_in_another_order_give_the_same_model(Steps):
    queries = judged()
    order = np.random.default_rng(1).permutation(queries.n_documents)
    qid = np.repeat(queries.query_ids, queries.lengths)
    other = Queries.from_arrays(queries.X[order], queries.grades[order], qid=qid[order])
    one, two = (Ranker("svmndcg", scorer=Steps()).fit(part) for part in (queries, other))
    assert np.array_equal(one.coef_, two.coef_)


def test_validation_queries_choose_the_stage(Steps):
    train, valid = judged(), judged(1)
    seen = []
    ranker = Ranker("svmmap", scorer=Steps(length=0.1), scaling=None)
    ranker.fit(train, validation=valid, callback=lambda _, theta: seen.append(theta))
    measured = [evaluate(valid, valid.X @ theta, ["ap"]).mean["ap"] for theta in seen]
    assert ranker.score(valid) == max(measured) > min(measured)
    assert np.array_equal(ranker.coef_, seen[int(np.argmax(measured))])


def test_training_can_be_stopped(Steps):
    queries = judged()
    stopped = Ranker("softmax", scorer=Steps()).fit(queries, callback=lambda *_: True)
    assert (stopped.solution_.reason, stopped.n_iter_) == ("callback", 1)
    late = Ranker("softmax", scorer=Steps(), time_limit=1e-9).fit(queries)
    assert (late.solution_.reason, late.n_iter_) == ("time_limit", 1)
    interrupted = Ranker("softmax", scorer=Steps(stop_at=3)).fit(queries)
    assert (interrupted.solution_.reason, interrupted.n_iter_) == ("interrupted", 2)
    with pytest.raises(KeyboardInterrupt):
        Ranker("softmax", scorer=Steps(stop_at=1)).fit(queries)


def test_there_is_no_C_to_choose(Steps):
    ranker = Ranker("softmax", scorer=Steps())
    assert len(tune(ranker, judged(), folds=2, Cs=[0.1, 1.0]).candidates) == 1
    path = ranker.fit_path(judged(), Cs=[0.1, 1.0])
    assert [one.solution_.C for one in path] == [0.1, 1.0]
    assert np.array_equal(path[0].coef_, path[1].coef_)


def test_every_C_starts_at_scores_of_its_own():
    """A risk that was passed on keeps the scores that it starts at."""
    risks = []

    class Started(StagedScorer):
        start_scorer, takes_C, name = Linear(), True, "started"  # noqa: N815

        def stages(self, risk, limits):  # noqa: ARG002
            risks.append(risk)
            yield Stage(NeuralForm((3, 1), "relu"), np.zeros(4), risk(risk.start)[0])

    del OptionObject.registry["Started"]
    queries, Cs = judged(), [0.1, 10.0]
    Ranker("svmmap", scorer=Started(), scaling=None).fit_path(queries, Cs=Cs)
    linear = Ranker("svmmap", solver=Auto(tol=1e-3), scaling=None).fit_path(queries, Cs=Cs)
    for risk, ranker in zip(risks, linear, strict=True):
        assert risk.start == pytest.approx(ranker.predict(risk.queries), abs=0.1)
    assert not np.allclose(risks[0].start, risks[1].start, atol=0.5)


def test_bounds_are_those_of_the_loss(Steps):
    queries = judged()
    tight = Ranker("svmndcg", scorer=Steps(), bound="tight").fit(queries).model_.method
    assert (tight.bound, tight.trained) == ("tight", "StructuredLoss(measure='ndcg@10', bound='tight')")
    assert Ranker("svmndcg", scorer=Steps()).fit(queries).model_.method.bound == "hinge"
    with pytest.raises(ValueError, match="the steps scorer starts on its own; use bound='tight' without options"):
        Ranker("svmndcg", scorer=Steps(), bound=Tight(anneal=3)).fit(queries)


@pytest.mark.parametrize("options", [{"solver": Bundle()}, {"warm_start": True}])
def test_what_means_something_to_solvers_only_is_refused(Steps, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is for scorers that a solver trains, and steps"):
        Ranker("svmmap", scorer=Steps(), **options).fit(judged())


def test_what_cannot_be_trained_is_refused(Steps):
    with pytest.raises(TypeError, match="the steps scorer is trained in stages, and no solver takes it"):
        empirical_risk(judged(), StructuredLoss("ap"), Steps())
    with pytest.raises(DataError, match="there is nothing to learn"):
        Ranker("svmmap", scorer=Steps()).fit([[1.0], [2.0]], [1, 1], qid=[1, 1])


def test_batches_add_up_to_the_risk():
    queries = judged().with_features(np.zeros((120, 1)))
    rng = np.random.default_rng(0)
    weighted = replace(queries, query_weights=rng.random(20))
    risk, scores = ScoreRisk(StructuredLoss("ap"), weighted), rng.standard_normal(120)
    value, slopes = risk(scores)
    total, parts = 0.0, np.zeros(120)
    numbers = rng.permutation(risk.active)
    for batch in np.split(numbers, len(numbers)):
        rows = risk.rows(batch)
        mean, own = risk.batch(batch, scores[rows])
        total += mean / len(numbers)
        parts[rows] += own / len(numbers)
    assert total == pytest.approx(value, rel=1e-12)
    assert parts == pytest.approx(slopes, abs=1e-15)
