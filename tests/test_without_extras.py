"""PyTorch and JAX are extras: without them the package works, and what needs them says which extra to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = "import sys; sys.modules['torch'] = sys.modules['jax'] = None\n"


def run(code):
    return subprocess.run([sys.executable, "-c", _WITHOUT + code], capture_output=True, text=True, check=False)


def test_the_package_does_not_import_them():
    code = (
        "import marginrank, marginrank.losses, marginrank.scorers as scorers\n"
        "from marginrank.components import members\n"
        "print(sorted(members(scorers.Scorer)))"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert "linear" in done.stdout


@pytest.mark.parametrize(("module", "library", "extra"), [("torch", "PyTorch", "neural"), ("jax", "JAX", "jax")])
def test_a_module_names_its_extra(module, library, extra):
    done = run(f"import marginrank.{module}")
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"ImportError: marginrank.{module} needs {library}: pip install 'marginrank[{extra}]'\n"
    )


@pytest.mark.parametrize(("target", "version"), [("torch", "TORCH := 2."), ("jax", "JAX := 0.")])
def test_ci_installs_the_version_that_the_makefile_names_and_goes_on_without(pytestconfig, target, version):
    root = pytestconfig.rootpath
    script = root / ".ci" / "run"
    if not script.exists():
        pytest.skip("a source distribution has no .ci")
    assert f"make {target} || echo" in script.read_text(encoding="utf-8")
    assert version in (root / "Makefile").read_text(encoding="utf-8")
