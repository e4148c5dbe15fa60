"""A report on systems, as one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from marginrank.data.queries import Queries
from marginrank.data.trec import Qrels
from marginrank.evaluation.evaluating import MissingTopics
from marginrank.evaluation.policies import Policy
from marginrank.evaluation.systems import ByQuery, System, as_judged, as_system
from marginrank.reporting.commands import Sources
from marginrank.reporting.facts import Facts
from marginrank.reporting.gathering import gather
from marginrank.reporting.page import library, render


def write_report(
    path: str | Path,
    judged: Queries | Qrels | ByQuery,
    systems: Mapping[str, System],
    measures: Iterable[str] = ("ndcg@10", "ap"),
    *,
    policy: str | Policy = "standard",
    depth: int | None = None,
    missing_topics: MissingTopics = "error",
    k: int = 10,
    baseline: str | None = None,
    title: str | None = None,
    sources: Sources | None = None,
    query_text: Mapping[Any, str] | None = None,
) -> Facts:
    """Write an HTML report about one or several systems, as one self-contained file.

    It opens with a verdict in two sentences: which system is best by the first measure, by how much, and whether that
    is significant. It has the means with intervals, paired differences to the baseline, NDCG by cutoff, the largest
    wins and losses with their documents, the weights or curves, the gap and the choice of C of models, and a profile of
    the data. Needs ``pip install 'marginrank[report]'``.

    Args:
        path: File to write.
        judged: Judged queries, or TREC judgements, which go with runs; these also as ``{query: {document: grade}}``.
        systems: By name, a `Ranker`, one score per document in the order of the queries, or a `Run`, also as
            ``{query: {document: score}}``.
        measures: Spellings such as ``ndcg@10``; queries are compared by the first.
        policy: How to score ties, and queries without relevant documents.
        depth: Evaluate only the first documents of each ranking.
        missing_topics: How to score judged topics missing from the run: ``error``, ``skip`` or ``zero``.
        k: Number of documents shown per query, and last cutoff of NDCG.
        baseline: The system that the others are compared with; by default the first that was not trained, such as
            scores or a run, or the first.
        title: Title of the page.
        sources: The files of data and systems; with them the page has the command that recomputes each number.
        query_text: The text of each query, by query id, to show beside the id. Queries may be left out.

    Returns:
        Everything that the page shows.
    """
    library()  # what is missing is said before any work is done
    facts = gather(
        as_judged(judged),
        {name: as_system(system) for name, system in systems.items()},
        measures,
        policy=policy,
        depth=depth,
        missing_topics=missing_topics,
        k=k,
        baseline=baseline,
        title=title,
        sources=sources,
        query_text=query_text,
    )
    # Paths need not be UTF-8.
    Path(path).write_text(render(facts), encoding="utf-8", errors="backslashreplace")
    return facts
