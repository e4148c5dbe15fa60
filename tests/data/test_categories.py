"""Columns of categories become one feature per level, alike in training and ranking."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from marginrank import Ranker, evaluate, from_frame
from marginrank.data import read, write_parquet
from marginrank.errors import DataError

LEVELS = ["de", "en", "fr"]


def columns(n_queries=20, n_documents=5):
    rng = np.random.default_rng(1)
    n = n_queries * n_documents
    language = rng.choice(LEVELS, n)
    return {
        "qid": np.repeat(np.arange(n_queries), n_documents),
        "grade": (language == "en").astype(int) + rng.integers(0, 2, n),
        "bm25": rng.normal(size=n).round(3),
        "language": language.astype(object),
        "age": rng.integers(0, 9, n),
    }


COLUMNS = columns()
FRAME = pd.DataFrame(COLUMNS)
FRAMES = {
    "pandas": FRAME.astype({"language": "category"}),
    "polars": pl.DataFrame(COLUMNS).with_columns(pl.col("language").cast(pl.String).cast(pl.Categorical)),
    "polars enum": pl.DataFrame(COLUMNS).with_columns(pl.col("language").cast(pl.String).cast(pl.Enum(LEVELS))),
    "arrow": pa.table({name: pa.array(values) for name, values in COLUMNS.items()}).set_column(
        3, "language", pa.array(COLUMNS["language"]).dictionary_encode()
    ),
}
NAMES = ("bm25", "language=de", "language=en", "language=fr", "age")
EXPECTED = np.column_stack(
    [COLUMNS["bm25"], *(COLUMNS["language"] == level for level in LEVELS), COLUMNS["age"]]
).astype(float)
every_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=list(FRAMES))
NAMED = ["bm25", "language", "age"]


@every_frame
def test_each_level_becomes_a_feature(frame):
    queries = from_frame(frame, categories="onehot")
    assert queries.feature_names == NAMES
    np.testing.assert_array_equal(queries.X, EXPECTED)


@every_frame
def test_without_the_option_the_way_out_is_named(frame):
    message = r"column 'language' holds categories; encode them with from_frame\(frame, categories='onehot'\), or name"
    with pytest.raises(DataError, match=message):
        from_frame(frame, features=NAMED)


def test_text_is_encoded_if_it_is_named():
    queries = from_frame(FRAME, features=NAMED, categories="onehot")
    np.testing.assert_array_equal(queries.X, EXPECTED)


@every_frame
def test_the_names_of_a_model_encode_the_next_frame_alike(frame):
    queries = from_frame(frame, features=NAMES)
    np.testing.assert_array_equal(queries.X, EXPECTED)


@pytest.mark.parametrize("frame", [FRAMES["pandas"], FRAME, FRAMES["polars"], FRAMES["arrow"]])
def test_a_ranker_encodes_the_frames_that_it_scores(frame):
    ranker = Ranker("ndcg@10", C=1.0).fit(from_frame(FRAMES["pandas"], categories="onehot"))
    rows = frame.select(NAMED) if not isinstance(frame, pd.DataFrame) else frame[NAMED]
    scores = ranker.predict(rows)
    np.testing.assert_allclose(scores, ranker.predict(from_frame(frame, features=NAMES)))
    assert evaluate(from_frame(FRAME, features=NAMES), scores).mean["ndcg@10"] > 0.7
    plain = pd.DataFrame(EXPECTED, columns=list(NAMES))
    np.testing.assert_allclose(scores, ranker.predict(plain))


def test_unknown_and_missing_levels_are_no_level():
    given = {"qid": [1, 1, 1], "bm25": [0.0, 1.0, 2.0], "language": ["it", None, "en"], "age": [1, 2, 3]}
    frame = pd.DataFrame(given)
    for rows in (frame, frame.astype({"language": "category"}), pl.DataFrame(given), pa.table(given)):
        X = from_frame(rows, features=NAMES).X
        assert X[:, 1:4].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert from_frame(frame.astype({"language": "category"}), categories="onehot").feature_names[1:3] == (
        "language=en",
        "language=it",
    )


def test_numbers_as_categories_are_levels():
    frame = FRAME.assign(language=pd.Categorical(COLUMNS["age"]))
    names = from_frame(frame, categories="onehot").feature_names
    assert names[1:10] == tuple(f"language={level}" for level in range(9))
    again = from_frame(FRAME.assign(language=COLUMNS["age"]), features=names)
    np.testing.assert_array_equal(again.X, from_frame(frame, categories="onehot").X)


def test_the_order_of_rows_does_not_matter():
    frame = FRAMES["pandas"].sample(frac=1, random_state=0)
    queries = from_frame(frame, categories="onehot")
    assert queries.feature_names == NAMES
    np.testing.assert_array_equal(queries.X, EXPECTED[frame.index])


def test_encoded_features_go_to_files_by_their_names(tmp_path):
    write_parquet(tmp_path / "encoded.parquet", from_frame(FRAMES["pandas"], categories="onehot"))
    assert read(tmp_path / "encoded.parquet").feature_names == NAMES


def test_many_levels_and_odd_names_are_refused():
    many = FRAME.assign(language=pd.Categorical([f"l{row}" for row in range(len(FRAME))]))
    with pytest.raises(DataError, match="column 'language' has 100 categories, and at most 20 are encoded; merge the"):
        from_frame(many, categories="onehot")
    with pytest.raises(
        DataError, match="column 'a=b' holds categories and has '=' in its name; rename it to encode it"
    ):
        from_frame(FRAMES["pandas"].rename(columns={"language": "a=b"}), categories="onehot")
    with pytest.raises(ValueError, match="categories is 'ordinal'; choose 'error' or 'onehot'"):
        from_frame(FRAMES["pandas"], categories="ordinal")
    with pytest.raises(DataError, match="no column 'country=de'"):
        from_frame(FRAME, features=["bm25", "country=de"])


def test_fit_refuses_categories_even_of_numbers():
    frame = FRAME[["bm25", "age"]].astype({"age": "category"})
    with pytest.raises(
        DataError, match=r"column 'age' of X holds categories; .* from_frame\(frame, categories='onehot'"
    ):
        Ranker("ndcg@10", C=1.0).fit(frame, FRAME["grade"], qid=FRAME["qid"])
