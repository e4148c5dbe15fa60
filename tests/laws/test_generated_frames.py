"""Some of the generated frames through every door; ``python -m tests.laws.generated_frames 500`` takes more."""

from __future__ import annotations

import pytest

from tests.laws.generated_frames import check


@pytest.mark.filterwarnings("ignore::marginrank.errors.NothingRankedWarning")
@pytest.mark.parametrize("seed", range(25))
def test_every_door_answers_as_numpy_does(seed, tmp_path):
    assert check(seed, tmp_path) == 13
