"""A cluster of two worker processes, which stops after the tests of this folder: idle ones keep a core busy too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

# Workers look at their own stack a hundred times a second, which takes a seventh of the time of these tests. All
# processes look at their event loop fifty times a second, and at their machine twice, also while they are idle.
SETTINGS = {
    "WORKER__PROFILE__ENABLED": "false",
    "ADMIN__TICK__INTERVAL": "1s",
    "ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
}
# Workers need not import everything anew.
if hasattr(os, "fork"):
    SETTINGS["WORKER__MULTIPROCESSING_METHOD"] = "forkserver"
PRELOADED = ["distributed", "pandas", "pyarrow.parquet", "marginrank.distributed.worker"]
for name, value in SETTINGS.items():
    os.environ.setdefault(f"DASK_DISTRIBUTED__{name}", value)


@pytest.fixture(scope="package")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="needs marginrank[dask]")
    if hasattr(os, "fork"):
        distributed.utils.get_mp_context().set_forkserver_preload(PRELOADED)
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        yield client
