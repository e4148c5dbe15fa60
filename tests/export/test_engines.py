"""Engines that do not run here: their documented grammar, and scores by evaluators written from it."""

import json
from pathlib import Path

import numpy as np
import pytest

from marginrank import Additive, Fusion, Queries
from marginrank.errors import DataError
from marginrank.export import Check, parse_target
from marginrank.export.base import identifier
from marginrank.export.solr import threshold_without_slack
from marginrank.integrations.candidates import in_order
from tests.export import engines
from tests.export.judging import SIZE, takes
from tests.export.trained import N_DOCUMENTS, TRAINERS, hard_documents, trained

TREES = {"steps", "steps-standard", "trees", "trees-on-steps", "trees-single"}
LINEAR = {"linear", "linear-standard", "linear-zero", "linear-flags"}
VESPA = TREES | LINEAR | {"adaptive", "adaptive-standard", "linear-minmax", "lines", "trees-on-linear"}
GROUP = [SIZE] * (N_DOCUMENTS // SIZE)


def documents_without_gaps(name: str) -> tuple[np.ndarray, Check]:
    X, model = np.nan_to_num(hard_documents(name), nan=0.0), trained(name)
    return X, Check(model.names, X, tuple(GROUP), model.score(X, group=GROUP))


def columns_of(name: str, X: np.ndarray) -> dict[str, np.ndarray]:
    return {identifier(label): column for label, column in zip(trained(name).names, X.T, strict=True)}


@pytest.mark.parametrize("name", sorted(TREES | LINEAR))
def test_elasticsearch_ltr(name: str, tmp_path: Path) -> None:
    trained(name).export("elasticsearch-ltr(missing=zero)", tmp_path / "m.json")
    X, check = documents_without_gaps(name)
    body = json.loads((tmp_path / "m.json").read_text())
    assert check.compare(engines.elasticsearch_ltr(body, columns_of(name, X))) is None
    beside = Check.read(tmp_path / "m.check.json")
    assert np.isnan(beside.X).any()
    assert beside.compare(engines.elasticsearch_ltr(body, columns_of(name, beside.X))) is None
    features = json.loads((tmp_path / "m.featureset.json").read_text())["featureset"]["features"]
    assert [one["name"] for one in features] == list(columns_of(name, X))


@pytest.mark.parametrize("name", sorted(TREES | LINEAR))
def test_solr(name: str, tmp_path: Path) -> None:
    trained(name).export("solr(missing=zero)", tmp_path / "m.json")
    X, check = documents_without_gaps(name)
    body = json.loads((tmp_path / "m.json").read_text())
    assert check.compare(engines.solr(body, columns_of(name, X))) is None
    beside = Check.read(tmp_path / "m.check.json")
    assert np.isnan(beside.X).any()
    assert beside.compare(engines.solr(body, columns_of(name, beside.X))) is None
    features = json.loads((tmp_path / "m.features.json").read_text())
    assert {one["name"] for one in body["features"]} <= {one["name"] for one in features}


def test_thresholds_of_solr_are_those_of_the_model() -> None:
    drawn = np.random.default_rng(0).standard_normal(500)
    # Nearer to 0, float32 is finer than what Solr adds.
    for threshold in [*drawn[np.abs(drawn) > 1e-2].tolist(), 0.0, 2.0, 1e9]:
        compared = np.float32(threshold_without_slack(threshold) + np.float32(1e-6))
        x = np.float32(threshold)
        for value in (np.nextafter(x, np.float32(-np.inf)), x, np.nextafter(x, np.float32(np.inf))):
            assert (value <= compared) == (float(value) <= threshold)


@pytest.mark.parametrize("spec", ["elasticsearch-ltr", "solr"])
def test_plugins_take_linear_and_tree_models(spec: str) -> None:
    assert {name for name in TRAINERS if takes(name, f"{spec}(missing=zero)")} == TREES | LINEAR
    assert {name for name in TRAINERS if takes(name, spec)} == {"linear", "linear-standard", "linear-zero"}


@pytest.mark.parametrize("name", sorted(VESPA))
def test_vespa(name: str, tmp_path: Path) -> None:
    model = trained(name)
    model.export("vespa", tmp_path / "m.profile")
    X = hard_documents(name)
    check = Check(model.names, X, tuple(GROUP), model.score(X, group=GROUP))
    attributes = columns_of(name, X)
    if name == "linear-minmax":  # Vespa does not say what a constant becomes
        attributes["constant"] = X[:, 4] + np.tile([0.0, 1.0], len(X) // 2)
        model_scores = trained(name).score(np.column_stack(list(attributes.values())), group=GROUP)
        check = Check(model.names, X, tuple(GROUP), model_scores)
    assert check.compare(engines.vespa((tmp_path / "m.profile").read_text(), attributes, GROUP)) is None


def test_vespa_takes_expressions_and_linear_models_with_minmax() -> None:
    assert {name for name in TRAINERS if takes(name, "vespa")} == VESPA


def fused(features: str, **options: object) -> Fusion:
    rng = np.random.default_rng(0)
    sides = rng.standard_normal((600, 2))
    y = sides.sum(axis=1) + 0.5 * rng.standard_normal(600) > 1.0
    sides[rng.random(sides.shape) < 0.2] = np.nan
    judged = Queries.from_arrays(sides, y, qid=np.arange(600) // 20, feature_names=["bm25", "dense"], allow_nan=True)
    return Fusion(features, Cs=[1.0], **options).fit(judged)


def retrieved(seed: int, *, missing: bool) -> np.ndarray:
    """Draw scores of two runs without ties."""
    rng = np.random.default_rng(seed)
    X = rng.permutation(N_DOCUMENTS * 2).reshape(N_DOCUMENTS, 2).astype(np.float64) / 7
    if missing:
        X[rng.random(N_DOCUMENTS) < 0.3, 0] = np.nan
    return X


@pytest.mark.parametrize("features", ["minmax", "rrf"])
@pytest.mark.parametrize("target", ["opensearch-hybrid", "elasticsearch-retriever", "vespa"])
def test_hybrid_search_of_engines(features: str, target: str, tmp_path: Path) -> None:
    fusion, suffix = fused(features), parse_target(target).suffix
    fusion.export(target, tmp_path / f"m{suffix}")
    # In Vespa, every document has every score.
    X = retrieved(1, missing=target != "vespa")
    queries = Queries.from_arrays(X, group=GROUP, feature_names=["bm25", "dense"], allow_nan=True)
    text = (tmp_path / f"m{suffix}").read_text()
    runs = [X[:, 0], X[:, 1]]
    if target == "vespa":
        scores = engines.vespa(text, {"bm25": X[:, 0], "dense": X[:, 1]}, GROUP)
    else:
        combine = engines.opensearch_hybrid if target == "opensearch-hybrid" else engines.elasticsearch_retriever
        scores = combine(json.loads(text), runs, GROUP)
    check = Check(("bm25", "dense"), X, tuple(GROUP), fusion.predict(queries))
    # Weights are shares there, and reciprocal ranks have another factor.
    factor = check.scores.sum() / scores.sum()
    assert check.compare(scores * factor) is None


@pytest.mark.parametrize("features", ["percentile", "minmax+retrieved"])
def test_engines_take_fusions_that_they_can_compute(features: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"its features are .*; targets for this model: sql"):
        fused(features).export("opensearch-hybrid", tmp_path / "m.json")


def test_rankers_and_fusions_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="this model scores features; targets for this model: "):
        trained("linear").export("opensearch-hybrid", tmp_path / "m.json")
    with pytest.raises(DataError, match=r"this model combines runs; targets for this model: .*sql"):
        fused("rrf").export("onnx", tmp_path / "m.onnx")


@pytest.mark.parametrize("features", ["minmax", "percentile", "rrf", "borda", "retrieved+minmax"])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_sql_makes_the_features_of_fusions(features: str, dialect: str, tmp_path: Path) -> None:
    target = parse_target(f"sql(dialect={dialect})")
    fusion = fused(features)
    fusion.export(target, tmp_path / "m.sql")
    X = np.round(retrieved(2, missing=True), -1)  # ties
    queries = Queries.from_arrays(X, group=GROUP, feature_names=["bm25", "dense"], allow_nan=True)
    check = Check(("bm25", "dense"), X, tuple(GROUP), fusion.predict(queries))
    assert check.compare(target.run(tmp_path / "m.sql", check)) is None


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_sql_takes_nearly_equal_scores_for_equal(dialect: str, tmp_path: Path) -> None:
    target = parse_target(f"sql(dialect={dialect})")
    fusion = fused("minmax")
    fusion.export(target, tmp_path / "m.sql")
    lists = [[5.0] * 4, [0.0] * 4, [-2.0] * 4, [5.0, 5.0, 3.0, 3.0]]
    X = np.array([[score, 1.0 * at] for hits in lists for at, score in enumerate(in_order(hits))])
    queries = Queries.from_arrays(X, group=[4] * len(lists), feature_names=["bm25", "dense"])
    check = Check(("bm25", "dense"), X, (4,) * len(lists), fusion.predict(queries))
    assert check.compare(target.run(tmp_path / "m.sql", check)) is None


def test_sql_takes_curves_of_runs(tmp_path: Path) -> None:
    target = parse_target("sql(dialect=sqlite)")
    fusion = fused("score", scorer=Additive(bins=8))
    fusion.export(target, tmp_path / "m.sql")
    check = Check.read(tmp_path / "m.check.json")
    assert np.isnan(check.X).any()
    assert check.compare(target.run(tmp_path / "m.sql", check)) is None
