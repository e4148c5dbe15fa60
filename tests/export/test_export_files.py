"""Targets as a registry: who takes what, check files, and the laws of lowering."""

import json
from pathlib import Path

import numpy as np
import pytest

from marginrank import Kernel, Ranker
from marginrank.errors import DataError
from marginrank.export import Check, all_targets, export, parse_target, verify
from marginrank.export.tree_ensemble import exact_thresholds, single_bound
from marginrank.scorers.scoring_function import ScoringFunction
from marginrank.scorers.terms import LinearTerm
from tests.export.trained import TRAINERS, trained

PLAIN = ScoringFunction(
    ("a", "b"), (LinearTerm(np.array([2.0, -1.0]), None, None, np.zeros(0, dtype=np.int64), np.zeros(0)),)
)


def test_a_model_that_a_target_does_not_take_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"xgboost takes .*; its curves are lines.*; targets for this model: .*python"):
        trained("lines").export("xgboost", tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_no_target_takes_is_told_so(tmp_path: Path) -> None:
    X, y, qid = np.arange(12.0).reshape(6, 2), [0, 1] * 3, [1, 1, 2, 2, 3, 3]
    ranker = Ranker(scorer=Kernel(lambda a, b: a @ b.T, rank=2)).fit(X, y, qid=qid)
    for target in ("python", "onnx"):
        with pytest.raises(DataError, match=r"a kernel given as a function; its .*; no target takes it$"):
            ranker.export(target, tmp_path / "m")


def test_a_module_is_imported_by_a_name_that_python_takes(tmp_path: Path) -> None:
    assert export(PLAIN, "python", tmp_path / "shop.py").next_steps.startswith("import shop and call shop.rank(")
    said = export(PLAIN, "python", tmp_path / "my-ranker 2.py").next_steps
    assert said.startswith("rename my-ranker 2.py to my_ranker_2.py; import my_ranker_2 and call my_ranker_2.rank(")


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda kind: kind.name)
def test_targets_say_what_they_take_and_write_what_they_say(target: type, tmp_path: Path) -> None:
    assert target.takes
    assert target.suffix.startswith(".")
    taken = [name for name in TRAINERS if target().takes_rankers and target().refusal(trained(name).function) is None]
    assert taken or not target().takes_rankers
    for name in taken:
        written = trained(name).export(target(), tmp_path / f"{name}{target.suffix}")
        assert all(file.stat().st_size for file in written.files)
        assert written.next_steps


def test_check_files_hold_what_the_model_gives(tmp_path: Path) -> None:
    written = export(PLAIN, "python", tmp_path / "ranker.py")
    assert [file.name for file in written.files] == ["ranker.py", "ranker.check.json"]
    check = Check.read(tmp_path / "ranker.check.json")
    assert check.features == ("a", "b")
    assert check.group == (10,) * 20
    np.testing.assert_allclose(check.scores, 2 * check.X[:, 0] - check.X[:, 1], rtol=1e-15)
    assert verify("python", tmp_path / "ranker.py").scores.tolist() == check.scores.tolist()


def test_an_export_that_scores_otherwise_is_found(tmp_path: Path) -> None:
    export(PLAIN, "python", tmp_path / "ranker.py")
    code = (tmp_path / "ranker.py").read_text()
    (tmp_path / "ranker.py").write_text(code.replace('"weights": [2.0, -1.0]', '"weights": [2.0, -1.001]'))
    with pytest.raises(DataError, match="python does not agree with the model: document d"):
        verify("python", tmp_path / "ranker.py")


def test_another_order_is_found_though_scores_agree() -> None:
    check = Check(("a",), np.zeros((3, 1)), (3,), np.array([1.0, 1.0 - 2e-7, 0.0]))
    assert check.compare([1.0 - 2e-7, 1.0, 0.0]) is None
    assert check.compare([1.0, 1.0 - 2e-6, 0.0]) == "document d2 has score 0.999998, and 0.9999998 is expected"
    assert check.compare([1.0, np.nan, 0.0]) is not None
    assert check.compare([1.0]) == "1 scores for 3 documents"


def test_nothing_is_replaced_unless_asked_for(tmp_path: Path) -> None:
    export(PLAIN, "python", tmp_path / "ranker.py")
    with pytest.raises(FileExistsError):
        export(PLAIN, "python", tmp_path / "ranker.py", overwrite=False)


def test_a_file_that_is_no_check_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ranker.check.json").write_text(json.dumps({"features": []}))
    with pytest.raises(DataError, match=r"ranker.check.json: this is not a check file"):
        verify("python", tmp_path / "ranker.py")


def test_thresholds_divide_numbers_as_before_scaling() -> None:
    rng = np.random.default_rng(0)
    mean, scale = 1e6 + 0.1, 0.37

    def change(x: np.ndarray) -> np.ndarray:
        return (x - mean) / scale

    # Some of them are met exactly.
    thresholds = np.concatenate([rng.standard_normal(50) * 3, change(1e6 + rng.standard_normal(50))])
    raw = exact_thresholds(thresholds, change)
    assert (change(raw) <= thresholds).all()
    assert (change(np.nextafter(raw, np.inf)) > thresholds).all()


@pytest.mark.parametrize("threshold", [0.0, -0.0, 0.1, 1.5, -1e-40, 1e30, -2.5, 16777217.0])
def test_bounds_of_float32_divide_its_numbers_as_thresholds_do(threshold: float) -> None:
    near = np.float32(threshold)
    for x in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
        assert (float(x) <= threshold) == (float(x) < single_bound(threshold))


@pytest.mark.parametrize("spec", ["python", "javascript", "sql", "sql(dialect=duckdb)", "onnx", "xgboost", "lightgbm"])
def test_a_model_that_ranks_nothing_is_exported_too(spec: str, tmp_path: Path) -> None:
    from marginrank.scorers.terms import Curve, CurvesTerm
    from tests.export.judging import run

    flat = ScoringFunction(("a",), (CurvesTerm((Curve(np.zeros(0), np.zeros(1), 0.0, None),)),), takes_nan=True)
    target = parse_target(spec)
    export(flat, target, tmp_path / f"m{target.suffix}")
    check = Check.read(tmp_path / "m.check.json")
    assert not np.any(run(target, tmp_path / f"m{target.suffix}", check))


def test_spellings_have_options() -> None:
    assert parse_target("onnx(precision=float64)").precision == "float64"
    with pytest.raises(ValueError, match="precision is 'float16'; choose"):
        parse_target("onnx(precision=float16)")
    with pytest.raises(ValueError, match="unknown target 'onx'; did you mean 'onnx'"):
        parse_target("onx")


DROPPED = '''
"""A line of weights."""

from dataclasses import dataclass

from marginrank.export.base import Target, other_terms
from marginrank.scorers.terms import LinearTerm


@dataclass(frozen=True)
class Weights(Target):
    """Write weights, one to a line."""

    name = "my-weights"
    takes = "linear models"
    suffix = ".weights"
    digits: int = 3

    def refusal(self, function):
        return other_terms(function, LinearTerm)

    def write(self, function):
        return {"": "".join(f"{weight:.{self.digits}f}\\n" for weight in function.terms[0].weights)}

    def next_steps(self, path):
        return f"read {path.name}"
'''


def test_a_target_dropped_into_the_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from typer.testing import CliRunner

    import marginrank.export
    from marginrank.cli.app import app
    from marginrank.runtime.option_objects import OptionObject

    (tmp_path / "dropped_target.py").write_text(DROPPED)
    monkeypatch.setattr(marginrank.export, "__path__", [*marginrank.export.__path__, str(tmp_path)])
    monkeypatch.setattr(OptionObject, "registry", dict(OptionObject.registry))
    try:
        export(PLAIN, "my-weights(digits=1)", tmp_path / "w.weights")
        assert (tmp_path / "w.weights").read_text() == "2.0\n-1.0\n"
        assert "my-weights" in CliRunner().invoke(app, ["export", "--list"]).stdout
        with pytest.raises(DataError, match=r"targets for this model: .*my-weights"):
            export(PLAIN, "lightgbm", tmp_path / "w.txt")
    finally:
        sys.modules.pop("marginrank.export.dropped_target", None)
