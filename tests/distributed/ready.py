"""What workers and clients import and compile, done once for all forks of a process that imports this: see `forks`."""

from __future__ import annotations

import distributed  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401

import marginrank.distributed.cluster_partitions
import marginrank.distributed.worker  # noqa: F401
from tests.distributed.data import judged, ranker

# Those whose training leaves no thread behind.
for name in ("svmmap", "svmndcg", "ranksvm", "newton"):
    ranker(name, n_jobs=1).fit(judged(10))
