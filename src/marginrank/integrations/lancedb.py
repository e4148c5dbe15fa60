"""Hybrid search in LanceDB: candidates with the score of each retriever, and a fusion as its reranker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Hits, Judgements, check_runs, pool

try:
    from lancedb.rerankers import Reranker
except ImportError:
    raise ImportError("marginrank.integrations.lancedb needs LanceDB: pip install lancedb") from None

#: Names of the retrievers of a hybrid search.
RUNS: Final = ("words", "vector")


def collect(
    table: Any,
    queries: Mapping[Any, tuple[str, Any]],
    judgements: Judgements = None,
    *,
    k: int = 100,
    document: str = "id",
    metric: str = "l2",
) -> Queries:
    """Search by words and by vector for every query, and return their scores, NaN where a document was not found.

    The score of a vector is its distance, negated.

    Args:
        table: A table with vectors and a full text index.
        queries: Text and vector by query id.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``. Queries without
            judgements are left out, and unjudged documents have grade 0.
        k: Number of documents that each retriever returns.
        document: The column of document ids.
        metric: Distance of vectors: ``l2``, ``cosine`` or ``dot``.
    """

    def hits(search: Any, score: str, sign: float) -> Hits:
        found = search.select([document, score]).limit(k).to_arrow()
        ids, scores = found.column(document).to_pylist(), found.column(score).to_pylist()
        return [(name, sign * value) for name, value in zip(ids, scores, strict=True)]

    by_words = {q: hits(table.search(text, query_type="fts"), "_score", 1.0) for q, (text, _) in queries.items()}
    by_vector = {
        q: hits(table.search(vector).distance_type(metric), "_distance", -1.0) for q, (_, vector) in queries.items()
    }
    return pool({"words": by_words, "vector": by_vector}, judgements)


class FusionReranker(Reranker):
    """A reranker of hybrid searches: ``table.search(query_type="hybrid")...rerank(FusionReranker(fusion))``.

    The limit of the search is the number of documents that each retriever returns, as ``k`` was for `collect`. With
    ``normalize="rank"``, LanceDB passes ranks, and scores are not those of the fusion.

    Args:
        fusion: Trained on what `collect` returned, with features that LanceDB's scaling of scores does not change:
            ``minmax``, ``rrf``, ``percentile``, ``borda`` or ``retrieved``. Weights that depend on the query do not
            work here, as LanceDB does not show rerankers the scores themselves.
        return_score: ``relevance`` or ``all``, as of LanceDB's rerankers.
    """

    def __init__(self, fusion: Fusion, return_score: str = "relevance") -> None:
        super().__init__(return_score)
        check_runs(fusion, RUNS)
        if "score" in fusion.kinds_.split("+") or fusion.ranker_.form_.kind == "adaptive":
            raise DataError(f"LanceDB scales scores, which changes {fusion.kinds_}; train Fusion('minmax') or 'rrf'")
        self.fusion = fusion

    def rerank_hybrid(self, query: str, vector_results: pa.Table, fts_results: pa.Table) -> pa.Table:  # noqa: ARG002
        """Merge the results of both retrievers, and sort them by the score of the fusion."""
        merged = self.merge_results(vector_results, fts_results)
        if self.score == "all":
            merged = self._merge_and_keep_scores(vector_results, fts_results)
        rows = merged.column("_rowid").to_pylist()
        scores = {"words": _column(fts_results, "_score", 1.0), "vector": _column(vector_results, "_distance", -1.0)}
        X = np.array([[scores[run].get(row, np.nan) for run in RUNS] for row in rows])
        found = Queries.from_arrays(X, group=[len(rows)], feature_names=RUNS, allow_nan=True)
        merged = merged.append_column("_relevance_score", pa.array(self.fusion.predict(found), type=pa.float32()))
        merged = merged.sort_by([("_relevance_score", "descending")])
        return self._keep_relevance_score(merged) if self.score == "relevance" else merged


def _column(results: pa.Table, name: str, sign: float) -> dict[int, float]:
    """Return the scores of rows; an empty table may have no columns."""
    if not results.num_rows:
        return {}
    values = zip(results.column("_rowid").to_pylist(), results.column(name).to_pylist(), strict=True)
    return {row: sign * value for row, value in values}
