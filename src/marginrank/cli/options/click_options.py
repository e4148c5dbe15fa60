"""Options of click logs: columns, features and propensities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import load_ranker
from marginrank.cli.output import check_inputs
from marginrank.errors import DataError

if TYPE_CHECKING:
    from marginrank.clicks import ClickLog, Propensities
    from marginrank.data.queries import Queries
    from marginrank.typing import FloatArray

_METHODS: Final = ("harvest", "swap", "random", "em")
_CHOICES: Final = "harvest, swap, random or em, eta=1, 1,0.6,0.4, a file of `marginrank clicks propensities`, or none"

#: The log of a command.
Log: TypeAlias = Annotated[
    Path, typer.Argument(metavar="LOG", help="Clicks, a row per shown document: .csv, .tsv, .jsonl or .parquet.")
]


def _column(name: str, role: str, usual: str) -> Any:
    return typer.Option(f"--{name}-column", metavar="COLUMN", help=f"Column of {role} in the log.", show_default=usual)


@dataclass(frozen=True)
class ClickLogOptions:
    """Options of reading a click log, those of `read_clicks` and `read_ubi`."""

    panel: ClassVar = "Click log"

    query: Annotated[str | None, _column("query", "query ids", "query, qid, ...")] = None
    document: Annotated[str | None, _column("document", "document ids", "document_id, doc_id, ...")] = None
    position: Annotated[str | None, _column("position", "positions", "position, rank, ...")] = None
    clicked: Annotated[str | None, _column("clicked", "clicks, 0 or 1,", "clicked, click, ...")] = None
    impression: Annotated[str | None, _column("impression", "impression ids", "impression_id, ...")] = None
    system: Annotated[str | None, _column("system", "rankers or teams", "system, ranker, team, ...")] = None
    weight: Annotated[str | None, _column("weight", "weights", "weight")] = None
    propensity: Annotated[str | None, _column("propensity", "propensities", "propensity")] = None
    positions_from: Annotated[int, typer.Option(min=0, max=1, metavar="0|1", help="Number of the first position.")] = 1
    depth: Annotated[
        int | None, typer.Option(min=1, help="Leave out positions below this one.", show_default="all positions")
    ] = None
    merge: Annotated[
        bool,
        typer.Option("--merge/--no-merge", help="Treat impressions with the same query id as one query."),
    ] = True
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Add up equal rows while reading, for logs larger than memory.")
    ] = False
    ubi: Annotated[
        bool, typer.Option("--ubi", help="The log is OpenSearch User Behavior Insights: queries and events.")
    ] = False
    application: Annotated[str | None, typer.Option(metavar="NAME", help="With --ubi, the application to read.")] = None
    impressions: Annotated[
        Literal["events", "response"],
        typer.Option(help="With --ubi, what was shown: impression events, or the hits in the responses of queries."),
    ] = "events"
    unmatched: Annotated[
        Literal["error", "drop"], typer.Option(help="With --ubi, clicks without an impression: an error, or left out.")
    ] = "error"

    def read(self, path: Path, features: Sequence[str] = (), missing: str = "error") -> ClickLog:
        """Read a log, with some of its columns as features."""
        check_inputs([path])
        log = self._read(path, features, missing)
        return log if self.depth is None or self.depth >= log.depth else log.rows(log.position <= self.depth)

    def _read(self, path: Path, features: Sequence[str], missing: str) -> ClickLog:
        from marginrank.clicks import read_clicks, read_ubi  # noqa: PLC0415

        first: Literal[0, 1] = 1 if self.positions_from else 0
        if self.ubi:
            if features:
                raise UsageError("--ubi has no features; join them with --table")
            return read_ubi(
                path,
                application=self.application,
                impressions=self.impressions,
                unmatched=self.unmatched,
                positions_from=first,
                merge=self.merge,
            )
        if self.application is not None:
            raise UsageError("--application requires --ubi")
        return read_clicks(
            path,
            query=self.query,
            document=self.document,
            position=self.position,
            clicked=self.clicked,
            impression=self.impression,
            system=self.system,
            weight=self.weight,
            propensity=self.propensity,
            features=list(features) or None,
            missing=missing,  # type: ignore[arg-type]
            positions_from=first,
            merge=self.merge,
            aggregate=self.aggregate,
        )


@dataclass(frozen=True)
class ClickFeatureOptions:
    """Options of reading the features of shown documents."""

    panel: ClassVar = "Features"

    table: Annotated[
        Path | None,
        typer.Option(
            "--table",
            metavar="FILE",
            help="Table of features, by document or by query and document.",
            show_default="the columns --feature of the log",
        ),
    ] = None
    unknown: Annotated[
        Literal["error", "drop"],
        typer.Option(help="Shown documents that the table does not have: an error, or left out of the log."),
    ] = "error"
    qid: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of query ids in a table.")] = None
    document_id: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of document ids in a table.")] = None
    features: Annotated[
        list[str],
        typer.Option(
            "--feature",
            metavar="COLUMN,...",
            help="Columns of features in a table, such as bm25,age or 'bm25_*'; repeat for more.",
            show_default="those of the model, or all others",
        ),
    ] = field(default_factory=list)
    missing: Annotated[
        Literal["error", "nan", "zero", "min"] | None,
        typer.Option(
            help="How to treat NULL, NA and NaN; min is the smallest value in the query.",
            show_default="error; nan if the command or the model takes missing values",
        ),
    ] = None

    def read(self, path: Path, log: ClickLogOptions, missing: str | None = None) -> ClickLog:
        """Read a log with features."""
        chosen = self.missing or missing or "error"
        names = [name for words in self.features for name in words.split(",")]
        if self.table is None:
            if not names:
                raise UsageError("name the features: --table FILE, or --feature COLUMN of the log")
            return log.read(path, names, chosen)
        check_inputs([self.table])
        clicks = log.read(path)
        columns = {"qid": self.qid, "document_id": self.document_id, "features": names or None}
        return clicks.with_features(self.table, unknown=self.unknown, missing=chosen, **columns)


@dataclass(frozen=True)
class PropensityOptions:
    """Options of the correction of clicks."""

    panel: ClassVar = "Propensities"

    propensities: Annotated[
        str | None,
        typer.Option(
            metavar="CURVE",
            help="Estimate by harvest, swap, random or em; eta=1 for 1/rank; numbers 1,0.6,0.4; a file written by "
            "`marginrank clicks propensities`; or none, for no correction.",
            show_default="the column propensity of the log",
        ),
    ] = None
    clip: Annotated[float, typer.Option(min=0.0, max=1.0, help="Raise smaller propensities to this.")] = 0.0

    def check(self) -> None:
        """Refuse what can be refused before any data is read."""
        if self.propensities is not None and self.propensities not in (*_METHODS, "none"):
            self._given(1)

    def of(self, log: ClickLog, resamples: int = 0) -> Propensities | None:
        """Return the propensities of a log, intervals only if asked for; None for those of its rows."""
        from marginrank.clicks import estimate_propensities  # noqa: PLC0415

        if self.propensities is None:
            if log.propensity is None:
                raise UsageError(f"the log has no propensities; give --propensities: {_CHOICES}")
            if self.clip:
                raise UsageError("--clip requires --propensities; those of the log are taken as they are")
            return None
        for method in _METHODS:
            if self.propensities == method:
                return estimate_propensities(log, method, clip=self.clip, resamples=resamples)
        propensities = self._given(log.depth)
        if len(propensities.values) < log.depth:
            n = len(propensities.values)
            raise UsageError(f"the log has position {log.depth}, and --propensities has {n} numbers; give --depth {n}")
        return propensities

    def _given(self, depth: int) -> Propensities:
        from marginrank.clicks import Propensities  # noqa: PLC0415

        word = self.propensities or ""
        try:
            if word == "none":
                return Propensities.power(0.0, depth, clip=self.clip)
            if Path(word).exists():
                read = Propensities.read(word)
                return read.clipped(self.clip) if self.clip else read
            if word.startswith("eta="):
                return Propensities.power(float(word.removeprefix("eta=")), depth, clip=self.clip)
            return Propensities.of([float(one) for one in word.split(",")], clip=self.clip)
        except ValueError as error:
            if isinstance(error, DataError):
                raise
            raise UsageError(f"--propensities {word}: give {_CHOICES}") from None


def system_scores(log: ClickLog, systems: Sequence[Path], names: Sequence[str]) -> dict[str, FloatArray]:
    """Score the shown documents by models, or by columns of the features, in which a missing value is ranked last."""
    import numpy as np  # noqa: PLC0415

    from marginrank.model.file_format import is_model  # noqa: PLC0415

    scores = {}
    for name, path in zip(names, systems, strict=True):
        if path.exists() and not is_model(path):
            raise DataError("a system is a model, or the name of a feature", path=path)
        if not path.exists():
            values = log.documents.feature(str(path))
            scores[name] = np.where(np.isnan(values), -np.inf, values)
            continue
        ranker = load_ranker(path)
        try:
            scores[name] = ranker.predict(_with_columns(log.documents, ranker.model_.feature_names))
        except DataError as error:
            raise error.at(path) from None
    return scores


def _with_columns(documents: Queries, names: Sequence[str] | None) -> Queries:
    """Return documents with the features of a model, in its order."""
    import numpy as np  # noqa: PLC0415

    if names is None or documents.feature_names is None:
        return documents
    for name in names:
        if name not in documents.feature_names:
            raise DataError(f"the model was trained on feature {name!r}, which the shown documents do not have; add it")
    return documents.with_features(np.stack([documents.feature(name) for name in names], axis=1), tuple(names))
