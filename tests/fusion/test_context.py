"""What the weights of a fusion may depend on: kinds of context, and columns that describe the query."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from marginrank import Fusion, Queries, evaluate
from marginrank.errors import DataError
from marginrank.export.export_files import verify
from marginrank.fusion import BestRun, UnsupervisedFusion, fusion_features
from marginrank.integrations.candidates import check_runs
from marginrank.model import scoring
from marginrank.preparation import QUERY_TEXT_FEATURES, query_text_features
from marginrank.ranker.selection import Candidate
from marginrank.serving.limits import Refusal, ServiceLimits
from marginrank.serving.requests import read_request

NAN = float("nan")


def by_hand(lists):
    """Compute the context of one query, given a list of scores for each run, one loop per definition."""
    known = [[score for score in one if not math.isnan(score)] for one in lists]
    out = {kind: [] for kind in ("best", "gap", "peak", "overlap", "count")}
    tops = []
    for one in lists:
        # A document is among the ten best if fewer than ten, and half of those equal to it, are better.
        better = [sum(other > score for other in one) for score in one]
        equal = [sum(other == score for other in one) for score in one]
        tops.append(
            {at for at, score in enumerate(one) if not math.isnan(score) and better[at] + (equal[at] + 1) / 2 <= 10}
        )
    for number, scores in enumerate(known):
        descending = sorted(scores, reverse=True)
        out["count"].append(len(scores))
        out["best"].append(descending[0] if scores else 0.0)
        out["gap"].append(descending[0] - descending[min(4, len(scores) - 1)] if scores else 0.0)
        spread = np.std(scores) if scores else 0.0
        out["peak"].append((descending[0] - np.mean(scores)) / spread if spread > 1e-9 else 0.0)
        others = [top for at, top in enumerate(tops) if at != number]
        # Of more than nineteen equal scores none is among the ten best.
        shares = [len(tops[number] & top) / max(len(tops[number]), 1) for top in others]
        out["overlap"].append(sum(shares) / len(shares))
    return out


@pytest.mark.parametrize("seed", range(5))
def test_kinds_of_context_against_loops_on_shuffled_rows(seed):
    rng = np.random.default_rng(seed)
    lengths = [1, 2, 4, 5, 6, 9, 12, 40]
    qid = rng.permutation(np.repeat(np.arange(len(lengths)), lengths))
    X = np.round(rng.standard_normal((len(qid), 3)) * [1.0, 1e6, 1e-6], rng.integers(1, 9))
    X[rng.random(X.shape) < 0.4] = NAN
    X[qid == 5, 1] = 7.0
    queries = Queries.from_arrays(X, qid=qid, feature_names=["a", "b", "c"], allow_nan=True)
    made = fusion_features(queries, "best+gap+peak+overlap+count")
    for query in range(len(lengths)):
        rows = np.flatnonzero(qid == query)
        for kind, expected in by_hand(X[rows].T.tolist()).items():
            for run, value in zip("abc", expected, strict=True):
                got = made.feature(f"{kind}({run})")[rows]
                np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-14, err_msg=f"{kind}({run}), query {query}")


def test_a_single_run_has_no_overlap():
    assert fusion_features(Queries.from_arrays([[2.0], [1.0]], group=[2]), "overlap").X.tolist() == [[0.0], [0.0]]


@cache
def judged(seed=0, columns=("bm25", "has_code", "dense"), n_queries=80, size=15):
    """Draw queries with a code, which words answer, and others, which meaning answers; the rows are shuffled."""
    rng = np.random.default_rng(seed)
    texts = [f"bolt m{number}x40" if number % 3 else "hold two boards together" for number in range(n_queries)]
    context = query_text_features(texts)[:, [0, 3]]
    words, meaning, noise = rng.standard_normal((3, n_queries, size))
    relevant = np.where(context[:, [1]] == 1, words, meaning) + 0.3 * noise > 1.0
    runs = np.stack([10 + words, 0.5 + 0.1 * meaning], axis=2).reshape(-1, 2)
    runs[rng.random(runs.shape) < 0.2] = NAN
    X = np.hstack([runs[:, :1], np.repeat(context, size, axis=0), runs[:, 1:]])
    mixed = rng.permutation(len(X))
    names = ["bm25", QUERY_TEXT_FEATURES[0], QUERY_TEXT_FEATURES[3], "dense"]
    return Queries.from_arrays(
        X[mixed][:, [names.index(name) for name in columns]],
        relevant.reshape(-1)[mixed],
        qid=np.repeat([f"q{number:03d}" for number in range(n_queries)], size)[mixed],
        feature_names=columns,
        allow_nan=True,
    )


ALL = ("best", "gap", "peak", "overlap", "count", "has_code", "n_words")


WIDE = ("bm25", "n_words", "has_code", "dense")


@cache
def fitted(context=("has_code",)):
    columns = WIDE if "n_words" in context else ("bm25", "has_code", "dense")
    return Fusion("minmax", adaptive=True, context=context, Cs=[1.0, 10.0]).fit(judged(0, columns))


def plain(queries, *names):
    """Return some columns of queries, in another order."""
    return queries.with_features(np.column_stack([queries.feature(name) for name in names]), names)


def test_weights_depend_on_a_column_of_the_table():
    fusion, later = fitted(), judged(1)
    assert (fusion.kinds_, fusion.context_, fusion.run_names) == ("minmax", ("has_code",), ["bm25", "dense"])
    static = Fusion("minmax", Cs=[1.0, 10.0]).fit(plain(judged(), "bm25", "dense"))
    gain = evaluate(later, fusion, "ndcg@10").mean["ndcg@10"]
    assert gain > evaluate(plain(later, "bm25", "dense"), static, "ndcg@10").mean["ndcg@10"] + 0.05
    weights = fusion.query_weights(later)
    code = np.array([int(query[1:]) % 3 > 0 for query in weights.queries])
    assert weights.weights[code, 0].min() > weights.weights[code, 1].max()
    assert weights.weights[~code, 0].max() < weights.weights[~code, 1].min()
    assert "has_code is" in str(weights)


@pytest.mark.parametrize("context", [("has_code",), ALL])
def test_scores_are_the_same_through_every_door(tmp_path, context):
    fusion, later = fitted(context), judged(1, WIDE if "n_words" in context else WIDE[:1] + WIDE[2:])
    assert fusion.ranker_.form_.kind == "adaptive"
    expected = fusion.predict(later)
    fusion.save(tmp_path / "model")
    loaded = Fusion.load(tmp_path / "model")
    names = sorted(later.feature_names, key=len)
    order = np.random.default_rng(3).permutation(len(later.X))
    mixed = Queries.from_arrays(
        plain(later, *names).X[order],
        qid=later.query_ids[later.query_of_row][order],
        feature_names=names,
        allow_nan=True,
    )
    np.testing.assert_allclose(loaded.predict(mixed), expected[order], rtol=1e-12, atol=1e-12)
    function = scoring.load(tmp_path / "model")
    assert function.inputs == ("bm25", "dense", *fusion.context_)
    # A group of the service is one query.
    rows = np.flatnonzero(later.query_ids[later.query_of_row] == "q007")
    table = {name: later.feature(name)[rows] for name in function.inputs}
    np.testing.assert_allclose(function.score(table), expected[rows], rtol=1e-12, atol=1e-12)
    runs = {
        run: {str(row): float(score) for row, score in zip(rows, table[run], strict=True) if not np.isnan(score)}
        for run in function.runs
    }
    asked = {"id": "q", "runs": runs, "context": {name: float(table[name][0]) for name in reversed(function.context)}}
    read = read_request({"queries": [asked]}, function, ServiceLimits()).queries[0]
    by_document = dict(zip(map(str, rows), expected[rows], strict=True))
    assert function.score(read.table) == pytest.approx([by_document[document] for document in read.documents])


@pytest.mark.parametrize("context", [("has_code",), ALL])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "ansi"])
def test_sql_scores_the_same(tmp_path, dialect, context):
    if dialect == "duckdb":
        pytest.importorskip("duckdb")
    target = f"sql(dialect={dialect})"
    fitted(context).export(target, tmp_path / "fusion.sql")
    assert len(verify(target, tmp_path / "fusion.sql").X) == 180


def test_the_statement_for_pgvector_has_all_stages_and_the_context(tmp_path):
    fitted(ALL).export("sql(dialect=postgresql)", tmp_path / "fusion.sql")
    statement = (tmp_path / "fusion.hybrid.sql").read_text()
    assert 'TODO."has_code" -- a number for the query' in statement
    assert "FROM stage2\nORDER BY" in statement


def test_a_context_that_was_not_worth_it_may_stay_in_the_table():
    fusion = Fusion("minmax", adaptive=True, context=["n_words"], Cs=[1.0])
    queries = judged()
    noise = np.random.default_rng(0).standard_normal(80)[
        np.unique(queries.query_ids[queries.query_of_row], return_inverse=True)[1]
    ]
    X = np.column_stack([queries.feature("bm25"), noise, queries.feature("dense")])
    table = queries.with_features(X, ["bm25", "n_words", "dense"])
    fusion.fit(table)
    assert (fusion.kinds_, fusion.context_, fusion.ranker_.form_.kind) == ("minmax", (), "linear")
    np.testing.assert_array_equal(fusion.predict(table), fusion.predict(plain(table, "dense", "bm25")))


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (["has_cod"], "context names 'has_cod', neither a column nor a kind; did you mean 'has_code'"),
        ([], "context is empty; name what weights depend on"),
        (["best", "best"], "context names 'best' twice; name it once"),
        (["bm25", "has_code", "dense"], "context names all columns; leave at least one run"),
    ],
)
def test_a_context_that_makes_no_sense_is_refused(context, message):
    with pytest.raises(ValueError, match=message):
        Fusion("minmax", adaptive=True, context=context, Cs=[1.0]).fit(judged())


def test_columns_that_are_no_runs_are_left_out_by_static_weights_and_baselines():
    runs, both = plain(judged(), "bm25", "dense"), judged()
    for left_out, method in (
        (Fusion("minmax", context=["has_code"], Cs=[1.0]), Fusion("minmax", Cs=[1.0])),
        (UnsupervisedFusion("rrf", context=["has_code"]), UnsupervisedFusion("rrf")),
        (BestRun(context=["has_code"]), BestRun()),
    ):
        np.testing.assert_array_equal(left_out.fit(both).predict(both), method.fit(runs).predict(runs))


def test_a_run_with_the_name_of_a_kind_of_context_is_a_run():
    runs = plain(judged(), "bm25", "dense")
    named = runs.with_features(runs.X, ["bm25", "best"])
    for method in (Fusion("minmax", Cs=[1.0]), UnsupervisedFusion("rrf", context="best"), BestRun(context="best")):
        np.testing.assert_array_equal(method.fit(named).predict(named), method.fit(runs).predict(runs))
    with pytest.raises(DataError, match="column 'best' has the name of a kind of context; rename it"):
        Fusion("minmax", adaptive=True).fit(named)


@pytest.mark.parametrize("method", [UnsupervisedFusion("rrf", context=["flag"]), BestRun(context=["flag"])])
def test_baselines_refuse_unknown_columns(method):
    with pytest.raises(ValueError, match="context names 'flag', neither a column nor a kind"):
        method.fit(judged()).predict(judged())


def test_validation_queries_need_the_same_columns():
    unnamed = Queries.from_arrays(judged().X, judged().grades, qid=judged().query_of_row, allow_nan=True)
    fusion = Fusion("minmax", adaptive=True, context=["has_code"], Cs=[1.0])
    with pytest.raises(DataError, match="the weights depend on has_code; give columns with names"):
        fusion.fit(judged(), unnamed)
    with pytest.raises(DataError, match="there is no column 'has_code'; the columns are bm25, dense"):
        fusion.fit(judged(), plain(judged(), "bm25", "dense"))


def test_engines_are_not_compared_if_weights_depend_on_a_column():
    fusion = Fusion(adaptive=True, context=["has_code"], Cs=[1.0]).fit(judged())
    assert (fusion.ranker_.form_.kind, fusion.cost_of_engines) == ("adaptive", None)


@pytest.mark.parametrize("n_flags", [1, 2])
def test_flags_that_are_too_rare_for_every_fold_leave_weights_static(n_flags):
    queries = judged()
    rare = np.isin(queries.query_ids[queries.query_of_row], ["q003", "q004"][:n_flags]).astype(float)
    table = queries.with_features(
        np.column_stack([queries.feature("bm25"), rare, queries.feature("dense")]), ["bm25", "rare", "dense"]
    )
    fusion = Fusion("minmax", adaptive=True, context=["rare"], Cs=[1.0], random_state=1)
    with pytest.warns(UserWarning, match="the context is the same in the training queries of a fold; weights are the"):
        fusion.fit(table, folds=2)
    assert (fusion.ranker_.form_.kind, fusion.kinds_) == ("linear", "minmax")
    with pytest.warns(UserWarning, match="the context is the same in nearly all training queries; weights are the sam"):
        fusion.fit(table[~np.isin(table.query_ids, ["q003", "q004"])])


@pytest.mark.parametrize("name", ["peak of bm25", "Overlap OF BM25", "minmax(bm25)", "peak(bm25)"])
def test_names_that_sql_would_confuse_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(Candidate, "clearly_better", lambda *_: True)
    queries = judged()
    table = queries.with_features(queries.X, ["bm25", name, "dense"])
    fusion = Fusion("minmax", adaptive=True, context=[name, "peak", "overlap"], Cs=[1.0]).fit(table)
    with pytest.raises(DataError, match="two columns are called"):
        fusion.export("sql(dialect=sqlite)", tmp_path / "m.sql")


def test_names_that_postgresql_would_cut_to_one_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Candidate, "clearly_better", lambda *_: True)
    queries = plain(judged(), "bm25", "dense")
    table = queries.with_features(queries.X, ["r" * 55 + "a", "r" * 55 + "b"])
    fusion = Fusion("minmax", adaptive=True, context="peak", Cs=[1.0]).fit(table)
    assert fusion.export("sql(dialect=sqlite)", tmp_path / "m.sql").files
    with pytest.raises(DataError, match="two columns are called"):
        fusion.export("sql(dialect=postgresql)", tmp_path / "n.sql")


def test_a_model_with_static_weights_ignores_the_context_of_requests(tmp_path):
    Fusion("minmax", Cs=[1.0]).fit(plain(judged(), "bm25", "dense")).save(tmp_path / "model")
    model, asked = scoring.load(tmp_path / "model"), {"runs": {"bm25": {"a": 1.0}, "dense": {}}}
    for context in ({}, {"has_code": 1}, None):
        read = read_request({"queries": [asked | {"context": context}]}, model, ServiceLimits()).queries[0]
        np.testing.assert_array_equal(read.table, [[1.0, NAN]])


def test_values_that_do_not_describe_the_query_are_refused():
    queries = judged()
    missing, differs = (plain(queries, *queries.feature_names) for _ in range(2))
    missing.X[queries.query_ids[queries.query_of_row] == "q003", 1] = NAN
    differs.X[np.flatnonzero(queries.query_ids[queries.query_of_row] == "q003")[0], 1] = -1.0
    for refused in (fitted().predict, Fusion("minmax", adaptive=True, context=["has_code"], Cs=[1.0]).fit):
        with pytest.raises(DataError, match="feature 'has_code' is missing or infinite in a query; replace it"):
            refused(missing)
    missing.X[:, 1] = np.inf
    with pytest.raises(DataError, match="feature 'has_code' is missing or infinite in a query; replace it"):
        fitted()._function().score(missing.X[:, [0, 2, 1]], group=[len(missing.X)])
    with pytest.raises(DataError, match="feature 'has_code' is not the same for all documents of a query"):
        fitted().predict(differs)
    with pytest.raises(DataError, match="there is no column 'has_code', which the weights depend on; add it"):
        fitted().predict(plain(queries, "bm25", "dense"))
    with pytest.raises(DataError, match="these are bm25, n_words, dense; give the same runs"):
        fitted().predict(judged(0, WIDE))


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (None, r"queries\[0\].context: there is no context 'has_code'"),
        ({"has_code": None}, r"queries\[0\].context: 'has_code' is null; give a number"),
        ({"has_code": 1, "n_words": 2}, r"queries\[0\].context: the model has no context 'n_words'"),
        ([1], r"queries\[0\].context: it is a list; give an object with a number for each of has_code"),
    ],
)
def test_a_request_with_another_context_is_refused(tmp_path, context, message):
    fitted().save(tmp_path / "model")
    asked = {"runs": {"bm25": {"a": 1.0}, "dense": {}}, **({} if context is None else {"context": context})}
    with pytest.raises(Refusal, match=message):
        read_request({"queries": [asked]}, scoring.load(tmp_path / "model"), ServiceLimits())


def test_engines_that_do_not_know_the_query_refuse_such_weights():
    with pytest.raises(DataError, match="depend on has_code, which retrievers do not return; score candidates by fusi"):
        check_runs(fitted(), ["bm25", "dense"])


def test_a_whole_fusion_has_the_objective_of_a_general_solver():
    """Context of runs and of the table, from plain NumPy, with the weights that cvxpy finds."""
    cp = pytest.importorskip("cvxpy")
    queries = judged(2)
    fusion = Fusion("minmax", adaptive=True, context=["gap", "has_code"], preset="ranksvm", Cs=[5.0], tol=1e-7)
    fusion.fit(queries)
    shrinkage = fusion.ranker_.scorer.shrinkage
    x, z, y = np.zeros((len(queries.X), 2)), np.zeros((len(queries.X), 3)), queries.grades
    ids = queries.query_ids[queries.query_of_row]
    for query in queries.query_ids:
        rows = np.flatnonzero(ids == query)
        for column, run in enumerate(["bm25", "dense"]):
            scores = queries.feature(run)[rows]
            low, high = np.nanmin(scores), np.nanmax(scores)
            x[rows, column] = np.nan_to_num((scores - low) / (high - low))
            z[rows, column] = high - np.sort(-scores)[4] * -1
        z[rows, 2] = queries.feature("has_code")[rows]
    low, high = np.quantile(z, [0.05, 0.95], axis=0)
    t = np.clip((z - low) / (high - low), 0, 1)
    w, up, down = cp.Variable(2, nonneg=True), cp.Variable((2, 3), nonneg=True), cp.Variable((2, 3), nonneg=True)
    weights = t @ up.T + (1 - t) @ down.T
    scores = x @ w + cp.sum(cp.multiply(x, weights), axis=1)
    risks = []
    for query in queries.query_ids:
        good, bad = (np.flatnonzero((ids == query) & (y == grade)) for grade in (1, 0))
        if len(good) and len(bad):
            first, second = np.repeat(good, len(bad)), np.tile(bad, len(good))
            risks.append(cp.sum(cp.pos(1 - (scores[first] - scores[second]))) / len(first))
    penalty = cp.sum_squares(w) + shrinkage * (cp.sum_squares(up) + cp.sum_squares(down))
    optimum = cp.Problem(cp.Minimize(0.5 * penalty + 5.0 * sum(risks) / len(risks))).solve(solver=cp.CLARABEL)
    assert fusion.ranker_.objective_ == pytest.approx(optimum, rel=1e-5)
    assert optimum >= fusion.ranker_.objective_ - fusion.ranker_.gap_ - 1e-6
