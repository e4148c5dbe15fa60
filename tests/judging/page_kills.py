"""Judging in a browser while the server is killed: ``python -m tests.judging.page_kills 200 20``.

Two raters judge all documents, each in a window of one browser, by keys. Now and then the server is killed within 20 ms
after both have pressed a key, and started again. Every grade that the server acknowledged has to be there.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from marginrank.cli.exit_codes import INTERRUPTED
from marginrank.judging import JudgementStore
from tests.reporting.browser import Browser, Page, find_browser

RATERS = ("ann", "bob")
#: Notes what the server acknowledged.
LISTEN = """(() => {
  const real = window.fetch;
  window.acknowledged = [];
  window.fetch = async (path, options) => {
    const response = await real(path, options);
    if (path === "judge" && response.ok) window.acknowledged.push(JSON.parse(options.body));
    return response;
  };
})()"""


class Server:
    """``marginrank judge`` in a process of its own."""

    def __init__(self, data, *options):
        self._words = [sys.executable, "-m", "marginrank", "judge", str(data), "--no-browser", "--json", *options]
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        text = ""
        while True:
            line = self._process.stdout.readline()
            assert line, self._process.stderr.read()
            text += line
            if line == "}\n":
                self.address = json.loads(text)["address"]
                return

    def kill(self):
        """End it without a chance to do anything."""
        self._end(signal.SIGKILL)

    def stop(self):
        """End it as Ctrl-C does, and return its exit code."""
        return self._end(signal.SIGINT)

    def _end(self, number):
        self._process.send_signal(number)
        code = self._process.wait(timeout=60)
        self._process.stdout.close()
        self._process.stderr.close()
        return code


def write_documents(folder, n_documents):
    """Write documents of queries with 10 each, and return the file."""
    path = folder / "documents.csv"
    rows = (f"query {row // 10},d{row},Title {row},Text of document {row}" for row in range(n_documents))
    path.write_text("\n".join(["query,document_id,title,text", *rows]) + "\n")
    return path


def grade_of(rater, document):
    """The grade that a rater gives."""
    return random.Random(f"{rater} {document}").randrange(5)


class Rater:
    """A rater at a window of the browser."""

    def __init__(self, browser, address, name):
        self.name = name
        self.page = Page(browser, f"{address}?rater={name}", width=1000, dark=False)
        self.page.wait_until("!document.getElementById('work').hidden")
        self.page.evaluate(LISTEN)

    def press(self):
        """Press the key of the grade, and return the document; None if all are judged."""
        document = self.page.evaluate("page.state.document && page.state.document.document_id")
        if document is not None:
            self.page.press(str(grade_of(self.name, document)))
        return document

    def wait(self):
        """Wait until the next document is shown."""
        self.page.wait_until("!page.sending")

    @property
    def acknowledged(self):
        return self.page.evaluate("window.acknowledged")


def judge_with_kills(folder, browser, n_documents, n_kills, seed=0):
    """Judge all documents, and return the number of acknowledged grades; assert that all are stored."""
    rng = random.Random(seed)
    server = Server(write_documents(folder, n_documents))
    address = server.address
    kills = set(rng.sample(range(n_documents), n_kills))
    raters = [Rater(browser, address, name) for name in RATERS]
    for turn in range(n_documents):
        shown = [rater.press() for rater in raters]
        assert None not in shown
        if turn in kills:
            time.sleep(rng.random() * 0.02)
            server.kill()
            server.start()
            assert server.address == address
        for rater in raters:
            rater.wait()
    assert [rater.press() for rater in raters] == [None, None]
    code = server.stop()
    # Ctrl-C may come while Python runs a destructor.
    assert code in (0, INTERRUPTED), code
    return _check(folder / "documents.judged.db", raters, n_documents)


def _check(path, raters, n_documents):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT request, document, rater, grade FROM decisions WHERE NOT undone").fetchall()
    connection.close()
    stored = {request: decision for request, *decision in rows}
    acknowledged = [one for rater in raters for one in rater.acknowledged]
    for one in acknowledged:
        assert stored[one["request"]] == [one["document"], one["rater"], one["grade"]]
    # An answer may break off after its first bytes; then the page asks again, and has two.
    n_acknowledged = len({one["request"] for one in acknowledged})
    expected = n_documents * len(raters)
    assert (len(rows), len(stored), n_acknowledged) == (expected, expected, expected)
    with JudgementStore(path) as store:
        judged = list(store.judgements().rows())
    assert len(judged) == expected
    for _, document, rater, grade in judged:
        assert grade == grade_of(rater, document)
    return n_acknowledged


def main():
    n_documents, n_kills = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        began = time.monotonic()
        with Browser(find_browser(), profile) as browser:
            n = judge_with_kills(Path(folder), browser, n_documents, n_kills)
        seconds = time.monotonic() - began
    print(f"{n_documents} documents, {len(RATERS)} raters, {n_kills} kills: {n} grades acknowledged, all stored")
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
