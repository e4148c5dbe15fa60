"""Options that limit topics in rankings, and the files of topics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.errors import DataError


@dataclass(frozen=True)
class TopicOptions:
    """Topics of what is ranked, and how much of each a ranking may have."""

    panel: ClassVar = "Topics"

    topics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV or TSV with columns id, topic and, if not 1, weight: limit each topic in a ranking.",
        ),
    ] = None
    topic_limit: Annotated[
        float | None, typer.Option(help="Largest sum of weights of a topic in a ranking.", show_default="1")
    ] = None

    @property
    def limit(self) -> float:
        """The limit of each topic."""
        if self.topic_limit is not None and self.topics is None:
            raise UsageError("--topic-limit requires --topics")
        if self.topic_limit is not None and not 0 < self.topic_limit < float("inf"):
            raise UsageError(f"--topic-limit is {self.topic_limit:g}; give a positive number")
        return 1.0 if self.topic_limit is None else self.topic_limit

    def read(self) -> dict[str, dict[str, float]] | None:
        """Return the weights by id and topic; None without topics."""
        return None if self.topics is None else read_topics(self.topics)


def read_topics(path: Path) -> dict[str, dict[str, float]]:
    """Read weights by id and topic: comma-separated if the file is a .csv, else tab-separated."""
    from marginrank.data.formats.csv import csv_records  # noqa: PLC0415

    topics: dict[str, dict[str, float]] = {}
    names: list[str] = []
    comma = ".csv" in (suffix.lower() for suffix in path.suffixes)
    try:
        for line, record in csv_records(path, "," if comma else "\t"):
            if not names:
                names = [name.strip().lower() for name in record]
                _check_names(names, line)
                continue
            row = dict(zip(names, record, strict=False))
            if len(record) != len(names) or not row["id"] or not row["topic"]:
                raise DataError("every line needs an id and a topic", line=line)
            topics.setdefault(row["id"], {})[row["topic"]] = _weight(row.get("weight", "1"), line)
    except DataError as error:
        raise error.at(path) from None
    if not topics:
        raise DataError("there are no topics in this file", path=path)
    return topics


def _check_names(names: list[str], line: int) -> None:
    unknown = [name for name in names if name not in ("id", "topic", "weight")]
    if unknown or "id" not in names or "topic" not in names:
        raise DataError(f"the columns are {', '.join(names)}; name them id, topic and weight", line=line)


def _weight(text: str, line: int) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise DataError(f"weight is {text!r}; give a number of at least 0", line=line)
    return weight
