"""A cluster of two worker processes, which stops after the tests of this folder: idle ones keep a core busy too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="needs marginrank[dask]")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        yield client
