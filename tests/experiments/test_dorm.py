"""What the experiments of Le and Smola (2008) are made of."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import dorm_jester
from experiments.dorm import advantage, first_share
from experiments.jester import item_features, levels, panel, queries, split
from experiments.timing import bundle, n_slack
from experiments.uci import DOCUMENTS, SETS, deal
from marginrank.data.queries import Queries
from marginrank.losses.structured import StructuredLoss
from marginrank.training.partitioned_risk import empirical_risk


@pytest.mark.parametrize("name", SETS)
def test_rows_are_dealt_once_and_classes_become_grades(data, name):
    graded, binary = (deal(data, name, definition, most=3) for definition in ("class", "one"))
    assert graded.lengths.tolist() == [DOCUMENTS] * 3
    assert graded.grades.min() == 0
    np.testing.assert_array_equal(binary.grades, graded.grades == graded.grades.max())
    np.testing.assert_array_equal(binary.X, graded.X)


def test_no_row_is_dealt_twice(tmp_path):
    import lzma

    (tmp_path / "uci-page-blocks").mkdir()
    lines = "".join(f"{row} {row % 5 + 1}\n" for row in range(450))
    (tmp_path / "uci-page-blocks" / "page-blocks.data.xz").write_bytes(lzma.compress(lines.encode()))
    dealt = deal(tmp_path, "page-blocks", "class")
    rows = dealt.X[:, 0].astype(int)
    assert len(set(rows.tolist())) == 4 * DOCUMENTS
    np.testing.assert_array_equal(dealt.grades, rows % 5)


def test_smaller_shares_lie_in_larger_ones():
    grades = np.tile([1, 0, 0, 0], 20)
    every = Queries.from_arrays(np.ones((80, 1)), grades, group=np.full(40, 2))
    drawn = [set(first_share(every, share, seed=3).query_ids.tolist()) for share in (0.1, 0.5, 1.0)]
    assert [len(part) for part in drawn] == [2, 10, 20]
    assert drawn[0] < drawn[1] < drawn[2]


def test_an_advantage_has_to_hold_against_all():
    better, noise = np.linspace(0.4, 0.9, 30), np.random.default_rng(0).normal(0, 0.2, 30)
    values = {"own": better, "worse": better - 0.1, "alike": better + noise - noise.mean()}
    assert advantage(values, "own")[0] == "undecided"
    del values["alike"]
    verdict, evidence = advantage(values, "own")
    assert verdict == "holds"
    assert "own − worse +0.1000 [+0.1000, +0.1000]" in evidence


def test_products_of_documents_are_the_joint_kernel(data):
    own = panel(data, 3, 40, rank=2, least=60)
    known, _ = split(own.test, 10, seed=0)
    user, phi = np.repeat(np.arange(3), 10), own.items[np.concatenate(known)]
    same, product = user[:, None] == user, phi @ phi.T
    for view, factor in (("joint", 1 + same), ("separate", same)):
        X = queries(own.test, known, own.items, view, known).dense()
        np.testing.assert_allclose(X @ X.T, factor * product, atol=1e-12)


def test_ratings_are_dealt_to_training_and_test(data):
    own = panel(data, 3, 40, rank=2, least=60)
    known, unknown = split(own.test, 10, seed=0)
    for row, first, rest in zip(own.test, known, unknown, strict=True):
        assert len(first) == 10
        assert sorted([*first, *rest]) == np.flatnonzero(~np.isnan(row)).tolist()
    made = queries(own.test, unknown, own.items, "pair", known)
    np.testing.assert_array_equal(made[0].grades, levels(own.test[0, unknown[0]]))


def test_all_factors_give_the_correlations():
    ratings = np.random.default_rng(0).normal(size=(30, 5))
    centered = ratings - ratings.mean(axis=1, keepdims=True)
    factors = item_features(ratings, rank=5)[:, 2:]
    np.testing.assert_allclose(factors @ factors.T, np.corrcoef(centered.T), atol=1e-12)


def test_timed_solvers_agree_and_count_active_planes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    judged = Queries.from_arrays(X, (X[:, 0] + rng.normal(0, 1, 60) > 0.5).astype(int), group=np.full(6, 10))
    risk = empirical_risk(judged, StructuredLoss("auc"), n_jobs=1)
    slack, planes = n_slack(risk, 1e-3, 1e-6), bundle(risk, 1e-3, 1e-6)
    assert slack.solution.primal == pytest.approx(planes.solution.primal, rel=1e-5)
    # With so small a C every margin is violated, and each query holds on to one ranking: all pairs swapped.
    assert (slack.planes, slack.queries) == (6, 6)
    assert 0 < slack.programs < 60
    assert planes.planes > 0


def test_quoted_methods_have_figures_of_the_paper_alone():
    for n in dorm_jester.COUNTS:
        rows = dorm_jester.quoted_rows(n, 5)
        assert [row[0].split()[0] for row in rows] == ["CGPR", "GPOR", "CGPOR"]
        assert all("printed" in row[0] and row[1:6] == (None,) * 5 and None not in row[6:] for row in rows)
    assert not set(dorm_jester.QUOTED) & {*dorm_jester.METHODS, *dorm_jester.FACTORIZATIONS}
