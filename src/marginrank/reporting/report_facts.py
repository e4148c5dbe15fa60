"""The facts of a report as plain data: one dataclass per section of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from marginrank.data.unjudged import UnjudgedRule
from marginrank.evaluation.comparison import Comparison
from marginrank.evaluation.evaluation import MissingTopics, Unjudged
from marginrank.evaluation.grade_bounds import GradeBounds
from marginrank.judging.agreement import RaterAgreement
from marginrank.judging.raters import RaterReport
from marginrank.reporting.explanation import Explanation
from marginrank.reporting.recompute_commands import Commands


@dataclass(frozen=True)
class SystemFacts:
    """A system by name: a model, a file of scores or a run."""

    name: str
    kind: Literal["model", "scores", "run"]


@dataclass(frozen=True)
class Mean:
    """The mean of a measure, its bootstrap interval, and the number of queries it is taken over."""

    system: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True)
class Leader:
    """The system with the highest mean of a measure, and those that it is not significantly better than.

    It is marked as best if there are none of these.
    """

    system: str
    rivals: tuple[str, ...]


@dataclass(frozen=True)
class CurvePoint:
    """NDCG@k of a system."""

    system: str
    k: int
    ndcg: float


@dataclass(frozen=True)
class QueryRow:
    """A query: how many documents, how many of them above grade 0, and the value of each system."""

    query: str
    documents: int
    relevant: int
    values: tuple[float, ...]
    text: str | None = None


@dataclass(frozen=True)
class QueryTable:
    """Queries on which systems differ most, or, of a single system, those it does worst on.

    Args:
        measure: What the values are of.
        rows: The queries that are shown.
        counted: How many there are that count.
        left_out: How many the policy leaves out.
    """

    measure: str
    rows: tuple[QueryRow, ...]
    counted: int
    left_out: int


@dataclass(frozen=True)
class Bar:
    """Queries from one place to another of all sorted by difference, with their mean difference.

    If it is a single query, ``query`` names it, and the values of both systems are known.
    """

    first: int
    last: int
    difference: float
    query: str | None = None
    value: float | None = None
    other: float | None = None
    text: str | None = None


@dataclass(frozen=True)
class Place:
    """A document at a rank, and its rank in the other system's list; None if it is not there."""

    rank: int
    document: str
    grade: float | None
    score: float
    other_rank: int | None


@dataclass(frozen=True)
class Duel:
    """A query with the first documents of both systems and, for models, an explanation of the difference."""

    query: str
    value: float
    other: float
    documents: tuple[Place, ...]
    other_documents: tuple[Place, ...]
    #: The document at the first rank where the lists differ, against the other system's, by name of the system.
    reasons: Mapping[str, Explanation]
    text: str | None = None

    @property
    def difference(self) -> float:
        """The gain of the first system."""
        return self.value - self.other


@dataclass(frozen=True)
class Contest:
    """A system against another, query by query: all differences, and the queries won and lost by most."""

    system: str
    other: str
    measure: str
    bars: tuple[Bar, ...]
    won: tuple[Duel, ...]
    lost: tuple[Duel, ...]


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a ranker.

    Args:
        name: The name of the system.
        record: How it was trained and how good its optimum is.
        features: One record per feature, with its weight or step function; none if the model has no such weights.
        sized_by: What the size of a feature is.
        trace: Progress of the solver, by iteration.
        iterations: How many iterations there were; the trace may show fewer.
        selection: The values of C that were tried; None if C was given.
    """

    name: str
    record: Mapping[str, Any]
    features: tuple[Mapping[str, Any], ...]
    sized_by: str
    trace: tuple[Mapping[str, float], ...]
    iterations: int
    selection: Mapping[str, Any] | None


@dataclass(frozen=True)
class Settings:
    """Settings of the evaluation."""

    measures: tuple[str, ...]
    policy: str
    policy_summary: str
    depth: int | None
    missing_topics: MissingTopics
    unjudged: UnjudgedRule
    k: int
    baseline: str
    confidence: float


@dataclass(frozen=True)
class ReportFacts:
    """All that a report says."""

    title: str
    data: str
    settings: Settings
    systems: tuple[SystemFacts, ...]
    #: Systems that were trained on the very queries of the report.
    trained_on_these: tuple[str, ...]
    means: tuple[Mean, ...]
    comparisons: Mapping[str, Comparison]
    #: By measure; none for a single system.
    leaders: Mapping[str, Leader]
    #: By segment, as ``means``; none without segments.
    segments: Mapping[str, tuple[Mean, ...]]
    curve: tuple[CurvePoint, ...]
    queries: QueryTable
    contests: tuple[Contest, ...]
    models: tuple[ModelFacts, ...]
    profile: Mapping[str, Any]
    commands: Commands | None
    #: By system, the unjudged documents among the first of each query.
    unjudged: Mapping[str, Unjudged] = field(default_factory=dict)
    #: What means could be whatever the unjudged documents are; None if all are judged, or they are left out.
    bounds: GradeBounds | None = None
    #: Agreement, None if no two raters have a document in common, and what each rater is like; None without raters.
    raters: tuple[RaterAgreement | None, RaterReport] | None = None

    @property
    def best(self) -> dict[str, str]:
        """By measure, the system that is significantly better than every other one, if there is one."""
        return {measure: leader.system for measure, leader in self.leaders.items() if not leader.rivals}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as records, with the commands spelled out."""
        record = asdict(self)
        record["comparisons"] = {measure: comparison.to_dicts() for measure, comparison in self.comparisons.items()}
        record["commands"] = None if self.commands is None else self.commands.to_dict()
        record["bounds"] = None if self.bounds is None else self.bounds.to_dict()
        record["raters"] = None
        if self.raters is not None:
            agreement, report = self.raters
            record["raters"] = {"agreement": None if agreement is None else agreement.to_dict(), **report.to_dict()}
        return record
