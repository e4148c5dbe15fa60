"""Interpreters of Python: those of the machine, else what uv can download, else Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from release.steps import CheckFailed, Skipped, check_output

#: Suites of Debian in which a version may be, the more settled first.
_SUITES: Final = ("stable", "testing", "unstable")


def interpreter(version: str, uv: Path, folder: Path) -> Path:
    """Return an interpreter of a version such as ``3.14``; raise `Skipped` if none can be had."""
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for candidate in [
        *(place / f"python{version}" for place in places),
        *sorted(pyenv.glob(f"versions/{version}*/bin/python{version}")),
    ]:
        if _runs(candidate, version):
            return candidate
    reasons = []
    for get in (_from_uv, _from_debian):
        try:
            return get(version, uv, folder)
        except CheckFailed as failure:
            reasons.append(str(failure).strip().splitlines()[-1].strip())
    raise Skipped(f"no Python {version} here; uv: {reasons[0]}; Debian: {reasons[1]}")


def _runs(python: Path, version: str) -> bool:
    if not python.exists():
        return False
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def _from_uv(version: str, uv: Path, folder: Path) -> Path:
    check_output([uv, "python", "install", "--no-bin", "--install-dir", folder / "uv", version], timeout=300)
    return next((folder / "uv").glob(f"*/bin/python{version}"))


def _from_debian(version: str, _: Path, folder: Path) -> Path:
    """Unpack Debian's packages into a folder, with the C library that they need, and return a command that runs them.

    apt resolves the packages as for an empty system and checks their signatures; nothing is installed.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise CheckFailed("this machine has no apt-get")
    mirrors = check_output(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).split()
    mirror = next((mirror for mirror in mirrors if mirror.rstrip("/").endswith("/debian")), None)
    if mirror is None:
        raise CheckFailed("apt has no mirror of Debian")
    for suite in _SUITES:
        try:
            _download(f"python{version}-venv", f"deb {mirror} {suite} main\n", folder / suite)
        except CheckFailed as failure:
            reason = failure
            continue
        return _unpack(folder / suite, version)
    raise reason


def _download(package: str, source: str, folder: Path) -> None:
    for inner in ("state/lists/partial", "cache/archives/partial"):
        (folder / inner).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(source, encoding="utf-8")
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "-q", "-y", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    check_output([*apt, "update"])
    check_output([*apt, "install", "--download-only", package])


def _unpack(folder: Path, version: str) -> Path:
    root = (folder / "root").resolve()
    root.mkdir(exist_ok=True)
    for package in (folder / "cache" / "archives").glob("*.deb"):
        check_output(["dpkg-deb", "--extract", package, root])
    loader = next(root.glob("usr/lib/*/ld-linux*.so*"))
    python = root / "usr" / "bin" / f"python{version}"
    program = python.rename(python.with_suffix(f"{python.suffix}.program"))
    # The loader of these packages, since the C library of the machine may be older.
    command = f'exec "{loader}" --argv0 "$0" --library-path "{loader.parent}" "{program}" "$@"'
    python.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    python.chmod(0o755)
    return python
