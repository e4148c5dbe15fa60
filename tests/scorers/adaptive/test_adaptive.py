"""The adaptive scorer against its definition, a general solver, and the linear scorer."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Adaptive, Linear, Queries, Ranker, from_frame, load
from marginrank.errors import DataError
from marginrank.scorers import AdaptiveForm
from marginrank.scorers.adaptive.query_weights import QueryWeights
from marginrank.solvers.auto import Auto

NAMES = ("bm25", "dense", "is_code", "length")


def made_up_queries(seed=0, n_queries=40, size=8):
    """Draw queries whose best weights depend on a flag: bm25 counts for codes, dense scores for other queries."""
    rng = np.random.default_rng(seed)
    n = n_queries * size
    qid = np.repeat(np.arange(n_queries), size)
    x = rng.standard_normal((n, 2))
    flag, length = rng.integers(0, 2, n_queries), rng.integers(1, 9, n_queries)
    relevance = np.where(flag[qid] == 1, x[:, 0], x[:, 1]) + 0.1 * rng.standard_normal(n)
    X = np.column_stack([x, flag[qid], length[qid]])
    return Queries.from_arrays(X, (relevance > 0.8).astype(float), qid=qid, feature_names=NAMES)


def by_definition(X, context, w, v, low, high):
    """Score rows in plain Python."""
    scores = []
    for row in X.tolist():
        t = [min(max((row[c] - a) / (b - a), 0.0), 1.0) for c, a, b in zip(context, low, high, strict=True)]
        weighted = [r for r in range(len(row)) if r not in context]
        scores.append(
            sum((w[i] + sum(v[i][c] * t[c] for c in range(len(context)))) * row[r] for i, r in enumerate(weighted))
        )
    return np.array(scores)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_scores_are_those_of_the_definition(nonnegative):
    queries = made_up_queries()
    scorer = Adaptive(context=["is_code", "length"], shrinkage=4.0, nonnegative=nonnegative)
    prepared = scorer.prepare(queries)
    theta = np.abs(np.random.default_rng(1).standard_normal(prepared.n_parameters))
    low, high = np.quantile(queries.X[:, 2:], [0.05, 0.95], axis=0)
    t = np.clip((queries.X[:, 2:] - low) / (high - low), 0, 1)
    w, rest = theta[:2], theta[2:].reshape(-1, 2, 2) / 2.0  # 1/√shrinkage
    if nonnegative:
        w, v = w + rest[1].sum(axis=1), rest[0] - rest[1]
    else:
        w, v = w - rest[0] @ t.mean(axis=0), rest[0]
    expected = by_definition(queries.X, [2, 3], w, v, low, high)
    np.testing.assert_allclose(prepared.scores(theta), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(prepared.form.score(theta, queries.X), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_objective_is_that_of_a_general_solver(nonnegative):
    cp = pytest.importorskip("cvxpy")
    queries, C, shrinkage = made_up_queries(n_queries=12), 2.0, 5.0
    ranker = Ranker(
        "ranksvm", C=C, scorer=Adaptive(["is_code"], shrinkage, nonnegative), scaling=None, solver=Auto(tol=1e-6)
    ).fit(_without_length(queries))
    X, y, qid = ranker_inputs(_without_length(queries))
    w, v = cp.Variable(2), cp.Variable(2)
    t = X[:, 2]
    center = 0.0 if nonnegative else t.mean()
    if nonnegative:
        p, m = cp.Variable(2, nonneg=True), cp.Variable(2, nonneg=True)
        penalty = cp.sum_squares(w) + shrinkage * (cp.sum_squares(p) + cp.sum_squares(m))
        scores = X[:, :2] @ w + cp.multiply(t, X[:, :2] @ p) + cp.multiply(1 - t, X[:, :2] @ m)
        constraints = [w >= 0]
    else:
        penalty = cp.sum_squares(w) + shrinkage * cp.sum_squares(v)
        scores, constraints = X[:, :2] @ w + cp.multiply(t - center, X[:, :2] @ v), []
    risks = []
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        pairs = [(i, j) for i in rows for j in rows if y[i] > y[j]]
        if pairs:
            differences = cp.hstack([scores[i] - scores[j] for i, j in pairs])
            risks.append(cp.sum(cp.pos(1 - differences)) / len(pairs))
    optimum = cp.Problem(cp.Minimize(0.5 * penalty + C * sum(risks) / len(risks)), constraints).solve(
        solver=cp.CLARABEL
    )
    assert ranker.objective_ == pytest.approx(optimum, rel=1e-5)
    assert optimum >= ranker.objective_ - ranker.gap_ - 1e-6


def _without_length(queries):
    return queries.with_features(queries.X[:, :3], NAMES[:3])


def ranker_inputs(queries):
    return queries.X, queries.grades, _qid(queries)


def _qid(queries):
    return np.repeat(np.arange(len(queries)), queries.lengths)


def test_weights_depend_on_the_query_if_that_helps():
    train, test = made_up_queries(0), made_up_queries(1)
    adaptive = Ranker("svmmap", scorer=Adaptive(context=["is_code", "length"]), C=100.0).fit(train)
    linear = Ranker("svmmap", C=100.0).fit(train)
    assert adaptive.score(test) > linear.score(test) + 0.1


def test_a_large_shrinkage_is_the_linear_scorer():
    train = made_up_queries()
    adaptive = Ranker(
        "svmmap", scorer=Adaptive(context=["is_code", "length"], shrinkage=1e12), scaling=None, solver=Auto(tol=1e-6)
    ).fit(train)
    x = train.with_features(train.X[:, :2], NAMES[:2])
    linear = Ranker("svmmap", scaling=None, solver=Auto(tol=1e-6)).fit(x)
    assert adaptive.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    scores, expected = adaptive.predict(train), linear.predict(x)
    offsets = train.offsets[:-1]
    centered = [s - np.repeat(np.add.reduceat(s, offsets) / 8, 8) for s in (scores, expected)]
    np.testing.assert_allclose(*centered, atol=0.02)


def test_no_weight_is_negative_for_any_context():
    rng = np.random.default_rng(0)
    train = made_up_queries()
    y = -train.X[:, 0] * (train.X[:, 2] - 0.2) + 0.1 * rng.standard_normal(train.n_documents) > 0.3
    queries = Queries.from_arrays(train.X, y, qid=_qid(train), feature_names=NAMES)
    free, held = (
        Ranker("svmmap", scorer=Adaptive(["is_code", "length"], 1.0, nonnegative), C=100.0).fit(queries)
        for nonnegative in (False, True)
    )
    extreme = np.array([[1.0, 1.0, a, b] for a in (-9.0, 99.0) for b in (-9.0, 99.0)])
    assert _weights(free, extreme).min() < 0
    assert _weights(held, extreme).min() >= -1e-12


def _weights(ranker, X):
    (term,) = ranker.form_.terms(ranker.coef_)
    return term.effective_weights(X)[:2]


def test_rows_keep_their_order_and_columns_their_names(tmp_path):
    pd = pytest.importorskip("pandas")
    train = made_up_queries()
    ids = np.array([f"q{number:02d}" for number in _qid(train)])
    frame = pd.DataFrame(train.X, columns=NAMES).assign(label=train.grades, query=ids)
    mixed = frame.sample(frac=1.0, random_state=3)
    mixed.index = mixed.index * 7 + 5
    ranker = Ranker("svmmap", scorer=Adaptive(context=["is_code", "length"])).fit(
        from_frame(frame, qid="query", grade="label")
    )
    other = Ranker("svmmap", scorer=Adaptive(context=["is_code", "length"])).fit(
        from_frame(mixed, qid="query", grade="label")
    )
    assert other.objective_ == pytest.approx(ranker.objective_, rel=2e-4)
    ranker.save(tmp_path / "model.safetensors")
    queries = from_frame(mixed, qid="query", grade="label")
    expected = ranker.predict(train)[(mixed.index.to_numpy() - 5) // 7]
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(queries), expected)


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (Adaptive, "context is empty; name the columns"),
        (lambda: Adaptive(context=["is_cod"]), "is_code"),
        (lambda: Adaptive(context=range(4)), "names all columns"),
        (lambda: Adaptive(context="is_code", shrinkage=0.0), "shrinkage is 0"),
    ],
)
def test_what_cannot_be_context_is_refused(scorer, message):
    with pytest.raises((DataError, ValueError), match=message):
        Ranker("svmmap", scorer=scorer()).fit(made_up_queries())


def test_context_that_a_scaling_removes_is_refused():
    message = (
        "name columns that vary, in every fold too; scaling by query makes them constant, unlike scaling='standard'"
    )
    with pytest.raises(DataError, match=message):
        Ranker("svmmap", scorer=Adaptive(context="is_code"), scaling="query-minmax").fit(made_up_queries())


@pytest.fixture(scope="module")
def reasoned():
    return Ranker("svmmap", scorer=Adaptive(context=["is_code", "length"]), C=100.0).fit(made_up_queries())


def test_reasons_say_yes_or_no_of_flags(reasoned):
    queries = made_up_queries(1)
    weights = reasoned.query_weights(queries)
    for flag, reason in zip(queries.X[::8, 2], weights.reasons, strict=True):
        assert reason.endswith(f": is_code is {'yes' if flag else 'no'}")
        assert " 1 times" not in reason
        assert "inf" not in reason


def reasons_of(base, changes, z, flags=(False,)):
    """Return reasons for two features with weights base + changes · z, and the typical z of 0.5."""
    form = AdaptiveForm(3, np.array([2]), np.zeros(1), np.ones(1), np.array([0.5]), 1.0, False)
    theta = np.array([*base, *changes])
    X = np.column_stack([np.zeros((len(z), 2)), z])
    return QueryWeights.of(form, theta, X, range(len(z)), ("bm25", "dense", "z"), np.array(flags)).reasons


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        ([1.0, 1.0], [0.0, 0.0], ["about the same weights"] * 2),
        ([1.0, 1.0], [0.02, 0.0], ["about the same weights"] * 2),
        (
            [1.0, 1.0],
            [1.0, 0.0],
            ["bm25 counts 0.5 times as much: z is low", "bm25 counts 1.5 times as much: z is high"],
        ),
        ([1.0, 1.0], [2.0, 0.0], ["bm25 does not count: z is low", "bm25 counts 2 times as much: z is high"]),
        (
            [0.0, 1.0],
            [2.0, 0.0],
            ["bm25 counts against documents, only here: z is low", "bm25 counts only here: z is high"],
        ),
        (
            [1.0, 1.0],
            [-8.0, 0.0],
            ["bm25 counts 5 times as much: z is low", "bm25 counts against documents, not for them: z is high"],
        ),
        ([0.0, 0.0], [0.0, 0.0], ["about the same weights"] * 2),
    ],
)
def test_reasons_word_zero_negative_and_equal_weights(base, changes, expected):
    assert list(reasons_of(base, changes, [0.0, 1.0])) == expected


def test_typical_queries_have_typical_weights():
    assert reasons_of([1.0, 1.0], [3.0, 0.0], [0.5]) == ("about the same weights",)
    assert reasons_of([1.0, 1.0], [1.0, 0.0], [1.0], (True,)) == ("bm25 counts 1.5 times as much: z is yes",)


def test_context_that_varies_within_a_query_is_refused(reasoned):
    queries = made_up_queries(1)
    X = queries.X.copy()
    X[11, 3] += 1
    varied = queries.with_features(X, NAMES)
    with pytest.raises(DataError, match="length differs between documents of query 1, so that they have weights of th"):
        reasoned.query_weights(varied)
    order = np.random.default_rng(0).permutation(len(X))
    mixed = Queries.from_arrays(X[order], qid=_qid(queries)[order], feature_names=NAMES)
    with pytest.raises(DataError, match="length differs between documents of query 1"):
        reasoned.query_weights(mixed)


def test_damaged_forms_are_refused():
    form = Adaptive(context=["is_code"]).learn(made_up_queries())
    for change in ({"adaptive.context": np.array([9])}, {"adaptive.options": np.array([-1.0, 0.0])}):
        with pytest.raises(ValueError, match=r"context"):
            AdaptiveForm.from_arrays({**form.arrays(), **change}, 4)


def test_contributions_add_up_to_the_score():
    train = made_up_queries()
    ranker = Ranker("svmmap", scorer=Adaptive(context=["is_code"])).fit(train)
    scores = ranker.predict(train)
    for query in range(3):
        rows = slice(*train.offsets[query : query + 2])
        (term,) = ranker.form_.terms(ranker.coef_)
        contributions = ranker.model_.function.explain(train.X[rows])
        np.testing.assert_allclose(contributions.sum(axis=1), scores[rows] - scores[rows].mean(), atol=1e-9)
        assert (contributions[:, 2] == 0).all()
        assert term.kind == "adaptive"


def test_linear_and_adaptive_are_tried_by_tune():
    from marginrank import tune

    train = made_up_queries(n_queries=60)
    grid = {"scorer": [Linear(), Adaptive(context=["is_code", "length"])]}
    selection = tune(Ranker("svmmap"), train, grid=grid, Cs=[1.0, 10.0])
    assert selection.ranker.form_.kind == "adaptive"
