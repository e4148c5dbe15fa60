"""The experiment on risk bounds: what its findings are computed from."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.rdb import LOSSES, _all_queries, _plan, _split, sizes
from experiments.rdb_report import DELTA, Cell, findings, summaries
from marginrank.bounds import Population, corollary_2, mean_loss, stability_bound

OPTIONS = {"name": "mq2008", "first": 4, "Cs": [0.1, 1.0], "most": 3}


@pytest.fixture(scope="module")
def results(data):
    return {f"mq2008/split {split}": _split(data, split=split, **OPTIONS) for split in range(2)}


def verdicts(results, levels=0):
    dominance = {"mq2008/dominance": {"tried": 10, "levels": levels, "bound": 0}}
    return {" ".join(one.claim.split()[:2]): one.verdict for one in findings(summaries(results), dominance)}


def test_sizes_grow_to_four_fifths_of_the_queries():
    assert sizes(564, 10) == [10, 20, 40, 80, 160, 320, 451]
    assert sizes(15, 4) == [4, 8, 12]
    assert sizes(11, 10) == [8]


def test_a_row_is_what_the_bounds_and_losses_say(data, results):
    queries = _all_queries(data, "mq2008", 3)
    row = next(row for row in results["mq2008/split 0"] if row["method"] == "svmauc" and row["C"] == 1.0)
    order = np.random.default_rng(0).permutation(len(queries))
    train, test = queries[np.sort(order[:4])], queries[np.sort(order[4:])]
    zero = np.zeros(queries.n_features)
    loss = LOSSES["svmauc"]
    assert row["gap at 0"] == pytest.approx(mean_loss(test, loss, zero) - mean_loss(train, loss, zero))
    assert 0 <= row["train"] < mean_loss(train, loss, zero)
    # The bounds on the gap do not depend on the weights, but for the gap of the solver.
    whole = stability_bound(queries, loss, zero, 1.0, delta=DELTA)
    few = stability_bound(train, loss, zero, 1.0, delta=DELTA, lipschitz=whole.lipschitz, at_zero=1.0)
    assert row["bounds"]["mean gap"] == pytest.approx(few.complexity)
    assert few.excess < row["bounds"]["stability"] < 1.2 * few.excess
    paper = corollary_2(train, zero, B=2 * np.sqrt(2), delta=DELTA, per="pair", population=Population.of(queries))
    assert row["bounds"]["repaired"] == pytest.approx(paper.repaired.log10_excess, abs=0.1)


def test_orders_are_shared_and_grow(results):
    cells = summaries(results)
    assert len(cells) == 3 * 2 * len(sizes(15, 4))
    assert {cell.name for cell in cells} == {"mq2008"}
    rows = results["mq2008/split 1"]
    own = [row for row in rows if row["method"] == "svmmap" and row["n"] == 4]
    assert own[0]["gap at 0"] == own[1]["gap at 0"]
    one = cells[Cell("mq2008", "svmmap", 0.1, 4)]
    assert one.mean == pytest.approx(
        np.mean([r["test"] - r["train"] - r["gap at 0"] for split in results.values() for r in split if r["method"] ==
                 "svmmap" and r["C"] == 0.1 and r["n"] == 4])
    )  # fmt: skip


def changed(results, change):
    return {name: [row | change(row) for row in rows] for name, rows in results.items()}


def test_few_splits_cannot_show_that_a_bound_holds(results):
    assert len(results) < 10
    for claim in ("Risk less", "Tighter bounds", "Corollaries 1"):
        assert verdicts(results)[claim] == "undecided"
    # 0 of 72 splits exclude a rate of 5%.
    assert verdicts(repeated(results, 71))["Risk less"] == "undecided"
    assert verdicts(repeated(results, 72))["Risk less"] == "holds"


def repeated(results, n):
    splits = list(results.values())
    return {f"mq2008/split {number}": splits[number % len(splits)] for number in range(n)}


def test_verdicts_follow_the_numbers(results):
    results = repeated(results, 80)
    assert verdicts(results)["Risk less"] == "holds"
    broken = changed(results, lambda row: {"test": row["train"] + 2 * row["bounds"]["stability"]})
    assert verdicts(broken)["Risk less"] == "does not hold"
    assert verdicts(broken)["The mean"] == "does not hold"
    flat = changed(results, lambda row: {"test": row["train"] + row["gap at 0"] + 0.001})
    assert verdicts(flat)["The mean"] == "holds"
    assert verdicts(flat)["The gap"] == "does not hold"
    steep = changed(results, lambda row: {"test": row["train"] + row["gap at 0"] + 0.1 / row["n"]})
    assert verdicts(steep)["The gap"] == "holds"
    worse = changed(results, lambda row: {"test": row["train"] + 10 ** min(row["bounds"]["repaired"], 9) + 1})
    assert verdicts(worse)["Corollaries 1"] == "does not hold"
    assert verdicts(results)["Corollary 3"] == "does not hold"
    small = changed(results, lambda row: {"bounds": row["bounds"] | {"repaired": -1.0, "theorem 4": -1.0}})
    assert verdicts(small)["Corollary 3"] == "holds"
    assert verdicts(results)["The pairwise"] == "holds"
    assert verdicts(results, levels=1)["The pairwise"] == "does not hold"
    assert verdicts(results)["Tighter bounds"] == "holds"
    assert verdicts(small)["Tighter bounds"] == "does not hold"


def test_the_full_plan_has_both_sets_and_no_task_twice():
    names = [task.name for task in _plan("full")]
    assert len(set(names)) == len(names) == 2 * (30 + 1)
    assert len(_plan("miniature")) < 5
