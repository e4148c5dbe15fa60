"""The law of exports: every target gives odd documents the scores of a few lines of NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from marginrank.errors import DataError
from marginrank.export import Check, export, parse_target
from marginrank.export.base import distinct_names
from marginrank.scorers.boosted.form import BoostedForm, Tree
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import Curve, CurvesTerm, LinearTerm
from tests.export import engines
from tests.export.conftest import Postgres
from tests.export.judging import run
from tests.export.test_sql import postgres_scores

#: Names that need quotes or escapes, or become one when they are cleaned; the third is a column of whole numbers, and
#: the last one of true and false.
NAMES = ('a"b', "a`b", "ab", "a-b", "a b", "a[", "a(", "price in €", "back\\slash", "on sale")
M, SIZE, N = len(NAMES), 10, 200
BOOLEAN = M - 1
NONE = np.zeros(0, dtype=np.int64)
WEIGHTS = np.linspace(-1.5, 2.0, M)
FILL = np.linspace(3.0, -2.0, M)
CUTS = np.array([-1.0, 0.5, 2.0])
STEPS = np.linspace(0.1, 2.0, 4 * M).reshape(M, 4) * np.tile([1.0, -1.0], 2)


def fills(X: np.ndarray, fill: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(X), fill, X)


def unit(X: np.ndarray) -> np.ndarray:
    """Scale features to [0, 1] within each query; constants become 0."""
    queries = X.reshape(-1, SIZE, M)
    low, high = np.nanmin(queries, axis=1, keepdims=True), np.nanmax(queries, axis=1, keepdims=True)
    return ((queries - low) / np.where(high > low, high - low, 1.0)).reshape(X.shape)


def steps(X: np.ndarray) -> np.ndarray:
    bins = (X[:, :, None] > CUTS).sum(axis=2)
    return np.where(np.isnan(X), 7.0, np.take_along_axis(STEPS.T, bins, axis=0)).sum(axis=1)


def lines(X: np.ndarray) -> np.ndarray:
    return sum(np.where(np.isnan(x), 7.0, np.interp(x, CUTS, STEPS[at, :3])) for at, x in enumerate(X.T))


def trees(X: np.ndarray) -> np.ndarray:
    """Split on the first feature at 0.5, missing to the right; then on whether the second is known, and on the last."""
    inside = np.where(np.isnan(X[:, 1]), 2.0, -3.0)
    return np.where(X[:, 0] <= 0.5, 1.0, inside) + np.where(X[:, BOOLEAN] > 0.5, 0.25, 0.0)


def linear(fill: np.ndarray | None = None, flags: np.ndarray = NONE, raw_fill: np.ndarray | None = None) -> LinearTerm:
    return LinearTerm(WEIGHTS, raw_fill, fill, flags, np.full(len(flags), 5.0))


def boosted() -> tuple[object, ...]:
    # A feature that is constant where it is known is split at 1e300.
    known = Tree(
        np.array([0, -1, 1, -1, -1]), np.array([0.5, 0, 1e300, 0, 0]), np.array([1, 0, 3, 0, 0]),
        np.array([2, 0, 4, 0, 0]), np.array([0, 1.0, 0, -3.0, 2.0]), np.zeros(5, dtype=bool),
    )  # fmt: skip
    stump = Tree(
        np.array([BOOLEAN, -1, -1]), np.array([0.5, 0, 0]), np.array([1, 0, 0]), np.array([2, 0, 0]),
        np.array([0, 0.0, 0.25]), np.array([True, False, False]),
    )  # fmt: skip
    form, theta = BoostedForm.collect([known, stump], [0, 0], M)
    return form.terms(theta)


def model(terms: tuple[object, ...], *, takes_nan: bool = True, **options: object) -> ScoringFunction:
    types = {NAMES[2]: int, NAMES[BOOLEAN]: bool}
    return ScoringFunction(NAMES, terms, takes_nan=takes_nan, value_types=types, **options)  # type: ignore[arg-type]


MEAN, SCALE = np.linspace(-3.0, 4.0, M), np.r_[0.0, np.linspace(0.5, 2.0, M - 1)]
INVERSE = np.r_[0.0, 1.0 / SCALE[1:]]
FLAGS = np.array([0, 3])
#: Functions, and their scores in NumPy.
MODELS: dict[str, tuple[ScoringFunction, Callable[[np.ndarray], np.ndarray]]] = {
    "linear": (model((linear(),), takes_nan=False), lambda X: X @ WEIGHTS),
    "standard-zero": (
        model((linear(raw_fill=np.zeros(M)),), scaling="standard", mean=MEAN, scale=SCALE),
        lambda X: ((fills(X, np.zeros(M)) - MEAN) * INVERSE) @ WEIGHTS,
    ),
    "mean": (model((linear(FILL),)), lambda X: fills(X, FILL) @ WEIGHTS),
    "flags": (
        model((linear(FILL, FLAGS),)),
        lambda X: fills(X, FILL) @ WEIGHTS + 5.0 * np.isnan(X[:, FLAGS]).sum(axis=1),
    ),
    "minmax": (model((linear(FILL),), scaling="query-minmax"), lambda X: fills(unit(X), FILL) @ WEIGHTS),
    "steps": (model((CurvesTerm(tuple(Curve(CUTS, row, 7.0, None) for row in STEPS)),)), steps),
    "lines": (
        model((CurvesTerm(tuple(Curve(CUTS[1:], row[:3], 7.0, float(CUTS[0])) for row in STEPS)),)),
        lines,
    ),
    "trees": (model(boosted()), trees),
}  # type: ignore[arg-type]


def odd_documents(*, missing: bool, single: bool) -> np.ndarray:
    """Draw documents of thresholds, zeros, tiny, large and missing values."""
    rng = np.random.default_rng(0)
    odd = np.array([0.0, -0.0, 5e-324, -1e-310, 1e-30, *CUTS, 0.1, -3.25, 1e6, 1.0 / 3.0])
    X = np.where(rng.random((N, M)) < 0.7, rng.choice(odd, (N, M)), rng.standard_normal((N, M)) * 3)
    X[:, BOOLEAN], X[:, 2] = rng.integers(0, 2, N), rng.integers(-9, 9, N)
    X[:, 1] = 4.0  # constant where it is known
    if single:
        X = np.where(np.abs(X) < 1e-29, 0.0, X).astype(np.float32).astype(np.float64)
    if missing:
        X[rng.random((N, M)) < 0.2] = np.nan
        X[17, :] = np.nan
        X[:SIZE, 2] = X[0, 2] if not np.isnan(X[0, 2]) else 1.0
    return X


def check_of(name: str, *, single: bool = False, zeros: bool = False) -> Check:
    function, reference = MODELS[name]
    X = odd_documents(missing=function.takes_nan or zeros, single=single)
    scores = reference(np.nan_to_num(X, nan=0.0) if zeros else X)
    return Check(NAMES, X, (SIZE,) * (N // SIZE), scores, function.value_types)


@pytest.mark.parametrize("name", MODELS)
def test_the_model_itself(name: str) -> None:
    check = check_of(name)
    assert check.compare(MODELS[name][0].score(check.X, check.group)) is None


RUNNABLE = (
    "python", "javascript", "onnx(precision=float64)", "onnx", "sql", "sql(dialect=sqlite)", "sql(dialect=duckdb)",
    "xgboost", "lightgbm", "eland",
)  # fmt: skip


@pytest.mark.parametrize("spec", RUNNABLE)
@pytest.mark.parametrize("name", MODELS)
def test_targets_that_run_here(name: str, spec: str, tmp_path: Path) -> None:
    function, target = MODELS[name][0], parse_target(spec)
    if target.refusal(function) is not None:
        with pytest.raises(DataError, match="targets for this model"):
            export(function, target, tmp_path / "m")
        return
    path = tmp_path / f"m{target.suffix}"
    export(function, target, path)
    beside = Check.read(tmp_path / "m.check.json")
    assert np.isnan(beside.X).any() == function.takes_nan
    assert beside.value_types == dict.fromkeys(NAMES, float) | dict(function.value_types)
    for check in (check_of(name, single=spec in ("onnx", "xgboost", "lightgbm", "eland")), beside):
        assert check.compare(run(target, path, check)) is None


@pytest.mark.parametrize("name", MODELS)
def test_postgresql(name: str, postgres: Postgres, tmp_path: Path) -> None:
    export(MODELS[name][0], "sql(dialect=postgresql)", tmp_path / "m.sql")
    for check in (check_of(name), Check.read(tmp_path / "m.check.json")):
        assert check.compare(postgres_scores(postgres, (tmp_path / "m.sql").read_text(), check)) is None


@pytest.mark.parametrize("spec", ["elasticsearch-ltr", "solr"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("lines", "minmax")])
def test_engines_where_missing_is_zero(name: str, spec: str, tmp_path: Path) -> None:
    function, score = MODELS[name][0], engines.solr if spec == "solr" else engines.elasticsearch_ltr
    if name not in ("linear", "standard-zero"):
        with pytest.raises(DataError, match=rf"missing values are 0 there.*accept it with {spec}\(missing=zero\);"):
            export(function, spec, tmp_path / "m.json")
        spec += "(missing=zero)"
    export(function, spec, tmp_path / "m.json")
    body = json.loads((tmp_path / "m.json").read_text())
    for check in (check_of(name, single=True, zeros=True), Check.read(tmp_path / "m.check.json")):
        assert np.isnan(check.X).any()
        columns = dict(zip(distinct_names(NAMES), check.X.T, strict=True))
        assert check.compare(score(body, columns)) is None


@pytest.mark.parametrize("name", [name for name in MODELS if name != "minmax"])
def test_vespa(name: str, tmp_path: Path) -> None:
    export(MODELS[name][0], "vespa", tmp_path / "m.profile")
    for check in (check_of(name), Check.read(tmp_path / "m.check.json")):
        columns = dict(zip(distinct_names(NAMES), check.X.T, strict=True))
        scores = engines.vespa((tmp_path / "m.profile").read_text(), columns, list(check.group))
        assert check.compare(scores) is None
