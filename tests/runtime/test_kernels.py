"""Compiled kernels: what is promised of their cache, and of Numba's public interface."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

import marginrank
from marginrank import Queries, Ranker
from marginrank.data import write_binary
from marginrank.runtime import kernels

PACKAGE = Path(marginrank.__file__).parent
KERNELS = """
from marginrank.runtime.kernels import njit
@njit()
def _double(x):
    return 2 * x
@njit()
def twice(x):
    return _double(x + 1)
"""
#: Code that runs once need not be fast, and compiling it takes two thirds of the time.
UNOPTIMIZED = {"NUMBA_OPT": "0"}

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no modes")


@pytest.fixture
def forgetful():
    """Forget which folder was chosen, and what was said, as a new process does."""

    def forget():
        for cached in (kernels.cache_folder, kernels._is_uncached, kernels._announce):
            cached.cache_clear()

    forget()
    yield forget
    forget()


@pytest.fixture
def load(tmp_path, forgetful, monkeypatch):
    """Import a module with a kernel, as a new process would, and return the kernel."""
    monkeypatch.setattr(kernels._CONFIG, "CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "some_kernel.py"
    path.write_text(KERNELS)

    def imported():
        forgetful()
        spec = importlib.util.spec_from_file_location("some_kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.twice

    return imported


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def cached(folder, name="twice"):
    return list(folder.rglob(f"*.{name}-*.nbc"))


def test_a_kernel_is_compiled_once(load, tmp_path):
    first = load()
    assert (first(1), hits(first)) == (4, 0)
    second = load()
    assert (second(2), hits(second)) == (6, 1)
    assert len(cached(tmp_path)) == 1
    # Another type of argument is another file.
    assert second(0.5) == 3.0
    assert len(cached(tmp_path)) == 2


def test_parts_of_kernels_are_not_cached(load, tmp_path):
    load()(1)
    assert cached(tmp_path, "_double") == []


def test_functions_of_others_are_cached_where_they_were(load, tmp_path):
    load()(1)
    assert str(tmp_path / "cache") == numba.config.CACHE_DIR


def test_a_kernel_need_not_be_cached(load, tmp_path):
    load()

    @kernels.njit(cache=False)
    def alone(x):
        return x + 1

    assert alone(1) == 2
    assert cached(tmp_path, "alone") == []


def test_compiling_is_logged_once_and_loading_is_not(load, caplog):
    with caplog.at_level("INFO", logger="marginrank.runtime.kernels"):
        kernel = load()
        assert [record.message for record in caplog.records] == [kernels.COMPILING]
        kernel(1)
        load()(1)
        assert len(caplog.records) == 1


# The folder.


@pytest.fixture
def places(tmp_path, forgetful, monkeypatch):
    """Return the folder of a package and the home of a user who has no other places."""
    package, home = tmp_path / "package", tmp_path / "home"
    package.mkdir()
    home.mkdir()
    monkeypatch.setattr(kernels._CONFIG, "CACHE_DIR", "")
    monkeypatch.setattr(kernels, "_PACKAGE", package)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return package, home


@posix
def test_it_is_beside_the_source_or_else_among_the_caches_of_the_user(places, tmp_path, forgetful, monkeypatch):
    package, home = places
    assert kernels.cache_folder().parent == package / "__pycache__"
    shutil.rmtree(package)
    package.touch()  # where no folder can be made
    forgetful()
    folder = kernels.cache_folder()
    assert folder.parent == home / ".cache"
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    forgetful()
    assert kernels.cache_folder().parent == tmp_path / "elsewhere"


@posix
def test_the_user_chooses(places, tmp_path, monkeypatch):
    monkeypatch.setattr(kernels._CONFIG, "CACHE_DIR", str(tmp_path / "mine"))
    assert kernels.cache_folder().parent == tmp_path / "mine"


@posix
def test_without_any_a_warning_says_so(places):
    package, home = places
    shutil.rmtree(package)
    package.touch()
    home.rmdir()
    with pytest.warns(kernels.KernelCacheWarning, match="set NUMBA_CACHE_DIR to a folder that only you can write to"):
        assert kernels.cache_folder() is None
    assert not home.exists()


@posix
def test_a_folder_that_others_can_write_to_is_not_used(places, tmp_path, forgetful):
    _, home = places
    folder = kernels.cache_folder()
    for mode in (0o770, 0o707, 0o1777):
        folder.chmod(mode)
        forgetful()
        assert kernels.cache_folder().parent == home / ".cache"
    folder.rmdir()
    (tmp_path / "other").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "other")
    forgetful()
    assert kernels.cache_folder().parent == home / ".cache"


@posix
def test_nor_is_one_of_someone_else(places, monkeypatch):
    kernels.cache_folder()
    kernels.cache_folder.cache_clear()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(kernels.KernelCacheWarning):
        assert kernels.cache_folder() is None


def test_changed_kernels_have_another_folder(places, forgetful):
    """Numba looks at the file of a kernel, and not at those of the functions that it calls."""
    package, _ = places
    before = kernels.cache_folder()
    (package / "new_kernel.py").write_text(KERNELS)
    forgetful()
    assert kernels.cache_folder() != before


# The public interface.

PRIVATE = re.compile(r"numba\.core|llvmlite|_dispatcher|get_pointer_to_function|no_cpython_wrapper|_nrt")


def test_nothing_private_of_numba_is_used():
    assert [str(path) for path in PACKAGE.rglob("*.py") if PRIVATE.search(path.read_text("utf-8"))] == []


def test_every_kernel_has_these_options():
    allowed = ("runtime/kernels.py",)
    jit = re.compile(r"numba\.\w*jit|from numba import .*jit")
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).as_posix() not in allowed:
            assert not jit.search(path.read_text("utf-8")), path


WITHOUT_COMPILATION = """
import numpy as np
from marginrank import Ranker
rng = np.random.default_rng(0)
X, y = rng.random((24, 3)), rng.integers(0, 2, 24)
print(Ranker("svmmap", n_jobs=1).fit(X, y, group=[8] * 3).objective_)
"""


def test_results_are_the_same_without_compilation():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.check_output([sys.executable, "-c", WITHOUT_COMPILATION], env=environment, text=True)
    rng = np.random.default_rng(0)
    X, y = rng.random((24, 3)), rng.integers(0, 2, 24)
    assert float(done) == pytest.approx(Ranker("svmmap").fit(X, y, group=[8] * 3).objective_, rel=1e-9)


# As a user of a container meets it.

SCORE = (
    "import numpy as np; from marginrank.scorers.linear.scorer import linear_scores as s; "
    "print(s(np.eye(2), np.ones(2)))"
)


@pytest.fixture(scope="module")
def read_only_package():
    """Copy the package to where nobody can write, without compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = Path(folder, "marginrank")
        shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
        for path in [*place.rglob("*"), place]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield Path(folder)
        for path in [*place.rglob("*"), place]:
            path.chmod(0o755)


def drop_rights():
    """Obey modes of files as root too."""
    import ctypes

    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def run(package, *words, **environment):
    return subprocess.run(
        [sys.executable, *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "HOME": "/nonexistent", **environment},
        preexec_fn=drop_rights if sys.platform == "linux" else None,
        capture_output=True,
        text=True,
        check=False,
    )


@posix
def test_kernels_run_where_nothing_can_be_written(read_only_package):
    done = run(read_only_package, "-c", SCORE, **UNOPTIMIZED)
    assert (done.returncode, done.stdout) == (0, "[1. 1.]\n"), done.stderr
    lines = [line for line in done.stderr.splitlines() if "KernelCacheWarning" in line]
    assert len(lines) == 1
    assert "no folder for compiled kernels: they are compiled in every run; set NUMBA_CACHE_DIR" in lines[0]


@posix
def test_kernels_of_a_read_only_package_are_cached_at_home(read_only_package, tmp_path):
    for _ in range(2):
        done = run(read_only_package, "-c", SCORE, HOME=str(tmp_path), **UNOPTIMIZED)
        assert (done.returncode, done.stdout, done.stderr) == (0, "[1. 1.]\n", "")
    assert len(cached(tmp_path / ".cache", "score_rows")) == 1


@posix
@pytest.mark.slow
def test_a_command_runs_where_nothing_can_be_written(read_only_package, tmp_path):
    # Evaluation of binary data needs a kernel that is quick to compile, and no other.
    write_binary(tmp_path / "two.queries", Queries.from_arrays(np.eye(2), [1, 0], qid=[1, 1]))
    (tmp_path / "scores.txt").write_text("2\n1\n")
    files = (str(tmp_path / name) for name in ("two.queries", "scores.txt"))
    words = ["marginrank", "evaluate", *files, "-m", "rr", "--json"]
    program = f"import sys; sys.argv = {words}; from marginrank.cli.app import main; main()"
    done = run(read_only_package, "-c", program, **UNOPTIMIZED)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["systems"]["scores"]["mean"] == {"rr": 1.0}
    assert done.stderr.startswith("warning: no folder for compiled kernels")
    assert len(done.stderr.splitlines()) == 1
