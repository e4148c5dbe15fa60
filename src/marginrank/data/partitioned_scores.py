"""Scores of documents in partitions, which stay where the documents are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marginrank.atomic import atomic_path
from marginrank.data.partitioned import PartitionedQueries
from marginrank.data.partitions import Partitions
from marginrank.data.queries import Queries
from marginrank.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """The queries of a partition, and a score for each document in their order."""

    queries: Queries
    scores: FloatArray


class PartitionedScores:
    """One score for each document of queries in partitions; `evaluate` and `compare` take them.

    Args:
        queries: The queries.
        score: Function of a module that scores the documents of `Queries`.
        shared: Its other arguments.
    """

    def __init__(self, queries: PartitionedQueries, score: Callable[..., Any], *shared: Any) -> None:
        self.queries = queries
        self.parts: Partitions[ScoredPart] = queries.partitions.derive(_scored, score, *shared)

    def to_files(self, folder: str | Path) -> list[Path]:
        """Write a file for each partition, one score per line in the order of its source, and return their paths.

        The files are written where the partitions are; on several machines the folder has to be shared storage, or the
        files have to be collected from them.
        """
        digits = len(str(len(self.parts) - 1))
        paths = [Path(folder) / f"part-{number:0{digits}}.txt" for number in range(len(self.parts))]
        self.parts.map(_write, each=paths)
        return paths

    def gather(self) -> FloatArray:
        """Bring all scores into the memory of this process, one partition after the other."""
        return np.concatenate(self.parts.map(_in_source_order))


def _scored(queries: Queries, score: Callable[..., Any], *shared: Any) -> ScoredPart:
    return ScoredPart(queries, np.asarray(score(queries, *shared), dtype=np.float64))


def _in_source_order(part: ScoredPart) -> FloatArray:
    return np.asarray(part.queries.to_source_rows(part.scores))


def _write(part: ScoredPart, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{score!r}\n" for score in _in_source_order(part).tolist())
    with atomic_path(path) as place:
        place.write_text(lines, encoding="ascii")
