"""How far training is, as bars and lines tell it; who sees them, and that they change nothing."""

from __future__ import annotations

import logging
import re
import sys
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from marginrank import Queries, Ranker, tune
from marginrank.solvers.solution import Step
from marginrank.training import progress
from marginrank.training.progress import TimeEstimate

RNG = np.random.default_rng(0)
QUERIES = Queries.from_arrays(RNG.standard_normal((80, 3)), RNG.integers(0, 3, 80), qid=np.repeat(np.arange(10), 8))


def _step(gap, seconds):
    return Step(primal=1.0, dual=1.0 - gap, seconds=seconds, passes=1)


def test_the_gap_tells_how_far_a_problem_is():
    course = TimeEstimate(1, 1e-4)
    shares = [course.note(_step(gap, at)) for at, gap in enumerate([1.0, 1e-1, 1e-2, 1e-4, 1e-6])]
    assert shares == pytest.approx([0.0, 0.25, 0.5, 1.0, 1.0])


def test_a_problem_without_certificate_may_follow_one_with_a_gap():
    course = TimeEstimate(2, 1e-4)
    course.note(_step(1.0, 0.1))
    assert [course.note(_step(np.inf, at)) for at in (0.2, 0.3)] == [0.0, 0.0]
    assert course.note(_step(1e-2, 0.4)) == pytest.approx(0.25)


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
    monkeypatch.setattr("marginrank.training.progress.time.perf_counter", lambda: next(clock))
    course = TimeEstimate(1, 1e-4)
    assert course.seconds_left(0.25) == pytest.approx(30.0)
    assert course.seconds_left(0.0) is None


@pytest.fixture
def talkative(monkeypatch):
    """Show every state."""
    for name in ("_LOG_INTERVAL", "_BAR_INTERVAL", "_NOTEBOOK_DELAY"):
        monkeypatch.setattr(progress, name, 0.0)


class ZMQInteractiveShell:
    """What the shell of a notebook is called."""


class Bar:
    """What `IPython.display.display` returns."""

    def __init__(self, shown):
        self.shown = shown

    def update(self, content, *, raw):
        assert raw
        self.shown.append(content)


@pytest.fixture
def notebook(monkeypatch):
    """The states of all bars in a notebook."""
    shown = []

    def display(content, *, raw, display_id):
        assert raw
        assert display_id
        shown.append(content)
        return Bar(shown)

    module = ModuleType("IPython")
    module.get_ipython, module.display = ZMQInteractiveShell, SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return shown


@pytest.mark.usefixtures("talkative")
def test_a_script_shows_nothing_unless_asked(capfd, monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    for verbose in (None, False):
        Ranker("ranksvm", verbose=verbose).fit(QUERIES)
        tune(Ranker("svmmap"), QUERIES, Cs=[1.0], folds=2, verbose=verbose)
    assert capfd.readouterr() == ("", "")
    assert "IPython" not in sys.modules


@pytest.mark.usefixtures("talkative")
def test_verbose_shows_passes_gap_and_setting(capfd):
    Ranker("svmmap", C=3.0, verbose=True).fit(QUERIES)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.match(r"C = 3, objective [\d.]+, relative gap [\de.+-]+, \d+ pass(es)?, 0 s", err)
    tune(Ranker("svmmap", verbose=True), QUERIES, Cs=[1.0, 10.0], folds=2, grid={"scaling": ["standard"]}, n_jobs=1)
    lines = capfd.readouterr().err.splitlines()
    assert {line.partition(", obj")[0] for line in lines} == {"scaling = standard, C = 1", "scaling = standard, C = 10"}
    Ranker("svmmap", verbose=True).fit_path(QUERIES, Cs=[1.0, 10.0])
    assert "C = 10, objective" in capfd.readouterr().err


@pytest.mark.usefixtures("talkative")
def test_a_log_that_takes_information_has_the_lines(caplog, capfd):
    with caplog.at_level(logging.INFO, "marginrank"):
        Ranker("svmmap").fit(QUERIES)
        n_lines = len(caplog.messages)
        Ranker("svmmap", verbose=False).fit(QUERIES)
    assert len(caplog.messages) == n_lines > 0
    assert caplog.messages[0].startswith("C = 1, objective")
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("talkative")
def test_a_notebook_has_a_bar_that_goes_away(notebook, capfd):
    Ranker("svmmap").fit(QUERIES)
    assert notebook[0]["text/html"].startswith('<progress value="0.')
    assert "relative gap" in notebook[0]["text/plain"]
    assert notebook[-1] == {"text/html": "", "text/plain": ""}
    assert capfd.readouterr() == ("", "")
    notebook.clear()
    Ranker("svmmap", verbose=False).fit(QUERIES)
    assert not notebook


def test_work_that_is_soon_done_leaves_no_line_in_a_notebook(notebook):
    Ranker("svmmap").fit(QUERIES)
    assert not notebook


@pytest.mark.usefixtures("talkative")
def test_showing_progress_changes_nothing(tmp_path, capfd):
    quiet, loud = Ranker("svmmap"), Ranker("svmmap", verbose=True)
    assert clone(loud).verbose is True
    trained = loud.fit(QUERIES, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(trained.coef_, quiet.fit(QUERIES).coef_)
    assert "verbose" not in str(trained.model_.describe())
    # The checkpoint of a loud fit is that of a quiet one.
    loud.fit(QUERIES, checkpoint=tmp_path / "other", callback=lambda step, _: step.passes > 2)
    np.testing.assert_array_equal(
        Ranker("svmmap").fit(QUERIES, checkpoint=tmp_path / "other", resume=True).coef_, quiet.coef_
    )
    first, second = (tune(one, QUERIES, Cs=[1.0, 10.0], folds=2) for one in (quiet, loud))
    np.testing.assert_array_equal(first.ranker.coef_, second.ranker.coef_)
    assert capfd.readouterr().err


@pytest.mark.usefixtures("talkative")
def test_callbacks_still_stop(capfd):
    steps = []
    ranker = Ranker("svmmap", verbose=True).fit(QUERIES, callback=lambda step, _: steps.append(step) or len(steps) == 2)
    assert (len(steps), ranker.solution_.reason) == (2, "callback")
    assert capfd.readouterr().err.count("objective") == 2


def test_a_short_fit_shows_where_it_ended(capfd):
    """Lines are seconds apart, and a fit may take less."""
    Ranker("svmmap", C=3.0, verbose=True).fit(QUERIES)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("C = 3, objective")
