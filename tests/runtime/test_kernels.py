"""Compiled kernels: kept where nobody else can write, and compiled anew where a kept one is damaged or stale."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

import marginrank
from marginrank import Queries, Ranker
from marginrank.data import write_binary
from marginrank.runtime import kernel_folders, kernels
from marginrank.runtime.kernel_folders import KernelCacheWarning, folder_to_write, folders_to_read

PACKAGE = Path(marginrank.__file__).parent
HELPER = "from marginrank.runtime.kernels import njit\nSTEP = 1\n@njit(cache=True)\ndef step(x):\n    return x + STEP\n"
CALLER = """
from marginrank.runtime.kernels import njit
from {helper} import step
@njit(cache=True, allocates=False)
def _double(x):
    return 2 * x
@njit(nogil=True, cache=True)
def twice(x):
    return _double(step(x))
"""

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no modes")


@pytest.fixture
def forgetful():
    """Forget what folders and sources looked like, as a new process does."""

    def forget():
        for cached in (kernel_folders._first_private, kernel_folders._is_writable, kernels._source_digest):
            cached.cache_clear()

    forget()
    yield forget
    forget()


@pytest.fixture
def modules(tmp_path, forgetful, monkeypatch):
    """Import a module of one kernel that calls one of another, as a new process would."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    names = [f"{name}_{tmp_path.name}".replace("-", "_") for name in ("helper", "caller")]

    def write(helper=HELPER):
        (tmp_path / f"{names[0]}.py").write_text(helper)
        (tmp_path / f"{names[1]}.py").write_text(CALLER.format(helper=names[0]))

    def load():
        forgetful()
        for name in names:
            spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            # Bytecode goes by whole seconds, and these sources change faster.
            exec(compile((tmp_path / f"{name}.py").read_text(), spec.origin, "exec"), vars(sys.modules[name]))
        return sys.modules[names[1]].twice

    write()
    yield write, load
    for name in names:
        sys.modules.pop(name, None)


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def kept(folder, name="twice"):
    return list(folder.rglob(f"*.{name}.*.kernel"))


def test_a_kernel_is_compiled_once(modules, tmp_path):
    _, load = modules
    first = load()
    assert (first(1), hits(first)) == (4, 0)
    second = load()
    assert (second(2), hits(second)) == (6, 1)
    assert [file.parent for file in kept(tmp_path)] == [tmp_path / "__pycache__"]
    assert not list(tmp_path.rglob("*.tmp"))
    # Another type of argument is another file.
    assert second(0.5) == 3.0
    assert len(kept(tmp_path)) == 2
    second._cache.flush()
    assert kept(tmp_path) == []


def test_parts_of_kernels_are_not_kept(modules, tmp_path):
    _, load = modules
    load()(1)
    assert len(kept(tmp_path, "twice")) == len(kept(tmp_path, "step")) == 1
    assert kept(tmp_path, "_double") == []


def test_parts_of_kernels_are_interpreted_where_python_calls_them(modules):
    _, load = modules
    kernel = load()
    double = kernel.py_func.__globals__["_double"]
    assert double("ab") == "abab"
    assert kernel(1) == 4
    assert len(double.signatures) == 1  # compiled by now, into the kernel
    assert double(7) == 14


def test_calls_with_constants_compile_nothing_of_their_own():
    @kernels.njit(cache=False)
    def _next(x):
        return x + 1

    @kernels.njit(cache=False)
    def public(x):
        return 2 * x

    @kernels.njit(cache=False)
    def total(x):
        return _next(0) + _next(x) + public(3) + public(x)

    assert total(2) == 14
    assert len(_next.signatures) == len(public.signatures) == 1


def test_compiling_is_logged_once_and_loading_is_not(modules, caplog, monkeypatch):
    _, load = modules
    monkeypatch.setattr(kernels._ANNOUNCEMENT, "made", False)
    with caplog.at_level("INFO", logger="marginrank.runtime.kernels"):
        load()(1)
        load()(0.5)
        assert [record.message for record in caplog.records] == [kernels.COMPILING]
        monkeypatch.setattr(kernels._ANNOUNCEMENT, "made", False)
        load()(1)
        assert len(caplog.records) == 1


def test_kernels_that_make_no_arrays_are_held_to_it():
    @kernels.njit(cache=False, allocates=False)
    def longer(n):
        return np.zeros(n)

    with pytest.raises(TypingError):
        longer(3)


#: Code that runs once need not be fast, and compiling it takes two thirds of the time.
UNOPTIMISED = {"NUMBA_OPT": "0"}

COMPILED = """
import gc
import numpy as np
from numba.core import event
from marginrank import Ranker
gc.disable()  # a seventh of the time
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        compiled.append((function.__module__, function.__qualname__))
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
rng = np.random.default_rng(0)
X, y = rng.random((60, 3)), rng.integers(0, 3, 60)
for preset, grades in (("svmmap", np.minimum(y, 1)), ("svmndcg", y)):
    Ranker(preset, n_jobs=1).fit(X, grades, group=[20] * 3)
    print(*(".".join(one) for one in compiled if one[0].startswith("marginrank")))
    print(*sorted({one[0] for one in compiled if not one[0].startswith("marginrank")}))
"""


@pytest.mark.slow
def test_a_first_fit_compiles_each_kernel_for_one_type_and_nothing_of_numba(tmp_path):
    """For lists of two grades, and then, in the same process, for those of more."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILED],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **UNOPTIMISED},
        capture_output=True,
        text=True,
        check=True,
    )
    first, _, ours, others = (line.split() for line in done.stdout.split("\n")[:4])
    assert len(ours) == len(set(ours))
    assert len(first) < 25
    assert len(ours) < 36
    # Sorting in NumPy's way, and the words of errors about shapes, took as long to compile as all the rest.
    assert [name for name in others if "sort" in name or "unicode" in name] == []


def test_a_changed_helper_makes_its_callers_stale(modules):
    write, load = modules
    assert load()(1) == 4
    write(HELPER.replace("STEP = 1", "STEP = 10"))
    changed = load()
    assert (changed(1), hits(changed)) == (22, 0)
    assert hits(load()) == 0


def test_code_without_bounds_checks_is_not_taken_for_checked_code(modules, monkeypatch):
    _, load = modules
    assert load()(1) == 4
    monkeypatch.setattr(kernels.config, "BOUNDSCHECK", 1)
    checked = load()
    assert (checked(1), hits(checked)) == (4, 0)


DAMAGES = {
    "empty": lambda content: content[:0],
    "cut": lambda content: content[: len(content) // 2],
    "short": lambda content: content[:20],
    "flipped": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "garbage": lambda content: b"\x80\x04garbage" * len(content),
    "longer": lambda content: content + b"\0",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_kernel_is_compiled_anew_and_replaced(damage, modules, tmp_path):
    _, load = modules
    assert load()(1) == 4
    (file,) = kept(tmp_path)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    again = load()
    assert (again(1), hits(again)) == (4, 0)
    again = load()
    assert (again(1), hits(again)) == (4, 1)


def test_a_folder_in_the_way_of_a_kernel_is_no_failure(modules, tmp_path):
    _, load = modules
    assert load()(1) == 4
    (file,) = kept(tmp_path)
    file.unlink()
    file.mkdir()
    assert load()(1) == 4
    assert not list(tmp_path.rglob("*.tmp"))


def test_what_cannot_be_kept_is_no_failure(modules, tmp_path, monkeypatch):
    _, load = modules

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert load()(1) == 4
    assert kept(tmp_path) == []


# Which folders are trusted.


@posix
@pytest.mark.parametrize(("mode", "trusted"), [(0o700, True), (0o755, True), (0o777, False), (0o1777, False)])
def test_a_folder_that_others_can_write_to_is_not_trusted(mode, trusted, tmp_path, forgetful, monkeypatch):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__").chmod(mode)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    source = tmp_path / "a_kernel.py"
    assert ((tmp_path / "__pycache__") in folders_to_read(source)) == trusted
    assert (folder_to_write(source) == tmp_path / "__pycache__") == trusted
    # The group may write where it may write the source.
    tmp_path.chmod(0o775)
    (tmp_path / "__pycache__").chmod(mode | 0o020)
    forgetful()
    assert ((tmp_path / "__pycache__") in folders_to_read(source)) == trusted


@posix
def test_the_folder_of_the_user_is_private(tmp_path, forgetful, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "mine"))
    chosen = folder_to_write(tmp_path / "a_kernel.py")
    assert chosen == tmp_path / "mine" / "marginrank-kernels"
    assert chosen.stat().st_mode & 0o777 == 0o700
    assert folders_to_read(tmp_path / "a_kernel.py")[0] == chosen
    # Whoever can write the folder above can put another in its place.
    (tmp_path / "mine").chmod(0o777)
    forgetful()
    with pytest.warns(KernelCacheWarning, match="set NUMBA_CACHE_DIR to a folder that only you can write to"):
        assert folder_to_write(tmp_path / "a_kernel.py") != chosen
    assert chosen not in folders_to_read(tmp_path / "a_kernel.py")
    (tmp_path / "mine").chmod(0o1777)  # as /tmp
    forgetful()
    assert folder_to_write(tmp_path / "a_kernel.py") == chosen
    chosen.rmdir()
    (tmp_path / "other").mkdir(mode=0o700)
    chosen.symlink_to(tmp_path / "other")
    forgetful()
    assert chosen not in folders_to_read(tmp_path / "a_kernel.py")


@posix
def test_a_folder_of_someone_else_is_not_trusted(tmp_path, forgetful, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    chosen = folder_to_write(tmp_path / "a_kernel.py")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    forgetful()
    assert chosen not in folders_to_read(tmp_path / "a_kernel.py")


def test_every_kernel_of_the_package_has_this_cache():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        # Vector code is no kernel: it becomes part of those that call it. Nor are addresses of LAPACK.
        if (
            path.name in ("kernels.py", "kernel_folders.py", "cholesky.py")
            or path.stem.endswith("simd")
            or "numba" not in text
        ):
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "numba" for name in names), path


# As a user of a container meets it.

NO_TEMPORARY = "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/proc']; "
SCORE = (
    "import numpy as np; from marginrank.scorers.linear.scorer import linear_scores as s; "
    "print(s(np.eye(2), np.ones(2)))"
)


@pytest.fixture(scope="module")
def read_only_package():
    """Copy the package to where nobody can write, without compiled kernels."""
    import shutil

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
    done = run(read_only_package, "-c", NO_TEMPORARY + SCORE, **UNOPTIMISED)
    assert (done.returncode, done.stdout) == (0, "[1. 1.]\n"), done.stderr
    lines = [line for line in done.stderr.splitlines() if "KernelCacheWarning" in line]
    assert len(lines) == 1
    assert "no folder for compiled kernels: every run compiles them anew; set NUMBA_CACHE_DIR" in lines[0]


@posix
def test_kernels_are_kept_in_a_private_temporary_folder_without_a_home(read_only_package):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        for _ in range(2):
            done = run(read_only_package, "-c", SCORE, TMPDIR=folder, **UNOPTIMISED)
            assert (done.returncode, done.stdout) == (0, "[1. 1.]\n"), done.stderr
        (made,) = [path for path in Path(folder).iterdir() if path.name.startswith("marginrank-kernels-")]
        assert made.stat().st_mode & 0o777 == 0o700
        assert len(kept(made, "score_rows")) == 1
        # The second time there was nothing to keep.
        assert done.stderr == ""


@posix
@pytest.mark.slow
def test_a_command_runs_where_nothing_can_be_written(read_only_package, tmp_path):
    # Scores of binary data need the kernel that is the quickest to compile, and no other.
    queries = Queries.from_arrays(np.eye(2), [1, 0], qid=[1, 1])
    ranker = Ranker("svmmap").fit(queries)
    ranker.save(tmp_path / "model.safetensors")
    write_binary(tmp_path / "two.queries", queries)
    words = ["marginrank", "rank", *(str(tmp_path / name) for name in ("model.safetensors", "two.queries"))]
    command = f"import sys; sys.argv = {words}; "
    program = f"{NO_TEMPORARY}{command}from marginrank.cli.app import main; main()"
    done = run(read_only_package, "-c", program, **UNOPTIMISED)
    assert done.returncode == 0, done.stderr
    assert [float(line) for line in done.stdout.splitlines()] == ranker.predict(queries).tolist()
    assert done.stderr.startswith("warning: no folder for compiled kernels")
    assert len(done.stderr.splitlines()) == 1


def test_results_do_not_depend_on_the_cache(modules):
    _, load = modules
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = [load()(value) for value in np.linspace(0, 1, 3) for _ in range(2)]
    assert values == [2.0, 2.0, 3.0, 3.0, 4.0, 4.0]


def test_a_step_returns_nothing():
    @kernels.njit(cache=False)
    def count(values, first, end):
        return end - first

    with pytest.raises(TypeError, match="count returns a int64; a kernel of a step returns nothing"):
        kernels.pointers([(count, (np.zeros(3),))])
