"""Work on several threads, and threads of BLAS while a solver runs."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from marginrank import Ranker
from marginrank.runtime import threads
from marginrank.runtime.threads import default_threads, for_chunks, for_each, one_blas_thread, thread_count

_FIT = """
import numpy as np
from threadpoolctl import threadpool_info
from marginrank import Ranker
from marginrank.solvers import Bundle

rng, threads = np.random.default_rng(0), []
X, y = rng.standard_normal((60, 4)), rng.integers(0, 3, 60)

def look(step, theta):
    import scipy.linalg
    threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

Ranker("svmmap", solver=Bundle(callback=look)).fit(X, y, qid=np.arange(60) // 6)
print(len(threads) > 0, set(threads))
"""


def test_solvers_run_with_one_thread_of_every_blas_from_the_first_fit_on():
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", _FIT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "{1}"]


@pytest.fixture
def controllers(monkeypatch):
    """Controllers of BLAS that were made, each with a log of what it was asked for."""
    made = []

    class Controller:
        def __init__(self):
            self.log = []
            made.append(self)

        def limit(self, limits, user_api):
            self.log.append((limits, user_api))
            return self

        def restore_original_limits(self):
            self.log.append("as before")

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Controller)
    monkeypatch.setattr(threads, "_BLAS_LIMIT", threads._BlasLimit())
    return made


def test_blas_has_one_thread_until_the_last_that_asked_for_it_is_done(controllers):
    for _ in range(2):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert controllers[0].log == [(1, "blas")]
        second.__exit__(None, None, None)
        assert controllers[0].log == [(1, "blas"), "as before"]
        controllers[0].log.clear()


def test_libraries_are_looked_for_again_only_after_an_import(controllers, monkeypatch):
    for _ in range(3):
        with one_blas_thread():
            pass
    assert len(controllers) == 1
    monkeypatch.setitem(sys.modules, "a_module_with_a_library", sys)
    with one_blas_thread():
        pass
    assert [len(one.log) for one in controllers] == [6, 2]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_every_task_is_done_once(n_jobs):
    done = []
    for_each(lambda number, twice: done.append((number, twice)), [(n, 2 * n) for n in range(50)], n_jobs)
    assert sorted(done) == [(n, 2 * n) for n in range(50)]


def test_the_error_of_the_first_task_that_fails_is_raised_and_no_more_are_begun():
    begun, second_fails = [], threading.Event()

    def work(number):
        begun.append(number)
        if number == 1:
            second_fails.wait(10)
            raise ValueError("of the first")
        if number == 2:
            second_fails.set()
            raise KeyError("of the second")

    with pytest.raises(ValueError, match="of the first"):
        for_each(work, [(n,) for n in range(1, 100)], 2)
    assert sorted(begun) == [1, 2]


def test_few_documents_are_worked_on_in_one_go_by_the_thread_that_asks():
    calls = []
    for offsets in ([0, 0, 5, 2000], [0, 1001, 2001], [0, 0, 0], [0]):
        for_chunks(
            lambda first, end: calls.append((first, end, threading.current_thread() is threading.main_thread())),
            np.array(offsets),
            n_jobs=2,
        )
    assert [call[:2] for call in calls if call[2]] == [(0, 3), (0, 2)]
    assert sorted(call[:2] for call in calls if not call[2]) == [(0, 1), (1, 2)]


def test_what_a_task_asks_for_in_turn_runs_on_its_own_thread():
    inner = []

    def work(number):
        own = threading.get_ident()
        for_each(lambda other: inner.append((number, other, threading.get_ident() == own)), [(0,), (1,)], 2)

    for_each(work, [(number,) for number in range(4)], 2)
    assert sorted(inner) == [(number, other, True) for number in range(4) for other in (0, 1)]
    outside = []
    for_each(lambda _: outside.append(threading.get_ident()), [(0,), (1,), (2,)], 2)
    assert threading.get_ident() not in outside


def test_tasks_see_the_context_of_the_caller():
    with np.errstate(over="ignore"):
        for_each(lambda _: np.float64(1e300) * np.full(3, 1e300), [(0,), (1,)], 2)
    with default_threads(3):
        found = []
        for_each(lambda _: found.append(thread_count(None)), [(0,), (1,)], 2)
        assert found == [3, 3]
    assert thread_count(5) == 5


def test_a_ranker_scales_on_its_own_number_of_threads(monkeypatch):
    seen = set()

    def counted(work, tasks, n_jobs=None):
        seen.add(thread_count(n_jobs))
        for_each(work, tasks, n_jobs)

    monkeypatch.setattr("marginrank.runtime.mapped_arrays.for_each", counted)
    X = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 10.0, 100.0]
    Ranker("svmmap", scaling="standard", n_jobs=7).fit(X, [1, 0] * 20, qid=np.arange(40) // 4)
    assert seen == {7}
