"""A report on systems, as one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

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
) -> Facts:
    """Write a page about one or several systems, which opens in a browser and needs nothing else.

    It has the measures with intervals, paired differences to the baseline, NDCG by cutoff, the queries won and lost by
    most with their documents, the weights or shapes, the gap and the choice of C of models, and the profile of the
    data. Needs ``pip install 'marginrank[report]'``.

    Args:
        path: Where to write it.
        judged: Judged queries, or TREC judgements, which go with runs; these also as ``{query: {document: grade}}``.
        systems: By name, a `Ranker`, one score per document in the order of the queries, or a `Run`, also as
            ``{query: {document: score}}``.
        measures: Spellings such as ``ndcg@10``; queries are compared by the first.
        policy: How ties and queries without relevant documents count.
        depth: Count only the first documents of each list.
        missing_topics: How to score judged topics missing from the run: ``error``, ``skip`` or ``zero``.
        k: Documents that are shown of a query, and the last cutoff of NDCG.
        baseline: The system that the others are compared with; by default the first.
        title: Heading of the page.
        sources: Files that all this came from; with them the page has the command that recomputes each number.

    Returns:
        What the page says.
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
    )
    # Paths need not be UTF-8.
    Path(path).write_text(render(facts), encoding="utf-8", errors="backslashreplace")
    return facts
