"""What pyproject.toml, the pinned versions and the package say of each other."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import marginrank

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(name):
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return dict(line.replace("_", "-").lower().split("==") for line in lines if line and not line.startswith("#"))


def test_the_version_has_one_source(project):
    assert "version" in project["dynamic"]
    assert "version" not in project
    assert version("marginrank") == marginrank.__version__


def test_the_oldest_versions_are_the_lower_bounds(project):
    extras = [need for name, needs in project["optional-dependencies"].items() if name != "all" for need in needs]
    bounds = dict(need.split(">=") for need in project["dependencies"] + extras)
    assert pins("oldest.txt") == bounds


def test_every_dependency_is_pinned(project):
    needs = {re.split(r"[>=]", need)[0] for need in project["dependencies"]}
    assert needs <= set(pins("run.txt"))
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    tools = {tool for group in ("test", "lint", "docs") for tool in groups[group]}
    assert needs | tools <= set(pins("dev.txt"))


@pytest.mark.parametrize("name", ["run.txt", "bench.txt"])
def test_what_is_pinned_twice_is_pinned_alike(name):
    ours, other = pins("dev.txt"), pins(name)
    assert {tool: ours[tool] for tool in ours.keys() & other.keys()} == {
        tool: other[tool] for tool in ours.keys() & other.keys()
    }
