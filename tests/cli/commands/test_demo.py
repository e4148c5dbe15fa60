"""The demo, on a collection in small: what it prints, and its page, also in a browser."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from marginrank import Queries, compare
from marginrank.datasets import Collection
from marginrank.reporting import demo_page
from marginrank.reporting import demo_page as demo
from tests.cli.commands.test_report_browser import browser  # noqa: F401
from tests.reporting import layout
from tests.reporting.browser import Page

FEATURES = ("bm25_body", "bm25_summary", "bm25_name", "vectors", "ngrams")
NASTY = "A <b>description</b> & more"


def small_collection():
    """Sixty queries with twelve documents; two of the five scores say something, in different ways."""
    rng = np.random.default_rng(0)
    packages = ("numpy", "scipy", "sklearn")
    ids = np.array([f"{packages[number % 3]}.target{number}/1" for number in range(60)])
    grades = np.tile([2, 1] + [0] * 10, 60)
    X = rng.standard_normal((720, 5))
    X[:, 0] += 1.5 * grades
    X[:, 4] += 1.2 * grades
    names = np.array([f"{packages[row % 3]}.document{row}" for row in range(720)])
    queries = Queries.from_arrays(X, grades, qid=np.repeat(ids, 12), document_ids=names, feature_names=FEATURES)
    texts = {str(name): f"{NASTY} number {number}" for number, name in enumerate(ids)}
    summaries = {str(name): f"Compute <i>{name}</i>, which " + "goes on and on " * 10 for name in names}
    return Collection(queries, queries[:30], queries[30:], texts, summaries)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(demo, "pydocs", small_collection)


@pytest.fixture(scope="module")
def outcome():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "pydocs", small_collection)
        return demo.learn()


def test_the_json_has_the_numbers_that_the_page_shows(run, folder, small):
    done = run("demo", "--page", "search.html", "--json")
    assert done.code == 0
    means = done.json["mean"]
    assert set(means) == {*FEATURES, "RRF of BM25 and vectors", "RRF of all five", "learned"}
    assert done.json["queries"] == {"train": 30, "test": 30}
    assert 0 <= done.json["gap"] <= 1e-3 * done.json["objective"]
    assert set(done.json["weights"]) == set(FEATURES)
    assert [row["other"] for row in done.json["comparison"]] == ["learned"] * 7
    page = (folder / "search.html").read_text()
    for name, mean in means.items():
        assert re.search(rf'<th scope="row">{name}</th><td class="number" data-key="[^"]*">{mean:.4f}</td>', page)


def test_the_text_is_a_table_with_differences_and_significance(run, folder, small):
    done = run("demo")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[1] == "720 documents, 30 training queries, 30 test queries (30 have a relevant document to rank)"
    rows = {line.split("  ")[0]: line for line in lines}
    assert rows["learned"].split()[1] == max(re.findall(r"0\.\d{4}(?=  \[0)", done.out))
    assert re.search(r"\+0\.\d{4}  \[\+0\.\d{4}, \+0\.\d{4}\] +\d+/\d+/\d+  0\.0001\*$", rows["bm25_name"])
    assert "% above the optimum" in done.out
    assert done.out.endswith("wrote demo.html\n")
    assert [line.split()[0] for line in done.err.splitlines()] == ["searching", "training"]
    assert (folder / "demo.html").exists()


def test_an_existing_page_is_kept_unless_forced(run, fails, folder, small):
    (folder / "demo.html").write_text("mine")
    assert "exists" in fails("demo", code=1)
    assert (folder / "demo.html").read_text() == "mine"
    done = run("demo", "--force", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert (folder / "demo.html").read_text() != "mine"


def test_gains_are_the_comparison_seen_from_the_ranker():
    values = {"learned": [0.9, 0.8, 0.7, 0.1], "other": [0.5, 0.8, 0.6, 0.2]}
    forward = compare({"learned": values["learned"], "other": values["other"]}).rows[0]
    gain = demo.gains(compare(values, baseline="learned"))["other"]
    assert gain.difference == pytest.approx(0.1)
    assert gain.record == (forward.wins, forward.losses, forward.ties) == (2, 1, 1)
    assert gain.low <= gain.difference <= gain.high
    assert gain.p == forward.p_randomization


def test_reasons_sum_to_the_difference_of_the_scores(outcome):
    gained, lost = demo.examples(outcome)
    test = outcome.collection.test
    score = dict(zip(test.document_ids.tolist(), outcome.scores["learned"].tolist(), strict=True))
    assert [one.query.partition(".")[0] for one in gained] == ["numpy", "scipy", "sklearn"]
    for one in (*gained, lost):
        up, down = one.above
        assert sum(one.reasons.values()) == pytest.approx(score[up] - score[down])
        assert score[up] > score[down]
        assert list(one.after) == sorted(one.after, key=lambda name: -score[name])


def test_examples_are_the_largest_gain_of_each_package_and_the_largest_loss(outcome):
    gained, lost = demo.examples(outcome)
    learned, best = outcome.values["learned"], outcome.values[outcome.best_retriever]
    gains = dict(zip(learned.query_ids.tolist(), (learned["ndcg@10"] - best["ndcg@10"]).tolist(), strict=True))
    assert gains[lost.query] == min(gains.values())
    for one in gained:
        package = one.query.partition(".")[0]
        assert gains[one.query] == max(gain for name, gain in gains.items() if name.startswith(package))
        assert one.change[1] - one.change[0] == pytest.approx(gains[one.query])


def test_the_page_needs_no_network_and_text_is_escaped(outcome):
    page = demo_page.render(outcome)
    assert "http:" not in page
    assert "https:" not in page
    assert NASTY not in page
    assert html.escape(NASTY) in page
    assert "<i>numpy" not in page
    assert page.count('<article class="example">') == 4


@pytest.mark.slow
def test_the_snippet_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("marginrank.datasets.pydocs", small_collection)
    monkeypatch.chdir(tmp_path)
    exec(compile(demo_page.SNIPPET, "snippet", "exec"), {})
    assert capsys.readouterr().out.startswith("system   other")
    assert (tmp_path / "ranker.safetensors").exists()


@pytest.mark.parametrize(("width", "dark"), [(layout.WIDE, False), (layout.PHONE, True)])
def test_the_page_in_a_browser(browser, outcome, tmp_path, width, dark):  # noqa: F811
    path = tmp_path / "demo.html"
    path.write_text(demo_page.render(outcome), encoding="utf-8")
    page = Page(browser, path, width=width, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
    layout.check(page, scrolling=".scroll")
    beside = "Array.from(document.querySelectorAll('.bars .label'), (one) => one.parentElement.querySelector('.value')"
    gaps = f"{beside}.getBoundingClientRect().top - one.getBoundingClientRect().top)"
    assert max(map(abs, page.evaluate(gaps))) < 8, "a name and its value are on one line"
    page.click("document.querySelector('#systems th button')")
    assert page.evaluate("document.querySelector('#systems th').getAttribute('aria-sort')") == "ascending"
    assert [(one.get("args") or one) for one in page.problems] == []
    assert page.requests == [path.as_uri()]
