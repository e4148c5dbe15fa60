"""PyTorch and JAX are extras: without them the package works, and what needs them says which extra to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.absent import WITHOUT_TORCH_AND_JAX

IMPORTS = """
import importlib
for module in ('pytorch', 'jax'):
    try:
        importlib.import_module(f'marginrank.integrations.{module}')
    except ImportError as error:
        print(error)
import marginrank, marginrank.losses, marginrank.scorers as scorers
from marginrank.runtime.option_objects import registered
print(sorted(registered(scorers.Scorer)))
"""


@pytest.fixture(scope="module")
def printed():
    """What is printed where neither is installed: why a module of each cannot be imported, and the scorers."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH_AND_JAX + IMPORTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_package_does_not_import_them(printed):
    assert "linear" in printed[-1]


@pytest.mark.parametrize(
    ("place", "module", "library", "extra"), [(0, "pytorch", "PyTorch", "neural"), (1, "jax", "JAX", "jax")]
)
def test_a_module_names_its_extra(printed, place, module, library, extra):
    assert printed[place] == f"marginrank.integrations.{module} needs {library}: pip install 'marginrank[{extra}]'"


@pytest.mark.parametrize(
    ("module", "library", "package"), [("qdrant", "qdrant_client", "qdrant-client"), ("lancedb", "lancedb", "lancedb")]
)
def test_a_module_names_the_package_of_its_engine(module, library, package):
    absent = WITHOUT_TORCH_AND_JAX.replace("'jax')", f"'{library}')")
    code = f"{absent}\nimport marginrank.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: marginrank.integrations.{module} needs ")
    assert done.stderr.splitlines()[-1].endswith(f": pip install {package}")


@pytest.mark.parametrize(
    ("target", "version"), [("torch", "TORCH := 2."), ("jax", "JAX := 0."), ("engines", "ENGINES := elasticsearch==")]
)
def test_ci_installs_the_version_that_the_makefile_names_and_goes_on_without(pytestconfig, target, version):
    root = pytestconfig.rootpath
    script = root / ".ci" / "run"
    if not script.exists():
        pytest.skip("a source distribution has no .ci")
    assert f"make {target} || echo" in script.read_text(encoding="utf-8")
    assert version in (root / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "library", "package"),
    [
        ("pyterrier", "pyterrier", "python-terrier"),
        ("langchain", "langchain_core", "langchain-core"),
        ("llama_index", "llama_index", "llama-index-core"),
        ("haystack", "haystack", "haystack-ai"),
    ],
)
def test_a_framework_that_is_not_installed_is_named(module, library, package):
    code = f"import sys; sys.modules[{library!r}] = None; import marginrank.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"ImportError: marginrank.integrations.{module} needs ")
    assert said.endswith(f": pip install {package}")
