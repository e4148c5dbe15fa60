"""The notebooks run without a warning, and their stored outputs are what they print now."""

import copy

import pytest
import sklearn

from tests.project import notebooks

PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))


def test_there_are_notebooks_and_all_are_listed():
    listed = notebooks.FOLDER.with_name("README.md").read_text("utf-8")
    assert len(PATHS) >= 3
    assert all(f"(notebooks/{path.name})" in listed for path in PATHS)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_stores(path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    stored = notebooks.read(path)
    with sklearn.config_context():
        assert notebooks.differences(stored, notebooks.executed(stored)) == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_stores_tables_and_pictures(path):
    cells = notebooks.read(path)["cells"]
    kinds = {kind for cell in cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
    assert len({cell["id"] for cell in cells}) == len(cells)


def test_another_figure_in_a_table_is_told():
    stored = notebooks.read(PATHS[0])
    changed = copy.deepcopy(stored)
    assert notebooks.differences(stored, changed) == []
    tables = [output["data"] for cell in changed["cells"] for output in cell.get("outputs", []) if "data" in output]
    table = next(data for data in tables if "ndcg@10" in "".join(data.get("text/html", [])))
    table["text/html"] = [line.replace("0.7", "0.9") for line in table["text/html"]]
    assert notebooks.differences(stored, changed)
