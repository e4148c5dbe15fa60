"""Pages of the documentation in a browser: no overflow, no clipped code, no glaring pictures, guides before symbols."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reporting.browser import Browser, Page, find_browser

pytest.importorskip("furo")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium"),
]

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["start-judged", "tune", "clicks", "queries", "export-sql", "missing-judgements", "learning-curve"]
PAGES += ["benchmarks", "significance"]
CONF = """
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_search_scorer = "{scorer}"
myst_enable_extensions = ["attrs_block", "deflist"]
"""
#: An API page, whose symbols share their names with guides.
API = "# API\n\n" + "\n\n".join(
    f"```{{py:class}} {name}\n{text}\n```"
    for name, text in {
        "Queries": "Queries with missing judgements.",
        "export_sql": "Export a model to SQL: export sql.",
        "missing_judgements": "Missing judgements.",
        "marginrank.preparation.standardize.Standardize.get_feature_names_out": "A long name in the index.",
        "marginrank.preparation.standardize.Standardize.set_transform_request": "Another one.",
    }.items()
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Some pages, with the styles and the search order of the documentation."""

    source, built = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS / "_static", source / "_static")
    shutil.copytree(DOCS / "pictures", source / "pictures")
    for name in PAGES:
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        (source / f"{name}.md").write_text(text.partition("```{toctree}")[0], encoding="utf-8")
    (source / "api.md").write_text(API, encoding="utf-8")
    listed = "\n".join([*PAGES, "api"])
    (source / "index.md").write_text(f"# marginrank\n\n```{{toctree}}\n{listed}\n```\n", encoding="utf-8")
    (source / "conf.py").write_text(CONF.format(scorer=source / "_static" / "search_order.js"), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "sphinx", "-Q", "-b", "html", source, built], check=True)
    return built


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(find_browser(), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_is_sideways_and_no_code_is_clipped(site, browser, width):
    for name in [*PAGES, "genindex"]:
        page = Page(browser, site / f"{name}.html", width=width, dark=False)
        # What is too wide scrolls inside .content, and not the page.
        content = "(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)(document.querySelector('.content'))"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate(content) <= 1, name
        clipped = "[...document.querySelectorAll('pre')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert page.evaluate(clipped) == 0, name


def test_plots_on_white_are_inverted_in_the_dark_alone(site, browser):
    page = Page(browser, site / "learning-curve.html", width=1400, dark=True)
    filters = "[...document.querySelectorAll('article img')].map((one) => getComputedStyle(one).filter)"
    choose = "document.body.dataset.theme = '{}'"
    # This picture follows the system by itself, so that only a choice against the system inverts it.
    assert set(page.evaluate(filters)) == {"none"}
    page.evaluate(choose.format("light"))
    assert "none" not in page.evaluate(filters)
    page.show(dark=False)
    assert set(page.evaluate(filters)) == {"none"}
    page.evaluate(choose.format("dark"))
    assert "none" not in page.evaluate(filters)


@pytest.mark.parametrize(
    ("words", "guide"),
    [
        ("export sql", "export-sql"),
        ("missing judgements", "missing-judgements"),
        ("queries", "queries"),
        ("tune C", "tune"),
        ("clicks", "clicks"),
        ("compare two rankers significance", "significance"),
        ("export_sql", "api"),
    ],
)
def test_searches_find_guides_before_symbols(site, browser, words, guide):
    address = f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}"
    page = Page(browser, address, width=1400, dark=False)
    page.wait_until("document.querySelector('#search-results li a')")
    first = page.evaluate("document.querySelector('#search-results li a').getAttribute('href')")
    assert first.partition(".html")[0] == guide
