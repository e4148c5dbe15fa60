"""Queries from Dask DataFrames, with the documents of each query brought together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from dask.sizeof import sizeof

from marginrank.data.canonical import in_canonical_order
from marginrank.data.queries import Queries
from marginrank.data.tables import from_frame
from marginrank.errors import DataError
from marginrank.sparse import sp


def frame_queries(frame: Any, options: Mapping[str, Any]) -> Queries | None:
    """Make queries of a pandas frame, in an order that does not depend on that of its rows; None without rows."""
    return in_canonical_order(from_frame(frame, **options)) if len(frame) else None


def shuffled(frame: Any, qid: str, n_partitions: int | None, method: str | None) -> list[Any]:
    """Bring the documents of each query together; return a delayed pandas frame for each partition."""
    if not hasattr(frame, "to_delayed") or not hasattr(frame, "shuffle"):
        raise TypeError(f"from_dask takes a Dask DataFrame, not a {type(frame).__name__}; for a frame use from_frame")
    if qid not in frame.columns:
        raise DataError(f"the frame has no column {qid!r}; name that of the query ids with qid=")
    n = n_partitions or frame.npartitions
    parts: list[Any] = frame.shuffle(on=qid, npartitions=n, shuffle_method=method).to_delayed()
    return parts


@sizeof.register(Queries)  # type: ignore[untyped-decorator]
def _(queries: Queries) -> int:
    """Tell Dask what queries take, so that it does not move them for little work."""
    X = queries.X
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    columns = (queries.judgements, queries.offsets, queries.query_ids, queries.document_ids)
    return sum(int(array.nbytes) for array in (*arrays, *columns) if isinstance(array, np.ndarray))
