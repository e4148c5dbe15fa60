"""The estimator: every door, new users and items, files, and what it refuses."""

from __future__ import annotations

import warnings
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import marginrank
from marginrank import DataError, Queries, Recommender
from marginrank.errors import TrainingDataWarning
from marginrank.losses import StructuredLoss
from marginrank.methods.presets import loss_for
from marginrank.model.file_format import read_model, write_model
from marginrank.recommend import Ratings


def tastes(n_users=40, n_items=15, seed=0, share=0.6):
    """Ratings 1 to 5 that follow two hidden tastes and the quality of items, in shuffled rows."""
    rng = np.random.default_rng(seed)
    users, items = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
    scores = users @ items.T + rng.standard_normal(n_items) + 0.3 * rng.standard_normal((n_users, n_items))
    grades = np.clip(np.rint(3 + 1.2 * scores), 1, 5)
    pairs = rng.permutation(np.argwhere(rng.random((n_users, n_items)) < share))
    return pairs[:, 0], pairs[:, 1], grades[pairs[:, 0], pairs[:, 1]]


USERS, ITEMS, RATINGS = tastes()
NAMES = np.array([f"user {number:02d}" for number in range(40)])
TITLES = np.array([f"item {number:02d}" for number in range(15)])
SMALL = {"factors": 3, "history": 2, "max_iter": 5, "C": 0.5}


@pytest.fixture(scope="module")
def fitted():
    return Recommender(**SMALL).fit((USERS, ITEMS, RATINGS))


def frame(library=pd):
    return library.DataFrame({"item": TITLES[ITEMS], "rating": RATINGS, "user": NAMES[USERS]})


DOORS = {
    "arrays": lambda: (USERS, ITEMS, RATINGS),
    "lists": lambda: (USERS.tolist(), ITEMS.tolist(), RATINGS.tolist()),
    "shuffled": lambda: tuple(column[::-1] for column in (USERS, ITEMS, RATINGS)),
    "weights": lambda: (USERS, ITEMS, RATINGS, np.full(len(USERS), 2.0)),
    "text": lambda: (NAMES[USERS], TITLES[ITEMS], RATINGS),
    "pandas": frame,
    "polars": lambda: frame(pl),
    "lazy": lambda: frame(pl).lazy(),
    "arrow": lambda: pa.table(frame()),
    "nullable": lambda: frame().convert_dtypes(),
    "categories": lambda: frame().astype({"item": "category"}),
    "series": lambda: tuple(frame().sample(frac=1, random_state=0)[name] for name in ("user", "item", "rating")),
    "sparse": lambda: sp.csr_array((RATINGS, (USERS, ITEMS))),
    "queries": lambda: Queries.from_arrays(np.zeros((len(USERS), 0)), RATINGS, qid=USERS, document_ids=ITEMS),
    "ratings": lambda: Ratings.of((USERS, ITEMS, RATINGS)),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_leads_to_the_same_model(fitted, door):
    other = Recommender(**SMALL).fit(DOORS[door]())
    assert np.array_equal(other.item_factors_, fitted.item_factors_)
    assert np.array_equal(other.user_factors_, fitted.user_factors_)
    names = other.user_ids_.dtype.kind == "U"
    assert (other.user_ids_.tolist(), other.item_ids_.tolist()) == (
        (NAMES.tolist(), TITLES.tolist()) if names else (list(range(40)), list(range(15)))
    )
    scores = other.predict((NAMES[:5], TITLES[:5]) if names else (np.arange(5), np.arange(5)))
    assert np.array_equal(scores, fitted.predict((np.arange(5), np.arange(5))))


def test_columns_of_a_frame_are_named(fitted):
    renamed = frame().rename(columns={"user": "who", "item": "what", "rating": "stars"})
    other = Recommender(**SMALL).fit(renamed, user="who", item="what", rating="stars")
    assert np.array_equal(other.item_factors_, fitted.item_factors_)
    with pytest.raises(DataError, match="no column of users; name it with user=; the columns are 'what', 'stars'"):
        Recommender().fit(renamed[["what", "stars"]])


@pytest.mark.parametrize("loss", [None, "dorm-ndcg", "listnet", StructuredLoss("ndcg@5", "po")], ids=str)
def test_results_do_not_depend_on_threads(loss):
    few = {**SMALL, "max_iter": 2, "solver": "auto(tol=1e-3,max_iter=10)"}
    one, two = (Recommender(**few, loss=loss, n_jobs=n).fit((USERS, ITEMS, RATINGS)) for n in (1, 2))
    assert np.array_equal(one.predict((USERS, ITEMS)), two.predict((USERS, ITEMS)))
    assert [step.objective for step in one.trace_] == [step.objective for step in two.trace_]


def test_held_out_ratings_are_ranked_better_than_by_the_mean_of_items():
    users, items, ratings = tastes(200, 40, seed=3, share=0.5)
    held_out = np.arange(len(users)) % 3 == 0
    train, test = ((users[part], items[part], ratings[part]) for part in (~held_out, held_out))
    trained = Recommender(factors=4, C=1.0).fit(train)
    means = np.bincount(train[1], train[2]) / np.bincount(train[1])
    plain = Ratings.of((test[0], test[1], test[2]))
    by_mean = marginrank.evaluate(plain.queries(), means[plain.item], "ndcg@10").mean["ndcg@10"]
    assert trained.score(test) > by_mean + 0.05
    assert trained.evaluate(test).mean["ndcg@10"] == pytest.approx(trained.score(test))


def test_the_default_loss_is_the_regression_on_the_gains_of_the_measure(fitted):
    assert fitted.loss_.gain == "exp2"
    assert fitted.loss_.unit == pytest.approx((2.0**RATINGS - 1).std(), rel=1e-5)
    assert len(str(fitted.loss_.unit)) <= 8  # as people read it
    linear = Recommender("ndcg(gain=linear)", **SMALL).fit((USERS, ITEMS, RATINGS))
    assert linear.loss_.gain == "linear"
    assert Recommender("ap", **SMALL).fit((USERS, ITEMS, RATINGS >= 4)).loss_ == loss_for("ap")


def test_recommendations_are_the_best_unseen_items(fitted):
    for user in (0, 7, 39):
        seen = set(ITEMS[user == USERS].tolist())
        scores = fitted.predict((np.full(15, user), np.arange(15)))
        best = [int(item) for item in np.argsort(-scores, kind="stable")]
        assert [one.item for one in fitted.recommend(user, k=3)] == [item for item in best if item not in seen][:3]
        assert [one.item for one in fitted.recommend(user, k=3, exclude_seen=False)] == best[:3]
        assert len(fitted.recommend(user, k=100)) == 15 - len(seen)
        assert [one.score for one in fitted.recommend(user, k=3, exclude_seen=False)] == scores[best[:3]].tolist()
    assert fitted.recommend_to([0, 7, 39]) == [fitted.recommend(user) for user in (0, 7, 39)]
    unseen = 15 - np.bincount(USERS)
    assert [len(one) for one in fitted.recommend_to(k=2)] == np.minimum(unseen, 2).tolist()


def test_new_users_and_items_have_a_defined_score(fitted):
    alone = fitted.predict((np.full(15, 99), np.arange(15)))
    np.testing.assert_allclose(alone, fitted.item_bias_)
    best = int(np.argmax(fitted.item_bias_))
    assert fitted.recommend(99, k=1)[0].item == best
    new = fitted.predict(([0, 0], [98, 99]))
    assert new[0] == new[1]
    assert np.isfinite(new).all()
    assert fitted.predict(([99], [99]))[0] < fitted.item_bias_.max()


def test_similar_items_have_similar_tastes(fitted):
    found = fitted.similar(3, k=14)
    tastes = fitted.model_.tastes
    cosines = tastes @ tastes[3] / np.linalg.norm(tastes, axis=1) / np.linalg.norm(tastes[3])
    assert [one.item for one in found] == [item for item in np.argsort(-cosines).tolist() if item != 3]
    assert [one.score for one in found] == pytest.approx(np.sort(np.delete(cosines, 3))[::-1].tolist())
    with pytest.raises(KeyError, match="item 99 was not trained on"):
        fitted.similar(99)


@pytest.mark.parametrize("loss", [None, "ranksvm"])
def test_a_user_folded_in_gets_what_training_would_give(loss):
    trained = Recommender(**{**SMALL, "max_iter": 1}, loss=loss, solver="auto(tol=1e-9,max_iter=30)").fit(
        (USERS, ITEMS, RATINGS)
    )
    some = USERS < 5
    more = trained.fold_in((USERS[some] + 100, ITEMS[some], RATINGS[some]))
    # One more user step from the trained factors is the optimum for the items; folding in starts from 0.
    again = trained.fold_in((USERS[some], ITEMS[some], RATINGS[some]))
    assert len(more.user_ids_) == 45
    assert len(again.user_ids_) == 40
    every = np.repeat(np.arange(5), 15), np.tile(np.arange(15), 5)
    scores = more.predict((every[0] + 100, every[1]))
    np.testing.assert_allclose(scores, again.predict(every), atol=1e-9)
    for user in range(5):
        assert [one.item for one in more.recommend(user + 100)] == [one.item for one in again.recommend(user)]
    untouched = np.full(15, 30), np.arange(15)
    assert np.array_equal(more.predict(untouched), trained.predict(untouched))
    assert len(trained.user_ids_) == 40


def test_folding_in_leaves_out_new_items(fitted):
    plain = fitted.fold_in(([99, 99], [1, 2], [5, 1]))
    assert np.array_equal(
        fitted.fold_in(([99, 99, 99], [1, 77, 2], [5, 3, 1])).predict(([99], [4])), plain.predict(([99], [4]))
    )
    with pytest.raises(DataError, match="none of the items was trained on"):
        fitted.fold_in(([99], [77], [5]))


def test_partial_fit_goes_on_with_new_users_and_items():
    early, late = USERS < 30, USERS >= 30
    first = Recommender(**SMALL).partial_fit((USERS[early], ITEMS[early], RATINGS[early]))
    before = first.predict((np.arange(10), np.arange(10)))
    first.partial_fit((np.r_[USERS[late], 50], np.r_[ITEMS[late], 20], np.r_[RATINGS[late], 4]))
    assert len(first.user_ids_) == 41
    assert first.item_ids_.tolist() == [*range(15), 20]
    objectives = [step.objective for step in first.trace_]
    assert objectives == sorted(objectives, reverse=True)
    assert first.model_.seen.n_ratings == len(USERS) + 1
    assert np.corrcoef(before, first.predict((np.arange(10), np.arange(10))))[0, 1] > 0.8
    changed = first.model_.seen.updated(Ratings.of(([50], [20], [1])))
    assert changed.n_ratings == len(USERS) + 1
    assert changed.values[-1] == 1.0


def test_side_features_make_cold_items_and_users_known():
    rng = np.random.default_rng(1)
    kind = np.arange(20) % 2
    users, items = np.repeat(np.arange(30), 16), np.tile(np.arange(16), 30)
    likes = np.where(users % 2 == kind[items], 5, 1)
    keep = rng.random(len(users)) < 0.7
    genres = np.column_stack([kind, 1 - kind])
    people = np.arange(32), np.column_stack([np.arange(32) % 2])
    trained = Recommender(factors=2, history=0, C=1.0).fit(
        (users[keep], items[keep], likes[keep]), item_features=(np.arange(20), genres), user_features=people
    )
    assert trained.item_ids_.tolist() == list(range(20))
    assert {one.item % 2 for one in trained.recommend(0, k=2)} == {0}
    scores = trained.predict((np.full(4, 1), np.arange(16, 20)))
    assert (scores[1::2] > scores[::2]).all()
    warm = trained.predict((np.full(16, 30), np.arange(16)))
    assert warm[::2].mean() > warm[1::2].mean()


@pytest.mark.parametrize(
    ("negatives", "measure"), [("all", "ap"), (3, "auc"), ("all", "rr"), (2, "p@3"), ("all", "ndcg@10")]
)
def test_implicit_feedback_needs_no_ratings(negatives, measure):
    users, items, ratings = tastes(60, 20, seed=5)
    liked, last = ratings >= 4, np.arange(len(users)) % 4 == 0
    chosen, held_out = ((users[part], items[part]) for part in (liked & ~last, liked & last))
    few = {**SMALL, "max_iter": 2, "C": 0.2, "solver": "auto(tol=1e-3,max_iter=10)"}
    trained = Recommender(measure, negatives=negatives, **few).fit(chosen)
    assert trained.trace_[-1].objective < trained.trace_[0].objective
    assert trained.evaluate(held_out, ["auc"]).mean["auc"] > 0.65
    # Among held-out items alone, all are relevant.
    assert trained.evaluate(held_out, ["auc"], among="rated").counted("auc") == 0


def test_ratings_that_implicit_feedback_ignores_are_told():
    users, items, ratings = tastes(20, 10, seed=5)
    few = {**SMALL, "max_iter": 1, "negatives": "all"}
    with pytest.warns(UserWarning, match="every pair counts as relevant") as told:
        Recommender(**few).fit((users, items, ratings))
    assert told[0].filename == __file__
    Recommender(**few).fit((users, items, np.full(len(users), 5)))


def test_a_file_holds_the_whole_recommender(fitted, tmp_path):
    named = Recommender(**{**SMALL, "max_iter": 1}, loss="dorm-ndcg").fit(
        frame(), item_features=(TITLES, np.eye(15)[:, :2])
    )
    for recommender in (fitted, named):
        path = tmp_path / "model.safetensors"
        recommender.save(path)
        again = Recommender.load(path)
        assert again.get_params() == recommender.get_params()
        pairs = recommender.user_ids_[:15], recommender.item_ids_
        assert np.array_equal(again.predict(pairs), recommender.predict(pairs))
        user, item = recommender.user_ids_[3].item(), recommender.item_ids_[2].item()
        assert again.recommend(user) == recommender.recommend(user)
        assert again.similar(item) == recommender.similar(item)
        assert again.trace_ == recommender.trace_
        new = [recommender.user_ids_[0]] * 2, recommender.item_ids_[:2], [5, 1]
        assert np.array_equal(again.fold_in(new).predict(pairs), recommender.fold_in(new).predict(pairs))
        assert again.partial_fit(new).objective_ == recommender.partial_fit(new).objective_
    with pytest.raises(FileExistsError):
        named.save(path, overwrite=False)
    with pytest.raises(DataError):
        marginrank.load(path)


def test_only_its_owner_reads_a_new_file_and_others_where_they_could(fitted, tmp_path):
    path = tmp_path / "model.safetensors"
    for before, after in ((None, 0o600), (0o644, 0o644), (0o600, 0o600)):
        if before is not None:
            path.chmod(before)
        fitted.save(path)
        assert path.stat().st_mode & 0o777 == after


@pytest.mark.parametrize(
    "change",
    [
        lambda _, arrays: arrays.pop("factors.items"),
        lambda _, arrays: arrays.update({"factors.items": arrays["factors.items"][:-1]}),
        lambda _, arrays: arrays["factors.users"].__setitem__((0, 0), np.nan),
        lambda _, arrays: arrays["seen.item"].__setitem__(0, 99),
        lambda _, arrays: arrays["seen.offsets"].__setitem__(1, -4),
        lambda _, arrays: arrays.update({"users": arrays["users"][::-1].copy()}),
        lambda _, arrays: arrays.update({"trace": np.zeros((0, 4))}),
        lambda header, _: header.update(ratings=3),
        lambda header, _: header.update(C=-1.0),
        lambda header, _: header.update(loss=None),
        lambda header, _: header["parameters"].update(factors="many"),
        lambda header, _: header["parameters"].update(color="red"),
    ],
)
def test_files_that_contradict_themselves_are_refused(fitted, tmp_path, change):
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    _, header, arrays = read_model(path)
    change(header, arrays)
    write_model(path, "recommender", header, arrays)
    with pytest.raises(DataError, match=r"model\.safetensors"):
        Recommender.load(path)


def test_models_of_something_else_are_refused(fitted, tmp_path):
    path = tmp_path / "other.safetensors"
    write_model(path, "ranker", {}, {"theta": np.zeros(2)})
    with pytest.raises(DataError, match="not a recommender"):
        Recommender.load(path)


MISTAKES = [
    (lambda: ([1, 1], [2, 2], [3, 4]), "user 1 rated item 2 more than once; keep one rating"),
    (lambda: ([1, 2], [7, 7], [3, 4]), "there is only one item, 7"),
    (lambda: ([1, 1], [2, 3], [np.nan, 4]), "rating 0 is nan; leave out"),
    (lambda: ([1, 1], [2, 3], [-2.5, 4]), "rating 0 is -2.5, .* pass shift=2.5"),
    (lambda: ([1, "a"], [2, 3], [1, 4]), r"user ids are text \('a'\) and numbers \(1\)"),
    (lambda: ([1, 1], ["x", 3], [1, 4]), r"item ids are text \('x'\) and numbers \(3\)"),
    (lambda: ([1, None], [2, 3], [1, 4]), "the user id of rating 1 is missing"),
    (lambda: ([1.0, np.nan], [2, 3], [1, 4]), "the user id of rating 1 is missing"),
    (lambda: ([1.5, 2.0], [2, 3], [1, 4]), "the user id of rating 0 is 1.5; ids are whole numbers or text"),
    (lambda: ([1, 1], [2, 3], ["good", "bad"]), "ratings are not numbers"),
    (lambda: ([1, 1], [2, 3], [4]), "there are 2 users, 2 items, 1 ratings"),
    (lambda: ([], [], []), "there are no ratings"),
    (lambda: ([1, 1], [2, 3], [3, 3]), "every user gives the same rating to all items"),
    (lambda: ([1, 1], [2, 3], [3, 4], [1, 2]), "user 1 has ratings of different weight"),
    (lambda: ([1, 1], [2, 3], [3, 4], [0, 0]), "all weights are 0"),
    (lambda: ([1, 1], [2, 3], [3, 4], ["a", "b"]), "weights are not numbers"),
    (lambda: Queries.from_arrays([[1.0]], [1], group=[1]), "no document_ids"),
    (lambda: ([UUID(int=1), UUID(int=2)], [2, 3], [1, 4]), "user ids have the type UUID; ids are whole numbers or"),
    (lambda: ([2**70, 1], [2, 3], [1, 4]), "user ids are beyond 64 bits; make the ids text"),
    (lambda: ([1, 1], [2, 3], [1, 1000]), r"2\^r - 1 of ratings up to 1000 are too large; use linear gains"),
    (lambda: pd.DataFrame([[1, 2, 3, 3]], columns=["user", "item", "rating", "rating"]), "columns .* the same name"),
    (lambda: frame()[:0], "there are no ratings"),
    (lambda: sp.coo_array(([3, 4], ([1, 1], [2, 2]))), "user 1 rated item 2 more than once"),
]


@pytest.mark.parametrize(("ratings", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_bad_ratings_get_a_clear_answer(ratings, message):
    with pytest.raises(DataError, match=message):
        Recommender().fit(ratings())


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        (lambda: [(1, 2, 3), (1, 3, 4), (2, 2, 1)], r"list of rows; give columns: tuple\(zip\(\*rows\)\)"),
        (lambda: ((user for user in USERS), ITEMS, RATINGS), "users are a generator; give a list or an array"),
        (lambda: (1, 2, 3), "users are a int; give a list or an array"),
        (dict, "ratings are a dict; give a frame"),
        (lambda: np.zeros((3, 4)), "ratings are a ndarray; give a frame"),
    ],
)
def test_what_holds_no_columns_is_refused(fitted, ratings, message):
    for take in (Recommender().fit, fitted.predict, fitted.evaluate, fitted.fold_in):
        with pytest.raises(TypeError, match=message):
            take(ratings())


@pytest.mark.parametrize(
    "wrong",
    [
        {"tol": -1.0},
        {"tol": float("nan")},
        {"item_bias": "yes"},
        {"popularity": "no"},
        {"column_length": 0.0},
        {"factors": 2.0},
        {"history": -1},
        {"shift": float("inf")},
    ],
    ids=str,
)
def test_wrong_parameters_are_named_with_their_value(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}"):
        Recommender(**wrong).fit((USERS, ITEMS, RATINGS))


def test_zeros_that_a_sparse_matrix_stores_are_ratings():
    stored = sp.csr_array(([4.0, 0.0, 2.0, 5.0], ([0, 0, 1, 1], [0, 2, 0, 1])), shape=(3, 4))
    seen = Ratings.of(stored)
    assert (seen.user.tolist(), seen.item.tolist(), seen.values.tolist()) == ([0, 0, 1, 1], [0, 2, 0, 1], [4, 0, 2, 5])
    assert seen.items.tolist() == [0, 1, 2]


def test_pairs_are_taken_from_whatever_holds_ratings(fitted):
    scores = fitted.predict((USERS, ITEMS))
    assert np.array_equal(fitted.predict((USERS, ITEMS, RATINGS)), scores)
    assert np.array_equal(fitted.predict(pd.DataFrame({"who": USERS, "item": ITEMS}), user="who"), scores)
    rows = np.lexsort((ITEMS, USERS))
    assert np.array_equal(fitted.predict(sp.csr_array((RATINGS, (USERS, ITEMS)))), scores[rows])
    assert fitted.predict(([], [])).shape == (0,)


def test_new_ratings_leave_the_weights_of_other_users_alone():
    old = Ratings.of(([1, 1, 2, 2], [1, 2, 1, 2], [1, 2, 3, 4], [5, 5, 7, 7]))
    both = old.updated(Ratings.of(([2, 3], [3, 1], [1, 1], [2, 4])))
    assert (both.users.tolist(), both.weights.tolist()) == ([1, 2, 3], [5.0, 2.0, 4.0])
    assert old.updated(Ratings.of(([2, 3], [3, 1], [1, 1]))).weights.tolist() == [5.0, 7.0, 1.0]
    plain = Ratings.of(([1, 1], [1, 2], [1, 2]))
    assert plain.updated(Ratings.of(([3, 3], [3, 1], [1, 2], [2, 2]))).weights.tolist() == [1.0, 2.0]
    assert plain.updated(plain).weights is None


def test_the_weight_of_a_user_folded_in_counts_as_in_training():
    few = {**SMALL, "max_iter": 1, "solver": "auto(tol=1e-9,max_iter=30)"}
    plain, heavy = (Recommender(**{**few, "C": C}).fit((USERS, ITEMS, RATINGS)) for C in (0.5, 1.5))
    heavy.model_, heavy.loss_ = plain.model_, plain.loss_
    ratings = [99, 99, 99], [1, 2, 3], [5, 1, 4]
    pairs = np.full(15, 99), np.arange(15)
    np.testing.assert_allclose(
        plain.fold_in((*ratings, [3.0, 3.0, 3.0])).predict(pairs), heavy.fold_in(ratings).predict(pairs), atol=1e-6
    )


def test_columns_have_names_of_their_own_everywhere(fitted):
    names = {"user": "who", "item": "what", "rating": "stars"}
    table = pd.DataFrame({"who": USERS, "what": ITEMS, "stars": RATINGS})
    genres = pd.DataFrame({"what": np.arange(15), "genre": np.arange(15) % 3})
    assert np.array_equal(
        Recommender(**SMALL).fit(table, **names, item_features=genres).item_factors_,
        Recommender(**SMALL)
        .fit((USERS, ITEMS, RATINGS), item_features=(np.arange(15), genres[["genre"]]))
        .item_factors_,
    )
    with pytest.warns(TrainingDataWarning):
        assert fitted.score(table, **names) == fitted.score((USERS, ITEMS, RATINGS))
    new = table[table["who"] < 3]
    assert np.array_equal(
        fitted.fold_in(new, **names).predict((USERS, ITEMS)),
        fitted.fold_in((new["who"], new["what"], new["stars"])).predict((USERS, ITEMS)),
    )
    with pytest.raises(TypeError, match="usr"):
        fitted.fold_in(table, usr="who")


def test_ratings_are_shifted_as_asked():
    low = Recommender(**SMALL, shift=6.0).fit((USERS, ITEMS, RATINGS - 6.0))
    assert np.array_equal(low.item_factors_, Recommender(**SMALL).fit((USERS, ITEMS, RATINGS)).item_factors_)


def test_other_mistakes(fitted):
    with pytest.raises(DataError, match="user ids were numbers in training and are text here"):
        fitted.predict((["a"], [1]))
    with pytest.raises(ValueError, match="not a convex loss"):
        Recommender(loss="lambdarank").fit((USERS, ITEMS, RATINGS))
    with pytest.raises(ValueError, match="factors is 0"):
        Recommender(factors=0).fit((USERS, ITEMS, RATINGS))
    with pytest.raises(ValueError, match="negatives is 0"):
        Recommender("ap", negatives=0).fit((USERS, ITEMS))
    with pytest.raises(DataError, match=r"user ids were numbers in training and are text here \('a'\)"):
        fitted.fold_in((["a", "a"], [1, 2], [5, 1]))
    with pytest.raises(ValueError, match="among is 'all'; choose 'rated' or 'unseen'"):
        fitted.evaluate(([3], [1], [2]), among="all")
    with pytest.raises(DataError, match="item features have no rows"):
        Recommender().fit((USERS, ITEMS, RATINGS), item_features=pd.DataFrame({"item": [], "genre": []}))
    with pytest.raises(DataError, match="more than one row of features"):
        Recommender().fit((USERS, ITEMS, RATINGS), item_features=([1, 1], [[0.0], [1.0]]))
    with pytest.raises(Exception, match="not fitted"):
        Recommender().recommend(1)


def test_users_without_held_out_items_are_not_in_the_mean(fitted):
    unseen = np.setdiff1d(np.unique(ITEMS), ITEMS[USERS == 3])[:2]
    few = fitted.evaluate(([3, 3], unseen, [5, 2]))
    assert few.query_ids.tolist() == [3]


def test_it_is_an_estimator_of_scikit_learn(fitted):
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert not hasattr(copied, "model_")
    assert copied.set_params(factors=2).factors == 2
    assert "factors=3" in repr(fitted)
    assert "40 users" in str(fitted)


def test_ratings_that_were_trained_on_are_noticed():
    users, items = ["a", "a", "b", "b", "c", "c"], ["x", "y", "y", "z", "x", "z"]
    trained = Recommender(factors=1, C=1.0).fit((users, items, [1, 5, 2, 4, 3, 1]))
    with pytest.warns(TrainingDataWarning, match="2 of 3 ratings are among those trained on"):
        trained.evaluate((["c", "a", "c"], ["y", "x", "z"], [1, 2, 3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.evaluate((["c", "d"], ["y", "x"], [1, 2]))
