"""Missing values: what the linear scorer makes of them, and that LightGBM's trees keep them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from marginrank import Queries, Ranker, from_frame, load, tune
from marginrank.cli.app import app
from marginrank.data.queries import in_canonical_order
from marginrank.errors import DataError
from marginrank.scorers.linear.form import LinearForm
from marginrank.scorers.linear.scorer import Linear

NAN = np.nan
# Clicks are missing in rows 1 and 4, the mean of the others is (1 + 3 + 8 + 0) / 4 = 3.
CLICKS = [1.0, NAN, 3.0, 8.0, NAN, 0.0]
AGE = [0.5, 1.5, 0.0, 2.0, 1.0, 1.0]
GRADES = [0, 1, 1, 2, 0, 0]
QUERY = ["b", "a", "b", "a", "a", "b"]


def rows(clicks: list[float] = CLICKS) -> np.ndarray:
    return np.column_stack([clicks, AGE])


def filled(value: float) -> np.ndarray:
    return rows([value if np.isnan(click) else click for click in CLICKS])


def fitted(missing: str, X: np.ndarray | sp.csr_array, **options: object) -> Ranker:
    parameters = {"C": 10.0, "scaling": None, **options}
    return Ranker("ranksvm", scorer=Linear(missing=missing), **parameters).fit(X, GRADES, qid=QUERY)


def test_the_mean_stands_in() -> None:
    ranker, by_hand = fitted("mean", rows()), fitted("error", filled(3.0))
    assert np.array_equal(ranker.coef_, by_hand.coef_)
    w = ranker.coef_
    assert ranker.predict([[NAN, 1.0], [2.0, NAN]]) == pytest.approx(
        [3 * w[0] + w[1], 2 * w[0] + w[1]]
    )  # mean age is 1
    assert ranker.explain([[NAN, 1.0], [0.0, 0.0]], reference=1)[0] == pytest.approx([3 * w[0], w[1]])


@pytest.mark.parametrize("scaling", [None, "standard", "query-minmax"])
def test_zero_stands_in_before_scaling(scaling: str | None) -> None:
    ranker, by_hand = fitted("zero", rows(), scaling=scaling), fitted("error", filled(0.0), scaling=scaling)
    assert np.array_equal(ranker.coef_, by_hand.coef_)
    assert np.array_equal(ranker.predict(rows(), qid=QUERY), by_hand.predict(filled(0.0), qid=QUERY))
    assert np.array_equal(ranker.explain(rows(), qid=QUERY), by_hand.explain(filled(0.0), qid=QUERY))


def test_an_indicator_has_a_weight_of_its_own() -> None:
    # With a C as small as this every pair is inside its margin. In query a, the best document has clicks and the other
    # two have none: the mean difference of flags is (-1 - 1 + 0) / 3, and in query b it is 0.
    ranker = fitted("indicator", rows(), C=0.01)
    flags = np.isnan(CLICKS).astype(float)
    by_hand = fitted("error", np.column_stack([filled(3.0), flags]), C=0.01)
    assert np.array_equal(ranker.coef_, by_hand.coef_)
    clicks, age, flag = ranker.coef_
    assert flag == pytest.approx(0.01 * (-2 / 3) / 2, rel=1e-3)
    assert ranker.predict([[NAN, 1.0], [2.0, 1.0]]) == pytest.approx([3 * clicks + age + flag, 2 * clicks + age])
    # Age was never missing in training, so it has no second weight, only its mean 1.
    assert ranker.predict([[2.0, NAN]]) == pytest.approx([2 * clicks + age])
    difference = ranker.explain([[NAN, 2.0], [0.0, 0.0]], reference=1)[0]
    assert difference == pytest.approx([3 * clicks + flag, 2 * age])


@pytest.mark.parametrize("scaling", ["standard", "query-standard"])
@pytest.mark.parametrize("missing", ["zero", "mean", "indicator"])
def test_explanations_sum_to_scores_and_files_keep_everything(missing: str, scaling: str, tmp_path: Path) -> None:
    ranker = fitted(missing, rows(), scaling=scaling)
    scores = ranker.predict(rows(), qid=QUERY)
    assert np.isfinite(scores).all()
    parts = ranker.explain(rows(), qid=QUERY, reference=0)
    assert parts.sum(axis=1) == pytest.approx(scores - scores[0])
    ranker.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert np.array_equal(loaded.predict(rows(), qid=QUERY), scores)
    assert loaded.get_params()["scorer"] == Linear(missing=missing)
    again = loaded.fit(rows(), GRADES, qid=QUERY)
    assert np.array_equal(again.coef_, ranker.coef_)


def test_standard_scaling_leaves_gaps_out_and_the_mean_is_zero_then() -> None:
    ranker = fitted("mean", rows(), scaling="standard")
    spread = np.sqrt(np.mean((np.array([1.0, 3.0, 8.0, 0.0]) - 3.0) ** 2))
    assert ranker.model_.scaler.scale_[0] == pytest.approx(spread)
    assert ranker.explain([[NAN, 1.0], [3.0, 1.0]], reference=1)[0, 0] == pytest.approx(0.0)


@pytest.mark.parametrize("missing", ["zero", "mean", "indicator"])
def test_sparse_features_give_the_same(missing: str) -> None:
    dense, sparse = fitted(missing, rows()), fitted(missing, sp.csr_array(rows()))
    assert sparse.coef_ == pytest.approx(dense.coef_, abs=1e-6)
    assert sparse.predict(sp.csr_array(rows())) == pytest.approx(dense.predict(rows()), abs=1e-5)
    assert sparse.explain(sp.csr_array(rows())) == pytest.approx(dense.explain(rows()), abs=1e-5)


def test_signs_hold_for_features_and_not_for_indicators() -> None:
    scorer = Linear(nonnegative=True, missing="indicator")
    queries = Queries.from_arrays(rows(), GRADES, qid=QUERY, allow_nan=True)
    assert scorer.prepare(queries).signs.tolist() == [1, 1, 0]


def test_frames_and_grids_reach_it() -> None:
    frame = pd.DataFrame({"query": QUERY, "label": GRADES, "clicks": CLICKS, "age": AGE})
    queries = from_frame(frame, missing="nan")
    ranker = Ranker("ranksvm", C=10.0, scaling=None).set_params(scorer__missing="mean").fit(queries)
    assert ranker.coef_ == pytest.approx(fitted("mean", rows()).coef_)
    names = {dict(row.parameters)["scorer__missing"] for row in tuned(queries).candidates}
    assert names == {"zero", "mean"}


def tuned(queries: Queries):
    return tune(
        Ranker("ranksvm", scorer=Linear(missing="zero")),
        queries,
        valid=queries,
        Cs=[1.0],
        grid={"scorer__missing": ["zero", "mean"]},
    )


@pytest.mark.parametrize("preset", ["svmacc", "svm-multiclass"])
def test_linear_baselines_take_it_too(preset: str) -> None:
    ranker = Ranker(preset, scorer=Linear(missing="mean"), scaling=None).fit(rows(), GRADES, qid=QUERY)
    by_hand = Ranker(preset, scaling=None).fit(filled(3.0), GRADES, qid=QUERY)
    assert ranker.coef_ == pytest.approx(by_hand.coef_)


ADVICE = "fill it, or train with the scorer linear(missing=mean) or additive"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: fitted("error", rows()), f"X[1, 0] is NaN; {ADVICE}"),
        (lambda: Ranker().fit(Queries.from_arrays(rows(), GRADES, group=[6], allow_nan=True)), f"NaN; {ADVICE}"),
        (lambda: fitted("error", filled(0.0)).predict(rows()), f"X[1, 0] is NaN; {ADVICE}"),
        (lambda: fitted("error", filled(0.0)).explain(rows()), f"X[1, 0] is NaN; {ADVICE}"),
        (
            lambda: Ranker("mcrank@2").fit(rows(), GRADES, qid=QUERY),
            "X[1, 0] is NaN; fill it, as mcrank@2 takes no missing values",
        ),
        (lambda: tune(Ranker(), rows(), GRADES, qid=QUERY), f"X[1, 0] is NaN; {ADVICE}"),
        (lambda: fitted("mean", np.array([[np.inf, 1.0]] * 6)), "X[0, 0] is inf; replace it"),
        (lambda: Queries.from_arrays(rows(), group=[6]), "pass allow_nan=True to keep it as missing"),
    ],
    ids=["fit", "queries", "predict", "explain", "baseline", "tune", "inf", "from_arrays"],
)
def test_refusals_name_choices_that_exist(act, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        act()


def test_every_scorer_that_the_advice_names_takes_missing_values() -> None:
    for scorer in ("linear(missing=mean)", "additive"):
        assert scorer in ADVICE
        assert np.isfinite(Ranker("ranksvm", scorer=scorer).fit(rows(), GRADES, qid=QUERY).predict(rows())).all()


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="missing is 'median'; choose 'error', 'zero', 'mean' or 'indicator'"):
        Linear(missing="median")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parts",
    [
        {"fill": np.zeros(3)},
        {"fill": np.array([0.0, NAN])},
        {"raw_fill": np.zeros(1)},
        {"flagged": np.array([0])},
        {"fill": np.zeros(2), "flagged": np.array([2])},
        {"fill": np.zeros(2), "flagged": np.array([1, 0])},
        {"fill": np.zeros(2), "flagged": np.array([-1])},
    ],
)
def test_damaged_forms_are_refused(parts: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="missing values"):
        LinearForm.from_arrays({f"weights.{name}": part for name, part in parts.items()}, 2)


def test_the_command_line_trains_and_ranks_with_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"query": QUERY, "label": GRADES, "clicks": CLICKS, "age": AGE}).to_parquet("rows.parquet")
    train = ["train", "rows.parquet", "--preset", "ranksvm", "-C", "10", "--scaling", "none", "-o", "m.safetensors"]
    refused = CliRunner().invoke(app, train)
    assert refused.exit_code == 1
    assert "has no value; use --scorer 'linear(missing=mean)', or fill it with --missing zero or min" in refused.stderr
    done = CliRunner().invoke(app, [*train, "--scorer", "linear(missing=mean)"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    scores = CliRunner().invoke(app, ["rank", "m.safetensors", "rows.parquet"], catch_exceptions=False).stdout.split()
    assert np.array(scores, dtype=float) == pytest.approx(fitted("mean", rows()).predict(rows()), abs=1e-3)


def test_lambdarank_passes_gaps_on_to_lightgbm(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 3))
    y = np.digitize(X[:, 0] + X[:, 1] + 0.3 * rng.standard_normal(400), [0.0, 1.0])
    X[rng.random((400, 3)) < [0.3, 0.2, 0.0]] = NAN
    # Missing says something here: half of the gaps are relevant documents.
    X[y == 2, 0] = np.where(rng.random((y == 2).sum()) < 0.5, NAN, X[y == 2, 0])
    qid = np.repeat(np.arange(20), 20)
    ranker = Ranker("lambdarank@30").fit(X, y, qid=qid)
    settings = {
        "objective": "lambdarank",
        "label_gain": [0, 1, 3],
        "verbosity": -1,
        "deterministic": True,
        "force_row_wise": True,
        "seed": 0,
    }
    # A gap in the last column, which had none in training, is 0 to LightGBM.
    new = np.vstack([X[:50], [[NAN, NAN, NAN], [0.1, NAN, NAN], [NAN, 0.2, -1.0]]])
    ranker.save(tmp_path / "trees.safetensors")
    assert np.array_equal(load(tmp_path / "trees.safetensors").predict(new), ranker.predict(new))
    # The rows in the order that the ranker gives LightGBM.
    queries = in_canonical_order(Queries.from_arrays(X, y, qid=qid, allow_nan=True))
    data = lightgbm.Dataset(queries.X, queries.grades.astype(int), group=queries.lengths)
    booster = lightgbm.train(settings, data, 30)
    assert ranker.predict(new) == pytest.approx(booster.predict(new), rel=1e-6)
