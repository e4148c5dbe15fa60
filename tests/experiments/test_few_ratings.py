"""The protocol of experiments with few ratings: what is reported has chosen nothing."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

from experiments import few_ratings
from experiments.collaborative import _ridges, deal, item_mean
from marginrank import evaluate
from marginrank.recommend import Ratings


def films(seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random((30, 60)) < 0.6)
    return Ratings.of((pairs[:, 0], pairs[:, 1], rng.integers(1, 6, len(pairs))))


def test_each_half_of_the_users_has_the_parameters_that_are_best_for_the_other():
    options = {"method": few_ratings.MEAN, "n": 10, "seed": 3, "users": None, "most": None, "neutral": 3}
    found = few_ratings.trial(films(), **options)
    train, test = deal(films(), 10, few_ratings.MORE, 3)
    dampings = [one["damping"] for one in few_ratings.methods(3)[few_ratings.MEAN]]
    values = {d: evaluate(test.queries(), item_mean(train, d)(test), "ndcg@10")["ndcg@10"] for d in dampings}
    chosen = [one["damping"] for one in found["chosen"]]
    reported = np.array(found["values"]["ndcg@10"])
    halves = [np.isclose(reported, values[damping], atol=1e-5) for damping in chosen]
    assert (halves[0] | halves[1]).all()
    first = np.random.default_rng(3).permutation(len(reported)) < len(reported) // 2
    for half, damping in ((first, chosen[0]), (~first, chosen[1])):
        np.testing.assert_allclose(reported[half], values[damping][half], atol=1e-5)
        assert damping == max(dampings, key=lambda one: values[one][~half].mean())


def test_each_user_of_als_is_a_ridge_regression():
    train, rng = films(1), np.random.default_rng(2)
    V, left = rng.standard_normal((len(train.items), 3)), rng.standard_normal(train.n_ratings)
    solved = _ridges(V, train.item, left, np.arange(train.n_ratings), train.offsets, 2.0)
    for user in range(len(train.users)):
        rows = train.user == user
        ridge = Ridge(alpha=2.0, fit_intercept=False).fit(V[train.item[rows]], left[rows])
        np.testing.assert_allclose(solved[user], ridge.coef_, atol=1e-10)
