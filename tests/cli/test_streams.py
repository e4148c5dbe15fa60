"""Closed, full and broken streams, paths that are not UTF-8, and Ctrl-C while modules are imported."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from marginrank import load
from marginrank.cli.exit_codes import INTERRUPTED, exit_code_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="these are the ways of Unix shells")

PYTHON = sys.executable
TRAIN = ("train", "train.txt", "-C", "1", "-o", "new.safetensors", "--force")


@pytest.fixture
def shell(folder):
    """Run a line of a shell in the folder; ``marginrank`` is the command under test."""

    def run(line, stdout=subprocess.PIPE):
        text = f'python() {{ {shlex.quote(PYTHON)} "$@"; }}; marginrank() {{ python -m marginrank "$@"; }}; {line}'
        return subprocess.run(["bash", "-c", text], stdout=stdout, stderr=subprocess.PIPE, check=False)

    return run


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_change_nothing(shell, run, folder, closed):
    done = shell(f"marginrank train train.txt -C 1 -o new.safetensors {closed}")
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    # A file that was opened as number 1 or 2 would have got what was printed.
    assert load(folder / "new.safetensors").coef_.any()
    shown = run("train", "train.txt", "-C", "1", "-o", "other.safetensors").out
    assert (done.stdout == b"") == (">&-" in closed.split())
    assert (folder / "new.safetensors").stat().st_size == pytest.approx(
        (folder / "other.safetensors").stat().st_size, abs=99
    )
    assert "wrote" in shown


def test_errors_on_a_closed_stream_go_nowhere(shell):
    done = shell("marginrank inspect absent 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


@pytest.fixture
def unread():
    """A pipe that is no longer read."""
    reads, writes = os.pipe()
    os.close(reads)
    yield writes
    os.close(writes)


@pytest.mark.parametrize("words", ["rank model.safetensors test.txt --k 8", "presets"])
def test_a_pipe_that_is_no_longer_read_ends_quietly(shell, unread, words):
    done = shell(f"marginrank {words}", stdout=unread)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", ["--help", ""])
def test_help_that_is_no_longer_read_ends_quietly(shell, unread, words):
    assert shell(f"marginrank {words}", stdout=unread).stderr == b""


#: A line in the log for every hundredth of a second, instead of every five seconds.
TALKATIVE = (
    "from marginrank.training import progress; progress._LOG_INTERVAL = 0.01; "
    "from marginrank.__main__ import main; main()"
)


@pytest.mark.slow
def test_progress_that_nobody_reads_does_not_stop_training(shell, folder):
    long = "--solver subgradient --tol 0 --max-iter 1000 -o new.safetensors"
    words = f"python -c '{TALKATIVE}' train train.txt -C 1 {long} --force"
    assert shell(words).stderr.count(b"objective") > 1
    done = shell(f"{words} 2> >(true)")
    assert done.returncode == 0
    assert load(folder / "new.safetensors").coef_.any()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["rank model.safetensors test.txt", "measures"])
def test_a_full_standard_output_is_an_error(shell, words):
    done = shell(f"marginrank {words} > /dev/full")
    assert (done.returncode, done.stderr) == (1, b"error: standard output: No space left on device\n")


SAVES = {
    "train": "train train.txt -C 1 -o {}.safetensors",
    "tune": "tune train.txt --valid valid.txt --Cs 1 -o {}.safetensors",
    "convert to text": "convert train.txt {}.txt",
    "convert to a table": "convert train.txt {}.parquet",
    "rank": "rank model.safetensors test.txt -o {}.tsv",
    "rank to a table": "rank model.safetensors test.txt -o {}.parquet",
    "report": "report test.txt model.safetensors -o {}.html",
    "fuse": "fuse bm25.run dense.run --qrels judged.qrels --kinds rrf -o {}.run",
    "evaluate": "evaluate train.txt model.safetensors -m ap -m auc -m ndcg@3 --per-query -o {}.tsv",
}


@pytest.fixture
def small_disk(monkeypatch):
    """Limit the size of files to 1 KB, which fails as a full disk does, with another reason."""
    import resource

    @contextmanager
    def limited():
        # Python does not notice that only the beginning of its bytecode was written, and fails when it is read.
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.mark.usefixtures("few_Cs")
@pytest.mark.parametrize("save", SAVES)
def test_a_disk_that_fills_up_leaves_the_old_file(run, folder, small_disk, save):
    words = SAVES[save].format("new").split()
    # Kernels that no test before has compiled would be too large for the disk.
    assert run(*words, "--force").code == 0
    target = folder / words[-1]
    target.write_bytes(b"old")
    before = sorted(folder.iterdir())
    with small_disk():
        done = run(*words, "--force")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "File too large" in last
    assert target.name in last
    assert "unfinished" not in last
    assert target.read_bytes() == b"old"
    assert sorted(folder.iterdir()) == before


# Paths that are not UTF-8.


@pytest.fixture
def odd(folder):
    place = os.fsdecode(os.fsencode(folder) + b"/caf\xe9")
    try:
        Path(place).mkdir()
    except OSError:
        pytest.skip("this file system has only UTF-8 names")
    (Path(place) / "tr\udce9.txt").write_bytes((folder / "train.txt").read_bytes())
    return Path(place)


def test_paths_that_are_not_utf8_are_read_written_and_shown(shell, run, odd):
    done = shell(r"marginrank train $'caf\xe9/tr\xe9.txt' -C 1 -o $'caf\xe9/m\xe9.safetensors'")
    assert (done.returncode, b"error" in done.stderr) == (0, False)
    assert rb"tr\xe9.txt: 30 queries" in done.stdout
    assert rb"caf\xe9/m\xe9.safetensors" in done.stdout
    model = odd / "m\udce9.safetensors"
    report = run("report", "test.txt", model, "-o", odd / "r\udce9.html")
    assert (report.code, report.err) == (0, "")
    assert r"m\xe9" in (odd / "r\udce9.html").read_text("utf-8")
    ranked = run("rank", model, "test.txt", "-o", odd / "r\udce9.parquet")
    assert (ranked.code, ranked.err) == (0, "")
    table = run(
        "evaluate", "test.txt", model, "model.safetensors", "-m", "ap", "--per-query", "-o", odd / "r\udce9.tsv"
    )
    assert (table.code, table.err) == (0, "")
    assert "\tm\\xe9\t" in (odd / "r\udce9.tsv").read_text("utf-8")


def test_errors_and_json_show_paths_that_are_not_utf8(shell, odd):
    missing = shell(r"marginrank inspect $'caf\xe9/absent'")
    assert missing.stderr == b"error: caf\\xe9/absent: no such file; check the name and the folder\n"
    shown = shell(r"marginrank inspect --json $'caf\xe9/tr\xe9.txt'")
    assert json.loads(shown.stdout)["path"] == "caf\udce9/tr\udce9.txt"


# Ctrl-C while modules are imported.

#: At each of these imports, a fork is interrupted, and its exit code printed; the last ends the program.
MODULES = ("typer", "marginrank.cli.commands.train", "numpy", "marginrank.ranker.ranker")
INTERRUPT = f"""
import os, signal, sys
left = list({MODULES})
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name not in left:
            return
        left.remove(name)
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGINT)
            return
        code = os.waitstatus_to_exitcode(os.wait()[1])
        os.write(1, f"{{name}} {{code}}\\n".encode())
        if not left:
            os._exit(0)
sys.meta_path.insert(0, Interrupt())
from marginrank.__main__ import main
main()
"""


def test_an_interrupt_during_imports_ends_quietly(folder):
    done = subprocess.run([PYTHON, "-c", INTERRUPT, *TRAIN], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{module} 130" for module in MODULES]
    assert "Traceback" not in done.stderr
    assert not (folder / "new.safetensors").exists()


class _Interrupting:
    """A descriptor that is interrupted when its class is created, as a class of a module that is imported."""

    def __set_name__(self, owner, name):
        raise KeyboardInterrupt


def test_an_interrupt_while_a_class_is_created_is_an_interrupt(capsys):
    def create():
        type("Imported", (), {"member": _Interrupting()})

    assert exit_code_of(create) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted; nothing was written\n"


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.5, 1.0])
def test_an_interrupt_at_any_moment_leaves_no_traceback(folder, delay):
    words = [PYTHON, "-m", "marginrank", *TRAIN, "--tol", "0", "--max-iter", "100000000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            child.wait(delay)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode in (0, 130), err
    assert "Traceback" not in out + err
