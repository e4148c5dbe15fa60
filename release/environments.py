"""Clean environments, made by uv from the indexes that pip is configured for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.steps import CheckFailed, check_output

_SMOKE: Final = Path(__file__).with_name("smoke.py")
#: Settings of pip, and the variables by which uv takes them; pip separates values by spaces, uv also by commas.
_SETTINGS: Final = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
}
#: Packages whose versions the table shows.
SHOWN: Final = ("numpy", "scipy", "numba", "scikit-learn", "pyarrow")


def uv_variables() -> dict[str, str]:
    """Return the environment with pip's indexes as settings of uv, which does not read those of pip."""
    variables = {**os.environ, "UV_SYSTEM_CERTS": "true"}
    for name, (variable, separator) in _SETTINGS.items():
        value = os.environ.get(f"PIP_{name.replace('-', '_').upper()}") or _pip_setting(name)
        if value:
            variables.setdefault(variable, separator.join(value.split()))
    if "UV_INDEX" in variables:
        variables.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # what pip does with several indexes
    return variables


def _pip_setting(name: str) -> str:
    command = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@dataclass(frozen=True)
class Environment:
    """A new environment.

    Args:
        name: What is tried in it.
        folder: Where it is made.
        python: The interpreter.
        uv: The program uv.
    """

    name: str
    folder: Path
    python: Path
    uv: Path

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def install(self, *requirements: str, constraints: Path | None = None) -> None:
        """Make the environment and install requirements in it."""
        check_output([self.uv, "venv", "--quiet", "--clear", "--python", self.python, self.folder], env=uv_variables())
        options = ["--constraint", str(constraints)] if constraints else []
        variables = {**uv_variables(), "VIRTUAL_ENV": str(self.folder)}
        check_output([self.uv, "pip", "install", "--quiet", *options, *requirements], env=variables)

    def versions(self) -> dict[str, str]:
        """Return what is installed, by name."""
        variables = {**os.environ, "VIRTUAL_ENV": str(self.folder)}
        listed = json.loads(check_output([self.uv, "pip", "list", "--format", "json"], env=variables))
        return {package["name"]: package["version"] for package in listed}

    def smoke(
        self, extras: tuple[str, ...], folder: Path, kernels: Path | None = None, added: Sequence[str] = ()
    ) -> str:
        """Try the package as its users would; return what it was tried with.

        Args:
            extras: The extras that are installed.
            folder: Where to work.
            kernels: Folder of kernels that were compiled before; by default they are compiled as for a user.
            added: Packages that the extras need, whose versions are shown too.
        """
        folder.mkdir(parents=True)
        # As for a user: no variables that lead Python, Numba or the package elsewhere.
        foreign = ("PYTHON", "NUMBA", "MARGINRANK", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        variables["PATH"] = os.pathsep.join([str(self.bin), variables.get("PATH", "")])
        versions = self.versions()
        if kernels is not None:
            variables["NUMBA_CACHE_DIR"] = str(kernels / versions["numba"])
            Path(variables["NUMBA_CACHE_DIR"]).mkdir(parents=True, exist_ok=True)
        command = [str(self.bin / "python"), "-I", str(_SMOKE), *extras]
        printed = check_output(command, cwd=folder, env=variables, timeout=1800)
        shown = ", ".join(f"{name} {versions[name]}" for name in (*SHOWN, *added) if name in versions)
        python = check_output([self.bin / "python", "-I", "-c", "import sys; print(sys.version.split()[0])"]).strip()
        if not printed.rstrip().endswith("all as expected"):
            raise CheckFailed(f"{self.name}: {printed.strip()[-300:]}")
        return f"Python {python}, {shown}; {len(versions)} packages"
