"""Jokes ranked from few ratings of a user: defaults that were settled on films, on Jester."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments import few_ratings
from experiments.base import Experiment, Report, Size, Task
from experiments.dorm import PAPER
from experiments.jester import levels, table
from marginrank.recommend import Ratings

SEEDS: Final = (2026, 2027, 2028)
#: ERU counts ratings above the middle of the scale.
NEUTRAL: Final = 2
USERS: Final = 1000


@cache
def _ratings(data: Path) -> Ratings:
    """Ratings on six levels, of users drawn among those who can be tested with any N."""
    jokes = table(data)
    busy = np.flatnonzero((~np.isnan(jokes)).sum(axis=1) >= max(few_ratings.COUNTS) + few_ratings.MORE)
    drawn = jokes[np.random.default_rng(SEEDS[0]).permutation(busy)[:USERS]]
    user, joke = np.nonzero(~np.isnan(drawn))
    return Ratings.of((user, joke, levels(drawn[user, joke])))


def _trial(data: Path, **options: Any) -> dict[str, Any]:
    return few_ratings.trial(_ratings(data), **options)


def _folded(data: Path, **options: Any) -> dict[str, Any]:
    return few_ratings.folded(_ratings(data), **options)


def _reach(data: Path, **options: Any) -> dict[str, float]:
    return few_ratings.reach(_ratings(data), **options)


def _plan(size: Size) -> list[Task]:
    return few_ratings.plan(size, SEEDS, NEUTRAL, (_trial, _folded, _reach))


def _report(results: Mapping[str, Any]) -> Report:
    notes = [
        f"{USERS:,} users are drawn among those with at least {max(few_ratings.COUNTS) + few_ratings.MORE} ratings of "
        "the 100 jokes. Ratings from −10 to 10 are six grades of equal width, 0 to 5. Nothing was settled on these "
        "ratings.",
    ]
    return few_ratings.report(results, "jokes", NEUTRAL, notes)


EXPERIMENT: Final = Experiment(
    "recommend-jester",
    "Ranking jokes from few ratings of a user",
    f"{PAPER}, §5.2",
    "The same as recommend-movielens on Jester: 100 jokes, of which everybody rated many.",
    ("jester-1",),
    _plan,
    _report,
)
