"""A run that goes on from its checkpoint ends as if nothing had happened; a checkpoint of another run is refused.

What a kill leaves is a beginning of the file, so files that are cut anywhere stand for kills at any moment.
"""

from __future__ import annotations

import errno
import json
import random
import struct

import numpy as np
import pytest

import marginrank.ranker.grid_search
import marginrank.training.checkpoint
from marginrank import DataError, Queries, Ranker, tune
from marginrank.errors import CheckpointWarning
from marginrank.losses import PairwiseHinge, SlackLoss
from marginrank.methods.baselines.rankboost import RankBoost
from marginrank.runtime.option_objects import registered
from marginrank.scorers import Additive
from marginrank.solvers import Bundle, FrankWolfe
from marginrank.solvers.base import Solver
from marginrank.training.checkpoint import Checkpoint
from marginrank.training.risk import RankingRisk
from marginrank.training.tight_bound import Tight
from tests.fuzz.resumes import KINDS, finish, kill


def judged(n_queries, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * 6, 4))
    hidden = X @ [1.0, -0.5, 0.0, 0.2] + rng.standard_normal(len(X))
    return Queries.from_arrays(X, np.digitize(hidden, [0.5, 1.5]), qid=np.repeat(np.arange(n_queries), 6))


TRAIN, VALID = judged(12, 0), judged(8, 1)
SOLVERS = {name: Ranker("svmmap", solver=name) for name in registered(Solver)}
SOLVERS["newton"] = Ranker(PairwiseHinge(power=2), solver="newton")
RUNS = SOLVERS | {
    "tight": Ranker("svmmap", bound=Tight(start="regression")),
    "annealed": Ranker("svmmap", bound=Tight(anneal=2)),
    "additive": Ranker("svmndcg@5", scorer=Additive(bins=4)),
    "kernel": Ranker("softmax", scorer="kernel"),
    "slack": Ranker(SlackLoss("ap")),
}


def outcome(ranker):
    """Everything that training leaves, but times."""
    solution = ranker.solution_
    trace = tuple((step.primal, step.dual, step.passes) for step in solution.trace)
    return solution.theta.tobytes(), solution.primal, solution.dual, solution.reason, trace, ranker.health_


def records(path):
    """Return the records of a checkpoint; the first says what was run."""
    with path.open("rb", buffering=0) as file:
        return list(
            marginrank.training.checkpoint._records(
                file, len(marginrank.training.checkpoint._MAGIC), path.stat().st_size
            )
        )


@pytest.fixture
def passes(monkeypatch):
    """Count the evaluations of risks."""
    counts = []
    for name in ("__call__", "parts", "block", "hessian_product"):
        original = getattr(RankingRisk, name)

        def counted(self, *arguments, original=original, name=name):
            counts.append(name)
            return original(self, *arguments)

        monkeypatch.setattr(RankingRisk, name, counted)
    return counts


@pytest.mark.parametrize("name", RUNS)
def test_a_run_cut_anywhere_ends_with_the_same_bits(name, tmp_path, passes):
    ranker, path = RUNS[name], tmp_path / "run"
    expected = outcome(ranker.fit(TRAIN))
    all_passes = len(passes)
    assert outcome(ranker.fit(TRAIN, checkpoint=path)) == expected
    whole = path.read_bytes()
    draw, first = random.Random(name), records(path)[0].end
    for left in (first, draw.randrange(first + 2, len(whole)), len(whole)):
        path.write_bytes(whole[:left])
        passes.clear()
        assert outcome(ranker.fit(TRAIN, checkpoint=path, resume=True)) == expected
        assert len(passes) == all_passes if left == first else len(passes) <= all_passes
    assert not passes


def test_early_stopping_starts_and_paths_go_on_likewise(tmp_path, passes):
    ranker, other = Ranker("svmmap", C=10.0), Ranker("svmmap", C=0.1).fit(TRAIN)
    calls = {
        "validation": lambda **more: [ranker.fit(TRAIN, validation=VALID, **more)],
        "start": lambda **more: [ranker.fit(TRAIN, start=other, **more)],
        "center": lambda **more: [ranker.fit(TRAIN, center=other, **more)],
        "path": lambda **more: ranker.fit_path(TRAIN, Cs=[10.0, 0.1], **more),
    }
    for name, call in calls.items():
        expected = [outcome(one) for one in call()]
        call(checkpoint=tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: 2 * len(content) // 3])
        assert [outcome(one) for one in call(checkpoint=tmp_path / name, resume=True)] == expected
        passes.clear()
        call(checkpoint=tmp_path / name, resume=True)
        assert not passes, name


@pytest.mark.parametrize(
    "ranker", [Ranker("svmmap"), Ranker(RankBoost(rounds=5)), Ranker("svmmap", scorer="auto")], ids=str
)
def test_a_search_keeps_what_is_finished(ranker, tmp_path, monkeypatch):
    # Parts that are finished are dropped from the file at once.
    monkeypatch.setattr(marginrank.training.checkpoint, "_MAX_FINISHED_BYTES", 0)
    path, fitted = tmp_path / "run", []
    original = marginrank.ranker.grid_search.train_path
    monkeypatch.setattr(
        marginrank.ranker.grid_search, "train_path", lambda *args, **kw: fitted.append(1) or original(*args, **kw)
    )
    expected = tune(ranker, TRAIN, folds=3, Cs=[0.1, 1.0])
    all_fits = len(fitted)
    tune(ranker, TRAIN, folds=3, Cs=[0.1, 1.0], checkpoint=path)
    whole = path.read_bytes()
    for share in (0.4, 0.8, 1.0):
        path.write_bytes(whole[: int(share * len(whole))])
        fitted.clear()
        selection = tune(ranker, TRAIN, folds=3, Cs=[0.1, 1.0], checkpoint=path, resume=True)
        assert selection.to_dict() == expected.to_dict()
        assert outcome(selection.ranker)[:4] == outcome(expected.ranker)[:4]
        assert len(fitted) < all_fits or share == 0.4
    assert len(fitted) == 1  # the chosen one, on all queries


def test_every_answer_is_in_the_file_after_the_interval(tmp_path, monkeypatch):
    monkeypatch.setattr(marginrank.training.checkpoint, "INTERVAL", 0.0)
    path, sizes = tmp_path / "run", []
    Ranker("svmmap").fit(TRAIN, checkpoint=path, callback=lambda *_: sizes.append(path.stat().st_size))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: Ranker("svmmap", C=2.0).fit, "C was 1.0 and is 2.0"),
        (lambda: Ranker("svmndcg").fit, 'method was "svmmap" and is "svmndcg"'),
        (lambda: Ranker("svmmap", scorer="additive").fit, 'scorer was "linear" and is "additive"'),
        (lambda: Ranker("svmmap", solver=Bundle(tol=1e-3, step=0.2)).fit, "solver"),
        (lambda: Ranker("svmmap", scaling=None).fit, "scaling was"),
        (lambda: Ranker("svmmap", random_state=1).fit, "random_state was 0 and is 1"),
    ],
)  # fmt: skip
def test_another_run_is_refused_by_what_differs(change, named, tmp_path):
    Ranker("svmmap").fit(TRAIN, checkpoint=tmp_path / "run")
    with pytest.raises(DataError, match="checkpoint of another run") as error:
        change()(TRAIN, checkpoint=tmp_path / "run", resume=True)
    assert named in str(error.value)


def test_other_data_another_start_and_another_version_are_refused(tmp_path, monkeypatch):
    ranker, path = Ranker("svmmap"), tmp_path / "run"
    ranker.fit(TRAIN, checkpoint=path)
    with pytest.raises(DataError, match="training data was"):
        ranker.fit(VALID, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="validation data was null"):
        ranker.fit(TRAIN, validation=VALID, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="start was null"):
        ranker.fit(TRAIN, start=Ranker("svmmap").fit(TRAIN), checkpoint=path, resume=True)
    with pytest.raises(DataError, match="folds was"):
        tune(ranker, TRAIN, Cs=[1.0], checkpoint=path, resume=True)
    monkeypatch.setattr(marginrank.training.checkpoint, "__version__", "99.0")
    with pytest.raises(DataError, match=r"version was .* and is \"99.0\""):
        ranker.fit(TRAIN, checkpoint=path, resume=True)


def test_threads_and_time_may_change(tmp_path, passes):
    Ranker("svmmap", n_jobs=1).fit(TRAIN, checkpoint=tmp_path / "run")
    passes.clear()
    Ranker("svmmap", n_jobs=2, time_limit=100.0).fit(TRAIN, checkpoint=tmp_path / "run", resume=True)
    assert not passes


def test_what_cannot_go_on_says_so(tmp_path):
    path = tmp_path / "run"
    for ranker in (Ranker(RankBoost()), Ranker("rankboost"), Ranker("svmmap", scorer="boosted")):
        with pytest.raises(ValueError, match="no solver that could resume from a checkpoint"):
            ranker.fit(TRAIN, checkpoint=path)
        with pytest.raises(ValueError, match="no solver that could resume from a checkpoint"):
            ranker.fit_path(TRAIN, Cs=[1.0], checkpoint=path)
    with pytest.raises(ValueError, match="random_state is None"):
        Ranker("svmmap", random_state=None).fit(TRAIN, checkpoint=path)
    # The seed of a solver is by default that of the ranker.
    Ranker("svmmap", solver=FrankWolfe(max_iter=3)).fit(TRAIN, checkpoint=tmp_path / "seeded")
    with pytest.raises(ValueError, match="random_state is None"):
        tune(Ranker("svmmap"), TRAIN, random_state=None, checkpoint=path)
    with pytest.raises(TypeError, match="resume=True needs a checkpoint"):
        Ranker("svmmap").fit(TRAIN, resume=True)
    assert not path.exists()
    path.write_bytes(b"")
    with pytest.raises(FileExistsError, match="resume=True"):
        Ranker("svmmap").fit(TRAIN, checkpoint=path)
    with pytest.raises(OSError, match="no such folder"):
        Ranker("svmmap").fit(TRAIN, checkpoint=tmp_path / "missing" / "run")
    with pytest.raises(OSError, match="cannot write"):
        Ranker("svmmap").fit(TRAIN, checkpoint="/proc/run")


@pytest.mark.filterwarnings("ignore::marginrank.errors.CheckpointWarning")
def test_no_damage_gives_another_model(tmp_path):
    ranker, path, draw = Ranker("svmmap"), tmp_path / "run", random.Random(0)
    expected = outcome(ranker.fit(TRAIN, checkpoint=path))
    whole, met = path.read_bytes(), set()
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 1, 30])):
            damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            met.add(outcome(ranker.fit(TRAIN, checkpoint=path, resume=True)) == expected)
        except DataError as error:
            met.add(str(error).partition(": ")[0])
    assert met == {True, str(path)}


def test_damage_in_the_middle_is_told(tmp_path):
    ranker, path = Ranker("svmmap"), tmp_path / "run"
    ranker.fit(TRAIN, checkpoint=path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.warns(CheckpointWarning, match="damaged after [0-9]+ entries"):
        ranker.fit(TRAIN, checkpoint=path, resume=True)


def signed(contents):
    """A file whose digests are right, whatever it holds."""
    last, file = bytes(16), marginrank.training.checkpoint._MAGIC
    for content in contents:
        frame = marginrank.training.checkpoint._frame(last, content)
        file, last = file + frame, frame[8:24]
    return file


def test_hostile_files_are_refused(tmp_path):
    ranker, path = Ranker("svmmap"), tmp_path / "run"
    ranker.fit(TRAIN, checkpoint=path)
    magic = marginrank.training.checkpoint._MAGIC
    about, *answers = [one.content for one in records(path)]
    files = {
        "empty": b"",
        "a pickle": b"\x80\x04\x95" + bytes(50),
        "no header": magic,
        "a length beyond all memory": magic + struct.pack("<Q", 1 << 62) + bytes(16),
        "no JSON": signed([b"\xff\xfe"]),
        "nested JSON": signed([b"[" * 100_000]),
        "no object": signed([b"[1, 2]"]),
        "another object": signed([json.dumps({"version": {"a": [1] * 1000}}).encode()]),
        "empty answers": signed([about, *(one[:24] for one in answers)]),
        "short answers": signed([about, *(one[:-8] for one in answers)]),
        "many parts": signed([about, *(one[:24] + struct.pack("<?II", True, 1 << 31, 1 << 31) for one in answers)]),
    }
    for name, content in files.items():
        path.write_bytes(content)
        with pytest.raises(DataError, match="remove the file"):
            print(name, ranker.fit(TRAIN, checkpoint=path, resume=True))
    path.write_bytes(signed([about, b"short"]))
    ranker.fit(TRAIN, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="not a file"):
        ranker.fit(TRAIN, checkpoint=tmp_path, resume=True)


def test_training_survives_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(marginrank.training.checkpoint, "INTERVAL", 0.0)
    full, path = [True] * 5, tmp_path / "run"
    original = marginrank.training.checkpoint.os.fsync

    def fsync(descriptor):
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    expected = outcome(Ranker("svmmap").fit(TRAIN))
    with Checkpoint(path, {}, resume=False) as checkpoint:
        monkeypatch.setattr(marginrank.training.checkpoint.os, "fsync", fsync)
        log = checkpoint.log("run")
        with pytest.warns(CheckpointWarning, match="No space left on device; training continues"):
            log.put(b"first", b"1")
        for number in range(6):  # the disk has room again after some of these
            log.put(bytes([number]), b"next", bytes([number]))
    with Checkpoint(path, {}, resume=True) as checkpoint:
        assert checkpoint.log("run").get(b"1") == b"first"
        assert checkpoint.log("run").get(b"next", b"\x05") == b"\x05"
    monkeypatch.setattr(marginrank.training.checkpoint, "_MAX_WAITING_BYTES", 0)
    real = marginrank.training.checkpoint.Checkpoint._write

    def write(self):
        full[:] = [True]
        real(self)

    monkeypatch.setattr(marginrank.training.checkpoint.Checkpoint, "_write", write)
    with pytest.warns(CheckpointWarning):
        assert outcome(Ranker("svmmap").fit(TRAIN, checkpoint=tmp_path / "other")) == expected


def test_a_checkpoint_is_of_one_process(tmp_path):
    with (
        Checkpoint(tmp_path / "run", {}, resume=False),
        pytest.raises(DataError, match="another process uses this checkpoint"),
    ):
        Checkpoint(tmp_path / "run", {}, resume=True)


@pytest.mark.parametrize("name", ["bundle", "tune"])
def test_killed_processes_go_on(name, tmp_path):
    expected, seconds = finish(name, None)
    path, draw = tmp_path / "run", random.Random(name)
    for _ in range(2):
        kill(name, path, draw.uniform(0.2, 0.9) * seconds)
    assert finish(name, path)[0] == expected
    assert name in KINDS
