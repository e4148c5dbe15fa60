"""Files appear under their name whole or not at all, whatever fails and whenever the writer is killed."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from marginrank.runtime import files as atomic
from marginrank.runtime.files import atomic_path
from tests import stepping

HEX = "0123456789abcdef"


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def save(path, text):
    with atomic_path(path) as place:
        place.write_text(text)


def leave(folder, name, digits=HEX):
    """Leave what a killed writer leaves."""
    left = folder / f".{name}.{digits}.unfinished"
    left.mkdir()
    (left / name).write_text("half")
    return left


# Permissions.


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask():
    """New files can be read by everybody, unless something else is said."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(mode)
    (tmp_path / "link").symlink_to(path)
    for name in ("model", "link"):
        save(tmp_path / name, name)
        assert (path.read_text(), mode_of(path)) == (name, mode)


@pytest.mark.usefixtures("open_umask")
def test_a_new_file_follows_the_umask_and_a_private_one_does_not(tmp_path):
    for name, private, mode in (("open", False, 0o644), ("private", True, 0o600)):
        for overwrite in (True, False):
            path = tmp_path / f"{name} {overwrite}"
            with atomic_path(path, private=private, overwrite=overwrite) as place:
                place.write_text("new")
                assert mode_of(place.parent) == 0o700
            assert mode_of(path) == mode


@pytest.mark.usefixtures("open_umask")
def test_whoever_opened_a_private_file_to_others_keeps_it_open(tmp_path):
    with atomic_path(tmp_path / "model", private=True) as place:
        place.write_text("old")
    (tmp_path / "model").chmod(0o644)
    with atomic_path(tmp_path / "model", private=True) as place:
        place.write_text("new")
    assert mode_of(tmp_path / "model") == 0o644


# Leftovers.


def test_the_next_writer_sweeps_what_a_killed_one_left(tmp_path):
    for digits in (HEX, HEX[::-1]):
        left = leave(tmp_path, "model", digits)
        (left / "model.lock").touch()
    leave(tmp_path, "model", "0" * 16)
    save(tmp_path / "model", "new")
    assert names_in(tmp_path) == ["model"]


def test_nothing_else_is_swept(tmp_path):
    others = [leave(tmp_path, "model2"), leave(tmp_path, "model.a"), leave(tmp_path, "model", "xyz")]
    (tmp_path / f".model.{HEX}.unfinished").write_text("a file")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f".model.{HEX[::-1]}.unfinished").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "model").write_text("precious")
    before = names_in(tmp_path)
    save(tmp_path / "model", "new")
    assert names_in(tmp_path) == sorted([*before, "model"])
    assert all((other / next(iter(names_in(other)))).read_text() == "half" for other in others)
    assert (tmp_path / "elsewhere" / "model").read_text() == "precious"


def test_names_with_signs_of_patterns_sweep_their_own(tmp_path):
    leave(tmp_path, "a*[b].txt")
    leave(tmp_path, "aX[b].txt")
    save(tmp_path / "a*[b].txt", "new")
    assert names_in(tmp_path) == [f".aX[b].txt.{HEX}.unfinished", "a*[b].txt"]


def test_a_live_writer_is_not_swept(tmp_path):
    with atomic_path(tmp_path / "model") as first:
        first.write_text("first")
        save(tmp_path / "model", "second")
        assert (tmp_path / "model").read_text() == "second"
        assert first.read_text() == "first"
    assert (tmp_path / "model").read_text() == "first"
    assert names_in(tmp_path) == ["model"]


LIVE = """
import sys
from marginrank.runtime.files import atomic_path
with atomic_path(sys.argv[1]) as place:
    place.write_text("theirs")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_live_writer_of_another_process_is_not_swept_until_it_is_killed(tmp_path):
    words = [sys.executable, "-c", LIVE, str(tmp_path / "model")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        save(tmp_path / "model", "ours")
        assert len(names_in(tmp_path)) == 2
        child.kill()
    assert len(names_in(tmp_path)) == 2
    save(tmp_path / "model", "ours again")
    assert names_in(tmp_path) == ["model"]


def test_many_writers_of_one_name_do_not_disturb_each_other(tmp_path):
    errors = []

    def work(number):
        try:
            for turn in range(20):
                save(tmp_path / "model", f"{number} {turn}" * 100)
        except Exception as error:  # a thread would hide it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names_in(tmp_path) == ["model"]


def test_it_works_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)  # as on Windows
    leave(tmp_path, "model")
    save(tmp_path / "model", "new")
    assert names_in(tmp_path) == ["model"]


def test_a_file_system_without_locks_is_no_failure(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", none)
    left = leave(tmp_path, "model")
    save(tmp_path / "model", "new")
    # Nothing tells whether it is in use.
    assert names_in(tmp_path) == [left.name, "model"]


# Failures.


@pytest.mark.parametrize(("where", "named"), [(None, "model"), ("inside", "model"), ("input", "input")])
def test_a_failure_names_the_target_and_not_the_place_it_waits_in(tmp_path, where, named):
    def write():
        with atomic_path(tmp_path / "model") as place:
            name = {None: None, "inside": str(place), "input": str(tmp_path / "input")}[where]
            raise OSError(errno.ENOSPC, "No space left on device", name)

    with pytest.raises(OSError, match="No space left on device") as caught:
        write()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / named))
    assert names_in(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_leaves_the_old_file(tmp_path):
    (tmp_path / "model").write_text("old")

    def write():
        with atomic_path(tmp_path / "model") as place:
            place.symlink_to("/dev/full")
            place.write_text("new")

    with pytest.raises(OSError, match=f"cannot write: No space left on device: '{tmp_path}/model'"):
        write()
    assert (tmp_path / "model").read_text() == "old"
    assert names_in(tmp_path) == ["model"]


def writer_of(target, overwrite):
    """A writer of a new file, and what makes the folder as it was before."""

    def work():
        with atomic_path(target, overwrite=overwrite) as place:
            place.write_text("new" * 5000)

    def begin():
        if overwrite:
            target.write_text("old")
        else:
            target.unlink(missing_ok=True)

    return work, begin


@stepping.supported
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_writer_killed_at_any_system_call_leaves_the_old_or_the_new_file(tmp_path, overwrite):
    target, seen = tmp_path / "model", set()

    work, begin = writer_of(target, overwrite)
    begin()
    stops = 0
    for _ in stepping.kills(work):
        content = target.read_text() if target.exists() else None
        assert content in ("old" if overwrite else None, "new" * 5000)
        seen.add(content)
        assert all(name == "model" or name.endswith(".unfinished") for name in names_in(tmp_path))
        assert len([name for name in names_in(tmp_path) if name != "model"]) <= 1, "the next writer sweeps"
        begin()
        stops += 1
    assert stops > 20
    assert len(seen) == 2, "both kinds of kill were met"
    assert names_in(tmp_path) == ["model"]


@stepping.supported
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_writer_whose_system_calls_fail_leaves_the_old_file_or_has_written_the_new(tmp_path, overwrite):
    target, noticed = tmp_path / "model", []

    work, begin = writer_of(target, overwrite)
    begin()
    for refused in stepping.failures(work):
        content = target.read_text() if target.exists() else None
        assert content == (("old" if overwrite else None) if refused else "new" * 5000)
        assert names_in(tmp_path) == ([] if content is None else ["model"])
        noticed.append(refused)
        begin()
    assert noticed.count(True) >= 4
