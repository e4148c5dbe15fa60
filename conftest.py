"""Run the Python blocks of the README and the documentation, each page in an empty folder of its own."""

from __future__ import annotations

import os
from doctest import ELLIPSIS
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

from marginrank.components import Component
from marginrank.measures import Measure
from marginrank.scorers.forms import Form


def _registries() -> tuple[dict[str, Any], ...]:
    """Return the registries, into which the classes of a page would otherwise stay for the tests after it."""
    return Component.registry, Measure.registry, Form.registry


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_registered"] = [dict(registry) for registry in _registries()]
    namespace["_home"], namespace["_folder"] = Path.cwd(), TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_home"])
    namespace["_folder"].cleanup()
    for registry, before in zip(_registries(), namespace["_registered"], strict=True):
        for name in set(registry) - set(before):
            if not registry[name].__module__.startswith("marginrank."):
                del registry[name]


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()],
    patterns=["*.md"],
    excludes=["CHANGELOG.md"],
    setup=_enter,
    teardown=_leave,
).pytest()
