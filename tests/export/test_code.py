"""Plain code, tree libraries and ONNX give the scores of the model."""

from pathlib import Path

import pytest

from tests.export.judging import judge, takes
from tests.export.trained import TRAINERS

#: Lines are rounded to 2⁻²⁴ of the way between two knots here, and nowhere else.
LINES = 1e-7
TREES = {"steps", "steps-standard", "trees", "trees-on-steps", "trees-single"}


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("spec", ["python", "javascript"])
def test_plain_code(name: str, spec: str, tmp_path: Path) -> None:
    assert judge(name, spec, tmp_path) < (LINES if "lines" in name else 1e-12)


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize(("spec", "limit"), [("onnx", 1e-7), ("onnx(precision=float64)", 1e-12)])
def test_onnx(name: str, spec: str, limit: float, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert judge(name, spec, tmp_path) < max(limit, LINES if "lines" in name else 0.0)


@pytest.mark.parametrize("spec", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("name", sorted(TREES))
def test_tree_libraries(name: str, spec: str, tmp_path: Path) -> None:
    assert judge(name, spec, tmp_path) < (1e-6 if spec == "xgboost" else 1e-12)


@pytest.mark.parametrize("spec", ["xgboost", "lightgbm"])
def test_tree_libraries_take_what_is_made_of_trees_alone(spec: str) -> None:
    assert {name for name in TRAINERS if takes(name, spec)} == TREES
