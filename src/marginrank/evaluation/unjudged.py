"""Documents that a run returns and nobody judged: measures count them as not relevant."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from marginrank.data.queries import Queries
from marginrank.data.trec import Qrels, Run
from marginrank.evaluation.systems import as_qrels
from marginrank.measures.rankings import rank_by


@dataclass(frozen=True)
class Unjudged:
    """How many of the first documents of a run nobody judged.

    Args:
        k: How many documents of each topic were looked at.
        documents: Number of documents without a judgement.
        out_of: Number of documents that were looked at.
    """

    k: int
    documents: int
    out_of: int

    @property
    def share(self) -> float:
        """The share of the documents without a judgement."""
        return self.documents / self.out_of if self.out_of else 0.0


def count_unjudged(judged: Queries | Qrels, run: Run, k: int = 10) -> Unjudged:
    """Count the documents without a judgement among the first k of each judged topic.

    >>> import numpy as np
    >>> run = Run(np.array(["1"]), np.array([0, 3]), np.array(["a", "b", "c"]), np.array([3.0, 2.0, 1.0]))
    >>> qrels = Qrels(np.array(["1"]), np.array([0, 2]), np.array(["b", "z"]), np.array([2.0, 1.0]))
    >>> count_unjudged(qrels, run, k=2)
    Unjudged(k=2, documents=1, out_of=2)
    """
    qrels = as_qrels(judged) if isinstance(judged, Queries) else judged
    parts = zip(qrels.topics.tolist(), pairwise(qrels.offsets.tolist()), strict=True)
    known = {topic: set(qrels.document_ids[start:stop].tolist()) for topic, (start, stop) in parts}
    order, offsets = rank_by(run.scores, run.offsets, depth=k)
    first, missing, seen = run.document_ids[order].tolist(), 0, 0
    for topic, (start, stop) in zip(run.topics.tolist(), pairwise(offsets.tolist()), strict=True):
        if topic in known:
            seen += stop - start
            missing += sum(name not in known[topic] for name in first[start:stop])
    return Unjudged(k, missing, seen)
