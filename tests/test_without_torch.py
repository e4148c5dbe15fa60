"""PyTorch is an extra: without it the package works, and what needs it says which extra to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = "import sys; sys.modules['torch'] = None\n"


def run(code):
    return subprocess.run([sys.executable, "-c", _WITHOUT + code], capture_output=True, text=True, check=False)


def test_the_package_does_not_import_it():
    code = (
        "import marginrank, marginrank.losses, marginrank.scorers as scorers\n"
        "from marginrank.components import members\n"
        "print(sorted(members(scorers.Scorer)))"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert "linear" in done.stdout


def test_the_module_names_its_extra():
    done = run("import marginrank.torch")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: marginrank.torch needs PyTorch: pip install 'marginrank[neural]'\n")


def test_ci_installs_the_version_that_the_makefile_names_and_goes_on_without(pytestconfig):
    root = pytestconfig.rootpath
    script = root / ".ci" / "run"
    if not script.exists():
        pytest.skip("a source distribution has no .ci")
    assert "make torch || echo" in script.read_text(encoding="utf-8")
    assert "TORCH := 2." in (root / "Makefile").read_text(encoding="utf-8")
