"""Experiments: tasks that compute, and a report that is made from their results alone.

An experiment is one module of this folder with a constant ``EXPERIMENT``; `all_experiments` finds it, and
``python -m experiments run NAME`` runs it:

    def _fold(data: Path, *, preset: str, fold: int, most: int | None) -> dict[str, Any]:
        ...                                   # train, evaluate; return what JSON can hold

    def _plan(size: Size) -> list[Task]:
        presets, most = (("svmmap", "svmauc"), None) if size == "full" else (("svmmap",), 8)
        return [
            Task(f"{preset}/fold {fold}", _fold, {"preset": preset, "fold": fold, "most": most})
            for preset in presets for fold in range(1, 6)
        ]

    def _report(results: Mapping[str, Any]) -> Report:
        ...                                   # tables, figures and findings, computed from the results by name

    EXPERIMENT = Experiment("yue-roc", "...", "Yue et al. (2007), Table 9", "...", ("letor4-mq2008",), _plan, _report)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from experiments.verdicts import Verdict

#: ``miniature`` runs through everything in seconds, on a few queries: for tests, its numbers mean nothing.
Size: TypeAlias = Literal["full", "miniature"]
Cell: TypeAlias = str | float | int | None


@dataclass(frozen=True)
class Task:
    """A unit of work, whose result is cached on disk.

    Args:
        name: Its name in the report, unique in the experiment.
        call: A function of a module, called as ``call(data, **options)`` with the folder of the data. Its result is
            cached as JSON. It may run in another process, next to others, and should use one thread.
        options: Its other arguments, which JSON can hold.
        alone: Whether to run it when nothing else runs, because it measures time.
    """

    name: str
    call: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a caption; numbers are printed with four digits, None as a dash.

    >>> print(Table("Means", ("method", "MAP"), [("svmmap", 0.48), ("ranksvm", None)]).markdown())
    **Means**
    <BLANKLINE>
    | method | MAP |
    | :--- | ---: |
    | svmmap | 0.4800 |
    | ranksvm | – |
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """Return it as a Markdown table."""
        numeric = [
            any(isinstance(row[at], int | float) for row in self.rows) and at > 0 for at in range(len(self.columns))
        ]
        lines = [list(self.columns), ["---:" if right else ":---" for right in numeric]]
        lines += [[_cell(value) for value in row] for row in self.rows]
        return f"**{self.caption}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Picture:
    """A picture with a caption.

    Args:
        name: The end of its file's name.
        caption: What it shows, in a sentence.
        figure: A figure of matplotlib, made by `marginrank.model.plots.new_figure`.
    """

    name: str
    caption: str
    figure: Any


@dataclass(frozen=True)
class Finding:
    """A claim of a paper and what the numbers say about it; computed, never written by hand.

    Args:
        claim: What the paper says, in one sentence.
        source: Where it says so, such as ``Yue et al. (2007), Table 6``.
        verdict: Whether it holds here.
        evidence: The numbers that decide, with intervals or tests.
        fact: What this claim restates in one of several settings; all claims with the same fact count once.
    """

    claim: str
    source: str
    verdict: Verdict
    evidence: str
    fact: str = ""


@dataclass(frozen=True)
class Section:
    """A question, its answer in a paragraph, and the tables and pictures it is read off."""

    title: str
    text: str
    tables: Sequence[Table]
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Report:
    """The report of an experiment, in the order of reading.

    Args:
        tables: Ours, and those of the paper beside them.
        pictures: Figures.
        findings: Claims and verdicts.
        notes: Sentences on what differs from the paper, and why.
        sections: Parts of a page that answers questions, before all tables and pictures.
    """

    tables: Sequence[Table]
    pictures: Sequence[Picture] = ()
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()

    @property
    def all_tables(self) -> list[Table]:
        """The tables of the sections, then the others."""
        return [*(table for section in self.sections for table in section.tables), *self.tables]

    @property
    def all_pictures(self) -> list[Picture]:
        """The pictures of the sections, then the others."""
        return [*(picture for section in self.sections for picture in section.pictures), *self.pictures]


@dataclass(frozen=True)
class Experiment:
    """A result of a paper, reproduced, or a question answered on public data.

    Args:
        name: How it is asked for.
        title: What it is, in a line.
        source: The paper and its tables or figures.
        about: What is rebuilt and how, in a paragraph or two of Markdown.
        data: Folders it reads, below the folder of the data.
        plan: The tasks, given the size.
        report: What they show, given their results by name.
        of_paper: Whether it reproduces a paper; its findings are then claims of the paper.
    """

    name: str
    title: str
    source: str
    about: str
    data: Sequence[str]
    plan: Callable[[Size], Sequence[Task]]
    report: Callable[[Mapping[str, Any]], Report]
    of_paper: bool = True


def _cell(value: Cell) -> str:
    if value is None or value != value:  # noqa: PLR0124
        return "–"
    if isinstance(value, float):
        return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value.replace("|", "\\|")
