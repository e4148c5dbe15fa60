"""The laws of layout see what is wrong, and the front page of the documentation obeys them.

The report and the page of the demo are checked by their own tests.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands.test_report_browser import browser  # noqa: F401
from tests.reporting import layout
from tests.reporting.browser import Page

BAD = """<!doctype html><meta name="viewport" content="width=device-width"><body style="margin: 0; background: #fff">
<p style="width: 500px; margin: 0">A line that is too wide for a phone, and has no place to break in a window so small
<p style="width: 60px; overflow: hidden; white-space: nowrap">hidden by its box
<div class="scroll" style="width: 60px; overflow: auto"><p style="width: 300px">scrolls in its box, out of sight</div>
<p style="color: #999">gray on white <b style="color: #000; background: #222">black on black</b>
<svg width="200" height="40"><text x="5" y="20">one</text><text x="12" y="22">two</text></svg>
<details><summary>open me</summary><p style="width: 900px; color: #eee">never seen</p></details>"""
GOOD = """<!doctype html><meta name="viewport" content="width=device-width"><body style="background: #fff">
<p>Words that wrap <b style="color: #fff; background: #222">white on black</b> <span style="color: #767676">gray</span>
<svg width="200" height="40"><text x="5" y="20">one</text><text x="60" y="20">two</text></svg>"""


@pytest.fixture
def pages(browser, tmp_path):  # noqa: F811
    found = []
    for name, text in (("bad", BAD), ("good", GOOD)):
        (tmp_path / f"{name}.html").write_text(text)
        found.append(Page(browser, tmp_path / f"{name}.html", width=390, dark=False))
    return found


def test_the_laws_see_what_is_wrong(pages):
    bad, good = pages
    assert layout.scrolls_sideways(bad)
    assert layout.cut_off(bad, scrolling=".scroll") == [
        "A line that is too wide for a phone, and has no place to bre",
        "hidden by its box",
    ]
    assert "scrolls in its box, out of sight" in layout.cut_off(bad)
    assert layout.overlaps(bad) == [["one", "two"]]
    assert [text for text, _ in layout.faint(bad)] == ["gray on white", "black on black"]
    assert not layout.scrolls_sideways(good)
    assert layout.cut_off(good) == layout.overlaps(good) == layout.faint(good) == []


@pytest.fixture(scope="module")
def front_page(tmp_path_factory):
    """The front page alone, which takes seconds; links to other pages lead nowhere."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("no Sphinx: pip install --group docs")
    root, folder = Path(__file__).parents[2], tmp_path_factory.mktemp("docs")
    shutil.copy(root / "README.md", folder)
    (folder / "experiments" / "results").mkdir(parents=True)
    (folder / "docs").mkdir()
    for name in ("index.md", "_static", "pictures", *(path.name for path in (root / "docs").glob("*.py"))):
        copy = shutil.copytree if (root / "docs" / name).is_dir() else shutil.copy
        copy(root / "docs" / name, folder / "docs" / name)
    words = [sys.executable, "-W", "ignore", "-m", "sphinx", "-Q", "-b", "html", folder / "docs", folder / "site"]
    subprocess.run(words, check=True)
    return folder / "site" / "index.html"


@pytest.mark.parametrize("width", [layout.WIDE, layout.PHONE])
def test_the_front_page_of_the_documentation(browser, front_page, width):  # noqa: F811
    page = Page(browser, front_page, width=width, dark=False)
    assert page.evaluate("document.querySelectorAll('article h1').length") > 0
    # On a wide screen long output scrolls in its box.
    layout.check(page, root="article", scrolling="pre" if width == layout.WIDE else "")
