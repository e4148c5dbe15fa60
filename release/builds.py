"""Wheel and source distribution of the last commit, built twice, and the review of what they hold."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.steps import CheckFailed, check_output

#: Folders of the repository that are no part of the source distribution; pyproject.toml excludes them.
_LEFT_OUT: Final = (".ci/", ".github/", "recipe/")
_FILES_LEFT_OUT: Final = (".dockerignore", ".pre-commit-config.yaml")
#: Paths of a machine that builds, which no file may name.
_MACHINE_PATHS: Final = re.compile(rb"/(?:home|root|Users|work|tmp)/\w+|[A-Z]:\\\\Users\\\\\w+")


@dataclass(frozen=True)
class Build:
    """The files of a release.

    Args:
        wheel: The wheel.
        sdist: The source distribution.
    """

    wheel: Path
    sdist: Path

    def __str__(self) -> str:
        """Return the names, sizes and digests of both."""
        return "\n".join(
            f"{path.name}  {path.stat().st_size / 1e6:.2f} MB  sha256 {digest(path)}"
            for path in (self.wheel, self.sdist)
        )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_twice(root: Path, folder: Path, dist: Path) -> Build:
    """Build the last commit in two places, and put what both agree on into `dist`.

    The second build has another path, umask, time zone and locale, and makes the wheel without the source distribution.
    """
    epoch = check_output(["git", "log", "-1", "--format=%ct"], cwd=root).strip()
    variables = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    first = _build(_export(root, folder / "first"), ["--outdir", str(folder / "one")], variables)
    odd = {**variables, "TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
    other = _export(root, folder / "second" / "a longer path")
    second = _build(other, ["--sdist", "--wheel", "--outdir", str(folder / "two")], odd, umask=0o077)
    for ours, theirs in ((first.wheel, second.wheel), (first.sdist, second.sdist)):
        if ours.read_bytes() != theirs.read_bytes():
            raise CheckFailed(f"{ours.name}: two builds differ; compare {ours} with {theirs}")
    dist.mkdir(exist_ok=True)
    for old in dist.glob("marginrank-*"):
        old.unlink()
    return Build(*(path.rename(dist / path.name) for path in (first.wheel, first.sdist)))


def _export(root: Path, place: Path) -> Path:
    """Write the files of the last commit, and nothing else, into a new folder."""
    place.mkdir(parents=True)
    archive = place.parent / "commit.tar"
    check_output(["git", "archive", "--output", str(archive), "HEAD"], cwd=root)
    with tarfile.open(archive) as commit:
        commit.extractall(place, filter="data")
    return place


def _build(source: Path, options: list[str], variables: dict[str, str], umask: int = 0o022) -> Build:
    folder = Path(options[-1])
    command = [sys.executable, "-m", "build", "--no-isolation", *options, str(source)]
    check_output(command, env=variables, umask=umask)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Build(wheel, sdist)


def check_metadata(build: Build) -> str:
    """Check what PyPI checks: metadata, and that the description can be shown."""
    check_output([sys.executable, "-m", "twine", "check", "--strict", str(build.wheel), str(build.sdist)])
    with zipfile.ZipFile(build.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = wheel.read(name).decode()
    for field in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Classifier: Typing :: Typed"):
        if field not in metadata.splitlines():
            raise CheckFailed(f"the metadata of the wheel has no line {field!r}")
    relative = re.findall(r"\]\((?![a-z]+:|#)[^)]*\)", metadata)
    if relative:
        raise CheckFailed(f"the description has links that lead nowhere outside the repository: {relative[:3]}")
    return f"{metadata.count('Provides-Extra: ')} extras, {metadata.count('](https:')} links"


def review(build: Build, root: Path) -> str:
    """Compare the content of both files with the commit, and look for what must and must not be in them."""
    tracked = check_output(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=root).splitlines()
    wheel, sdist = _wheel_content(build.wheel), _sdist_content(build.sdist)
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/marginrank/")}
    _same("the wheel", {name for name in wheel if ".dist-info/" not in name}, package)
    source = {name for name in tracked if not name.startswith(_LEFT_OUT) and name not in _FILES_LEFT_OUT}
    _same("the source distribution", sdist.keys() - {"PKG-INFO"}, source)
    information = {name.partition(".dist-info/")[2] for name in wheel if ".dist-info/" in name}
    _same("dist-info", information, {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"})
    for name in ("marginrank/py.typed", "marginrank/__init__.pyi", "marginrank/reporting/licenses.txt"):
        if name not in wheel:
            raise CheckFailed(f"the wheel has no {name}")
    for name, content in wheel.items():
        if match := _MACHINE_PATHS.search(content):
            raise CheckFailed(f"the wheel has a path of a machine in {name}: {match[0].decode()}")
    stubs = sum(name.endswith(".pyi") for name in wheel)
    return f"wheel {len(wheel)} files ({stubs} stubs), source {len(sdist)} files"


def _same(title: str, names: set[str], expected: set[str]) -> None:
    if names != expected:
        extra, missing = sorted(names - expected)[:5], sorted(expected - names)[:5]
        raise CheckFailed(f"{title} has other files than it should: too many {extra}, missing {missing}")


def _wheel_content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def _sdist_content(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as sdist:
        members = [member for member in sdist.getmembers() if member.isfile()]
        return {member.name.partition("/")[2]: _bytes_of(sdist, member) for member in members}


def _bytes_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return b"" if file is None else file.read()
