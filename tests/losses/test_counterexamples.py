"""Printed algorithms that are wrong, with the queries that show it; ours are right on them."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank.losses.feature_maps import parse_map
from marginrank.losses.structured import StructuredLoss
from marginrank.measures import parse_measure
from tests.losses.exhaustive import exhaustive


def table(goods, bads, k, discount):
    """Cell values of Chakrabarti et al. (KDD 2008) Fig. 2: score and loss of good g behind b bads."""
    n_rel, n_irr = len(goods), len(bads)
    prefix = np.concatenate([[0.0], np.cumsum(bads)])
    d = [discount(r) if r < k else 0.0 for r in range(n_rel + n_irr)]
    ideal = sum(d[: min(n_rel, k)])
    return np.array(
        [
            [
                (2 * prefix[b] - prefix[-1] + (n_irr - 2 * b) * goods[g]) / (n_rel * n_irr) - d[g + b] / ideal
                for b in range(n_irr + 1)
            ]
            for g in range(n_rel)
        ]
    )


def value_of(cells, columns):
    return 1.0 + sum(cells[g, b] for g, b in enumerate(columns))


def best(cells):
    """All ways for the number of bads before each good not to fall."""
    from itertools import combinations_with_replacement

    return max(value_of(cells, c) for c in combinations_with_replacement(range(cells.shape[1]), len(cells)))


def log2_discount(r):
    return 1 / np.log2(r + 2)


def objective(measure, feature_map, grades, scores):
    """max Δ + a·s as our loss has it: the slack and a(y*)·s."""
    xi = StructuredLoss(measure, feature_map)(grades, scores)[0][0]
    goods = [s for g, s in zip(grades, scores, strict=True) if g]
    bads = [s for g, s in zip(grades, scores, strict=True) if not g]
    return xi + np.mean(goods) - np.mean(bads)


def test_bads_may_all_come_before_a_good():
    """Fig. 2 lets b run to n⁻ − 1 only."""
    goods, bads = [-1.0], [0.0, 0.5]
    cells = table(goods, sorted(bads, reverse=True), 10, log2_discount)
    assert best(cells[:, :-1]) < best(cells) - 0.1
    found = objective("ndcg@10(gain=binary)", "po", [1, 0, 0], goods + bads)
    assert found == pytest.approx(best(cells))


def test_greedy_columns_are_not_optimal():
    """Fact 3.4 takes the best column of each row, going on from the last; ALGORITHMS has .2000 against .1066."""
    goods, bads = [0.1, 0.1], [-0.1]
    cells = table(goods, bads, 10, log2_discount)
    columns, start = [], 0
    for row in cells:
        start += int(np.argmax(row[start:]))
        columns.append(start)
    greedy, optimum = value_of(cells, columns), best(cells)
    assert (round(greedy, 4), round(optimum, 4)) == (0.1066, 0.2)
    assert objective("ndcg@10(gain=binary)", "po", [1, 1, 0], goods + bads) == pytest.approx(optimum)


def test_rows_beyond_the_cutoff_are_coupled():
    """Fact 3.3 keeps only the first k rows, leaving the other goods where their scores put them."""
    goods, bads = [0.3, -0.3], [-0.6]
    cells = table(goods, bads, 1, log2_discount)
    first = int(np.argmax(cells[0]))
    above = [sum(b > g for b in bads) for g in goods]
    assert above[1] < first, "the second good would have to stand before the first"
    assert objective("ndcg@1(gain=binary)", "po", [1, 1, 0], goods + bads) == pytest.approx(best(cells))


def test_placing_bads_on_their_own_needs_a_convex_discount():
    """CHK §3.4's greedy for the unclipped measure is right for 1/log2(2 + r) and wrong for 1, 1, 1/log2(1 + r)."""
    from marginrank.losses.oracles.oracle import oracle_for

    assert oracle_for("ndcg(gain=binary)", "po").name == "interleaving"
    assert oracle_for("ndcg(gain=binary,discount=letor)", "po").name == "path"
    assert oracle_for("ndcg@10(gain=binary)", "po").name == "merge"


def test_dorm_can_do_average_precision_and_reciprocal_rank():
    """CHK §3.5 says it cannot."""
    rng = np.random.default_rng(0)
    for measure in ("ap", "rr"):
        for _ in range(20):
            grades, scores = rng.integers(0, 2, 5).tolist(), rng.standard_normal(5).tolist()
            hinge, _, _ = exhaustive(parse_measure(measure), parse_map("dorm"), grades, scores)
            assert StructuredLoss(measure, "dorm", ideal="rows")(grades, scores)[0][0] == pytest.approx(
                hinge, abs=1e-10
            )


def test_ties_of_the_ideal_ranking_must_not_follow_the_scores():
    """With y* in score order the positional hinge is not convex."""

    loss = StructuredLoss("ndcg@2", "dorm", ideal="scores")
    assert not loss.convex
    rng = np.random.default_rng(0)
    grades = np.array([1.0, 1.0, 1.0, 0.0])
    worst = 0.0
    for _ in range(200):
        s, t = rng.standard_normal((2, 4))
        (xi, gradient), (other, _) = loss(grades, s), loss(grades, t)
        worst = min(worst, other[0] - xi[0] - gradient @ (t - s))
    assert worst < -0.1


@pytest.mark.slow
def test_slack_rescaling_comes_close_where_it_is_searched():
    """The search misses rankings inside the hull; on small random queries it loses little."""
    from marginrank.losses.slack_rescaling import SlackLoss
    from tests.losses.exhaustive import EveryRanking

    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(300):
        n = int(rng.integers(3, 7))
        measure, feature_map = (
            parse_measure(rng.choice(["ndcg@3", "ap", "auc", "ndcg"])),
            parse_map(rng.choice(["po", "dorm"])),
        )
        grades, scores = rng.integers(0, 3, n).tolist(), rng.standard_normal(n)
        every = EveryRanking(measure, feature_map, grades)
        if every.one_level:
            continue
        ahead = (every.coefficients - every.coefficients[every.ideal]) @ scores
        exact = (every.losses * (1 + ahead)).max()
        found = SlackLoss(measure, feature_map, most_states=0, ideal="rows")(grades, scores)[0][0]
        assert found <= exact + 1e-9
        ratios.append(found / exact if exact > 1e-9 else 1.0)
    assert np.mean(ratios) > 0.98
    assert np.mean(np.array(ratios) > 1 - 1e-9) > 0.95


@pytest.mark.parametrize("measure", ["rr", "rr@2", "p@1", "p@3", "recall@2", "wta"])
@pytest.mark.parametrize("feature_map", ["po", "dorm"])
def test_slack_rescaling_is_exact_for_losses_with_few_values(measure, feature_map):
    from itertools import permutations

    from marginrank.losses.slack_rescaling import SlackLoss
    from tests.losses.exhaustive import coefficients, delta, worth

    rng = np.random.default_rng(1)
    measure, feature_map = parse_measure(measure), parse_map(feature_map)
    for _ in range(60):
        n = int(rng.integers(2, 6))
        grades, scores = rng.integers(0, 3, n).tolist(), np.round(rng.standard_normal(n), 1)
        levels = worth(measure, grades)
        if len(set(levels.tolist())) < 2:
            continue
        base = coefficients(feature_map, measure, levels, sorted(range(n), key=lambda d: -levels[d]))
        exact = max(
            delta(measure, grades, order) * (1 + (coefficients(feature_map, measure, levels, order) - base) @ scores)
            for order in permutations(range(n))
        )
        assert SlackLoss(measure, feature_map, ideal="rows")(grades, scores)[0][0] == pytest.approx(
            max(exact, 0.0), abs=1e-9
        )
