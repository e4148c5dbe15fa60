from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.errors import DataError
from marginrank.losses import Loss, PairwiseHinge, SoftmaxCrossEntropy, StructuredLoss, SumLoss
from marginrank.training import empirical_risk

LOSSES: list[Loss] = [
    PairwiseHinge(),
    PairwiseHinge(power=2, normalize="none"),
    StructuredLoss("dcg@3", "po"),
    StructuredLoss("dcg", "dorm", bound="tight"),
    StructuredLoss("p@2", "dorm"),
    SoftmaxCrossEntropy(),
    SumLoss((StructuredLoss("dcg@3"), PairwiseHinge()), (1.0, 0.5)),
]


def click_log(seed: int = 0, sizes: tuple[int, ...] = (4, 1, 6, 5)) -> Queries:
    """Clicks: several on one document, several clicked documents in a query, a query without any."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    clicks = rng.integers(0, 3, n) * (rng.random(n) < 0.6)
    clicks[-sizes[-1] :] = 0
    return Queries.from_arrays(
        rng.normal(size=(n, 3)), clicks, group=sizes, query_weights=[1, 2, 3, 1], document_weights=rng.uniform(1, 9, n)
    )


def with_copied_rows(queries: Queries) -> Queries:
    """Return a query with copied rows for every clicked document, which alone is relevant."""
    parts, weights = [], []
    for query in queries:
        for row in np.flatnonzero(query.grades):
            grades = np.zeros(query.n_documents)
            grades[row] = 1.0
            parts.append((query.X, grades))
            weights.append(query.query_weights[0] * query.grades[row] * query.document_weights[row])
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Queries.from_arrays(X, y, group=[len(grades) for _, grades in parts], query_weights=weights)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_weights_are_worth_copies_of_rows(loss: Loss) -> None:
    queries = click_log()
    weighted, copied = empirical_risk(queries, loss), empirical_risk(with_copied_rows(queries), loss)
    rng = np.random.default_rng(1)
    for theta in rng.normal(size=(5, 3)):
        value, gradient = weighted(theta)
        expected, expected_gradient = copied(theta)
        assert value == pytest.approx(expected, abs=1e-12)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-12)
        if loss.smooth:
            move = rng.normal(size=3)
            np.testing.assert_allclose(
                weighted.hessian_product(theta, move), copied.hessian_product(theta, move), atol=1e-12
            )


@pytest.mark.parametrize("loss", [PairwiseHinge(power=2), SoftmaxCrossEntropy()], ids=repr)
def test_the_diagonal_is_that_of_the_hessian(loss: Loss) -> None:
    queries = click_log()
    prepared, scores = loss.prepare(queries), queries.X[:, 0].copy()
    products = np.empty((len(scores), len(scores)))
    for row, unit in enumerate(np.eye(len(scores))):
        prepared.curve(scores, unit, products[row], 0, len(queries))
    np.testing.assert_allclose(prepared.diagonal(scores), np.diag(products), atol=1e-12)


def test_results_do_not_depend_on_threads() -> None:
    queries = click_log(2, (40, 1, 60, 50))
    prepared, scores = StructuredLoss("dcg@10", "dorm").prepare(queries), queries.X[:, 0].copy()
    (xi, gradient), (same_xi, same_gradient) = prepared(scores, n_jobs=1), prepared(scores, n_jobs=2)
    assert xi.tobytes() == same_xi.tobytes()
    assert gradient.tobytes() == same_gradient.tobytes()


def propensity_svm_rank(queries: Queries, C: float) -> float:
    """Minimize ½‖w‖² + C·Σ_i v_i·mean_j max(0, 1 − w·(x_i − x_j)) / Σ_i v_i with cvxpy; return the objective."""
    w, terms, total = cp.Variable(queries.n_features), [], 0.0
    for query in queries:
        for row in np.flatnonzero(query.grades) if query.n_documents > 1 else ():
            others = np.delete(query.X, row, axis=0)
            value = float(query.query_weights[0] * query.grades[row] * query.document_weights[row])
            terms.append(value * cp.sum(cp.pos(1 - (query.X[row] - others) @ w)) / len(others))
            total += value
    return float(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * sum(terms) / total)).solve(solver=cp.CLARABEL))


def test_ranksvm_on_clicks_has_the_optimum_of_cvxpy_and_its_certificate() -> None:
    queries = click_log(3)
    ranker = Ranker(PairwiseHinge(), C=5.0, scaling=None).fit(queries)
    value, _ = empirical_risk(queries, PairwiseHinge())(ranker.coef_)
    objective = 0.5 * float(ranker.coef_ @ ranker.coef_) + 5.0 * value
    best = propensity_svm_rank(queries, 5.0)
    assert best - 1e-6 <= objective <= best + ranker.gap_ + 1e-6
    assert ranker.gap_ <= 0.01 * objective


@pytest.mark.parametrize("method", ["ndcg@10", "svmmap", "rr"])
def test_measures_that_are_no_sums_over_relevant_documents_are_refused(method: str) -> None:
    with pytest.raises(DataError, match=r"is not a sum over relevant documents, .*; train 'ranksvm'"):
        Ranker(method).fit(click_log())


def test_baselines_refuse_document_weights() -> None:
    with pytest.raises(DataError, match="cannot weight documents; train a loss such as 'ranksvm'"):
        Ranker("rankboost").fit(click_log())


@pytest.mark.parametrize("method", ["ranksvm", StructuredLoss("dcg@3"), StructuredLoss("dcg@3", bound="tight")])
def test_a_ranker_is_trained_from_clicks_alone(method: str | Loss) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2))
    clicked = (X[:, 0] > 1).astype(float)
    queries = Queries.from_arrays(X, clicked, group=[10] * 30, document_weights=np.full(300, 4.0))
    ranker = Ranker(method, C=10.0).fit(queries)
    assert ranker.coef_[0] > 2 * abs(ranker.coef_[1])
