"""Judged queries on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from dask.sizeof import sizeof

from marginrank.data.formats.text_files import Paths, list_paths
from marginrank.data.frames import from_frame
from marginrank.data.partitions import LocalPartitions, PartitionedQueries, Partitions
from marginrank.data.queries import Queries, in_canonical_order
from marginrank.distributed.worker import FileSource, FutureSource, QueriesSource, Source, open_source
from marginrank.errors import DataError
from marginrank.runtime.lazy_imports import sp
from marginrank.runtime.threads import chunk_bounds

if TYPE_CHECKING:
    from distributed import Client


def frame_queries(frame: Any, options: Mapping[str, Any]) -> Queries | None:
    """Convert a pandas frame to queries, in an order that does not depend on that of its rows; None without rows."""
    return in_canonical_order(from_frame(frame, **options)) if len(frame) else None


def shuffled(frame: Any, qid: str, n_partitions: int | None, method: str | None) -> list[Any]:
    """Bring the documents of each query together; return a delayed pandas frame for each partition."""
    if not hasattr(frame, "to_delayed") or not hasattr(frame, "shuffle"):
        raise TypeError(f"from_dask takes a Dask DataFrame, not a {type(frame).__name__}; for a frame use from_frame")
    if qid not in frame.columns:
        raise DataError(f"the frame has no column {qid!r}; name that of the query ids with qid=")
    n = n_partitions or frame.npartitions
    partitions: list[Any] = frame.shuffle(on=qid, npartitions=n, shuffle_method=method).to_delayed()
    return partitions


@sizeof.register(Queries)  # type: ignore[untyped-decorator]
def _(queries: Queries) -> int:
    """Return the size in bytes, so that Dask does not move queries for little work."""
    X = queries.X
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    columns = (queries.judgements, queries.query_offsets, queries.order, queries.query_ids, queries.document_ids)
    return sum(int(array.nbytes) for array in (*arrays, *columns) if isinstance(array, np.ndarray))


class DistributedQueries(PartitionedQueries):
    """Judged queries in partitions on the workers of a Dask cluster, or in this process.

    `Ranker.fit`, `fit_path`, `predict` and `score`, `tune`, `evaluate` and `compare` take them as they take `Queries`.
    Results depend on the partitions and not on the workers: with the same partitions they are the same, bit for bit, on
    any number of workers and in this process. A worker that is lost is replaced by the others.

    >>> queries = Queries.from_arrays([[0.3], [0.9], [0.1], [0.4]], [0, 2, 1, 0], qid=[1, 1, 2, 2])
    >>> DistributedQueries.from_queries(queries, 2)
    DistributedQueries(2 queries, 4 documents, 1 feature, grades 0..2, 2 partitions)
    """

    @classmethod
    def from_files(cls, paths: Paths, client: Client | None = None, *, per_file: int = 1, **options: Any) -> Self:
        """Read files on the workers, in any format that `marginrank.read` knows.

        Args:
            paths: One or more files, or patterns such as ``part-*.parquet``, which are sorted by name. A query has to
                be in one file.
            client: Client of the cluster; None to work in this process. All workers need the files under these paths.
            per_file: Number of partitions of each file. More than one is for the binary form, which is mapped; other
                files are read as a whole for each partition.
            options: Those of `marginrank.read`.
        """
        if per_file < 1:
            raise ValueError(f"per_file is {per_file}; make at least one partition of a file")
        files = [file.absolute() for path in list_paths(paths) for file in _expand(path)]
        sources = [FileSource(file, (chunk, per_file), options) for file in files for chunk in range(per_file)]
        return cls._on(client, sources, FileSource.read)

    @classmethod
    def from_queries(cls, queries: Queries, n_partitions: int, client: Client | None = None) -> Self:
        """Cut queries in the memory of this process into partitions of about the same number of documents.

        Args:
            queries: The queries.
            n_partitions: Number of partitions, or fewer if there are fewer queries.
            client: Client of the cluster, whose workers they are sent to; None to work in this process.
        """
        if n_partitions < 1:
            raise ValueError(f"n_partitions is {n_partitions}; make at least one partition")
        if not isinstance(queries, Queries):
            raise TypeError(f"from_queries takes Queries, not a {type(queries).__name__}; make them with from_frame")
        bounds = chunk_bounds(queries.query_offsets, n_partitions).tolist()
        chunks = [queries.grouped[first:end] for first, end in pairwise(bounds)]
        sources = [QueriesSource(chunk, number) for number, chunk in enumerate(chunks)]
        partitioned = cls._on(client, sources, lambda source: source.queries)
        partitioned.order = queries.order
        return partitioned

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        client: Client | None = None,
        *,
        qid: str = "qid",
        n_partitions: int | None = None,
        **options: Any,
    ) -> Self:
        """Take a Dask DataFrame with one row per document, and bring the documents of each query together.

        Rows are sorted by query and content, so that their order in the frame makes no difference.

        Args:
            frame: The frame.
            client: Client of the cluster; None to work in this process.
            qid: Column of the query ids.
            n_partitions: Number of partitions; by default as many as the frame has. Those without a query are left out.
            options: Those of `marginrank.from_frame`: ``grade``, ``features`` and so on.
        """
        import dask  # noqa: PLC0415

        convert = dask.delayed(frame_queries)
        # Without a cluster, Dask cannot send rows from worker to worker.
        frames = shuffled(frame, qid, n_partitions, "tasks" if client is None else None)
        delayed = [convert(part, {"qid": qid, **options}) for part in frames]
        if client is None:
            computed = [queries for queries in dask.compute(*delayed, scheduler="synchronous") if queries is not None]
            sources = [QueriesSource(queries, number) for number, queries in enumerate(computed)]
            return cls._on(None, sources, lambda source: source.queries)
        futures = client.compute(delayed)
        sizes = client.gather(client.map(_size, futures))
        nonempty = [future for future, size in zip(futures, sizes, strict=True) if size]
        if not nonempty:
            raise DataError("the frame has no rows; give at least one query with documents")
        workers = client.who_has(nonempty)
        homes = [sorted(workers[future.key])[0] for future in nonempty]
        futures_left = [FutureSource(future, number) for number, future in enumerate(nonempty)]
        return cls._on(client, futures_left, open_source, homes)

    @classmethod
    def _on(
        cls, client: Client | None, sources: list[Any], opens: Callable[[Any], Queries], homes: Sequence[str] = ()
    ) -> Self:
        partitions: Partitions[Queries]
        if client is None:
            partitions = LocalPartitions([_opener(source, opens) for source in sources])
        else:
            from marginrank.distributed.cluster_partitions import ClusterPartitions  # noqa: PLC0415

            partitions = ClusterPartitions.of(client, sources, open_source, homes)
        return cls(partitions, [source.name for source in sources])


def _opener(source: Source, opens: Callable[[Any], Queries]) -> Callable[[], Queries]:
    return lambda: opens(source)


def _size(queries: Queries | None) -> int:
    return 0 if queries is None else queries.n_documents


def _expand(path: Path) -> list[Path]:
    """Return the files that match a pattern."""
    if not any(character in str(path) for character in "*?["):
        return [path]
    files = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    if not files:
        raise DataError("no file matches this pattern", path=path)
    return files
