"""Hybrid search in Qdrant: candidates with the score of each retriever, and learned weights as a formula query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marginrank.data.queries import Queries
from marginrank.errors import DataError
from marginrank.fusion.fusion import Fusion
from marginrank.integrations.candidates import Hits, Judgements, check_runs, in_order, pool, runs_of
from marginrank.preparation.run_features import RRF_K

try:
    from qdrant_client import models
except ImportError:
    raise ImportError("marginrank.integrations.qdrant needs the client of Qdrant: pip install qdrant-client") from None


def collect(
    client: Any,
    collection: str,
    queries: Mapping[Any, Mapping[str, Any]],
    judgements: Judgements = None,
    *,
    k: int = 100,
    document: str | None = None,
) -> Queries:
    """Search with every named vector of every query, and return a column of scores for each, NaN where not found.

    Qdrant ranks equal scores in some order, which its fusions depend on. To keep it, all but the first of equal scores
    are lowered by the least amount that a float64 has.

    Args:
        client: A client of Qdrant.
        collection: Name of the collection.
        queries: By query id, what to search each named vector with: a dense or sparse vector. Names are those of the
            collection, and become those of the columns.
        judgements: Grades, as `marginrank.read_qrels` reads them or as ``{query: {document: grade}}``. Queries without
            judgements are left out, and unjudged documents have grade 0.
        k: Number of points that each retriever returns.
        document: Key of the payload that holds document ids; by default they are those of points.
    """

    def hits(name: str, vector: Any) -> Hits:
        found = client.query_points(
            collection, query=vector, using=name, limit=k, with_payload=[document] if document else False
        )
        ids = [point.id if document is None else point.payload.get(document) for point in found.points]
        if None in ids:
            raise DataError(f"point {found.points[ids.index(None)].id} has no {document!r} in its payload; add it")
        return zip(ids, in_order([point.score for point in found.points]), strict=True)

    names = dict.fromkeys(name for vectors in queries.values() for name in vectors)
    return pool(
        {
            name: {query: hits(name, vectors[name]) if name in vectors else [] for query, vectors in queries.items()}
            for name in names
        },
        judgements,
    )


def hybrid_query(fusion: Fusion, vectors: Mapping[str, Any], *, k: int = 100) -> dict[str, Any]:
    """Return the arguments of ``client.query_points`` that rank by a fusion: ``prefetch`` and ``query``.

    The weighted RRF of Qdrant stretches ranks, 1 / (rank / w + k - 1), so learned weights are not its weights. Here
    each retriever is ranked by an RRF of its own, and a formula sums these with the weights: scores are those of
    `Fusion`, in the precision of float32.

    Args:
        fusion: ``Fusion("rrf")``, trained on what `collect` returned.
        vectors: What to search each named vector with; an empty sparse vector if the query has no words.
        k: Number of points that each retriever returns, as it was for `collect`.

    Raises:
        DataError: The fusion is of another kind; Qdrant's formulas know no minimum and maximum of a query.
    """
    check_runs(fusion, vectors)
    if fusion.kinds_ != "rrf":
        raise DataError(f"Qdrant computes rrf, and this fusion takes {fusion.kinds_}; train Fusion('rrf')")
    weights = fusion.weights()
    # Its k counts from rank 0.
    ranks = models.RrfQuery(rrf=models.Rrf(k=RRF_K + 1))
    runs = runs_of(fusion)
    prefetch = [
        models.Prefetch(prefetch=models.Prefetch(query=vectors[run], using=run, limit=k), query=ranks, limit=k)
        for run in runs
    ]
    terms = [
        models.MultExpression(mult=[(RRF_K + 1) * weights[f"rrf({run})"], f"$score[{at}]"])
        for at, run in enumerate(runs)
    ]
    defaults = {f"$score[{at}]": 0.0 for at in range(len(runs))}
    return {
        "prefetch": prefetch,
        "query": models.FormulaQuery(formula=models.SumExpression(sum=terms), defaults=defaults),
    }
