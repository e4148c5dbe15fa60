"""Queries on the workers of a Dask cluster: the same results as in this process, bit for bit, whoever computes them."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import Counter

import numpy as np
import pytest

from marginrank import DataError, Queries, Ranker, compare, evaluate, tune
from marginrank.data import write_binary, write_letor
from marginrank.data.reader import write_queries
from marginrank.distributed import DistributedQueries
from tests.distributed.data import METHODS, judged, ranker


@pytest.fixture
def files(tmp_path):
    queries = judged()
    for number, part in enumerate((queries[0:10], queries[10:35], queries[35:41], queries[41:60])):
        write_letor(tmp_path / f"part-{number}.txt", part)
    return tmp_path / "part-*.txt"


@pytest.mark.parametrize("name", METHODS)
def test_workers_and_this_process_train_the_same_model(client, files, name):
    here = ranker(name).fit(DistributedQueries.from_files(files))
    there = ranker(name).fit(DistributedQueries.from_files(files, client))
    np.testing.assert_array_equal(there.coef_, here.coef_)
    assert there.trained_on_ == here.trained_on_
    assert [step.primal for step in there.solution_.trace] == [step.primal for step in here.solution_.trace]


def test_one_worker_trains_the_same_model_as_two(client, files, monkeypatch):
    from marginrank.distributed.cluster_partitions import PartitionPlacement

    cut = DistributedQueries.from_files(files, client)
    assert len(set(cut.partitions._placement.homes)) == 2
    two = Ranker("svmmap").fit(cut)
    workers = PartitionPlacement._workers
    monkeypatch.setattr(PartitionPlacement, "_workers", lambda self: dict(sorted(workers(self).items())[:1]))
    alone = DistributedQueries.from_files(files, client)
    assert len(set(alone.partitions._placement.homes)) == 1
    np.testing.assert_array_equal(Ranker("svmmap").fit(alone).coef_, two.coef_)


def test_scores_measures_and_choices_are_the_same(client, files, tmp_path):
    here, there = DistributedQueries.from_files(files), DistributedQueries.from_files(files, client)
    model, other = Ranker("svmmap").fit(judged(seed=1)), Ranker("ranksvm").fit(judged(seed=1))
    np.testing.assert_array_equal(model.predict(there).gather(), model.predict(here).gather())
    assert evaluate(there, model).to_dict() == evaluate(here, model).to_dict()
    systems = {"a": model.predict(there), "b": other}
    assert compare(systems, there).to_dicts() == compare({"a": model, "b": other}, here).to_dicts()
    assert [np.loadtxt(path).size for path in model.predict(there).to_files(tmp_path / "scores")] == [
        part.documents for part in here.facts
    ]
    chosen, expected = (tune(Ranker("svmmap"), cut, folds=2, Cs=[0.1, 1.0]).to_dict() for cut in (there, here))
    assert chosen == expected


def test_a_query_spread_over_all_partitions_of_a_frame_stays_whole(client):
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    queries = judged()
    names = [f"f{number}" for number in range(5)]
    qid = queries.query_ids[queries.query_of_row]
    table = pandas.DataFrame(queries.X, columns=names).assign(qid=qid, label=queries.grades)
    models = []
    for seed, on in ((0, client), (1, None)):
        mixed = table.sample(frac=1.0, random_state=seed).reset_index(drop=True)
        frame = frames.from_pandas(mixed, npartitions=6)
        cut = DistributedQueries.from_dask(frame, on, n_partitions=3, grade="label")
        assert (len(cut), cut.n_documents) == (len(queries), queries.n_documents)
        models.append(Ranker("svmmap").fit(cut))
    spread = Counter(query for rows in np.array_split(mixed["qid"], 6) for query in set(rows))
    assert max(spread.values()) == 6
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    whole = Ranker("svmmap").fit(queries)
    assert abs(models[0].objective_ - whole.objective_) <= max(whole.gap_, models[0].gap_)


def test_a_file_that_a_worker_does_not_have_is_named(client, tmp_path):
    cut = DistributedQueries.from_files([tmp_path / "absent.txt"], client)
    with pytest.raises(DataError, match=r"absent.txt: there is no such file on worker tcp://\S+; give a path on"):
        Ranker("svmmap").fit(cut)


def test_other_versions_on_a_worker_are_refused(client, files, monkeypatch):
    from marginrank.distributed import cluster_partitions as cluster

    monkeypatch.setattr(cluster, "versions", lambda: {**worker_versions(), "numpy": "0.1"})
    with pytest.raises(DataError, match=r"worker tcp://\S+ has numpy \S+ and the client 0.1; install the same"):
        len(DistributedQueries.from_files(files, client))


def worker_versions():
    from marginrank.distributed.worker import versions

    return versions()


def test_workers_drop_what_the_client_no_longer_has(client, files):
    def kept():
        gc.collect()
        others.append(DistributedQueries.from_files(files, client))
        len(others[-1])
        return sum(client.run(_count_kept).values())

    others = []
    before = kept()
    Ranker("svmmap").fit(others[0])
    assert kept() == before + others[0].n_partitions
    assert Ranker("svmmap").fit(others[0]).score(others[0]) > 0


def _count_kept():
    from marginrank.distributed.worker import _store

    return len(_store)


def test_binary_files_stay_on_disk(client, tmp_path):
    write_binary(tmp_path / "all.queries", judged().grouped)
    cut = DistributedQueries.from_files(tmp_path / "all.queries", client, per_file=2)
    assert cut.partitions.map(_is_mapped) == [True, True]


def _is_mapped(queries):
    array = queries.X
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_a_run_that_was_killed_goes_on_from_its_checkpoint(client, files, tmp_path):
    expected = Ranker("svmmap").fit(DistributedQueries.from_files(files))

    def die(step, _):
        if step.passes >= 4:
            raise RuntimeError("killed")
        return False

    kept = tmp_path / "run.checkpoint"
    with pytest.raises(RuntimeError, match="killed"):
        Ranker("svmmap").fit(DistributedQueries.from_files(files, client), checkpoint=kept, callback=die)
    # The rest may be done elsewhere, as results do not depend on the workers.
    for on in (client, None):
        model = Ranker("svmmap").fit(DistributedQueries.from_files(files, on), checkpoint=kept, resume=True)
        np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_a_killed_worker_changes_nothing(client):
    expected = Ranker("svmmap").fit(DistributedQueries.from_queries(judged(), 4))
    cut, killed = DistributedQueries.from_queries(judged(), 4, client), threading.Event()

    def kill(step, _):
        if step.passes >= 3 and not killed.is_set():
            killed.set()
            home = cut.partitions._placement.homes[0]
            os.kill(client.run(os.getpid, workers=[home])[home], signal.SIGKILL)
        return False

    model = Ranker("svmmap").fit(cut, callback=kill)
    assert killed.is_set()
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.trained_on_ == expected.trained_on_


class Lost:
    """A client whose cluster is in a bad way."""

    scheduler = None

    def __init__(self, error):
        self.error = error

    def nthreads(self):
        if isinstance(self.error, TimeoutError):
            return {}
        raise self.error

    def wait_for_workers(self, *_, **__):
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimeoutError(), "the cluster has no workers; start some"),
        (OSError("connection closed"), r"the scheduler no longer answers \(connection closed\); start it again"),
        (AttributeError("'NoneType' object has no attribute 'ncores'"), "the scheduler no longer answers"),
    ],
)
def test_a_cluster_without_workers_or_scheduler_is_named(files, error, message):
    pytest.importorskip("distributed", reason="needs marginrank[dask]")
    with pytest.raises(DataError, match=message):
        DistributedQueries.from_files(files, Lost(error))


def test_a_worker_without_memory_is_named():
    pytest.importorskip("distributed", reason="needs marginrank[dask]")
    from marginrank.distributed.cluster_partitions import PartitionPlacement

    class Full:
        status = "running"

        def nthreads(self):
            return {"tcp://10.0.0.7:1": 1}

        def scheduler_info(self, **_):
            return {"workers": {"tcp://10.0.0.7:1": {"status": self.status, "memory_limit": 2 * 10**9}}}

    client = Full()
    place = PartitionPlacement(client, [None])
    place.refuse_paused()
    client.status = "paused"
    with pytest.raises(
        DataError, match=r"worker tcp://10.0.0.7:1 has used up its memory \(2.0 GB\) and is paused; use"
    ):
        place.refuse_paused()


def test_partitions_of_a_lost_worker_go_to_the_others_and_come_back():
    pytest.importorskip("distributed", reason="needs marginrank[dask]")
    from marginrank.distributed.cluster_partitions import PartitionPlacement

    class Some:
        workers = {"a": 1, "b": 2}  # noqa: RUF012

        def nthreads(self):
            return self.workers

    client = Some()
    place = PartitionPlacement(client, [None] * 9)
    assert Counter(place.homes) == {"a": 3, "b": 6}
    assert [len(numbers) for _, numbers in place.batches()] == [3, 3, 3]
    before = list(place.homes)
    client.workers = {"b": 2}
    assert not place.complete
    place.assign()
    assert set(place.homes) == {"b"}
    client.workers = {"b": 2, "c": 1}
    place.refresh()
    assert Counter(place.homes) == {"b": 6, "c": 3}
    kept = [now == then for now, then in zip(place.homes, before, strict=True) if then == "b"]
    assert sum(kept) >= 3


def test_weighted_documents_are_trained_on_a_cluster(client, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    clicked = (X[:, 0] + rng.normal(size=120) > 1).astype(float)
    queries = Queries.from_arrays(X, clicked, qid=np.arange(120) // 6, document_weights=rng.uniform(1, 9, 120))
    here = Ranker("ranksvm", C=3.0).fit(queries)
    for part, name in ((queries[:7], "a"), (queries[7:], "b")):
        write_queries(tmp_path / f"{name}.parquet", part)
    for there in (
        DistributedQueries.from_queries(queries, 3, client),
        DistributedQueries.from_files(str(tmp_path / "*.parquet"), client),
    ):
        ranker = Ranker("ranksvm", C=3.0).fit(there)
        assert ranker.objective_ == pytest.approx(here.objective_, abs=here.gap_ + ranker.gap_ + 1e-9)
        values = [evaluate(data, ranker.predict(data), "dcg@3").mean["dcg@3"] for data in (there, queries)]
        assert values[0] == pytest.approx(values[1])
        assert tune(Ranker("ranksvm"), there, Cs=[0.1, 1.0], folds=2).criterion == "dcg@10"
