"""A PostgreSQL server of one's own, where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Who runs the server where the tests run as root, which it refuses.
ORDINARY = ("postgres", "nobody")


class Postgres:
    """A server on a socket, and a way to run statements on it."""

    def __init__(self, psql: str, folder: Path) -> None:
        self.psql, self.folder = psql, folder

    def run(self, script: str) -> list[list[str]]:
        """Run a script, and return the rows that it prints."""
        command = [self.psql, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", str(self.folder), "-U", "tests", "-d", "postgres", "-f", "-"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return [line.split("\t") for line in done.stdout.splitlines() if line]


def _program(name: str) -> str | None:
    others = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(others[-1]) if others else None)


def _owner() -> str | None:
    """Return another user for the server where this is root; None where this is an ordinary user."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ORDINARY if name in known), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    initdb, server, psql = _program("initdb"), _program("postgres"), _program("psql")
    if initdb is None or server is None or psql is None:
        pytest.skip("PostgreSQL is not installed here")
    owner = _owner()
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if owner is not None:
        shutil.chown(folder, owner)
    data = folder / "data"
    subprocess.run(
        [initdb, "-D", str(data), "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale"],
        check=True, capture_output=True, user=owner, cwd=folder,
    )  # fmt: skip
    # Plans that depend neither on when the server looks at its tables nor on how many processes it may start.
    settings = {
        "listen_addresses": "", "unix_socket_directories": folder, "fsync": "off", "autovacuum": "off", "jit": "off",
        "max_parallel_workers_per_gather": 0, "plan_cache_mode": "force_custom_plan",
    }  # fmt: skip
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    log = (folder / "log").open("wb")
    running = subprocess.Popen([server, "-D", str(data), *options], stdout=log, stderr=log, user=owner, cwd=folder)
    try:
        found = Postgres(psql, folder)
        _wait(found, running)
        yield found
    finally:
        running.terminate()
        running.wait(30)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(found: Postgres, running: subprocess.Popen[bytes]) -> None:
    import time

    for _ in range(300):
        if running.poll() is not None:
            pytest.skip("PostgreSQL did not start")
        try:
            found.run("SELECT 1;")
        except AssertionError:
            time.sleep(0.1)
        else:
            return
    pytest.skip("PostgreSQL did not start in 30 s")
