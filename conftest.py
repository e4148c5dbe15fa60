"""Run the Python blocks of the README and the documentation, each page in an empty folder of its own."""

from __future__ import annotations

import os
from doctest import ELLIPSIS
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_home"], namespace["_folder"] = Path.cwd(), TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_home"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()],
    patterns=["*.md"],
    excludes=["CHANGELOG.md"],
    setup=_enter,
    teardown=_leave,
).pytest()
