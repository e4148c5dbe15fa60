"""Training survives odd data: it ends in time, with finite results, and says so where it learned nothing.

The grid is in `tests.pathological`, and here a share of it is tried; ``make pathological`` tries all.
"""

from __future__ import annotations

import random

import pytest

from marginrank.methods import all_presets
from tests.pathological import CS, DATA, SCALINGS, Case, outcome


def sample():
    """Every preset on five data sets, so drawn that every data set comes up, with a C and a scaling each."""
    rng, names, cases = random.Random(0), [], []
    for preset in all_presets():
        for _ in range(5):
            names = names or rng.sample(list(DATA), len(DATA))
            cases.append(Case(preset, names.pop(), rng.choice(CS), rng.choice(SCALINGS)))
    return cases


@pytest.mark.parametrize("case", sample(), ids=str)
def test_odd_data_is_survived(case):
    assert outcome(case) in ("fine", "refused", "warned")


@pytest.mark.parametrize("preset", all_presets())
def test_what_the_others_are_made_of_is_learned(preset):
    # Precision@10 of 12 documents collapses under φdorm.
    assert outcome(Case(preset, "plain", 1.0, "auto")) == ("warned" if preset == "dorm-p" else "fine")
