"""The page to judge in, in a browser: by keys and by mouse, undone, noted, and while the server is killed."""

from __future__ import annotations

import pytest

from marginrank.judging import JudgementStore
from tests.cli.commands.test_report_browser import browser  # noqa: F401
from tests.judging.page_kills import Server, judge_with_kills
from tests.reporting.browser import Page

ODD = "<b>bold</b> & <script>window.hacked = 1</script>"
#: The least contrast of a text to its ground, as WCAG 2 defines it.
CONTRAST = """(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).slice(0, 3)
      .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(color) && color !== "transparent") return color;
    }
    return "rgb(255, 255, 255)";
  };
  const ratios = Array.from(document.querySelectorAll("#work *")).filter((one) =>
    one.checkVisibility() && !one.closest(":disabled")
    && Array.from(one.childNodes).some((node) => node.nodeType === 3 && node.data.trim()))
    .map((one) => [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a))
    .map(([high, low]) => (high + 0.05) / (low + 0.05));
  return Math.min(...ratios);
})()"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judging")
    rows = "".join(
        f"query {row // 4},d{row},Title {row} {ODD},https://example.org/{row},{'word ' * 300}\n" for row in range(8)
    )
    (folder / "documents.csv").write_text("query,document_id,title,link,text\n" + rows)
    server = Server(folder / "documents.csv")
    yield server, folder / "documents.judged.db"
    assert server.stop() == 0


def open_page(browser, served, name, *, width=1000, dark=False):  # noqa: F811
    page = Page(browser, f"{served[0].address}?rater={name}", width=width, dark=dark)
    page.wait_until("!document.getElementById('work').hidden")
    return page


def text(page, element):
    return page.evaluate(f"document.getElementById('{element}').textContent")


def grades(served, rater):
    with JudgementStore(served[1]) as store:
        return {number: (one.grade, one.note) for number, one in store.decisions(rater).items()}


def test_a_name_is_asked_for_and_kept(browser, served):  # noqa: F811
    page = Page(browser, served[0].address, width=1000, dark=False)
    page.wait_until("document.activeElement.id === 'name'")
    page.type("  Zoë   K ")
    page.press_enter()
    page.wait_until("!document.getElementById('work').hidden")
    assert text(page, "rater") == "Zoë K"
    assert page.evaluate("new URLSearchParams(location.search).get('rater')") == "Zoë K"


def test_judging_by_keys_and_by_mouse_with_undo_skip_and_note(browser, served):  # noqa: F811
    page = open_page(browser, served, "ann")
    shown = [page.evaluate("page.state.document.number")]
    page.press("3")
    page.wait_until("page.state.judged === 1")
    assert text(page, "status") == "Stored: 3 Good."
    shown.append(page.evaluate("page.state.document.number"))
    page.press("n")
    page.wait_until("document.activeElement.id === 'note'")
    page.press("4")  # typed, not a grade
    page.type(" stars & more")
    page.click("document.querySelector('#grades button[data-grade=\"0\"]')")
    page.wait_until("page.state.judged === 2")
    shown.append(page.evaluate("page.state.document.number"))
    page.press("s")
    page.wait_until("page.state.skipped === 1")
    assert grades(served, "ann") == {shown[0]: (3.0, ""), shown[1]: (0.0, "4 stars & more"), shown[2]: (None, "")}
    for number in (shown[2], shown[1]):
        page.press("u")
        page.wait_until(f"page.state.document.number === {number} && !page.sending")
    assert page.evaluate("page.state.judged") == 1
    page.press("2")
    page.wait_until("page.state.judged === 2")
    assert grades(served, "ann")[shown[1]] == (2.0, "")
    assert page.problems == []


def test_the_end_and_what_was_skipped(browser, served):  # noqa: F811
    page = open_page(browser, served, "eve", width=390, dark=True)
    for n in range(8):
        page.press("s" if n % 4 == 1 else "1")
        page.wait_until(f"page.state.judged + page.state.skipped === {n + 1} && !page.sending")
    assert page.evaluate("!document.getElementById('done').hidden && document.getElementById('answer').hidden")
    assert text(page, "done-text") == "6 judged, 2 skipped. You can close this page."
    page.click("document.getElementById('again')")
    page.wait_until("page.state.document !== null")
    page.press("s")  # again, and it does not come a third time
    page.wait_until("page.state.document !== null && !page.sending")
    page.press("4")
    page.wait_until("page.state.document === null")
    assert text(page, "count") == "7 of 8 judged, 1 skipped"
    assert sorted(grade for grade, _ in grades(served, "eve").values() if grade is not None) == [1.0] * 6 + [4.0]


def test_what_comes_from_files_is_text(browser, served):  # noqa: F811
    page = open_page(browser, served, "odd")
    assert page.evaluate("window.hacked === undefined")
    assert ODD in text(page, "title")
    assert page.evaluate("document.querySelectorAll('#document b, #document script').length") == 0
    assert page.evaluate("document.querySelector('#fields a').rel") == "noreferrer noopener"


def test_nothing_is_loaded_from_elsewhere(browser, served):  # noqa: F811
    page = open_page(browser, served, "net")
    page.press("1")
    page.wait_until("page.state.judged === 1")
    asked = {url.partition("?")[0].rpartition("/")[2] for url in page.requests if not url.startswith("data:")}
    assert asked == {"", "page.css", "page.js", "state", "judge"}
    assert all(url.startswith((served[0].address, "data:")) for url in page.requests)


def test_a_screen_reader_and_a_keyboard_can_use_it(browser, served):  # noqa: F811
    page = open_page(browser, served, "ear")
    assert page.evaluate("document.activeElement.id") == "query"  # the new query is read aloud
    for place in (2, 3, 4, 1):
        page.press("s")
        page.wait_until(f"page.state.document.place === {place} && !page.sending")
        # The title of the next document of a query, and the query after the fourth.
        assert page.evaluate("document.activeElement.id") == ("query" if place == 1 else "title")
    assert page.evaluate("document.getElementById('status').getAttribute('aria-live')") == "polite"
    assert page.evaluate("document.documentElement.lang") == "en"
    tree = page.send("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node["name"]["value"]) for node in tree if "name" in node and not node["ignored"]}
    assert ("button", "2 Fair") in named
    assert ("button", "S Skip") in named
    assert any(role == "group" and name.startswith("How relevant") for role, name in named)
    assert any(role == "heading" and name.startswith("query ") for role, name in named)
    unnamed = [
        node["role"]["value"]
        for node in tree
        if not node["ignored"]
        and node["role"]["value"] in ("button", "textbox", "checkbox", "progressbar", "link", "combobox")
        and not node.get("name", {}).get("value")
    ]
    assert unnamed == []
    # Keys can be switched off, and buttons reached by Tab.
    page.click("document.getElementById('keys')")
    page.press("3")
    page.evaluate("document.querySelector('#grades button').focus()")
    page.press_enter()
    page.wait_until("page.state.judged === 1")
    assert [grade for grade, _ in grades(served, "ear").values()] == [None] * 4 + [0.0]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_the_window_and_has_contrast(browser, served, width, dark):  # noqa: F811
    page = open_page(browser, served, "fit", width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        "Array.from(document.querySelectorAll('#answer button')).map((one) => one.getBoundingClientRect())"
        ".filter((box) => box.height < 44 || box.width < 40).length"
    )
    assert small == 0
    assert page.evaluate(CONTRAST) >= 4.5


@pytest.mark.slow
def test_no_acknowledged_grade_is_lost_when_the_server_is_killed(browser, tmp_path):  # noqa: F811
    assert judge_with_kills(tmp_path, browser, 12, 3) == 24


def test_two_windows_of_one_rater_are_safe(browser, served):  # noqa: F811
    one, other = (open_page(browser, served, "two") for _ in range(2))
    number = one.evaluate("page.state.document.number")
    assert other.evaluate("page.state.document.number") == number
    one.press("1")
    one.wait_until("page.state.judged === 1 && !page.sending")
    other.press("4")  # the document is judged already; the latest grade counts
    other.wait_until("page.state.judged === 1 && !page.sending")
    assert grades(served, "two") == {number: (4.0, "")}
    shown = {page.evaluate("page.state.document.number") for page in (one, other)}
    assert len(shown) == 1
    assert number not in shown
    one.press("u")  # what this window knows of, which is no longer what counts
    one.wait_until("page.state.document.number !== undefined && !page.sending")
    assert grades(served, "two") == {number: (4.0, "")}
