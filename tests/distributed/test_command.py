"""`marginrank train` and `tune` on a cluster."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

from marginrank import Ranker, load
from marginrank.cli.app import app
from marginrank.data import write_parquet
from marginrank.distributed import DistributedQueries
from tests.distributed import processes
from tests.distributed.data import judged, ranker


@pytest.fixture
def folder(tmp_path, monkeypatch):
    queries = judged()
    for number, part in enumerate((queries[0:20], queries[20:45], queries[45:60])):
        write_parquet(tmp_path / f"part-{number}.parquet", part)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_train_on_a_running_cluster(client, folder):
    client.wait_for_workers(2)  # one that another test killed takes a while to come back
    address = client.scheduler.address
    files = sorted(folder.glob("part-*.parquet"))
    words = ("train", *files, "--scheduler", address, "-C", 1, "-o", "model.safetensors", "--json")
    done = run(*words)
    assert done.exit_code == 0, done.stderr
    assert "2 workers; dashboard at http" in done.stderr
    expected = Ranker("svmmap", C=1.0).fit(DistributedQueries.from_files(files))
    np.testing.assert_array_equal(load("model.safetensors").coef_, expected.coef_)
    record = json.loads(done.stdout)
    assert record["data"].endswith("60 queries, 362 documents, 5 features, grades 0 to 3")
    assert record["model"]["trained_on"]["fingerprint"] == expected.trained_on_["fingerprint"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workers", 2, "--scheduler", "tcp://127.0.0.1:1"), "for a running one, not both"),
        (("--workers", 2, "--start-from", "part-0.parquet"), "leave out --workers and --scheduler"),
    ],
)
def test_options_that_contradict_each_other(folder, words, message):
    done = run("train", "part-0.parquet", *words, "-o", "m.safetensors")
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_convert_writes_a_binary_file_for_each(folder):
    (folder / "binary").mkdir()
    files = sorted(folder.glob("part-*.parquet"))
    done = run("convert", *files, "binary")
    assert done.exit_code == 0, done.stderr
    converted = DistributedQueries.from_files(folder / "binary" / "part-*.queries")
    assert [part.name for part in sorted((folder / "binary").iterdir())] == [f"part-{n}.queries" for n in range(3)]
    expected = Ranker("svmmap").fit(DistributedQueries.from_files(files))
    np.testing.assert_array_equal(Ranker("svmmap").fit(converted).coef_, expected.coef_)
    again = run("convert", *files, "binary")
    assert again.exit_code == 1
    assert "already exists" in again.stderr


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    queries, folder = judged(200), tmp_path_factory.mktemp("many")
    for number, first in enumerate(range(0, 200, 50)):
        write_parquet(folder / f"part-{number}.parquet", queries[first : first + 50])
    return folder / "part-*.parquet"


@pytest.fixture(scope="module")
def expected(many):
    return ranker("svmmap").fit(DistributedQueries.from_files(many)).coef_


@pytest.fixture(scope="module")
def living():
    """The address of a scheduler with a worker, and its process, which the last test of this file kills."""
    pytest.importorskip("distributed", reason="needs marginrank[dask]")
    address = processes.free_address()
    with processes.scheduler(address, n_workers=1) as process:
        yield address, process


@pytest.mark.slow
def test_a_client_that_is_killed_goes_on_from_its_checkpoint(many, expected, living, tmp_path):
    """The scheduler and the worker live on, with what they had for the client that is gone."""
    from distributed import Client

    address, scheduler = living
    run = processes.Run(address, many, "svmmap", tmp_path)
    trainer = run.client()
    assert run.kill(trainer, trainer, passes=3)
    assert processes.outcome(trainer)[0] == -signal.SIGKILL
    kept = run.checkpoint.stat().st_size
    assert kept > 0
    assert not run.model.exists()
    assert scheduler.poll() is None
    code, said = processes.outcome(run.client())
    assert code == 0, said
    # Nothing is kept for the client that was killed.
    with Client(address) as client:
        assert set(client.run(_count_owners).values()) == {1}
    np.testing.assert_array_equal(load(run.model).coef_, expected)


def _count_owners():
    from marginrank.distributed.worker import _store

    return len({owner for owner, *_ in _store})


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_named_and_training_goes_on_with_another(many, expected, living, tmp_path):
    address, scheduler = living
    run = processes.Run(address, many, "svmmap", tmp_path, patience=2.0)
    trainer = run.client()
    assert run.kill(trainer, scheduler, passes=3)
    code, said = processes.outcome(trainer)
    assert code == 1
    assert "the scheduler no longer answers" in said
    assert "start it again, and resume from a checkpoint" in said
    assert run.checkpoint.stat().st_size > 0
    with processes.scheduler(address, n_workers=1):
        code, said = processes.outcome(run.client())
        assert code == 0, said
    np.testing.assert_array_equal(load(run.model).coef_, expected)
