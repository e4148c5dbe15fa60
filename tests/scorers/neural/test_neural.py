"""The neural scorer: what it learns, that it can be repeated and stopped, and that its models need no PyTorch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker, evaluate, load, tune
from marginrank.errors import NumericalError
from marginrank.losses import ScoreRisk, SoftmaxCrossEntropy
from marginrank.methods.presets import parse_preset
from marginrank.model.file_format import read_model, write_model
from marginrank.runtime.device_features import DeviceFeatures
from marginrank.scorers import Neural, parse_scorer
from marginrank.scorers.neural.form import NeuralForm
from marginrank.scorers.staged_scorer import StageLimits
from marginrank.scorers.terms import ACTIVATIONS
from tests.absent import WITHOUT_TORCH_AND_JAX

torch = pytest.importorskip("torch", reason="PyTorch is the extra 'neural'")

from marginrank.scorers.neural.scorer import Network  # noqa: E402

SMALL = Neural(hidden=16, epochs=30, batch=10, learning_rate=0.01)


def judged(seed=0, n=60):
    """Queries whose grades depend on a product of two features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((8 * n, 4))
    return Queries.from_arrays(X, np.digitize(X[:, 0] * X[:, 1], [0.3, 1.0]), qid=np.arange(8 * n) // 8)


@pytest.mark.parametrize("method", ["softmax", "ndcg@5", "svmmap", "ranksvm-squared", "svmcombo"])
def test_products_of_features_are_learned_with_any_loss(method):
    train, test = judged(), judged(1)
    ranker = Ranker(method, scorer=SMALL, scaling=None).fit(train)
    values = [step.primal for step in ranker.solution_.trace]
    assert ranker.objective_ == min(values) < 0.6 * values[0]
    assert (ranker.gap_, ranker.solution_.reason, ranker.n_iter_) == (np.inf, "max_iter", 30)
    additive = evaluate(test, Ranker("ranksvm", scorer="additive").fit(train).predict(test), ["ndcg@5"]).mean["ndcg@5"]
    assert evaluate(test, ranker.predict(test), ["ndcg@5"]).mean["ndcg@5"] > additive + 0.15


def test_the_tight_bound_is_trained_too():
    train = judged()
    ranker = Ranker("ndcg@5", scorer=SMALL, bound="tight").fit(train)
    assert ranker.model_.method.bound == "tight"
    assert ranker.score(train) > 0.8


def test_the_objective_is_the_risk_of_the_saved_network():
    train = judged()
    ranker = Ranker("softmax", scorer=Neural("16x8", epochs=3, activation="tanh"), scaling=None).fit(train)
    risk = ScoreRisk(parse_preset("softmax").loss, train)
    assert ranker.objective_ == pytest.approx(risk(ranker.predict(train))[0], rel=1e-5)
    assert ranker.form_.widths == (4, 16, 8, 1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_pytorch_and_the_form_score_alike(activation):
    form = NeuralForm((4, 9, 5, 1), activation)
    network = Network(torch, form, "cpu", 0.5, 0)
    X = np.random.default_rng(0).standard_normal((50, 4))
    assert network.scores(network.tensor(X)) == pytest.approx(form.score(network.theta(), X), abs=1e-5)


def test_a_step_goes_along_our_slopes():
    """Plain gradient descent with rate 1: parameters fall by the slopes by them, here from difference quotients."""
    form = NeuralForm((4, 3, 1), "tanh")
    network = Network(torch, form, "cpu", 0.0, 0)
    network.optimizer = torch.optim.SGD(network.tensors, lr=1.0)
    risk = ScoreRisk(SoftmaxCrossEntropy(), judged(n=5))
    X, numbers = risk.queries.X, risk.active
    before = network.theta()
    rows = risk.rows(numbers)
    network.step(network.tensor(X[rows]), lambda scores: torch.from_numpy(risk.batch(numbers, scores.numpy())[1]))
    step = before - network.theta()
    for at in range(form.n_parameters):
        ahead, behind = before.copy(), before.copy()
        ahead[at] += 1e-5
        behind[at] -= 1e-5
        quotient = (risk(form.score(ahead, X))[0] - risk(form.score(behind, X))[0]) / 2e-5
        assert step[at] == pytest.approx(quotient, abs=1e-5)


def test_the_same_seed_gives_the_same_network():
    train = judged()
    order = np.random.default_rng(1).permutation(train.n_documents)
    qid = np.repeat(train.query_ids, train.lengths)
    shuffled = Queries.from_arrays(train.X[order], train.grades[order], qid=qid[order])
    scorer = Neural(hidden=8, epochs=3, dropout=0.3)
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = Ranker("svmndcg", scorer=scorer).fit(train).coef_
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.manual_seed(6)
    torch.set_num_threads(1)
    for queries, n_jobs in ((train, 1), (shuffled, 2)):
        assert np.array_equal(Ranker("svmndcg", scorer=scorer, n_jobs=n_jobs).fit(queries).coef_, first)
    torch.set_num_threads(threads)
    assert not np.array_equal(Ranker("svmndcg", scorer=scorer, random_state=1).fit(train).coef_, first)


def test_dropout_changes_training_and_not_scoring():
    train = judged()
    with_it = Ranker("softmax", scorer=Neural(8, dropout=0.5, epochs=3)).fit(train)
    assert not np.array_equal(with_it.coef_, Ranker("softmax", scorer=Neural(8, epochs=3)).fit(train).coef_)
    assert np.array_equal(with_it.predict(train), with_it.predict(train))


def test_validation_queries_choose_the_epoch():
    train, valid, seen = judged(n=10), judged(1), []
    ranker = Ranker("ndcg@5", scorer=Neural(64, epochs=200, learning_rate=0.03), patience=5, scaling=None)
    ranker.fit(train, validation=valid, callback=lambda _, theta: seen.append(theta))
    measured = [evaluate(valid, ranker.form_.score(theta, valid.X), ["ndcg@5"]).mean["ndcg@5"] for theta in seen]
    best = int(np.argmax(measured))
    assert ranker.score(valid) == measured[best]
    assert np.array_equal(ranker.coef_, seen[best])
    assert len(seen) == best + 6 < 200
    assert ranker.solution_.reason == "callback"


def test_training_that_is_stopped_leaves_a_model(monkeypatch):
    train = judged()
    late = Ranker("softmax", scorer=Neural(epochs=10**6), time_limit=0.5).fit(train)
    assert late.solution_.reason == "time_limit"
    at_once = Ranker("softmax", scorer=Neural(batch=1), time_limit=1e-9).fit(train)
    assert (at_once.solution_.reason, at_once.n_iter_) == ("time_limit", 1)
    called = Ranker("softmax", scorer=SMALL).fit(train, callback=lambda step, _: step.passes == 2)
    assert (called.solution_.reason, called.n_iter_) == ("callback", 2)
    step, steps = Network.step, []

    def interrupted(network, *arguments):
        steps.append(1)
        if len(steps) > 20:
            raise KeyboardInterrupt
        step(network, *arguments)

    monkeypatch.setattr(Network, "step", interrupted)
    stopped = Ranker("softmax", scorer=SMALL).fit(train)
    assert (stopped.solution_.reason, stopped.n_iter_) == ("interrupted", 3)
    assert stopped.predict(train).shape == (480,)


def test_a_saved_model_scores_without_pytorch(tmp_path):
    train = judged()
    ranker = Ranker("softmax", scorer=SMALL).fit(train)
    ranker.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", train.X)
    code = f"""{WITHOUT_TORCH_AND_JAX}
import numpy as np
from marginrank import load
ranker, X = load({str(tmp_path / "model")!r}), np.load({str(tmp_path / "X.npy")!r})
np.save({str(tmp_path / "scores.npy")!r}, ranker.predict(X))
ranker.fit(X, np.arange(len(X)) % 2, qid=np.arange(len(X)) // 8)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("ImportError: the neural scorer needs PyTorch: pip install 'marginrank[neural]'\n")
    assert np.array_equal(np.load(tmp_path / "scores.npy"), ranker.predict(train))
    again = load(tmp_path / "model")
    assert again.scorer == SMALL
    assert np.array_equal(again.fit(train).coef_, ranker.coef_)


@pytest.mark.parametrize("widths", [[4, 2**62, 1], [4, 17, 1], [4, 16, 2], [5, 16, 1]])
def test_a_hostile_file_is_refused(tmp_path, widths):
    Ranker("softmax", scorer=SMALL).fit(judged()).save(tmp_path / "model")
    kind, header, arrays = read_model(tmp_path / "model")
    write_model(tmp_path / "hostile", kind, header, {**arrays, "neural.widths": np.array(widths)})
    with pytest.raises(DataError, match="incomplete or contradicts itself"):
        load(tmp_path / "hostile")


def test_spellings_and_grids():
    assert parse_scorer("neural(hidden=64x32,learning_rate=0.01)").widths == (64, 32)
    assert parse_scorer(str(Neural((64, 64)))) == Neural((64, 64))
    selection = tune(
        Ranker("softmax", scorer="neural(epochs=2)"), judged(), folds=2, grid={"scorer__hidden": [4, 8]}
    )  # fmt: skip
    assert sorted(one.parameters["scorer__hidden"] for one in selection.candidates) == [4, 8]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hidden": "64;32"}, "give a number, a tuple, or text such as '64x32'"),
        ({"hidden": (8, 0)}, "every layer needs at least one unit"),
        ({"activation": "rleu"}, "did you mean 'relu'"),
        ({"dropout": 1.0}, "it lies between 0 and 1"),
        ({"epochs": 0}, "epochs is 0; give a whole number of at least 1"),
        ({"batch": 0.5}, "batch is 0.5; give a whole number"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, expected):
    with pytest.raises(ValueError, match=expected):
        Neural(**options)


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ValueError, match="device is 'abacus', which PyTorch cannot use"):
        Ranker("softmax", scorer=Neural(device="abacus")).fit(judged())
    with pytest.raises(NumericalError, match="lower learning_rate"):
        Ranker("softmax", scorer=Neural(learning_rate=1e30)).fit(judged())
    with pytest.raises(TypeError, match="a neural model are not made of features"):
        Ranker("softmax", scorer=Neural(4, epochs=1)).fit(judged()).explain(judged())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_cuda_learns_what_a_cpu_does():
    train = judged()
    assert Ranker("softmax", scorer=SMALL.with_params(device="cuda")).fit(train).score(train) > 0.8


def test_features_on_a_device_give_the_network_of_an_array():
    queries, limits = judged(), StageLimits(1.0)
    thetas = []
    for X in (queries.X, DeviceFeatures(torch.tensor(queries.X))):
        risk = ScoreRisk(SoftmaxCrossEntropy(), queries.with_features(X))
        *_, last = SMALL.with_params(epochs=2, device="cpu").stages(risk, limits)
        thetas.append(last.theta)
    np.testing.assert_array_equal(*thetas)


def test_training_reads_a_tensor_as_it_reads_an_array():
    queries, scorer = judged(), SMALL.with_params(epochs=2, device="cpu")
    tensor = queries.with_features(DeviceFeatures(torch.tensor(queries.X)))
    rankers = [Ranker("softmax", scorer=scorer).fit(given) for given in (queries, tensor)]
    np.testing.assert_array_equal(rankers[1].coef_, rankers[0].coef_)
