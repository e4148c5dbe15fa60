"""Contributions of features: laws over all forms, and Shapley values of trees against the definition."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from marginrank import Queries, Ranker
from marginrank.scorers.boosted.form import BoostedForm, Tree

METHODS = ["svmmap", "rankboost@20", "lambdarank@10", "mcrank@4"]


def judged(grades=3):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((120, 4)).round(1)
    X[:, 3] = 1.0
    hidden = X @ [1.0, -1.0, 0.5, 0.0] + X[:, 0] * X[:, 1] + rng.standard_normal(120)
    return Queries.from_arrays(X, np.digitize(hidden, [0.5, 1.5][: grades - 1]), group=[10] * 12)


def explained_queries():
    return judged()[:5]


@pytest.fixture(scope="module", params=METHODS)
def model(request):
    if request.param.startswith("lambdarank"):
        pytest.importorskip("lightgbm")
    return Ranker(request.param).fit(judged()).model_


@pytest.fixture(scope="module")
def explained(model):
    return model.explain(explained_queries())


def test_rows_sum_to_differences_of_scores(model, explained):
    queries = explained_queries()
    scores = model.score(queries)
    means = np.repeat(scores.reshape(5, 10).mean(axis=1), 10)
    assert explained.sum(axis=1) == pytest.approx(scores - means, abs=1e-9)
    assert model.explain(queries, reference=3).sum(axis=1) == pytest.approx(scores - scores[3], abs=1e-9)


def test_features_that_agree_contribute_nothing(model, explained):
    assert not explained[:, 3].any()
    X = explained_queries().X.copy()
    X[:, 1] = X[7, 1]
    assert model.explain(X, reference=7)[:, 1] == pytest.approx(np.zeros(50), abs=1e-12)


def test_exchanging_documents_turns_the_signs(model, explained):
    some = explained_queries().X[:7]
    forth, back = model.explain(some, reference=2)[5], model.explain(some, reference=5)[2]
    assert forth == pytest.approx(-back, abs=1e-12)
    sums = explained.reshape(5, 10, 4).sum(axis=1)
    assert sums == pytest.approx(np.zeros((5, 4)), abs=1e-9)


def shapley(score, x, reference):
    """The definition: the mean over all orders of what a feature adds when it takes the value of x."""
    n = len(x)
    values = np.zeros(n)
    for feature in range(n):
        others = [one for one in range(n) if one != feature]
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for chosen in combinations(others, size):
                without = reference.copy()
                without[list(chosen)] = x[list(chosen)]
                with_it = without.copy()
                with_it[feature] = x[feature]
                values[feature] += weight * (score(with_it) - score(without))
    return values


def random_tree(rng, depth, n_features):
    rows = []

    def add(level):
        number = len(rows)
        if level == depth or rng.random() < 0.15:
            rows.append([-1, 0.0, 0, 0, rng.standard_normal()])
            return number
        rows.append([rng.integers(n_features), rng.standard_normal(), 0, 0, 0.0])
        rows[number][2:4] = add(level + 1), add(level + 1)
        return number

    add(0)
    return Tree(*np.array(rows, dtype=np.float64).T)


def trees_of(form, theta):
    (trees,) = form.terms(theta)
    return trees


@pytest.mark.parametrize("seed", range(4))
def test_trees_have_shapley_values(seed):
    rng = np.random.default_rng(seed)
    form, theta = BoostedForm.collect([random_tree(rng, 5, 5) for _ in range(6)], [0] * 6, 5)
    trees = trees_of(form, theta)
    X = rng.standard_normal((3, 5))
    wanted = [
        np.mean([shapley(lambda row: form.score(theta, row[None])[0], x, reference) for reference in X], axis=0)
        for x in X
    ]
    assert trees.contributions(X, X) == pytest.approx(np.array(wanted), abs=1e-12)


def test_a_tree_of_two_features_by_hand():
    """The score is 6 where both features exceed 0, else 0: two features that are needed share what they bring."""
    tree = Tree(*map(np.array, ([0, -1, 1, -1, -1], [0.0] * 5, [1, 0, 3, 0, 0], [2, 0, 4, 0, 0], [0, 0, 0, 0, 6.0])))
    trees = trees_of(*BoostedForm.collect([tree], [0], 2))
    X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    assert trees.contributions(X, X[1:2]).tolist() == [[3.0, 3.0], [0.0, 0.0], [0.0, 0.0]]
    assert trees.contributions(X, X[2:3]).tolist() == [[0.0, 6.0], [0.0, 0.0], [0.0, 0.0]]
    assert trees.contributions(X[:1], X[1:]).tolist() == [[1.5, 4.5]]


def test_expected_grades_share_the_difference_of_one_output():
    """Of grades 0 and 1, output log 3 against 0 raises the expected grade from 1/2 to 3/4, all by one feature."""
    stump = Tree(*map(np.array, ([1, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0.0, np.log(3.0)])))
    trees = trees_of(*BoostedForm.collect([stump], [1], 2, np.array([0.0, 1.0])))
    parts = trees.contributions(np.array([[0.0, 1.0]]), np.array([[5.0, 0.0]]))
    assert parts == pytest.approx(np.array([[0.0, 0.25]]), abs=1e-12)


def test_nodes_with_two_parents_are_no_tree():
    stump = Tree(*map(np.array, ([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1.0, 2.0])))
    form, _ = BoostedForm.collect([stump], [0], 1)
    for name, value in (("right", [1, 0, 0]), ("roots", [1])):
        arrays = {**form.arrays(), f"trees.{name}": np.array(value)}
        with pytest.raises(ValueError, match="the nodes of the trees do not fit together"):
            BoostedForm.from_arrays(arrays, 1)
