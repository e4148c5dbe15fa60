"""Files that earlier versions wrote are read, and mean what they meant: docs/stability.md promises it.

`write.py` wrote them, and computed the scores from their arrays without marginrank.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from marginrank import Fusion, Queries, Recommender, load, read
from marginrank.judging import read_judgements
from marginrank.model import scoring
from marginrank.version import __version__

VERSIONS = sorted((path for path in Path(__file__).parent.glob("*.*.*") if path.is_dir()), key=lambda path: path.name)
#: Of the largest score; curves are computed with positions rounded to 2^-24 of a bin.
TOLERANCE = {"lines": 1e-6}


def every(pattern):
    return pytest.mark.parametrize(
        "path",
        [path for folder in VERSIONS for path in sorted(folder.glob(pattern))],
        ids=lambda path: f"{path.parent.name}-{path.stem}",
    )


each_version = pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)


def expected_in(folder):
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def check(scores, expected, name=""):
    expected = np.array(expected)
    assert np.ptp(expected) > 1e-3, "scores that are all equal would agree with anything"
    np.testing.assert_allclose(scores, expected, rtol=0, atol=TOLERANCE.get(name, 1e-9) * np.abs(expected).max())


def rankers():
    return [(folder, name) for folder in VERSIONS for name in expected_in(folder)["rankers"]]


def test_this_version_has_written_its_files():
    assert __version__ in [folder.name for folder in VERSIONS], "python -m tests.released.write"


@pytest.mark.parametrize(("folder", "name"), rankers(), ids=lambda value: getattr(value, "name", value))
def test_rankers_score_as_they_did(folder, name):
    expected, path = expected_in(folder), folder / f"{name}.safetensors"
    ranker, X = load(path), expected["X"]
    documents = Queries.from_arrays(X, group=[len(X)], feature_names=ranker.feature_names_in_.tolist())
    check(ranker.predict(documents), expected["rankers"][name], name)
    check(scoring.load(path).score(X), expected["rankers"][name], name)


@each_version
def test_fusions_score_as_they_did(folder):
    expected = expected_in(folder)["fusion"]
    runs = Queries.from_arrays(expected["X"], group=expected["group"])
    check(Fusion.load(folder / "fusion.safetensors").predict(runs), expected["scores"])


@each_version
def test_recommenders_score_as_they_did(folder):
    expected = expected_in(folder)["recommender"]
    scores = Recommender.load(folder / "recommender.safetensors").predict((expected["users"], expected["items"]))
    check(scores, expected["scores"])


@every("*.queries")
def test_binary_data_hold_what_they_held(path):
    expected, queries = expected_in(path.parent)["queries"], read(path)
    X = queries.X.toarray() if path.stem == "sparse" else queries.X
    assert X.tolist() == expected["X"]
    assert queries.judgements.tolist() == expected["grades"]
    assert queries.query_ids.tolist() == list(dict.fromkeys(expected["qid"]))
    assert np.diff(queries.query_offsets).tolist() == [2, 3]
    for name in ("document_ids", "query_weights", "document_groups", "feature_names"):
        assert list(getattr(queries, name)) == expected[name], name


@each_version
def test_judgements_are_read(folder, tmp_path):
    database = Path(shutil.copy(folder / "documents.judged.db", tmp_path))
    judgements = read_judgements(database)
    rows = sorted([query, document, grade] for query, document, rater, grade in judgements.rows() if rater == "ann")
    assert rows == sorted(expected_in(folder)["judgements"])
