"""The database of judgements: nothing acknowledged is lost, nothing is stored twice, nobody else reads it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from itertools import pairwise

import pytest

from marginrank.errors import DataError
from marginrank.judging import JudgementStore
from marginrank.judging.judgement_store import shuffled


@pytest.fixture
def store(tmp_path):
    with JudgementStore(tmp_path / "judged.db") as opened:
        opened.add_documents([("q1", "a"), ("q1", "b"), ("q2", "a")])
        yield opened


def test_the_latest_decision_that_is_not_undone_counts(store):
    store.decide("1", 1, "ann", 2.0)
    store.decide("2", 1, "ann", 3.0, "sure")
    store.decide("3", 1, "bob", 0.0)
    store.decide("4", 2, "ann", None)
    assert list(store.judgements().rows()) == [("q1", "a", "ann", 3.0), ("q1", "a", "bob", 0.0)]
    assert store.notes() == [("q1", "a", "ann", "sure")]
    assert store.undo(store.decisions("ann")[1].id, "ann") == 1
    assert store.decisions("ann")[1].grade == 2.0
    assert store.decisions("ann")[2].grade is None
    assert store.undo(3, "ann") is None  # bob's
    assert store.decisions("bob")[1].grade == 0.0
    assert store.raters() == ["ann", "bob"]


def test_a_request_is_stored_once_and_means_one_thing(store):
    for _ in range(3):
        store.decide("same", 1, "ann", 2.0)
    assert len(store.judgements().grades) == 1
    store.undo(store.decisions("ann")[1].id, "ann")
    store.decide("same", 1, "ann", 2.0)  # a late repetition does not undo the undoing
    assert store.decisions("ann") == {}
    with pytest.raises(DataError, match="another decision"):
        store.decide("same", 2, "ann", 2.0)


def test_documents_keep_their_numbers_when_others_come(tmp_path):
    with JudgementStore(tmp_path / "judged.db") as store:
        assert store.add_documents([("q1", "a"), ("q1", "b")]) == [1, 2]
    with JudgementStore(tmp_path / "judged.db") as store:
        assert store.add_documents([("q0", "z"), ("q1", "b"), ("q1", "a")]) == [3, 2, 1]


def test_token_and_scale_stay(tmp_path):
    with JudgementStore(tmp_path / "judged.db") as store:
        token = store.token()
        store.set_scale([0.0, 5.0])
        store.set_scale([0.0, 1.0])  # nothing was judged with the other
        store.decide("1", store.add_documents([("q", "a")])[0], "ann", 1.0)
    assert len(token) >= 32
    with JudgementStore(tmp_path / "judged.db") as store:
        assert store.token() == token
        store.set_scale([0.0, 1.0])
        with pytest.raises(DataError, match=r"judged.db: the grades here are 0,1; give scale='0,1'"):
            store.set_scale([0.0, 1.0, 2.0])
    with JudgementStore(tmp_path / "other.db") as store:
        assert store.token() != token


def test_only_its_owner_reads_the_database(store):
    store.decide("1", 1, "ann", 2.0)
    files = list(store.path.parent.iterdir())
    assert {path.name for path in files} >= {"judged.db", "judged.db-wal"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_every_commit_reaches_the_disk(store):
    for name, value in (("journal_mode", "wal"), ("synchronous", 2)):
        assert store._connection.execute(f"PRAGMA {name}").fetchone()[0] == value


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("query,document\n" * 100)
    with pytest.raises(DataError, match=r"text.db: this is not a database of judgements"):
        JudgementStore(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE cats (name)")
    other.close()
    with pytest.raises(DataError, match="database of another program"):
        JudgementStore(tmp_path / "other.db")


def test_nothing_judged_is_an_error(store):
    store.decide("1", 1, "ann", None)
    with pytest.raises(DataError, match="nothing has been judged yet"):
        store.judgements()


def test_threads_and_processes_share_a_file(store):
    code = (
        "import sys; from marginrank.judging import JudgementStore\n"
        "with JudgementStore(sys.argv[1]) as store:\n"
        "    for n in range(40): store.decide(f'{sys.argv[2]}-{n}', 1 + n % 3, sys.argv[2], float(n % 5))\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, str(store.path), name]) for name in ("p", "q")]
    threads = [
        threading.Thread(target=lambda n=n: [store.decide(f"{n}-{i}", 1 + i % 3, f"t{n}", 1.0) for i in range(40)])
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(timeout=60) for process in others] == [0, 0]
    rows = store._rows("SELECT rater, COUNT(*) FROM decisions GROUP BY rater ORDER BY rater")
    assert rows == [(name, 40) for name in ("p", "q", "t0", "t1", "t2")]
    assert store.decisions("p")[1].grade == 4.0  # of n = 39, the last of document 1


def test_orders_differ_by_rater_and_seed_and_keep_queries_together():
    pairs = [(f"q{row % 20}", f"d{row}") for row in range(200)]
    orders = [shuffled(rater, seed, pairs) for rater in ("ann", "bob") for seed in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    for order in orders:
        assert sorted(order) == list(range(200))
        queries = [pairs[row][0] for row in order]
        assert sum(one != other for one, other in pairwise(queries)) == 19
    # Which document comes first is not that of the file: over many raters, each is first about as often.
    first = [shuffled(f"rater {n}", 0, [("q", str(d)) for d in range(4)])[0] for n in range(400)]
    assert all(60 < first.count(d) < 140 for d in range(4))  # 100 ± 4.6 standard deviations
