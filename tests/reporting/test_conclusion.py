"""The verdict of a report: two sentences that are true of its facts."""

from __future__ import annotations

import re

import numpy as np
import pytest

from marginrank import Queries, compare, evaluate
from marginrank.reporting.conclusion import conclusion
from marginrank.reporting.report_builder import gather_facts

N = 60
#: One relevant document in each list of ten, so that a reciprocal rank says where it is.
QUERIES = Queries.from_arrays(np.zeros((10 * N, 1)), np.tile([1] + [0] * 9, N), group=np.full(N, 10))


def ranked_at(ranks):
    """Scores that put the relevant document of each query at a rank."""
    scores = np.tile(-np.arange(10.0), (N, 1))
    scores[:, 0] = -np.asarray(ranks) + 0.5
    scores[:, 1:] = -np.arange(1.0, 10.0)
    return scores.ravel()


FIRST = ranked_at(np.ones(N))
SECOND = ranked_at(np.full(N, 2))
LAST = ranked_at(np.full(N, 10))
#: Better than SECOND on half of the queries by 1/2, worse on the others by nearly as much.
MIXED = ranked_at(np.where(np.arange(N) % 2, 1, 10))
#: A little better than SECOND, on two queries only.
NEARLY_SECOND = ranked_at(np.where(np.arange(N) < 2, 1, 2))

CASES = {
    "best": ({"old": SECOND, "new": FIRST}, "new is best by rr: 1.0000 over 60 queries, 0.5000 above the baseline old"),
    "best of three": (
        {"old": LAST, "new": FIRST, "other": SECOND},
        "and so are the differences from all other systems.",
    ),
    "baseline is best": (
        {"old": FIRST, "new": SECOND},
        "The baseline old is best by rr: 1.0000 over 60 queries; new is 0.5000",
    ),
    "no difference": (
        {"old": SECOND, "new": NEARLY_SECOND},
        "above the baseline old (95% interval +0.0000 to +0.0",
    ),
    "baseline first": (
        {"old": NEARLY_SECOND, "new": SECOND},
        "There is no significant difference between old and new, which does not show that they are equal",
    ),
    "baseline first of three": (
        {"old": NEARLY_SECOND, "new": SECOND, "other": SECOND},
        "There is no significant difference between old and any of new and other, which does not show",
    ),
    "rival": (
        {"old": LAST, "new": NEARLY_SECOND, "other": SECOND},
        "is significant (p < 0.001, randomization test, Holm-adjusted), but there is no significant difference between "
        "new and other.",
    ),
    "one of two": ({"old": LAST, "new": MIXED, "other": SECOND}, "between new and other."),
    "alike": ({"old": SECOND, "new": SECOND}, "new is level with it (95% interval +0.0000 to +0.0000)"),
    "alone": ({"old": SECOND}, "old has a mean rr of 0.5000 over 60 queries (95% interval 0.5000 to 0.5000)."),
}


def verdict_of(systems, queries=QUERIES, **options):
    return conclusion(gather_facts(queries, systems, ["rr"], k=1, **options))


@pytest.mark.parametrize(("systems", "said"), CASES.values(), ids=CASES)
def test_the_verdict_says_who_is_best_by_how_much_and_how_certain_that_is(systems, said):
    text = verdict_of(systems)
    assert said in text
    assert len(re.findall(r"[.](?: |$)", text)) == 2, "two sentences"


@pytest.mark.parametrize("systems", [systems for systems, _ in CASES.values() if len(systems) > 1])
def test_a_best_is_named_only_where_every_difference_is_significant(systems):
    facts = gather_facts(QUERIES, systems, ["rr"], k=1)
    means = {name: evaluate(QUERIES, scores, "rr").mean["rr"] for name, scores in systems.items()}
    top = max(means, key=means.get)
    rows = compare(systems, QUERIES, measure="rr", baseline=top).rows
    certain = all(row.holm_randomization < 0.05 for row in rows)
    assert facts.best == ({"rr": top} if certain else {})
    assert (" best by " in conclusion(facts)) == certain


def test_one_query_has_no_interval_and_no_winner():
    queries = QUERIES[:1]
    text = verdict_of({"old": SECOND[:10], "new": FIRST[:10]}, queries)
    assert "0.5000 above the baseline old (a single query has no interval). The difference is not significant" in text
    assert "over 1 query," in text


def test_another_system_may_beat_the_baseline_where_the_first_does_not():
    # One large gain, and a small gain on each of eight queries.
    once, always = ranked_at([1] + [10] * 59), ranked_at(np.full(N, 8))
    systems = {"old": LAST, "new": once, "other": always}
    text = verdict_of({name: scores[:80] for name, scores in systems.items()}, QUERIES[:8])
    assert text.startswith("new has the highest mean rr: ")
    assert "The difference is not significant (p = " in text
    assert text.endswith(", but other is significantly better than old.")
