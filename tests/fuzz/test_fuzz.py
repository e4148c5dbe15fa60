"""A short run of the fuzzers; ``make fuzz`` is the long one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz import targets
from tests.fuzz.targets import TARGETS

#: Some damaged files are still good, and most are not: neither outcome may be missing from a run.
FILES = 60


@pytest.mark.filterwarnings(
    "ignore::marginrank.errors.RepeatedDocumentsWarning", "ignore::marginrank.errors.ColumnsLeftOutWarning"
)
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_read_as_they_should_be_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "GOOD_FILES", 8)
    target, path = TARGETS[name], tmp_path / f"file{TARGETS[name].suffix}"
    taken = 0
    for seed in range(FILES):
        data = target.draw(Random(f"suite {name} {seed}"))
        path.write_bytes(data)
        try:
            taken += target.check(path, data)
        except Exception as error:
            pytest.fail(f"{name}, seed {seed}, {data!r}: {type(error).__name__}: {error}")
    assert 0 < taken < FILES
