"""The promises of SECURITY.md: each names the tests that keep it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def promises():
    """The rows of the tables of promises: what is promised, and the tests."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| \w+ \| promise \| tests \|\n\| --- .*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    return [[cell.strip() for cell in row.strip("| ").split(" | ")][1:] for row in rows]


def test_all_promises_are_in_the_tables():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert len(promises()) > 15
    assert text.count("| promise |") == text.count("| promise | tests |") == 2


@pytest.mark.parametrize("row", promises(), ids=lambda row: row[0])
def test_every_promise_names_tests_that_exist(row):
    promise, names = row
    tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", names)
    assert tests, promise
    assert len(tests) == names.count("`") // 2, "every name is the id of a test"
    for path, name in tests:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), (path, name)
