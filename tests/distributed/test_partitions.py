"""Queries in partitions of this process: laws that hold on any cluster too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from marginrank import DataError, Queries, Ranker, compare, evaluate, tune
from marginrank.data.partitions import LocalPartitions, group_bounds, merge_tree
from marginrank.distributed import DistributedQueries
from marginrank.preparation import Standardize
from tests.distributed.data import METHODS, judged, ranker


def parts(queries: Queries, n: int) -> DistributedQueries:
    return DistributedQueries.from_queries(queries, n)


@pytest.mark.parametrize("n", range(1, 40))
def test_a_tree_merges_all_leaves_in_order(n):
    assert merge_tree(lambda number: [number], list.__add__, 0, n) == list(range(n))
    depth = merge_tree(lambda _: 0, lambda a, b: 1 + max(a, b), 0, n)
    assert 2 ** (depth - 1) < n <= 2**depth or n == 1


@pytest.mark.parametrize(("n", "groups"), [(1, 1), (7, 3), (32, 32), (5, 9)])
def test_groups_cover_all_parts(n, groups):
    bounds = group_bounds(n, groups)
    sizes = np.diff(bounds)
    assert (bounds[0], bounds[-1], len(sizes)) == (0, n, min(n, groups))
    assert sizes.min() >= 1
    assert np.ptp(sizes) <= 1


def test_sums_of_groups_do_not_depend_on_the_other_groups():
    values = np.random.default_rng(0).standard_normal(11)
    together = LocalPartitions([lambda value=value: value for value in values])
    bounds = group_bounds(11, 4)
    for (total,), first, end in zip(together.add(_own, groups=4), bounds[:-1], bounds[1:], strict=True):
        alone = LocalPartitions([lambda value=value: value for value in values[first:end]])
        assert alone.add(_own)[0][0] == total


def _own(value):
    return (value,)


@pytest.mark.parametrize("name", METHODS)
def test_one_partition_is_the_queries_bit_for_bit(name, monkeypatch):
    # Few bins on one machine are trained with lines, which partitions do not have.
    monkeypatch.setattr("marginrank.scorers.additive.scorer._SMALL_BYTES", 0)
    queries = judged()
    whole, part = ranker(name).fit(queries), ranker(name).fit(parts(queries, 1))
    np.testing.assert_array_equal(part.coef_, whole.coef_)
    assert part.trained_on_ == whole.trained_on_
    assert part.model_.method == whole.model_.method


@pytest.mark.parametrize("name", METHODS)
def test_partitions_reach_the_optimum_of_the_queries(name):
    queries = judged()
    whole, cut = ranker(name).fit(queries), ranker(name).fit(parts(queries, 7))
    assert cut.solution_.reason == "converged"
    # Both objectives are within their gap of the same optimum.
    assert abs(cut.objective_ - whole.objective_) <= max(whole.gap_, cut.gap_)
    assert cut.model_.method.solver == whole.model_.method.solver


@pytest.mark.parametrize("sparse", [False, True])
def test_means_and_spreads_are_those_of_all_rows(sparse):
    queries = judged()
    queries = replace(queries, X=np.where(np.abs(queries.X) < 0.3, 0, queries.X).astype(np.float64))
    rows = queries.X
    if sparse:
        queries = replace(queries, X=sp.csr_array(rows))
    learned = Standardize().fit(parts(queries, 6))
    np.testing.assert_allclose(learned.scale_, rows.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(learned.mean_, 0.0 * rows[0] if sparse else rows.mean(axis=0), rtol=1e-9, atol=1e-12)


def test_facts_are_those_of_the_queries():
    queries = judged()
    cut = parts(queries, 4)
    assert (len(cut), cut.n_documents, cut.n_features) == (len(queries), queries.n_documents, queries.n_features)
    assert cut.grades == dict(zip(*map(np.ndarray.tolist, np.unique(queries.grades, return_counts=True)), strict=True))
    np.testing.assert_array_equal(cut.ranges, [queries.X.min(axis=0), queries.X.max(axis=0)])
    assert cut.fingerprint != parts(queries, 5).fingerprint
    assert repr(cut).endswith("5 features, grades 0..3, 4 partitions)")


@pytest.mark.parametrize("missing", ["zero", "mean", "indicator"])
def test_missing_values_are_filled_as_in_one_memory(missing):
    queries = judged()
    X = queries.X.copy()
    X[::7, 2] = np.nan
    queries = replace(queries, X=X)
    spec = f"linear(missing={missing})"
    whole = Ranker("svmmap", scorer=spec).fit(queries)
    cut = Ranker("svmmap", scorer=spec).fit(parts(queries, 5))
    assert cut.form_.n_parameters == whole.form_.n_parameters
    assert abs(cut.objective_ - whole.objective_) <= max(whole.gap_, cut.gap_)
    with pytest.raises(DataError, match=r"feature 2 is NaN in .* documents, first in partition 0; "):
        Ranker("svmmap").fit(parts(queries, 5))


def test_scores_and_measures_are_those_of_the_queries():
    queries = judged()
    queries = replace(queries, query_ids=np.char.add("new ", queries.query_ids))
    model = Ranker("svmmap").fit(judged(seed=1))
    cut = parts(queries, 5)
    np.testing.assert_array_equal(model.predict(cut).gather(), model.predict(queries))
    names = ["ndcg@5", "ap", "rr", "err@3", "p@2"]
    for ranked in (model, model.predict(cut)):
        got, expected = evaluate(cut, ranked, names), evaluate(queries, model, names)
        np.testing.assert_array_equal(got.query_ids, queries.query_ids)
        for name in names:
            np.testing.assert_array_equal(got[name], expected[name])
    assert model.score(cut) == model.score(queries)
    other = Ranker("ranksvm").fit(judged(seed=1))
    systems = {"a": model, "b": other}
    assert compare(systems, cut).to_dicts() == compare(systems, queries).to_dicts()


def test_scores_are_written_in_the_order_of_each_source(tmp_path):
    queries = judged()
    model = Ranker("svmmap").fit(queries)
    paths = model.predict(parts(queries, 3)).to_files(tmp_path / "scores")
    assert [path.name for path in paths] == ["part-0.txt", "part-1.txt", "part-2.txt"]
    written = np.concatenate([np.loadtxt(path, ndmin=1) for path in paths])
    np.testing.assert_array_equal(written, model.predict(queries.grouped))


def test_a_path_of_C_and_validation_queries():
    queries, held_out = judged(), judged(seed=2)
    path = Ranker("svmmap").fit_path(parts(queries, 3), Cs=[0.1, 1.0])
    whole = Ranker("svmmap").fit_path(queries, Cs=[0.1, 1.0])
    for one, other in zip(path, whole, strict=True):
        assert abs(one.objective_ - other.objective_) <= max(one.gap_, other.gap_)
    stopped = Ranker("svmmap", patience=1).fit(parts(queries, 1), validation=parts(held_out, 4))
    expected = Ranker("svmmap", patience=1).fit(queries, validation=held_out)
    np.testing.assert_array_equal(stopped.coef_, expected.coef_)


def test_training_goes_on_from_a_model():
    queries = judged()
    first = Ranker("svmmap", C=0.1).fit(queries)
    near = Ranker("svmmap", C=0.1).fit(parts(queries, 1), center=first)
    np.testing.assert_array_equal(near.coef_, Ranker("svmmap", C=0.1).fit(queries, center=first).coef_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "rankboost@5"}, "rankboost@5 is not trained on partitions"),
        ({"method": "svmmap", "scorer": "kernel"}, "the kernel scorer is not trained on partitions"),
        ({"method": "svmmap", "scorer": "boosted"}, "the boosted scorer is not trained on partitions"),
        ({"method": "svmmap", "solver": "frank-wolfe"}, "use 'auto'"),
    ],
)
def test_what_needs_all_data_in_one_memory_is_refused(parameters, message):
    with pytest.raises((DataError, ValueError), match=message):
        Ranker(**parameters).fit(parts(judged(), 3))


def test_a_query_in_two_partitions_is_refused(tmp_path):
    from marginrank.data import write_letor

    queries = judged(6)
    for number, part in enumerate((queries[0:4], queries[3:6])):
        write_letor(tmp_path / f"part-{number}.txt", part)
    cut = DistributedQueries.from_files(tmp_path / "part-*.txt")
    with pytest.raises(DataError, match=f"query {queries.query_ids[3]} is in part-0.txt and in part-1.txt; "):
        len(cut)


def test_partitions_with_other_features_are_refused(tmp_path):
    from marginrank.data import write_letor

    queries = judged(6)
    write_letor(tmp_path / "part-0.txt", queries[0:4])
    write_letor(tmp_path / "part-1.txt", queries[4:6].with_features(queries[4:6].X[:, :3]))
    with pytest.raises(DataError, match=r"part-1.txt has 3 features and part-0.txt 5; .*n_features="):
        len(DistributedQueries.from_files(tmp_path / "part-*.txt"))
    assert len(DistributedQueries.from_files(tmp_path / "part-*.txt", n_features=5)) == 6
    with pytest.raises(DataError, match="no file matches"):
        DistributedQueries.from_files(tmp_path / "none-*.txt")


def test_a_file_may_have_several_partitions(tmp_path):
    from marginrank.data import write_binary

    queries = judged().grouped
    write_binary(tmp_path / "all.queries", queries)
    cut = DistributedQueries.from_files(tmp_path / "all.queries", per_file=4)
    assert (cut.n_partitions, cut.n_documents) == (4, queries.n_documents)
    np.testing.assert_array_equal(Ranker("svmmap").fit(cut).coef_, Ranker("svmmap").fit(parts(queries, 4)).coef_)


def test_tuning_on_partitions_chooses_as_on_the_queries():
    queries = judged()
    chosen = tune(Ranker("svmmap"), parts(queries, 3), folds=3, Cs=[0.01, 1.0])
    expected = tune(Ranker("svmmap"), queries, folds=3, Cs=[0.01, 1.0])
    assert chosen.best.parameters == expected.best.parameters
    assert [one.mean for one in chosen.candidates] == pytest.approx([one.mean for one in expected.candidates], abs=0.02)
    judged_by = tune(Ranker("svmmap"), parts(queries, 3), valid=parts(judged(seed=2), 2), Cs=[0.01, 1.0])
    assert judged_by.held_out == "60 validation queries"


@pytest.mark.parametrize("name", METHODS)
def test_partitions_without_a_query_change_nothing(name):
    queries = judged(20)
    cut = parts(queries, 3)
    halves = [np.arange(len(ids)) % 2 == 0 for ids in cut.query_ids()]
    none = [half & (number != 1) for number, half in enumerate(halves)]
    kept = cut.select(none)
    assert [part.queries for part in kept.facts] == [int(chosen.sum()) for chosen in none]
    whole = Queries.concatenate([queries[np.flatnonzero(np.concatenate(none))]])
    got, expected = ranker(name).fit(kept), ranker(name).fit(whole)
    assert abs(got.objective_ - expected.objective_) <= max(got.gap_, expected.gap_)
    assert got.score(kept) == pytest.approx(expected.score(whole), abs=0.05)


def test_sparse_partitions_train_as_sparse_queries():
    queries = judged()
    queries = replace(queries, X=sp.csr_array(np.where(np.abs(queries.X) < 0.3, 0, queries.X)))
    whole, one, cut = (Ranker("svmmap").fit(data) for data in (queries, parts(queries, 1), parts(queries, 4)))
    np.testing.assert_array_equal(one.coef_, whole.coef_)
    assert abs(cut.objective_ - whole.objective_) <= max(whole.gap_, cut.gap_)
    with pytest.raises(DataError, match="the additive scorer takes no sparse X"):
        Ranker("svmmap", scorer="additive").fit(parts(queries, 4))


def test_a_frame_is_refused_with_the_way_to_make_queries_of_it():
    with pytest.raises(TypeError, match="from_queries takes Queries, not a DataFrame; make them with from_frame"):
        DistributedQueries.from_queries(pd.DataFrame({"qid": [1]}), 1)
