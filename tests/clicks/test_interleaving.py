"""Interleaved rankings and the preferences of users."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from marginrank import DataError
from marginrank.clicks import ClickLog, compare_interleaved, interleave, sign_test_power

A, B = list("abcdef"), list("bcxyaz")


def test_team_draft_draws_the_best_that_is_left_and_teams_are_even():
    for seed in range(200):
        mixed = interleave(A, B, 6, random_state=seed)
        assert len(set(mixed.documents)) == 6
        for at in (2, 4, 6):
            assert mixed.teams[:at].count("a") == at // 2
        for at, (name, team) in enumerate(zip(mixed.documents, mixed.teams, strict=True)):
            left = [one for one in (A if team == "a" else B) if one not in mixed.documents[:at]]
            assert name == left[0]


def test_balanced_lists_hold_the_tops_of_both():
    starts = set()
    for seed in range(50):
        mixed = interleave(A, B, method="balanced", random_state=seed).documents
        starts.add(mixed[0])
        for size in range(1, len(mixed) + 1):
            splits = [
                (i, j) for i in range(7) for j in range(7) if abs(i - j) <= 1 and {*A[:i], *B[:j]} == {*mixed[:size]}
            ]
            assert splits
    assert starts == {"a", "b"}


def test_a_document_twice_is_refused():
    with pytest.raises(DataError, match="ranking b has a document twice"):
        interleave(["x"], ["y", "y"])


def team_log(n=3000, better=0.6, seed=0):
    """Documents of team a are clicked with one probability, those of team b with another."""
    rng = np.random.default_rng(seed)
    rows = {"query": [], "document": [], "position": [], "clicked": [], "impression": [], "system": []}
    for visit in range(n):
        mixed = interleave(A, B, 4, random_state=rng)
        for place, (name, team) in enumerate(zip(mixed.documents, mixed.teams, strict=True), 1):
            values = ("q", name, place, int(rng.random() < (better if team == "a" else 0.2) / place), visit, team)
            for column, value in zip(rows.values(), values, strict=True):
                column.append(value)
    return ClickLog.from_arrays(**rows)


def test_the_better_team_is_preferred_and_none_if_they_are_equal():
    found = compare_interleaved(team_log(800))
    assert found.p < 1e-6
    assert found.interval[0] > 0.5
    assert "a is preferred" in str(found)
    p_values = [compare_interleaved(team_log(150, better=0.2, seed=seed)).p for seed in range(60)]
    assert np.mean(np.array(p_values) < 0.05) < 0.15


def test_wins_are_counted_by_impression():
    log = ClickLog.from_arrays(
        ["q"] * 6,
        list("xyxyxy"),
        [1, 2] * 3,
        [1, 0, 0, 1, 1, 0],
        impression=[1, 1, 2, 2, 3, 3],
        system=["a", "b"] * 3,
    )
    found = compare_interleaved(log)
    assert found.wins == (2, 1)
    assert found.ties == 0


def test_credit_of_balanced_interleaving():
    log = ClickLog.from_arrays(["q"] * 3, list("abc"), [1, 2, 3], [0, 1, 1], impression=[1] * 3)
    # The lowest click is c, third of A and second of B: among the first two, A has b, B has b and c.
    found = compare_interleaved(log, rankings={"q": (A, B)})
    assert found.wins == (0, 1)


def test_power_is_the_share_of_rejections():
    rng = np.random.default_rng(0)
    wins = rng.binomial(120, 0.6, 4000)
    rejected = np.mean([scipy.stats.binomtest(int(k), 120).pvalue <= 0.05 for k in wins])
    assert sign_test_power(120, 0.6) == pytest.approx(rejected, abs=0.03)
    assert sign_test_power(120, 0.5) <= 0.05
    found = compare_interleaved(team_log(400))
    assert found.power(100) < found.power(1000)


def test_logs_that_are_not_interleaved_are_refused():
    log = ClickLog.from_arrays(["q"] * 2, ["x", "y"], [1, 2], [1, 0], impression=[1, 1])
    with pytest.raises(DataError, match="two teams"):
        compare_interleaved(log)
    with pytest.raises(DataError, match="no impressions"):
        compare_interleaved(log.aggregated())
