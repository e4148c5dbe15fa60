"""Threads of BLAS while a solver runs."""

from __future__ import annotations

import subprocess
import sys

_FIT = """
import numpy as np
from threadpoolctl import threadpool_info
from marginrank import Ranker
from marginrank.solvers import Bundle

rng, threads = np.random.default_rng(0), []
X, y = rng.standard_normal((60, 4)), rng.integers(0, 3, 60)

def look(step, theta):
    import scipy.linalg
    threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

Ranker("svmmap", solver=Bundle(callback=look)).fit(X, y, qid=np.arange(60) // 6)
print(len(threads) > 0, set(threads))
"""


def test_solvers_run_with_one_thread_of_every_blas_from_the_first_fit_on():
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", _FIT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "{1}"]
