"""What the experiments of Chakrabarti et al. (2008) compute on their own: losses of their figures, and verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.chk import MEASURES, differences, pack, prepared, ranker, unpack
from experiments.chk_health import UnscaledPartialOrder, few_relevant
from experiments.chk_matrix_report import LINEUPS, PAPER, Matrix, _claims
from experiments.chk_time import ARGMAX, generated, split
from experiments.timing import TimedRisk
from marginrank.data.queries import Queries
from marginrank.losses.structured import StructuredLoss
from marginrank.scorers.linear.scorer import PreparedLinear
from marginrank.training.risk import RankingRisk


def test_assignment_and_merge_bound_the_same_loss():
    queries = generated(4, 40, 6)
    scores = np.random.default_rng(1).normal(size=queries.n_documents)
    by_merge, by_assignment = (
        ARGMAX[name].bounded("tight").prepare(queries)(scores)[0] for name in ("DORM", "DORM by assignment")
    )
    assert by_merge == pytest.approx(by_assignment, abs=1e-9)
    assert (by_merge > 0).all()


def test_without_its_scale_the_map_is_a_sum_over_pairs():
    grades, scores = [1, 0, 0, 1, 0], np.array([0.1, 0.3, -0.2, 0.0, 0.25])
    summed = StructuredLoss("ap", UnscaledPartialOrder())(grades, scores)[0]
    averaged = StructuredLoss("ap")(grades, 6 * scores)[0]
    assert summed == pytest.approx(averaged)
    assert summed != pytest.approx(StructuredLoss("ap")(grades, scores)[0])


def test_few_relevant_documents_are_the_first_of_each_query():
    queries = generated(3, 10, 4)
    kept = few_relevant(queries, 2)
    assert kept.lengths.tolist() == [8, 8, 8]
    assert [kept.grades[a:b].sum() for a, b in zip(kept.offsets, kept.offsets[1:], strict=False)] == [2, 2, 2]
    first = np.flatnonzero(queries.grades[:10])[:2]
    assert kept.X[np.flatnonzero(kept.grades[:8])].tolist() == queries.X[first].tolist()


def test_seconds_inside_the_risk_are_counted():
    now = iter([1.0, 1.5, 7.0, 7.25])
    queries = generated(2, 10, 2)
    risk = RankingRisk(PreparedLinear(queries), ARGMAX["SVMndcg"], 1)
    timed, theta = TimedRisk(risk, lambda: next(now)), np.ones(queries.n_features)
    assert timed(theta)[0] == risk(theta)[0]
    np.testing.assert_array_equal(timed.parts(theta)[0], risk.parts(theta)[0])
    assert (timed.seconds, timed.calls) == (0.75, 2)


def test_split_asks_no_more_often_than_it_may():
    found = split(ARGMAX["SVMndcg"], generated(3, 20, 3), C=10.0, max_iter=2)
    assert found["evaluations"] <= 5
    assert found["argmax"] > 0
    assert found["solver"] > 0


def test_differences_smaller_than_the_stored_digits_are_ties():
    stored = unpack(pack(np.random.default_rng(0).random(60)))
    (row,) = differences({"rounding": (stored + 0.0004, stored)})
    assert (row.mean, row.ranks, row.p) == (0.0, 0, 1.0)


def test_values_survive_packing_to_three_digits():
    assert unpack(pack([1.0, np.nan, 0.12345])).tolist() == [1.0, 0.123]


def _matrix(best):
    """One method is ahead of all others by 0.1 on every query and measure."""
    base = np.random.default_rng(0).random(50) / 2
    methods = {method for lineup in LINEUPS.values() for method in lineup.values()}
    found = {}
    for method in methods | {"COMBO shared", "COMBO φpo shared"}:
        own = pack(base + 0.1 * (method == best))
        found[f"ohsumed2/cleaned/{method}"] = {
            "objective_ratio": [0.9],
            "mean": dict.fromkeys(MEASURES, float(unpack(own).mean())),
            "values": dict.fromkeys(MEASURES, own),
        }
    return Matrix(found)


@pytest.mark.parametrize(("best", "verdict"), [("MRR", "does not hold"), ("AUC", "holds")])
def test_a_row_that_leads_refutes_that_it_is_never_best(best, verdict):
    found = {one.claim: one.verdict for one in _claims(_matrix(best))}
    assert found["Training for MRR is never best for test MRR (hinge)"] == verdict


@pytest.mark.parametrize(("best", "verdict"), [("COMBO shared", "does not hold"), ("COMBO", "holds")])
def test_slacks_are_compared_row_by_row(best, verdict):
    found = {one.claim: one.verdict for one in _claims(_matrix(best))}
    assert found["SVMcombo is better with separate slacks than with shared ones (COMBO)"] == verdict


def test_figure_nine_has_a_number_for_every_column():
    assert {len(row) for name, row in PAPER.items() if name != "McRank"} == {15}
    assert len(PAPER["McRank"]) == 9
    assert PAPER["COMBO"][3:6] == (0.667, 0.434, 0.345)


def test_scaled_queries_with_fewer_documents_can_be_trained_on(data):
    queries = Queries.concatenate(prepared(data, "ohsumed2", "cleaned", 3))
    few = few_relevant(queries, 1)
    assert few.n_documents < queries.n_documents
    assert len(few.document_keys) == few.n_documents
    assert ranker("MAP").fit(few).predict(few).shape == (few.n_documents,)
