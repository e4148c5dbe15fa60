"""Settings and fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# Numba compiles during the first example, so no example has a deadline and slow first ones are no failure. The suite
# draws the same examples in every run; HYPOTHESIS_PROFILE=fuzz draws new ones, and more of them.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, max_examples=25
)
settings.register_profile("fuzz", settings.get_profile("suite"), derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """Build the commands once, as a process does, and not for every command that runs in this one."""
    from typer import testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", cache(testing._get_command))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Find a published dataset in ``shared/data`` beside the repository, or skip the test."""

    def find(name: str) -> Path:
        folder = SHARED_DATA / name
        if not folder.is_dir():
            pytest.skip(f"dataset {name} is not in {SHARED_DATA}")
        return folder

    return find
