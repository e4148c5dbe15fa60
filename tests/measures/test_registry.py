"""A new measure is one new file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from marginrank.measures import Measure, all_measures

NEW_MEASURE = '''
"""Success at k."""

from dataclasses import dataclass

import numpy as np

from marginrank.measures.base import BinaryMeasure


@dataclass(frozen=True, repr=False)
class AnyHit(BinaryMeasure):
    """Success at k: 1 if a relevant document is among the first k.

    >>> AnyHit(k=2).value([0, 1])
    1.0
    """

    name = "anyhit"
    k: int | None = None
    rel: float = 1

    def credit(self, i, j, n_rel, n_irr):
        """1 for the first relevant document."""
        return np.where((i == 1) & ((self.k is None) | (j < (self.k or 0))), 1.0, 0.0)
'''

USE_THEM = """
import sys, marginrank
import marginrank.measures as measures
from marginrank import Queries, evaluate
sys.path.insert(0, sys.argv[1])
from registry_pages import measures_page
page = measures_page()

queries = Queries.from_arrays([[0.0]] * 3, [0, 1, 0], group=[3])
for name, text in (("anyhit", "among the first k"), ("somehit", "among the best k")):
    result = evaluate(queries, [3, 2, 1], [f"{name}@1", f"{name}@2"])
    assert list(result.mean.values()) == [0.0, 1.0], result
    tied = evaluate(queries, [1, 1, 1], f"{name}@1")
    assert abs(tied.mean[f"{name}@1"] - 1 / 3) < 1e-12, tied
    assert name in measures.all_measures()
    assert f"{name}@k" in page and f"1 if a relevant document is {text}" in page, page
print("seen")
"""


def run_python(program: str, folder: Path) -> str:
    docs = Path(__file__).parents[2] / "docs"
    done = subprocess.run(
        [sys.executable, "-c", program, str(docs)], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_file_in_the_folder_is_a_measure_and_so_is_an_entry_point_of_another_package(tmp_path):
    """Dropped into the folder or registered by a package, a measure is evaluated, registered and documented."""
    folder, package = tmp_path / "folder", tmp_path / "package"
    metadata = package / "somehit_measure-1.0.dist-info"
    for made in (folder, metadata):
        made.mkdir(parents=True)
    (folder / "anyhit.py").write_text(NEW_MEASURE)
    other = NEW_MEASURE.replace("AnyHit", "SomeHit").replace("anyhit", "somehit").replace("first k", "best k")
    (package / "somehit_measure.py").write_text(other)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: somehit-measure\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[marginrank.measures]\nsomehit = somehit_measure:SomeHit\n")
    # The folder of the package is a list of places; one more is as good as a copy of the file in the first.
    extend = (
        "import importlib.util, sys\n"
        f"sys.path.insert(0, {str(package)!r})\n"
        "spec = importlib.util.find_spec('marginrank.measures')\n"
        f"spec.submodule_search_locations.append({str(folder)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "sys.modules['marginrank.measures'] = module\n"
        "spec.loader.exec_module(module)\n"
    )
    assert run_python(extend + USE_THEM, tmp_path) == "seen"


def test_a_name_is_taken_once():
    before = all_measures()
    with pytest.raises(TypeError, match=r"measure 'ap' of .* is already defined by marginrank.measures.ap"):

        class Again(Measure):
            name = "ap"

    assert all_measures() == before
