"""Commands that recompute the figures of a report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sources:
    """The files that a report is about.

    Args:
        judged: The judged queries or TREC judgements.
        systems: The file of each system, by its name.
        reading: Options that the judged file is read with, such as ``("--missing", "zero")``.
        by: The column of the judged file that names the segments, if there is one.
        raters: The file of judgements by rater, if there is one.
    """

    judged: str
    systems: Mapping[str, str]
    reading: tuple[str, ...] = ()
    by: str | None = None
    raters: str | None = None


@dataclass(frozen=True)
class Commands:
    """Command lines, fit for a shell.

    >>> commands = Commands(Sources("my test.txt", {"a": "a.safetensors"}), ("ap",), "trec", k=2)
    >>> commands.means()
    "marginrank evaluate 'my test.txt' a.safetensors -m ap --policy trec --intervals"
    >>> commands.curve()
    "marginrank evaluate 'my test.txt' a.safetensors -m ndcg@1 -m ndcg@2 --policy trec"
    >>> commands.ranking("a")
    "marginrank rank a.safetensors 'my test.txt' --k 2"

    Args:
        sources: The files.
        measures: The measures of the report.
        policy: How ties and queries without relevant documents count.
        depth: How many documents of each list count; all for None.
        missing_topics: How to score judged topics missing from the run.
        unjudged: What becomes of documents without a judgement.
        k: How many documents of a query are shown, and the last cutoff of the curves.
        baseline: The system that the others are compared with.
        bounded: The measure whose bounds over missing grades are shown, if there are any.
    """

    sources: Sources
    measures: tuple[str, ...]
    policy: str
    depth: int | None = None
    missing_topics: str = "error"
    unjudged: str = "irrelevant"
    k: int = 10
    baseline: str | None = None
    bounded: str | None = None

    def means(self) -> str:
        """Return the command for means and their intervals."""
        return self._judge("evaluate", self.measures, "--intervals")

    def comparisons(self) -> str:
        """Return the command for differences from the baseline."""
        return self._judge("compare", self.measures, "--baseline", self.baseline or "")

    def segments(self) -> str:
        """Return the command for means and differences in each segment."""
        words = "--by", self.sources.by or "", "--intervals"
        if len(self.sources.systems) == 1:
            return self._judge("evaluate", self.measures, *words)
        return self._judge("compare", self.measures, *words, "--baseline", self.baseline or "")

    def curve(self) -> str:
        """Return the command for NDCG at every cutoff."""
        return self._judge("evaluate", tuple(f"ndcg@{k}" for k in range(1, self.k + 1)))

    def queries(self) -> str:
        """Return the command for the values of each query."""
        return self._judge("evaluate", self.measures[:1], "--per-query")

    def bounds(self) -> str:
        """Return the command for the lowest and highest means that missing grades allow."""
        if len(self.sources.systems) == 1:
            return self._judge("evaluate", (self.bounded or "",), "--bounds")
        return self._judge("compare", (self.bounded or "",), "--baseline", self.baseline or "", "--bounds")

    def raters(self) -> str:
        """Return the command for the agreement of raters."""
        return _line("judge", "agreement", _path(self.sources.raters or ""))

    def data(self) -> str:
        """Return the command for the profile of the data."""
        return _line("inspect", _path(self.sources.judged), *self.sources.reading)

    def ranking(self, system: str) -> str:
        """Return the command for the first documents of a model for each query."""
        paths = _path(self.sources.systems[system]), _path(self.sources.judged)
        return _line("rank", *paths, "--k", str(self.k), *self.sources.reading)

    def explanation(self, system: str, query: str, documents: Sequence[str]) -> str:
        """Return the command for contributions of features to the score of a document, or to the difference of two."""
        paths = _path(self.sources.systems[system]), _path(self.sources.judged)
        option = "--document" if len(documents) == 1 else "--documents"
        return _line("explain", *paths, "--query", query, option, *documents, *self.sources.reading)

    def model(self, system: str) -> str:
        """Return the command for everything about a model, with its trace and all of its features."""
        return _line("inspect", _path(self.sources.systems[system]), "--json")

    def to_dict(self) -> dict[str, Any]:
        """Return the commands by what they recompute."""
        names = ["means", "curve", "queries", "data", *(["comparisons"] if len(self.sources.systems) > 1 else [])]
        names += ["segments"] if self.sources.by else []
        names += ["raters"] if self.sources.raters else []
        names += ["bounds"] if self.bounded else []
        return {name: getattr(self, name)() for name in names}

    def _judge(self, command: str, measures: tuple[str, ...], *more: str) -> str:
        words = [_path(self.sources.judged), *map(_path, self.sources.systems.values())]
        words += [word for measure in measures for word in ("-m", measure)]
        words += ["--policy", self.policy]
        words += [] if self.depth is None else ["--depth", str(self.depth)]
        words += [] if self.missing_topics == "error" else ["--missing-topics", self.missing_topics]
        words += [] if self.unjudged == "irrelevant" else ["--unjudged", self.unjudged]
        return _line(command, *words, *more, *self.sources.reading)


def _line(*words: str) -> str:
    return shlex.join(["marginrank", *words])


def _path(name: str) -> str:
    """Return a path that is not taken for an option."""
    return f"./{name}" if name.startswith("-") else name
