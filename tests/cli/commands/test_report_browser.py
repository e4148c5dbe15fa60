"""The page of `marginrank report` in a browser: it draws, sorts, opens and copies, and nothing goes wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marginrank import Ranker, tune, write_report
from marginrank.data import Run
from marginrank.scorers import Additive
from marginrank.solvers import Auto
from tests.cli.conftest import judged
from tests.reporting import layout
from tests.reporting.browser import NAMES, Browser, Page, find_browser

PLOTS = "Array.from(document.querySelectorAll('.plot')).filter((one) => !one.closest('details:not([open])'))"
WAIT_FOR_CHARTS = f"""(async () => {{
  const drawn = (one) => one.querySelectorAll("svg path").length > 2;
  for (let n = 0; n < 1200 && !{PLOTS}.every(drawn); n++) await new Promise((resume) => setTimeout(resume, 25));
  return [{PLOTS}.filter(drawn).length, {PLOTS}.length];
}})()"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
TABLE = "Array.from(document.querySelectorAll('#queries table')).find((one) => one.caption.innerText.includes('each'))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A page with every kind of section and chart."""
    train, test = judged(30, 0), judged(20, 2)
    names = [f"package.module.{'long_' * (row % 9)}name{row}" for row in range(test.n_documents)]
    test = replace(test, document_ids=np.array(names))
    systems = {
        "tuned": tune(Ranker("svmmap"), train, folds=2, Cs=[0.1, 1.0, 10.0]).ranker,
        "additive": Ranker("svmmap", scorer=Additive(bins=5)).fit(train),
        "tight": Ranker(measure="ap", bound="tight", solver=Auto(max_iter=5)).fit(train),
        'a <very> & "long" name that goes on and on and on': test.X[:, 0],
        "run": Run.from_scores(test, test.X[:, 1]),
    }
    place = tmp_path_factory.mktemp("report") / "report.html"
    texts = {query: f"query {query} in words" * (1 + query % 5) for query in test.query_ids.tolist()[1:]}
    write_report(place, test, systems, ["ndcg@5", "ap"], query_text=texts)
    return place


@pytest.fixture(scope="module")
def desk(browser, path):
    return Page(browser, path, width=layout.WIDE, dark=False)


@pytest.fixture(scope="module")
def phone(browser, path):
    return Page(browser, path, width=layout.PHONE, dark=True)


def column(page, number):
    return page.evaluate(f"Array.from({TABLE}.tBodies[0].rows, (row) => row.cells[{number}].textContent)")


def test_every_chart_in_sight_is_drawn(desk):
    drawn, all_of_them = desk.evaluate(WAIT_FOR_CHARTS)
    assert drawn == all_of_them > 15


def test_a_click_and_the_keyboard_sort_a_table(desk):
    desk.click("document.querySelector('#queries > details:not(.duel) > summary')")
    values = [float(text) for text in column(desk, 4)]
    assert values != sorted(values)
    head = f"{TABLE}.tHead.rows[0].cells[4]"
    assert desk.evaluate(f"{head}.getAttribute('aria-sort')") == "none"
    desk.click(f"{head}.querySelector('button')")
    assert desk.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"
    assert [float(text) for text in column(desk, 4)] == sorted(values, reverse=True)
    desk.evaluate(f"{head}.querySelector('button').focus()")
    desk.press_enter()
    assert desk.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert [float(text) for text in column(desk, 4)] == sorted(values)
    desk.click(f"{TABLE}.tHead.rows[0].cells[0].querySelector('button')")
    queries = column(desk, 0)
    assert queries == sorted(queries, key=int), "names with numbers are ordered as people order them"


def test_queries_open_to_the_documents_of_both_systems(desk):
    desk.click("document.querySelector('details.duel > summary')")
    # The documents of each system, and what makes the score of the first document of the one that is a model.
    assert desk.evaluate("document.querySelectorAll('details.duel[open] table').length") == 3


def test_a_chart_tells_what_is_under_the_pointer(desk):
    mark = "document.querySelector('#queries .plot svg path[aria-label]')"
    place = desk.evaluate(
        f"(() => {{ const one = {mark}; one.scrollIntoView({{block: 'center'}});"
        " const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    desk.send("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
    shown = desk.evaluate("document.querySelector('#vg-tooltip-element.visible').innerText")
    assert "query" in shown
    assert "difference" in shown


def test_dark_and_light_follow_the_browser_and_charts_follow_the_text(desk, phone):
    papers = [page.evaluate("getComputedStyle(document.body).backgroundColor") for page in (desk, phone)]
    assert papers == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]
    for page in (desk, phone):
        page.evaluate(WAIT_FOR_CHARTS)
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert page.evaluate("getComputedStyle(document.querySelector('.plot svg text')).fill") == ink


def test_nothing_is_cut_off_overlaps_or_is_faint(desk, phone):
    for page in (desk, phone):
        page.evaluate(WAIT_FOR_CHARTS)
        # Tables with a column for each test or system scroll in their boxes; documents and reasons always fit.
        layout.check(page, scrolling=".scroll:not(.pair .scroll)")
        page.evaluate(OPEN_ALL)
        drawn, all_of_them = page.evaluate(WAIT_FOR_CHARTS)
        assert drawn == all_of_them
        layout.check(page, scrolling=".scroll:not(.pair .scroll)")


def test_nothing_went_wrong_and_nothing_was_loaded(desk, phone, path):
    for page in (desk, phone):
        page.evaluate(WAIT_FOR_CHARTS)
        assert [(one.get("args") or one) for one in page.problems] == []
        assert page.requests == [path.as_uri()]


def test_what_goes_wrong_would_be_seen(browser, tmp_path):
    text = "<script>console.error('no'); throw Error('never')</script><img src='gone.png'>"
    (tmp_path / "bad.html").write_text(text)
    page = Page(browser, tmp_path / "bad.html", width=layout.WIDE, dark=False)
    assert len(page.problems) >= 2
    assert len(page.requests) == 2
