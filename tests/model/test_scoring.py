"""Light scoring: the same scores as the model, without what training needs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from marginrank import Queries, Ranker
from marginrank.errors import DataError
from marginrank.fusion import Fusion
from marginrank.model import scoring
from marginrank.model.file_format import read_model, write_model
from marginrank.preparation.scaling import SCALINGS
from marginrank.preparation.scaling_formulas import BY_QUERY, LEARNED
from marginrank.scorers.form import _MODULES, all_forms
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import LinearTerm
from tests.export.trained import NAMES, TRAINERS, hard_documents, trained

HEAVY = ("sklearn", "scipy", "numba", "pandas", "narwhals", "typer", "rich", "threadpoolctl", "lightgbm", "torch")


@pytest.mark.parametrize("name", TRAINERS)
def test_scores_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    model = trained(name)
    model.save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    X = hard_documents(name, 2000)
    expected = model.score(X, group=[20] * 100)
    assert light.score(X, group=[20] * 100).tolist() == expected.tolist()


def test_a_ranking_is_of_the_best_and_equal_scores_keep_their_order(tmp_path: Path) -> None:
    trained("steps").save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    X = hard_documents("steps", 50)
    X[7] = X[3]
    rows, scores = light.rerank(X, k=50)
    assert rows.tolist() == sorted(range(50), key=lambda row: -light.score(X)[row])
    assert scores.tolist() == sorted(light.score(X), reverse=True)
    assert light.rerank(X, k=4).rows.tolist() == rows[:4].tolist()
    columns = dict(zip(NAMES, X.T, strict=True))
    assert light.rerank(columns).rows.tolist() == rows.tolist()
    assert light.rerank(X[:0]).rows.tolist() == []


@pytest.mark.parametrize("name", TRAINERS)
def test_explanations_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    model = trained(name)
    model.save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    X = hard_documents(name, 30)
    try:
        expected = model.explain(X, group=[10, 0, 20])
    except TypeError:
        with pytest.raises(TypeError, match="are not made of features"):
            light.explain(X, group=[10, 0, 20])
        return
    parts = light.explain(X, group=[10, 0, 20])
    assert parts.tolist() == expected.tolist()
    np.testing.assert_array_equal(light.explain(X, group=[10, 0, 20], rows=[25, 3]), parts[[25, 3]])
    own = light.score(X, group=[10, 0, 20])[10:]
    np.testing.assert_allclose(parts[10:].sum(axis=1), own - own.mean(), rtol=1e-7, atol=1e-9 * np.abs(own).max())


def gathered(seed: int, *, gaps: float) -> Queries:
    """Two runs of 20 queries whose documents were not all returned by both."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 2)).round(1)
    X[rng.random(200) < gaps, 1] = np.nan
    y = np.nan_to_num(X).sum(axis=1) + rng.standard_normal(200) > 1
    return Queries.from_arrays(X, y, qid=np.arange(200) // 10, feature_names=["bm25", "dense"], allow_nan=True)


@pytest.mark.parametrize(
    ("features", "scorer"),
    [
        ("minmax", "linear"),
        ("percentile+retrieved", "linear"),
        ("rrf", "additive(bins=4)"),
        ("borda", "linear"),
        ("score", "additive(bins=4)"),
    ],
)
def test_fusions_score_runs_as_they_do_after_training(features: str, scorer: str, tmp_path: Path) -> None:
    fusion = Fusion(features, scorer=scorer, Cs=[1.0]).fit(gathered(0, gaps=0.3), folds=2)
    fusion.save(tmp_path / "f.safetensors")
    light, other = scoring.load(tmp_path / "f.safetensors"), gathered(1, gaps=0.3)
    assert light.inputs == ("bm25", "dense")
    assert light.score(other.X, group=[10] * 20).tolist() == fusion.predict(other).tolist()
    columns = {"dense": other.X[:10, 1], "bm25": other.X[:10, 0]}
    assert (
        light.rerank(columns, k=3).rows.tolist() == np.argsort(-fusion.predict(other)[:10], kind="stable")[:3].tolist()
    )
    assert light.score(other.X[:0]).tolist() == []


def test_fusions_of_ranks_take_ranks(tmp_path: Path) -> None:
    ranks = np.tile([[1.0, 5.0], [2.0, 4.0], [3.0, 3.0], [4.0, 2.0], [5.0, 1.0]], (6, 1))
    queries = Queries.from_arrays(ranks, [1, 1, 0, 0, 0] * 6, qid=np.arange(30) // 5, feature_names=["bm25", "dense"])
    fusion = Fusion("rrf", ranks=True, Cs=[1.0]).fit(queries, folds=2)
    fusion.save(tmp_path / "f.safetensors")
    light = scoring.load(tmp_path / "f.safetensors")
    assert light.score(ranks, group=[5] * 6).tolist() == fusion.predict(queries).tolist()
    with pytest.raises(DataError, match="ranks begin at 1"):
        light.score(ranks - 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_columns_of_frames_are_found_by_name(frame: Any, tmp_path: Path) -> None:
    trained("linear").save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    X = hard_documents("linear", 50)
    columns = dict(zip(NAMES, X.T, strict=True))
    turned = frame({"title": ["a text"] * 50, **{name: columns[name] for name in reversed(NAMES)}})
    assert light.score(turned).tolist() == light.score(X).tolist()
    assert light.rerank(turned, k=3).rows.tolist() == light.rerank(X, k=3).rows.tolist()
    with pytest.raises(DataError, match=f"^there is no feature {NAMES[0]!r}; the model needs {NAMES[0]}, "):
        light.score(frame({name: columns[name] for name in NAMES[1:]}))


def test_a_model_without_names_takes_columns_by_position(tmp_path: Path) -> None:
    X, y = np.array([[1.0, 5.0], [0.0, 7.0], [2.0, 6.0], [0.5, 1.0]]), [1, 0, 1, 0]
    ranker = Ranker().fit(X, y, qid=[1, 1, 2, 2])
    ranker.save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    assert light.score(pd.DataFrame(X, columns=["a", "b"])).tolist() == light.score(X).tolist()


@pytest.mark.parametrize(
    "features",
    [
        {name: [1.0] * (number + 1) for number, name in enumerate(NAMES)},
        [["a"] * len(NAMES)],
        [dict.fromkeys(NAMES, 1)],
    ],
    ids=["lengths", "text", "records"],
)
def test_what_is_no_table_of_numbers_is_refused(features: Any, tmp_path: Path) -> None:
    trained("linear").save(tmp_path / "m.safetensors")
    with pytest.raises(DataError, match=r"^features are not numbers of one length; give one row per document"):
        scoring.load(tmp_path / "m.safetensors").score(features)


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_a_number_of_documents_is_at_least_one(k: Any, tmp_path: Path) -> None:
    trained("linear").save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=rf"^k is {k}; rank a whole number of documents, at least one$"):
        scoring.load(tmp_path / "m.safetensors").rerank(hard_documents("linear", 5), k=k)


def test_sizes_and_rows_that_are_not_there_are_refused_by_every_model(tmp_path: Path) -> None:
    trained("linear-standard").save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    X = hard_documents("linear-standard", 5)
    for group in ([2, 2], [6, -1]):
        with pytest.raises(DataError, match="give the number of each query"):
            light.score(X, group=group)
    for row in (5, -1):
        with pytest.raises(DataError, match=f"rows has {row}; 5 documents are numbered from 0 to 4"):
            light.explain(X, rows=[0, row])


def test_bad_features_are_refused_by_name(tmp_path: Path) -> None:
    trained("linear").save(tmp_path / "m.safetensors")
    light = scoring.load(tmp_path / "m.safetensors")
    X = hard_documents("linear", 3)
    X[1, 2] = np.nan
    with pytest.raises(DataError, match=r"document 1: feature 'price in €' is nan; fill it, or train with"):
        light.score(X)
    X[1, 2] = np.inf
    with pytest.raises(DataError, match=r"document 1: feature 'price in €' is inf; replace it"):
        light.score(X)
    with pytest.raises(DataError, match="shape"):
        light.score(X[:, :2])
    with pytest.raises(DataError, match="there is no feature 'clicks'"):
        light.score({"bm25": [1.0]})


def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    trained("trees").save(path)
    _, header, arrays = read_model(path)
    arrays["trees.left"] = arrays["trees.left"] + 1
    write_model(path, "ranker", header, arrays)
    with pytest.raises(DataError, match="the nodes of the trees do not fit together"):
        scoring.load(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="damaged"):
        scoring.load(path)


def test_scores_that_are_too_large_are_named_by_document_in_any_block() -> None:
    empty = np.zeros(0, dtype=np.int64)
    model = ScoringFunction(("a", "b"), (LinearTerm(np.array([1e200, 1.0]), None, None, empty, np.zeros(0)),))
    X = np.zeros((1 << 19, 2))
    X[-3, 0] = 1e200
    with pytest.raises(DataError, match=f"document {len(X) - 3} has score inf; its features are too large"):
        model.score(X)
    X[-2, 1] = np.nan
    with pytest.raises(DataError, match=f"document {len(X) - 2}: feature 'b' is nan"):
        model.score(X)


def test_loading_and_scoring_import_numpy_alone(tmp_path: Path) -> None:
    paths = []
    for name in TRAINERS:
        paths.append(tmp_path / f"{name}.safetensors")
        trained(name).save(paths[-1])
    code = (
        "import sys, json, numpy as np\n"
        "from marginrank.model import scoring\n"
        "for path in sys.argv[1:]:\n"
        "    model = scoring.load(path)\n"
        "    model.rerank(np.ones((3, model.n_features)), 2)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
        "print(json.dumps(sorted(name for name in sys.modules if name.startswith('marginrank.'))))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, *map(str, paths)], capture_output=True, text=True, check=True)
    packages, ours = map(json.loads, run.stdout.splitlines())
    assert not set(HEAVY) & set(packages)
    assert not {"marginrank.data.queries", "marginrank.losses.base", "marginrank.measures.base"} & set(ours)


def test_the_tables_of_light_modules_are_complete() -> None:
    assert set(_MODULES) == {kind for kind, form in all_forms().items() if form.__module__.startswith("marginrank.")}
    for kind, module in _MODULES.items():
        assert all_forms()[kind].__module__ == f"marginrank.scorers.{module}"
    assert set(LEARNED) == set(SCALINGS)
    for name, scaler in SCALINGS.items():
        assert LEARNED[name] == tuple(one for one in vars(scaler).get("__annotations__", {}) if one.endswith("_"))
        assert (name in BY_QUERY) == name.startswith("query-")
