"""Where partitions come from, and how a worker opens them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from marginrank.data.formats import read_queries
from marginrank.data.queries import Queries
from marginrank.distributed.worker import address
from marginrank.errors import DataError
from marginrank.threads import chunk_bounds


class Source(Protocol):
    """Where one partition comes from."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    def on(self, client: Any, worker: str) -> Any:
        """Return what to send to a worker for `open_source`."""


@dataclass(frozen=True)
class FileSource:
    """A file, or one of several equal shares of its queries, that a worker reads."""

    path: Path
    share: tuple[int, int] = (0, 1)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file, with the number of the share."""
        number, n_shares = self.share
        return self.path.name if n_shares == 1 else f"{self.path.name} ({number + 1} of {n_shares})"

    def on(self, client: Any, worker: str) -> FileSource:  # noqa: ARG002
        """Return the recipe itself."""
        return self

    def read(self) -> Queries:
        """Read the file in this process."""
        number, n_shares = self.share
        queries = read_queries(self.path, **self.options)
        if n_shares == 1:
            return queries
        bounds = chunk_bounds(queries.offsets, n_shares)
        if len(bounds) <= n_shares:
            raise DataError(
                f"its {len(queries)} queries do not fill {n_shares} partitions; use per_file=1", path=self.path
            )
        return queries[bounds[number] : bounds[number + 1]]


@dataclass(frozen=True, eq=False)
class QueriesSource:
    """Queries in the memory of the client, which sends them once, and again when their worker is lost."""

    queries: Queries
    number: int

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"partition {self.number}"

    def on(self, client: Any, worker: str) -> Any:
        """Send the queries to a worker."""
        return client.scatter(self.queries, workers=[worker], hash=False)


@dataclass(frozen=True, eq=False)
class FutureSource:
    """Queries that Dask has made on a worker, and makes again when it is lost."""

    future: Any
    number: int

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"partition {self.number}"

    def on(self, client: Any, worker: str) -> Any:  # noqa: ARG002
        """Return what Dask has."""
        return self.future


def open_source(source: FileSource | Queries) -> Queries:
    """Return the queries of a partition on a worker."""
    if isinstance(source, Queries):
        return source
    try:
        return source.read()
    except FileNotFoundError:
        raise DataError(
            f"there is no such file on worker {address()}; give a path on storage that all workers share",
            path=source.path,
        ) from None
