"""Certificates of every loss with every solver: the optimum of a generic solver lies between dual and primal.

Each loss is written down from its definition, all rankings of four documents included. Where a risk is not convex, or
its values come from a search, there is no gap at any step.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import combinations, pairwise, permutations

import cvxpy as cp
import numpy as np
import pytest

from marginrank import Queries, Ranker, parse_measure
from marginrank.losses import (
    ClicksAndJudgements,
    CostLoss,
    GroupedLoss,
    ListHinge,
    MaxLoss,
    ModifiedWTA,
    NDCGPairwiseHinge,
    PairwiseHinge,
    PositionHinge,
    SlackLoss,
    SmoothedHinge,
    SoftmaxCrossEntropy,
    SquaredDifferences,
    SquaredError,
    StructuredLoss,
    SumLoss,
    ThresholdHinge,
    parse_map,
)
from marginrank.runtime.option_objects import registered
from marginrank.solvers.base import Solver
from marginrank.training.partitioned_risk import empirical_risk
from tests.losses.every import kinds_of, ranks_cost, registered_kinds
from tests.losses.exhaustive import coefficients, delta, worth
from tests.solvers.test_contract import ROUGH

SOLVERS = registered(Solver)
#: Two of four documents are relevant to these.
AP, AUC, RR, P2 = "ap(rel=2)", "auc(rel=2)", "rr(rel=2)", "p@2(rel=2)"


LOSSES = [
    StructuredLoss(AP),
    StructuredLoss(AUC, "po(scale=all)"),
    StructuredLoss("ndcg@2"),
    StructuredLoss("ndcg@3", "dorm", groups="ignore"),
    StructuredLoss("ndcg", "dorm(shape=log)", groups="ignore"),
    StructuredLoss(RR, "mrr"),
    StructuredLoss("rbp@3(p=0.5)"),
    StructuredLoss(AP, "po", "tight"),
    StructuredLoss("ndcg@3", "dorm", "tight", groups="ignore"),
    StructuredLoss(RR, "mrr", "tight"),
    ClicksAndJudgements(PairwiseHinge(), StructuredLoss(AP)),
    PairwiseHinge(),
    PairwiseHinge(normalize="none", margin=0.5),
    PairwiseHinge(power=2),
    PositionHinge(),
    PositionHinge("bound", "pairs"),
    NDCGPairwiseHinge(),
    ListHinge(AP),
    ListHinge("ndcg@2", "pairs"),
    SoftmaxCrossEntropy(),
    SoftmaxCrossEntropy("exp2", divergence=True, target="share"),
    SquaredError(),
    SquaredDifferences(),
    ThresholdHinge(),
    SmoothedHinge(AP, temperature=0.5),
    SmoothedHinge(AUC, temperature=0.05),
    SumLoss((StructuredLoss(AP), PairwiseHinge(power=2)), (0.5, 2.0)),
    SumLoss((PairwiseHinge(power=2), SquaredError())),
    SumLoss((StructuredLoss(AP, "po", "tight"), StructuredLoss(AUC))),
    MaxLoss((StructuredLoss(AP), StructuredLoss("ndcg@2"))),
    ModifiedWTA("po"),
    ModifiedWTA("po", "tight"),
    SlackLoss(AP),
    SlackLoss(RR),
    SlackLoss(P2),
    SlackLoss("ndcg@2"),
    GroupedLoss("ndcg@2"),
    GroupedLoss("ndcg@2", "log", "tight"),
    CostLoss(ranks_cost),
    CostLoss(ranks_cost, "dorm(shape=linear)", "tight"),
]


@cache
def queries_of(data):
    """Five queries of four documents of different grade, and one without an order; the first feature may tell all."""
    rng = np.random.default_rng(3)
    grades = np.concatenate([*[rng.permutation(4) for _ in range(5)], np.full(4, 2)]).astype(float)
    X = rng.standard_normal((24, 3))
    X[:, 0] = grades - 1.5 if data == "separable" else X[:, 0] + 0.3 * grades
    groups = np.concatenate([rng.permutation([0, 0, 1, 2]) for _ in range(6)])
    weights = None if data == "separable" else [1.0, 3.0, 0.5, 2.0, 1.0, 4.0]
    return Queries.from_arrays(X, grades, group=[4] * 6, document_groups=groups, query_weights=weights)


#: Data and C: far from separable, and with every ranking right at the optimum.
CASES = {"mixed": 20.0, "separable": 300.0}


class Rankings:
    """Δ(y) and a(y) − a(y*) of rankings of one query, from the definitions."""

    def __init__(self, measure, feature_map, grades):
        measure, feature_map = parse_measure(measure), parse_map(feature_map)
        levels = worth(measure, grades)
        orders = list(permutations(range(len(grades))))
        ideal = coefficients(feature_map, measure, levels, sorted(range(len(grades)), key=lambda d: -levels[d]))
        self.levels, self.orders = levels, orders
        self.deltas = np.array([delta(measure, grades.tolist(), order) for order in orders])
        self.slopes = np.array([coefficients(feature_map, measure, levels, order) for order in orders]) - ideal


def grouped(loss, grades, groups):
    """Δ and a of the ways to fill the first two ranks with documents of different groups, less those of the best."""
    gains, discounts = 2.0**grades - 1.0, 1.0 / np.log2([2.0, 3.0])
    profile = np.array([1.0, 0.5**0.5]) if loss.shape == "sqrt" else 1.0 / np.log([2.0, 3.0])
    pairs = [pair for pair in permutations(range(4), 2) if groups[pair[0]] != groups[pair[1]]]
    values = np.array([gains[list(pair)] @ discounts for pair in pairs])
    slopes = np.zeros((len(pairs), 4))
    for row, pair in zip(slopes, pairs, strict=True):
        row[list(pair)] = profile
    best = int(np.argmax(values))
    return 1.0 - values / values[best], slopes - slopes[best]


def costed(loss, grades):
    profile = {"dorm": np.arange(1.0, 5.0) ** -0.5, "dorm(shape=linear)": -np.arange(4.0) / 4}[loss.feature_map]
    ranks = np.array(list(permutations(range(4))))
    costs = np.array([ranks_cost(grades)[np.arange(4), rank].sum() for rank in ranks])
    slopes = profile[ranks]
    return costs - costs.min(), slopes - slopes[np.argmin(costs)]


def rows_of(loss, grades, groups):
    """ξ = max of Δ + row·s of a hinge, as Δ and rows; None for other losses."""
    if isinstance(loss, StructuredLoss):
        rankings = Rankings(loss.measure, loss.feature_map, grades)
        return rankings.deltas, rankings.slopes
    if isinstance(loss, SlackLoss):
        rankings = Rankings(loss.measure, loss.feature_map, grades)
        return rankings.deltas, rankings.deltas[:, None] * rankings.slopes
    if isinstance(loss, ModifiedWTA):  # the best three of four different grades have three of them
        rankings = Rankings("ndcg@3", loss.feature_map, grades)
        return rankings.deltas, rankings.slopes
    if isinstance(loss, GroupedLoss):
        return grouped(loss, grades, groups)
    if isinstance(loss, CostLoss):
        return costed(loss, grades)
    return None


def pairs_of(grades):
    return np.array([(i, j) for i in range(4) for j in range(4) if grades[i] > grades[j]]).T


def interleavings(loss, rankings):
    """ξ of the smoothed hinge: Δ and rows of the rankings that put the same levels at the same ranks."""
    kinds = {}
    for order, *term in zip(rankings.orders, rankings.deltas, rankings.slopes, strict=True):
        kinds.setdefault(tuple(rankings.levels[list(order)]), []).append(term)
    return [(np.array([d for d, _ in terms]), np.array([row for _, row in terms])) for terms in kinds.values()]


def xi_of(loss, grades, groups, s):  # noqa: C901, PLR0911, PLR0912
    """ξ of a convex loss as an expression of cvxpy, of the scores of one query."""
    hinge = rows_of(loss, grades, groups)
    if hinge is not None:
        return cp.max(hinge[0] + hinge[1] @ s)
    if isinstance(loss, ClicksAndJudgements):  # these queries have grades
        return xi_of(loss.judgements, grades, groups, s)
    if isinstance(loss, SumLoss):
        weights = loss.weights or (1.0,) * len(loss.losses)
        return sum(w * xi_of(part, grades, groups, s) for w, part in zip(weights, loss.losses, strict=True))
    if isinstance(loss, MaxLoss):
        return cp.maximum(*[xi_of(part, grades, groups, s) for part in loss.losses])
    if isinstance(loss, SquaredError):
        return 0.5 * cp.sum_squares(s - grades) / 4
    if isinstance(loss, SquaredDifferences):
        pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
        better, worse = map(list, zip(*pairs, strict=True))
        # Pairs of a document with itself count too, and add nothing.
        return 0.25 * cp.sum_squares(s[better] - s[worse] - (grades[better] - grades[worse])) / 16
    if isinstance(loss, ThresholdHinge):
        thresholds = cp.Variable(3)
        sides = [np.where(grades <= r, 1.0, -1.0) for r in range(3)]
        distances = [cp.multiply(side, thresholds[r] - s) for r, side in enumerate(sides)]
        return sum(0.5 * cp.sum(cp.huber(cp.pos(1.0 - z), 1.0)) for z in distances) / 4
    if isinstance(loss, SoftmaxCrossEntropy):
        gains = grades if loss.gain == "linear" else 2.0**grades - 1.0
        target = np.exp(gains) / np.exp(gains).sum() if loss.target == "softmax" else gains / gains.sum()
        kept = target > 0
        entropy = -target[kept] @ np.log(target[kept]) if loss.divergence else 0.0
        return cp.log_sum_exp(s) - target @ s - entropy
    if isinstance(loss, SmoothedHinge):
        mu, kinds = loss.temperature, interleavings(loss, Rankings(loss.measure, loss.feature_map, grades))
        return mu * cp.log_sum_exp(cp.hstack([cp.max(d + rows @ s) / mu for d, rows in kinds]))
    if isinstance(loss, ListHinge):
        rankings = Rankings(loss.measure, f"po(scale={loss.scale})", grades)
        return cp.sum(cp.pos(rankings.deltas + rankings.slopes @ s))
    better, worse = pairs_of(grades)
    lead = s[better] - s[worse]
    if isinstance(loss, PositionHinge):
        labels, m = 4.0 - grades, {"levels": 4, "bound": 12}[loss.m]
        terms, weights = cp.pos(m / labels[better] - m / labels[worse] - lead), np.ones(len(better))
    elif isinstance(loss, NDCGPairwiseHinge):
        terms, weights = cp.pos(1.0 - lead), swaps(grades)[better, worse]
    else:
        terms, weights = cp.pos(loss.margin - lead) ** loss.power, np.ones(len(better))
    scale = 1.0 if getattr(loss, "normalize", "pairs") == "none" else 1.0 / len(better)
    return scale * cp.sum(cp.multiply(weights, terms))


def swaps(grades):
    """What NDCG loses when two documents of the ideal ranking change places; the same in all these queries."""
    gains, discounts = 2.0**grades - 1.0, 1.0 / np.log2(5.0 - grades)
    return np.subtract.outer(gains, gains) * np.subtract.outer(discounts, discounts) / (gains @ discounts)


def shares(queries, loss):
    """Weight of each query in the risk; the last has no order, which matters to all but the squared error."""
    weights = np.ones(6) if queries.query_weights is None else np.array(queries.query_weights)
    losses = getattr(loss, "losses", (loss,))
    weights[5] *= any(isinstance(part, SquaredError) for part in losses)
    return weights / weights.sum()


def parts_of(loss, number):
    """What of a loss counts in a query: in the one without an order the squared error alone."""
    if number < 5:
        return loss
    if isinstance(loss, SumLoss):
        kept = [(part, w) for part, w in zip(loss.losses, loss.weights or [1.0] * 9, strict=False)
                if isinstance(part, SquaredError)]  # fmt: skip
        return SumLoss(tuple(part for part, _ in kept), tuple(w for _, w in kept))
    return loss


@cache
def optimum(number, data):
    """Least ½‖θ‖² + C·risk(θ), by Clarabel."""
    loss, queries, theta, intercept = LOSSES[number], queries_of(data), cp.Variable(3), cp.Variable()
    risk = 0.0
    for at, share in enumerate(shares(queries, loss).tolist()):
        if share > 0:
            query = queries[at]
            scores = query.X @ theta + intercept
            risk = risk + share * xi_of(parts_of(loss, at), query.grades, query.document_groups, scores)
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(theta) + CASES[data] * risk))
    program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return program.value


def takes(solver, risk):
    try:
        solver.check(risk)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("data", CASES)
@pytest.mark.parametrize(
    "number", range(len(LOSSES)), ids=[re.sub(r"<function (\w+) at \w+>", r"\1", repr(loss)) for loss in LOSSES]
)
def test_the_optimum_is_between_dual_and_primal_or_there_is_no_gap(number, data):
    loss, C = LOSSES[number], CASES[data]
    risk, taken = empirical_risk(queries_of(data), loss), []
    for name, kind in SOLVERS.items():
        solver = kind(tol=1e-6, max_iter=15 if name in ROUGH else 300)
        if not takes(solver, risk):
            continue
        taken.append(name)
        found = solver.minimize(risk, C)
        assert found.primal == pytest.approx(0.5 * found.theta @ found.theta + C * risk(found.theta)[0], rel=1e-9)
        if risk.certifiable:
            assert_certified(found, optimum(number, data), name)
        else:
            assert {step.gap for step in found.trace} == {found.gap} == {np.inf}, name
            assert not found.converged, name
    convex = {"auto", "bundle", "frank-wolfe", "n-slack", "stochastic", "subgradient"} | (
        {"newton"} if loss.smooth else set()
    )
    assert convex <= set(taken) if loss.convex else set(taken) == {"auto", "cccp", "descent"}


def assert_certified(found, least, name):
    rounding = 1e-6 * abs(least) + 1e-8
    for step in found.trace:
        assert step.dual - rounding <= least <= step.primal + rounding, name
        assert step.dual <= step.primal + 1e-12 * abs(step.primal), name
    for before, after in pairwise(found.trace):
        assert before.dual <= after.dual + rounding, name
        assert after.dual <= found.dual + rounding, name
        assert before.primal >= after.primal >= found.primal, name
    if name in ROUGH:
        return
    assert found.converged, (name, found)
    assert 0 <= found.gap + 1e-12 * abs(found.primal) <= 1.001e-6 * abs(found.primal) + 2e-12 * abs(found.primal), name


def test_every_loss_is_among_them():
    assert kinds_of(LOSSES) == registered_kinds()


def judged_by_ap(n_queries=25, n_documents=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_queries * n_documents, 4))
    grades = np.concatenate([rng.permutation([1, 1, 0, 0, 0]) for _ in range(n_queries)])
    return Queries.from_arrays(X, grades, group=[n_documents] * n_queries)


@pytest.mark.parametrize("solver", ["bundle(tol=1e-6)", "frank-wolfe", "n-slack", "subgradient", "auto"])
def test_slack_rescaling_of_average_precision_prints_no_gap_that_is_not_true(solver):
    """25 queries of 5 documents at C = 100: the gap printed was −0.09."""
    queries = judged_by_ap()
    ranker = Ranker(SlackLoss("ap"), C=100.0, solver=solver, scaling=None).fit(queries)
    theta, xi = cp.Variable(4), []
    for query in queries:
        rankings = Rankings("ap", "po", query.grades)
        s = query.X @ theta
        xi.append(cp.max(rankings.deltas + cp.multiply(rankings.deltas, rankings.slopes @ s)))
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(theta) + 100.0 * sum(xi) / 25))
    least = program.solve(solver=cp.CLARABEL)
    if empirical_risk(queries, SlackLoss("ap")).exact:
        assert ranker.objective_ - ranker.gap_ <= least * (1 + 1e-6)
        assert ranker.objective_ >= least * (1 - 1e-6)
        assert ranker.gap_ >= 0
    else:
        assert ranker.gap_ == np.inf
        assert not ranker.solution_.converged


def test_the_cases_are_different():
    """Both kinds of certificate are met, and data that can be ranked without a mistake."""
    known = [empirical_risk(queries_of("mixed"), loss).certifiable for loss in LOSSES]
    assert 20 <= sum(known) < len(known)
    ap = LOSSES.index(StructuredLoss(AP))
    assert optimum(ap, "separable") / CASES["separable"] < 0.1 < optimum(ap, "mixed") / CASES["mixed"]
    assert len(list(combinations(range(4), 2))) == pairs_of(np.arange(4.0)).shape[1]
