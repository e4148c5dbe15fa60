"""Options of the cluster to train on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.streams import note

#: Seconds to wait for a scheduler.
_PATIENCE: Final = 30


@dataclass(frozen=True)
class ClusterOptions:
    """Which workers to train on."""

    panel: ClassVar = "Cluster"

    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train on this many worker processes on this machine; each file is a partition. Needs Dask."
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Train on the workers of a running Dask cluster, such as tcp://10.0.0.1:8786."
        ),
    ] = None

    @property
    def chosen(self) -> bool:
        """Whether training goes to a cluster."""
        return self.workers is not None or self.scheduler is not None

    @contextmanager
    def client(self, *, quiet: bool) -> Iterator[Any]:
        """Yield a client of the cluster, None without one; a cluster that was started here ends afterwards."""
        if self.workers is not None and self.scheduler is not None:
            raise UsageError("give --workers for a cluster on this machine or --scheduler for a running one, not both")
        if not self.chosen:
            yield None
            return
        try:
            from distributed import Client, LocalCluster  # noqa: PLC0415
        except ImportError:
            raise ImportError("--workers and --scheduler need Dask: pip install 'marginrank[dask]'") from None
        if self.scheduler is not None:
            try:
                client = Client(self.scheduler, timeout=_PATIENCE)
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"--scheduler {self.scheduler}: no scheduler is reachable at this address ({error})"
                ) from None
            with client:
                _announce(client, quiet)
                yield client
            return
        with (
            LocalCluster(
                n_workers=self.workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.ERROR
            ) as cluster,
            Client(cluster) as client,
        ):
            _announce(client, quiet)
            yield client


def _announce(client: Any, quiet: bool) -> None:
    if not quiet:
        n_workers, dashboard = len(client.nthreads()), client.dashboard_link
        note(f"{n_workers} {'worker' if n_workers == 1 else 'workers'}; dashboard at {dashboard}")
