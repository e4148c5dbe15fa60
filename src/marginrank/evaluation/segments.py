"""Segments of queries: categories, languages, head and tail, by which results are broken down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from marginrank.data.arrays import common_index
from marginrank.data.formats.trec import Qrels
from marginrank.data.grouping import exact_ids
from marginrank.data.queries import Queries
from marginrank.data.text_arrays import as_text, label_array
from marginrank.errors import DataError
from marginrank.runtime.text import query_named
from marginrank.typing import AnyArray, BoolArray

#: The segment of each query: by query id, or in an array with one entry per query or one per row.
By: TypeAlias = Mapping[Any, Any] | npt.ArrayLike

_FORMS = "give a dict from query id to segment, or an array with one entry per query or one per row"
_RULE = "every query needs a segment, for example 'unknown'"


def segments_of(by: By, query_ids: AnyArray, judged: Queries | Qrels | None = None) -> AnyArray:
    """Return the segment of each query.

    Args:
        by: The segments.
        query_ids: The queries.
        judged: What the entries of an array refer to: its queries, or its rows; the queries themselves by default.

    >>> segments_of({"a": "head", "b": "tail"}, np.array(["b", "a"])).tolist()
    ['tail', 'head']
    """
    segments = by if isinstance(by, Mapping) else _by_query(by, query_ids, judged)
    by_text = {str(query): segment for query, segment in segments.items()}
    labels = []
    for query in query_ids.tolist():
        if query not in segments and str(query) not in by_text:
            raise DataError(f"{query_named(query)} has no segment in by; give every query one")
        labels.append(segments[query] if query in segments else by_text[str(query)])
    return exact_ids(label_array(labels), "segment", _RULE)


def members(segments: AnyArray) -> dict[str, BoolArray]:
    """Tell for each segment, in ascending order, which queries belong to it.

    >>> {name: inside.tolist() for name, inside in members(np.array([10, 9, 10])).items()}
    {'9': [False, True, False], '10': [True, False, True]}
    """
    names = np.unique(segments)
    return {name: segments == label for name, label in zip(as_text(names).tolist(), names, strict=True)}


def _by_query(by: npt.ArrayLike, query_ids: AnyArray, judged: Queries | Qrels | None) -> Mapping[Any, Any]:
    """Return the entries of an array by query id."""
    labels = label_array(by)
    if labels.ndim != 1:
        raise TypeError(
            f"by takes segments of queries, not {by!r}; {_FORMS}"
            if labels.ndim == 0
            else f"by has {labels.ndim} axes; {_FORMS}"
        )
    labels = exact_ids(labels, "by", _RULE)
    if isinstance(judged, Queries) and len(labels) == judged.n_documents:
        common_index(judged=judged, by=by)
        return _by_row(labels, judged)
    ids = judged.query_ids if isinstance(judged, Queries) else query_ids if judged is None else judged.topics
    if len(labels) != len(ids):
        rows = f" and {judged.n_documents:,} rows" if isinstance(judged, Queries) else ""
        raise DataError(f"by has {len(labels):,} entries for {len(ids):,} queries{rows}; {_FORMS}")
    # A Series of groupby("qid") is in the order of its index, and not in that of the queries.
    index = getattr(by, "index", None)
    is_named = type(index).__module__.startswith("pandas") and type(index).__name__ != "RangeIndex"
    return dict(zip(np.asarray(index if is_named else ids).tolist(), labels.tolist(), strict=True))


def _by_row(labels: AnyArray, queries: Queries) -> Mapping[Any, Any]:
    """Return the one label that all rows of a query have; refuse queries with two."""
    ids, segments = queries.query_ids.tolist(), dict[Any, Any]()
    for row, (query, label) in enumerate(zip(queries.query_of_row.tolist(), labels.tolist(), strict=True)):
        known = segments.setdefault(ids[query], label)
        if known != label:
            raise DataError(
                f"{query_named(ids[query])} has the segments {known!r} and {label!r} (row {row}); "
                "all rows of a query need the same one"
            )
    return segments
