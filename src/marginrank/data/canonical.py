"""An order of queries and documents that does not depend on the order of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marginrank.data.queries import Queries


def in_canonical_order(queries: Queries) -> Queries:
    """Sort queries by id and their documents by content, so that no method depends on the order of rows."""
    by_id = np.argsort(queries.query_ids, kind="stable")
    rank = np.argsort(by_id)
    query = np.repeat(np.arange(len(queries)), queries.lengths)
    grades = queries.grades if queries.has_grades else np.zeros(queries.n_documents)
    order = np.lexsort((grades, queries.document_keys, rank[query]))
    offsets = np.concatenate([[0], np.cumsum(queries.lengths[by_id])])
    columns = ("X", "judgements", "document_ids", "document_groups")
    sorted_columns = {name: column[order] for name in columns if (column := getattr(queries, name)) is not None}
    return replace(
        queries,
        **sorted_columns,
        offsets=offsets,
        query_ids=queries.query_ids[by_id],
        query_weights=None if queries.query_weights is None else queries.query_weights[by_id],
        rows=None,
        keyed_by=None,
        keys=queries.document_keys[order],
    )
