"""Criteria: a measure, or a weighted mean of measures, under a policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from marginrank.data.partitions import AnyQueries, PartitionedQueries
from marginrank.data.unjudged import UnjudgedRule
from marginrank.evaluation.evaluation import Evaluation, evaluate
from marginrank.evaluation.policies import Policy, parse_policy
from marginrank.evaluation.systems import System
from marginrank.evaluation.weighted_documents import relevant_totals
from marginrank.measures.base import Measure, parse_mix, spell_mix
from marginrank.measures.dcg import DCG
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class Criterion:
    """Criterion that rankers are selected by.

    >>> criterion = Criterion.parse("rr + 0.5*p@1")
    >>> from marginrank import Queries
    >>> queries = Queries.from_arrays([[0.0]] * 4, [1, 0, 0, 2], qid=[1, 1, 2, 2])
    >>> criterion.values(queries, [0.1, 0.7, 0.3, 0.9]).round(3).tolist()     # (½ + ½·0) / 1.5, (1 + ½·1) / 1.5
    [0.333, 1.0]
    >>> str(criterion)
    'rr + 0.5*p@1'

    Args:
        terms: Measures with their weights.
        policy: How ties and queries without relevant documents are scored.
        unjudged: What becomes of unjudged documents.
    """

    terms: tuple[tuple[float, Measure], ...]
    policy: Policy
    unjudged: UnjudgedRule = "irrelevant"

    @classmethod
    def parse(
        cls, spec: str | Measure, policy: str | Policy = "standard", *, unjudged: UnjudgedRule = "irrelevant"
    ) -> Criterion:
        """Read a measure or a mix of measures, such as ``ndcg@10 + 0.5*ap``."""
        return cls(tuple(parse_mix(spec)), parse_policy(policy), unjudged)

    def __str__(self) -> str:
        return spell_mix(self.terms)

    def for_queries(self, queries: AnyQueries) -> Criterion:
        """Return the criterion, or the nearest that weighted documents estimate without bias if they have weights.

        A measure that is not a sum over relevant documents becomes DCG with the same cutoff, 10 if it has none.

        >>> from marginrank import Queries
        >>> clicks = Queries.from_arrays([[0.0]] * 2, [1, 0], group=[2], document_weights=[4.0, 1.0])
        >>> str(Criterion.parse("ndcg@5").for_queries(clicks)), str(Criterion.parse("auc").for_queries(clicks))
        ('dcg@5', 'dcg@10')
        """
        if not queries.has_document_weights:
            return self
        terms = [(w, m if m.sums_over_relevant else DCG(k=m.depth or 10)) for w, m in self.terms]
        return replace(self, terms=tuple(terms))

    def values(self, queries: AnyQueries, ranked: System, n_jobs: int | None = None) -> FloatArray:
        """Return the value for each query, NaN if the policy leaves it out."""
        result = self._evaluate(queries, ranked, n_jobs)
        total = sum(weight * result[str(measure)] for weight, measure in self.terms)
        return np.asarray(total / self._total)

    def query_weights(self, queries: AnyQueries) -> FloatArray | None:
        """Return how much each query counts because of its weighted documents; None if they have no weights."""
        if not queries.has_document_weights:
            return None
        if isinstance(queries, PartitionedQueries):
            return np.concatenate(queries.partitions.map(relevant_totals))
        return relevant_totals(queries)

    def mean(self, queries: AnyQueries, ranked: System, n_jobs: int | None = None) -> float:
        """Return the weighted mean of the means of the measures."""
        return self.mean_of(self._evaluate(queries, ranked, n_jobs))

    def mean_of(self, result: Evaluation) -> float:
        """Return the weighted mean of the means of the measures of an evaluation."""
        return float(sum(weight * result.mean[str(measure)] for weight, measure in self.terms) / self._total)

    def _evaluate(self, queries: AnyQueries, ranked: System, n_jobs: int | None) -> Evaluation:
        # By their spellings, which leave it to the policy what is not spelled.
        measures = [str(measure) for _, measure in self.terms]
        return evaluate(queries, ranked, measures, policy=self.policy, unjudged=self.unjudged, n_jobs=n_jobs)

    @property
    def _total(self) -> float:
        return sum(weight for weight, _ in self.terms)
