"""Build the last commit and try it everywhere it has to work: `make release-check`.

    python -m release [--only PART ...] [--python 3.11 ...] [--keep]

The files of the release are left in `dist/`, with the recipe for conda-forge.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from release import builds, conda, dockerfile
from release.environments import Environment, uv_variables
from release.interpreters import interpreter
from release.steps import CheckFailed, Table, check_output

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
#: What the rows belong to, for ``--only``.
PARTS: Final = ("build", "pythons", "extras", "all", "numpy", "oldest", "sdist", "docker", "tests")


def main() -> int:
    """Do all steps and print the table."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="do these parts, after the build")
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="VERSION", help="versions of Python to try")
    parser.add_argument("--keep", action="store_true", help="keep the environments, and print where they are")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="marginrank-release-"))
    table = Table()
    try:
        check = ReleaseCheck(folder, table)
        if check.build():
            for part in options.only:
                if part != "build":
                    getattr(check, part)(*([options.python] if part == "pythons" else []))
    finally:
        if options.keep:
            print(f"environments are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{table}\n")
    if table.failed:
        print(f"not ready: {', '.join(table.failed)}")
    return 1 if table.failed else 0


class ReleaseCheck:
    """The steps, in a folder for everything that is made."""

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder, self.table = folder, table
        self.uv = Path(sys.executable).with_name("uv")
        self.python = Path(sys.executable)
        self.project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def build(self) -> bool:
        """Build, check and review; return whether there is something to try."""
        if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False).returncode:
            print("uncommitted changes are not part of the release, and are not checked")
        return (
            self.table.add("build twice, equal bytes", self._build)
            and self.table.add("metadata (twine check --strict)", lambda: builds.check_metadata(self.files))
            and self.table.add("contents", lambda: builds.review(self.files, ROOT))
            and self.table.add("conda recipe", lambda: conda.fill(ROOT, self.files.sdist, ROOT / "dist"))
        )

    def _build(self) -> str:
        self.files = builds.build_twice(ROOT, self.folder / "builds", ROOT / "dist")
        return "; ".join(str(self.files).splitlines())

    def pythons(self, versions: list[str]) -> None:
        """Try a plain installation with the newest dependencies on each Python."""
        for version in versions:
            name = f"base, Python {version}"
            get = partial(interpreter, version, self.uv, self.folder / "pythons")
            self._try(name, python=get)

    def extras(self) -> None:
        """Try each extra alone."""
        pins = re.findall(r"^(\w+) := ([\d.]+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        pinned = {"neural": f"torch=={dict(pins)['TORCH']}"}  # of which there may be wheels without CUDA
        for extra in self.project["optional-dependencies"]:
            if extra != "all":
                self._try(f"extra {extra}", (extra,), *filter(None, [pinned.get(extra)]))

    def all(self) -> None:
        """Try all extras that are in ``all``."""
        (names,) = re.findall(r"\[(.*)\]", self.project["optional-dependencies"]["all"][0])
        self._try("extra all", tuple(names.split(",")))

    def numpy(self) -> None:
        """Try the oldest NumPy with the newest of everything else that takes it."""
        self._try("NumPy 2.0", (), "numpy==2.0.*")

    def oldest(self) -> None:
        """Try the lower bounds of all dependencies."""
        self._try("oldest dependencies", constraints=ROOT / "requirements" / "oldest.txt")

    def sdist(self) -> None:
        """Try an installation from the source distribution."""
        self._try("source distribution", file=self.files.sdist)

    def docker(self) -> None:
        """Take the steps of the Dockerfile, and serve a model."""
        self.table.add("Dockerfile", self._docker)

    def tests(self) -> None:
        """Run the quick tests with the oldest dependencies."""
        self.table.add("make oldest", self._tests)

    def _try(
        self,
        name: str,
        extras: tuple[str, ...] = (),
        *requirements: str,
        python: Callable[[], Path] | None = None,
        constraints: Path | None = None,
        file: Path | None = None,
    ) -> None:
        place = self.folder / re.sub(r"\W+", "-", name)

        def work() -> str:
            environment = Environment(name, place, python() if python else self.python, self.uv)
            package = f"{file or self.files.wheel}{'[' + ','.join(extras) + ']' if extras else ''}"
            environment.install(package, *requirements, constraints=constraints)
            # Every Python compiles kernels as for a user; the others use what was compiled before.
            kernels = None if python else self.folder / "kernels"
            needs = [need for extra in extras for need in self.project["optional-dependencies"][extra]]
            added = [re.split(r"[<>=]", need)[0] for need in needs]
            return environment.smoke(extras, place / "work", kernels, added)

        self.table.add(name, work)

    def _docker(self) -> str:
        models = list(self.folder.glob("*/work/model.safetensors"))
        if not models:
            raise CheckFailed("no environment before left a model to serve")
        names = {
            "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
            "UV_INDEX": "PIP_EXTRA_INDEX_URL",
            "UV_FIND_LINKS": "PIP_FIND_LINKS",
        }
        settings = uv_variables()
        variables = {pip: settings[uv] for uv, pip in names.items() if uv in settings}
        variables |= {"PIP_CERT": settings["SSL_CERT_FILE"]} if "SSL_CERT_FILE" in settings else {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        source = self.folder / "builds" / "first"
        return dockerfile.build_and_serve(source, self.folder / "container", self.python, variables, models[0], port)

    def _tests(self) -> str:
        printed = check_output(["make", "oldest", f"PYTHON={self.python}"], cwd=ROOT, env=dict(os.environ))
        return next((line.strip("= ") for line in reversed(printed.splitlines()) if " passed" in line), "")


if __name__ == "__main__":
    sys.exit(main())
