"""Features that have moved since training."""

from __future__ import annotations

import numpy as np
import pytest

from marginrank import Queries, Ranker, load, tune
from marginrank.distributed import DistributedQueries
from marginrank.errors import DataError
from marginrank.model import feature_quantiles
from marginrank.model.file_format import read_model, write_model

NAMES = ("bm25", "clicks", "age", "constant")


def judged(seed, n_queries=60, n_documents=10, names=NAMES, shift=0.0, missing=0.0):
    """Documents of a query are alike in the second feature; the fourth is constant."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    X = rng.standard_normal((n, 4))
    X[:, 1] = np.repeat(rng.standard_normal(n_queries), n_documents) + 0.1 * X[:, 1]
    X[:, 3] = 1.0
    y = X[:, 0] + 0.5 * X[:, 2] + rng.standard_normal(n) > 1
    X[:, 0] += shift
    X[rng.random(n) < missing, 2] = np.nan
    ids = [f"dök {number}" for number in range(n)]
    qid = [f"q{number}" for number in np.arange(n) // n_documents]
    return Queries.from_arrays(X, y, qid=qid, document_ids=ids, feature_names=names, allow_nan=True)


@pytest.fixture(scope="module")
def model():
    return Ranker("svmmap").fit(judged(0)).model_


def moved(drift):
    return {one.feature: one.change for one in drift.moved}


def test_quantiles_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    X = np.stack([rng.standard_normal(500), rng.integers(0, 3, 500), np.full(500, 7.0)], axis=1)
    X[rng.random(500) < 0.2, 0] = np.nan
    quantiles = feature_quantiles(Queries.from_arrays(X, group=[500], allow_nan=True))
    for feature, column in enumerate(X.T):
        present = column[~np.isnan(column)]
        expected = np.quantile(present, np.linspace(0, 1, 33), method="inverted_cdf")
        np.testing.assert_array_equal(quantiles.values[feature], expected)
        for at, value in enumerate(expected):
            assert quantiles.at_most[feature, at] == pytest.approx(np.mean(column <= value), abs=1e-7)
            assert quantiles.below[feature, at] == pytest.approx(np.mean(column < value), abs=1e-7)
    assert quantiles.missing.tolist() == pytest.approx([np.isnan(X[:, 0]).mean(), 0.0, 0.0], abs=1e-7)


def test_the_distance_is_that_of_kolmogorov_and_smirnov(model):
    from scipy.stats import ks_2samp

    later = judged(5, shift=0.5)
    for number, name in enumerate(NAMES):
        expected = ks_2samp(judged(0).X[:, number], later.X[:, number]).statistic
        (one,) = (one for one in model.drift(later).features if one.feature == name)
        # It is looked for at 33 values, between which the distribution function of training rises by 1/32.
        assert expected - 1 / 32 <= one.distance <= expected + 1e-6


def test_what_has_not_moved_is_not_called_moved(model):
    for seed in range(5):
        found = model.drift(judged(10 + seed))
        assert found.moved == ()
        assert found.verdict == "0 of 4 features moved"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda X: X - [-1.0, 0, 0, 0], {"bm25": "larger"}),
        (lambda X: X - [0, 0, 1.0, 0], {"age": "smaller"}),
        (lambda X: X * [3.0, 1, 1, 1], {"bm25": "wider"}),
        (lambda X: X * [0.2, 1, 1, 1], {"bm25": "narrower"}),
        (lambda X: X - [0, 0, 0, -0.5], {"constant": "larger"}),
        (lambda X: X - [0, 0, 0, 0.5], {"constant": "smaller"}),
        (lambda X: X * [0, 1, 1, 1], {"bm25": "narrower"}),
    ],
)
def test_what_has_moved_is_named_with_how(model, change, expected):
    later = judged(3)
    assert moved(model.drift(later.with_features(change(later.X), NAMES))) == expected


def test_missing_values_are_a_move_too_even_where_the_model_takes_none(model):
    found = model.drift(judged(3, missing=0.3))
    assert moved(found) == {"age": "missing more often"}
    (one,) = found.moved
    assert (one.missing_before, one.score_change, found.first_changed) == (0.0, None, None)
    assert one.missing_now == pytest.approx(0.3, abs=0.05)
    takes = Ranker("svmmap", scorer="additive(bins=8)").fit(judged(0, missing=0.5)).model_
    assert moved(takes.drift(judged(3))) == {"age": "missing less often"}
    assert takes.drift(judged(3)).moved[0].score_change is not None


def test_scores_say_what_a_move_does(model):
    # A constant added to a feature changes no differences; values that are twice as far apart change many.
    shifted, stretched = judged(3, shift=2.0), judged(3)
    stretched = stretched.with_features(stretched.X * [4.0, 1, 1, 1], NAMES)
    small, large = model.drift(shifted), model.drift(stretched)
    assert small.moved[0].feature == large.moved[0].feature == "bm25"
    assert small.score_change < 0.2 < large.score_change
    assert small.first_changed < large.first_changed


def test_the_effect_of_a_known_move_is_computed_by_hand():
    """Scores are the first feature times a weight: moving 0, 1, ... 9 in each query to ten times that."""
    X = np.tile(np.arange(10.0), 40)[:, None]
    trained = Ranker("regression", scaling=None).fit(X, X[:, 0] > 4, group=[10] * 40).model_
    found = trained.drift(Queries.from_arrays(10 * X, group=[10] * 40))
    # Mapped back, values are within 1/32 of the range of what they were: scores are a tenth, and 90% is change.
    assert found.moved[0].score_change == pytest.approx(0.9, abs=0.01)
    assert found.first_changed == 0.0


def test_few_queries_raise_no_alarm_and_say_so(model):
    one = judged(3, shift=50.0)[[0]]
    found = model.drift(one)
    assert (found.enough, found.moved) == (False, ())
    assert found.verdict == "1 query: too few to tell a move from noise; give at least 20"
    assert found.features[0].feature == "bm25"
    assert found.features[0].distance == pytest.approx(1.0, abs=0.05)
    document = Queries.from_arrays(one.X[:1], group=[1], feature_names=NAMES)
    assert model.drift(document).verdict.startswith("1 query: too few")


def test_a_feature_that_is_the_same_for_all_documents_of_a_query_has_more_noise(model):
    noise = {one.feature: one.noise for one in model.drift(judged(3)).features}
    assert noise["clicks"] > 1.5 * noise["bm25"]
    assert noise["constant"] == 0.0


def test_columns_go_by_name_and_others_do_not_matter(model):
    later = judged(3, shift=1.0)
    expected = model.drift(later)
    order = [2, 0, 3, 1]
    shuffled = later.with_features(
        np.hstack([later.X[:, order], later.X[:, :1]]), [*(NAMES[at] for at in order), "another"]
    )
    found = model.drift(shuffled)
    assert [one.feature for one in found.features] == [one.feature for one in expected.features]
    for ours, theirs in zip(found.features, expected.features, strict=True):
        assert (ours.distance, ours.noise) == pytest.approx((theirs.distance, theirs.noise), abs=1e-12)
    assert found.score_change == pytest.approx(expected.score_change)
    with pytest.raises(DataError, match="there is no feature 'age', which the model was trained on; give it"):
        model.drift(later.with_features(later.X[:, :2], NAMES[:2]))
    with pytest.raises(DataError, match="X has 2 features but the model was trained on 4"):
        model.drift(Queries.from_arrays(later.X[:, :2], group=[600]))
    with pytest.raises(DataError, match="there are no documents"):
        model.drift(Queries.from_arrays(later.X[:0], group=[], feature_names=NAMES))
    with pytest.raises(ValueError, match="threshold is 2; a distance is between 0 and 1"):
        model.drift(later, threshold=2)


def test_the_order_of_documents_does_not_matter(model):
    later = judged(3, shift=0.3)
    rows = np.random.default_rng(0).permutation(later.n_documents)
    qid = np.repeat(later.query_ids, later.lengths)
    mixed = Queries.from_arrays(later.X[rows], qid=qid[rows], feature_names=NAMES)
    ours, theirs = (model.drift(part) for part in (later, mixed))
    for figure in ("distance", "noise", "score_change"):
        found, expected = ({one.feature: getattr(one, figure) for one in drift.features} for drift in (ours, theirs))
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("make", [lambda later: later.X, lambda later: DistributedQueries.from_queries(later, 2)])
def test_what_is_not_queries_is_refused_with_the_way_to_make_them(model, make):
    with pytest.raises(TypeError, match=r"make them with read\(files\), from_frame"):
        model.drift(make(judged(3)))


def test_numbers_in_another_precision_are_the_same_numbers():
    X = np.random.default_rng(0).choice([0.1, 0.2, 0.7], (400, 1))
    model = Ranker("svmmap").fit(X.astype(np.float32), X[:, 0] > 0.5, group=[10] * 40).model_
    assert model.drift(Queries.from_arrays(X, group=[10] * 40)).features[0].distance == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    "train",
    [
        lambda queries: Ranker("svmmap").fit(queries),
        lambda queries: Ranker("rankboost@5").fit(queries),
        lambda queries: Ranker("svmmap").fit_path(queries, Cs=[1.0, 10.0])[1],
        lambda queries: tune(Ranker("svmmap"), queries, folds=2, Cs=[1.0]).ranker,
        lambda queries: Ranker("svmmap").partial_fit(queries),
        lambda queries: Ranker("svmmap").partial_fit(queries).partial_fit(judged(9, shift=9.0)),
    ],
    ids=["fit", "baseline", "fit_path", "tune", "partial_fit", "a second batch"],
)
def test_every_way_to_train_keeps_quantiles_and_files_hold_them(train, tmp_path):
    train(judged(0)).save(tmp_path / "m.safetensors")
    kept = load(tmp_path / "m.safetensors").model_.quantiles
    expected = feature_quantiles(judged(0))
    np.testing.assert_array_equal(kept.values, expected.values)
    np.testing.assert_array_equal(kept.below, expected.below)
    assert kept.n_queries == 60


@pytest.mark.parametrize("n_documents", [600, 11_000])
def test_partitions_have_the_quantiles_of_one_memory(n_documents):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_documents, 300)).round(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    queries = Queries.from_arrays(X, qid=np.arange(n_documents) // 10, allow_nan=True)
    expected = feature_quantiles(queries)
    for n_partitions in (1, 7):
        found = feature_quantiles(DistributedQueries.from_queries(queries, n_partitions))
        for name, array in expected.arrays().items():
            np.testing.assert_array_equal(found.arrays()[name], array, err_msg=name)
    model = Ranker("svmmap").fit(DistributedQueries.from_queries(judged(0), 3)).model_
    np.testing.assert_array_equal(model.quantiles.values, feature_quantiles(judged(0)).values)
    assert model.drift(judged(0)).moved == ()


def test_models_without_quantiles_say_why(tmp_path):
    from scipy.sparse import csr_array

    sparse = Ranker("svmmap").fit(csr_array(judged(0).X), judged(0).grades, group=[10] * 60)
    assert sparse.model_.quantiles is None
    sparse.save(tmp_path / "m.safetensors")
    with pytest.raises(DataError, match="this model has no quantiles of its features, as it was trained on sparse"):
        load(tmp_path / "m.safetensors").model_.drift(judged(1))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("values", lambda part: part[:, ::-1].copy()),
        ("values", lambda part: part[:2]),
        ("values", lambda part: part.astype(np.float32)),
        ("values", lambda part: part * np.inf),
        ("at_most", lambda part: part + 1),
        ("below", lambda part: part[:, :5].copy()),
        ("n_queries", lambda part: -part - 1),
    ],
)
def test_damaged_quantiles_are_refused(model, tmp_path, name, change):
    model.save(tmp_path / "m.safetensors")
    kind, header, arrays = read_model(tmp_path / "m.safetensors")
    with np.errstate(invalid="ignore"):
        arrays[f"quantiles.{name}"] = change(arrays[f"quantiles.{name}"])
    write_model(tmp_path / "m.safetensors", kind, header, arrays)
    with pytest.raises(DataError, match="contradicts itself"):
        load(tmp_path / "m.safetensors")


def test_results_are_plain_values_tables_and_frames(model):
    found = model.drift(judged(3, shift=1.0))
    record = found.to_dict()
    assert record["features"][0]["feature"] == "bm25"
    assert (record["verdict"], record["enough"]) == ("1 of 4 features moved", True)
    assert found.table(top=0)[1][0] == "bm25"
    assert len(found.table()) == 5
    assert repr(found) == "Drift(1 of 4 features moved; 60 queries, 600 documents)"
    assert "bm25" in found._repr_html_()
    frame = found.to_frame()
    assert frame.loc[frame["moved"], "feature"].tolist() == ["bm25"]
