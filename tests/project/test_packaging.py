"""What pyproject.toml, the pinned versions and the package say of each other."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import marginrank

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


LOCKED = ["run.txt", "test.txt", "dev.txt", "bench.txt", "release.txt"]


def requirements(name):
    """Return the lines of a file, continued ones as one, without comments."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def pins(name):
    return dict(line.split()[0].replace("_", "-").lower().split("==") for line in requirements(name))


def test_the_version_has_one_source(project):
    assert "version" in project["dynamic"]
    assert "version" not in project
    assert version("marginrank") == marginrank.__version__


def test_the_changelog_and_the_citation_name_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\S+)(?: - (\S+))?$", changelog, re.MULTILINE)
    assert releases[0] == ("Unreleased", "")
    assert releases[1][0] == marginrank.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["date-released"]) == releases[1]


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
    assert needs | set(groups["test"]) <= set(pins("test.txt"))
    assert not {"sphinx", "mypy", "ruff"} & set(pins("test.txt"))


@pytest.mark.parametrize("name", LOCKED)
def test_every_pin_has_hashes_and_no_host(name):
    lines = requirements(name)
    assert len(lines) > 20
    for line in lines:
        words = line.partition(";")[0].split()
        assert re.fullmatch(r"[a-zA-Z0-9_.-]+==[a-z0-9.]+", words[0]), line[:80]
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}(?= |$)", line)
        assert len(hashes) == line.count("--hash") >= 1, line[:80]
    assert "://" not in "".join(lines)


def test_the_makefile_installs_only_what_has_hashes():
    rules = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "install_locked = $(install) --require-hashes --requirement" in rules
    assert "$(install) --requirement" not in rules


@pytest.mark.parametrize("name", ["run.txt", "test.txt", "bench.txt", "release.txt"])
def test_what_is_pinned_twice_is_pinned_alike(name):
    ours, other = pins("dev.txt"), pins(name)
    assert {tool: ours[tool] for tool in ours.keys() & other.keys()} == {
        tool: other[tool] for tool in ours.keys() & other.keys()
    }
