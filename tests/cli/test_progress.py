"""How far training is, as the line of progress tells it."""

from __future__ import annotations

import threading

import pytest

from marginrank.cli.progress import TimeEstimate
from marginrank.solvers.solution import Step


def _step(gap, seconds):
    return Step(primal=1.0, dual=1.0 - gap, seconds=seconds, passes=1)


def test_the_gap_tells_how_far_a_problem_is():
    course = TimeEstimate(1, 1e-4)
    shares = [course.note(_step(gap, at)) for at, gap in enumerate([1.0, 1e-1, 1e-2, 1e-4, 1e-6])]
    assert shares == pytest.approx([0.0, 0.25, 0.5, 1.0, 1.0])


def test_a_clock_that_starts_again_is_the_next_problem():
    course = TimeEstimate(4, 1e-4)
    for at, gap in enumerate([1.0, 1e-4]):
        course.note(_step(gap, 1.0 + at))
    assert course.note(_step(1.0, 0.5)) == pytest.approx(0.25)
    assert course.note(_step(1e-2, 0.6)) == pytest.approx(0.375)


def test_threads_are_told_apart():
    course = TimeEstimate(2, 1e-4)
    shares = []
    together = threading.Barrier(2)

    def solve(seconds):
        course.note(_step(1.0, seconds))
        together.wait()  # both are under way, so that neither is taken for the next problem of the other
        shares.append(course.note(_step(1e-2, seconds + 0.1)))

    threads = [threading.Thread(target=solve, args=(seconds,)) for seconds in (5.0, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(shares) == pytest.approx([0.25, 0.5])


def test_without_a_certificate_only_problems_count():
    course = TimeEstimate(2, 1e-4)
    unknown = float("inf")
    assert [course.note(_step(unknown, at)) for at in (0.0, 1.0, 0.5)] == [0.0, 0.0, 0.5]


def test_time_left_is_guessed_from_the_share(monkeypatch):
    clock = iter([0.0, 10.0, 10.0])
    monkeypatch.setattr("marginrank.cli.progress.time.perf_counter", lambda: next(clock))
    course = TimeEstimate(1, 1e-4)
    assert course.seconds_left(0.25) == pytest.approx(30.0)
    assert course.seconds_left(0.0) is None
