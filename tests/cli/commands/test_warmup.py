"""`marginrank warmup`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

FIRST_FIT = """
import json, sys
import numpy as np
from marginrank import Ranker, evaluate
from marginrank.runtime.kernels import cache_folder
rng = np.random.default_rng(1)
X, y, group = rng.standard_normal((300, 12)).astype(sys.argv[1]), rng.integers(0, 4, 300), [15] * 20
before = set(cache_folder().rglob("*.nbc"))
ranker = Ranker("ranksvm-squared").fit(X, y, group=group)
evaluate(y, ranker.predict(X), group=group)
print(json.dumps([len(before), len(set(cache_folder().rglob("*.nbc")) - before)]))
"""


def printed(tmp_path, *words):
    """Return the JSON that a fresh process prints; code that runs once is not optimized, which takes time."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"}
    return json.loads(subprocess.check_output([sys.executable, *words], env=environment, text=True))


@pytest.mark.slow
def test_nothing_is_compiled_after_it(tmp_path):
    command = ("-m", "marginrank", "warmup", "--preset", "ranksvm-squared", "--json")
    cold = printed(tmp_path, *command)
    assert cold["cached"] == 0
    assert cold["compiled"] > 3
    assert os.path.commonpath([cold["folder"], tmp_path]) == str(tmp_path)
    warm = printed(tmp_path, *command)
    assert (warm["compiled"], warm["cached"]) == (0, cold["compiled"])
    for dtype in ("float32", "float64"):
        assert printed(tmp_path, "-c", FIRST_FIT, dtype) == [cold["compiled"], 0]


def test_unknown_names_are_refused(fails, folder):
    assert "unknown preset 'svmmapp'" in fails("warmup", "--preset", "svmmapp", code=2)
    assert fails("warmup", "--scorer", "linaer", code=2) == (
        "error: --scorer: 'linaer' is none of linear, additive, boosted\n"
    )
