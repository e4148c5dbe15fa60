"""The LETOR sets that experiments share, their five folds, and how a method is trained and measured on one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from marginrank.data.arrays import Missing
from marginrank.data.formats.letor import read_letor
from marginrank.data.queries import Queries
from marginrank.evaluation.evaluation import evaluate
from marginrank.ranker.grid_search import DEFAULT_CS
from marginrank.ranker.ranker import Ranker
from marginrank.ranker.selection import Selection
from marginrank.ranker.tuning import tune
from marginrank.typing import FloatArray


@dataclass(frozen=True)
class LetorSet:
    """Path of a set, and the policy of its official script."""

    title: str
    folder: str
    policy: str
    prefix: str = "S"
    missing: Missing = "error"


SETS: Final[Mapping[str, LetorSet]] = {
    "ohsumed2": LetorSet("OHSUMED (LETOR 2.0)", "letor2-ohsumed", "letor3"),
    "ohsumed": LetorSet("OHSUMED (LETOR 3.0)", "letor3-ohsumed/QueryLevelNorm", "letor3"),
    "mq2008": LetorSet("MQ2008", "letor4-mq2008", "letor4"),
    "mq2008-agg": LetorSet("MQ2008-agg", "letor4-mq2008-agg", "letor4", "A", "nan"),
}
FOLDS: Final = (1, 2, 3, 4, 5)


class Fold(NamedTuple):
    """Queries to train on, to choose by and to test on."""

    train: Queries
    valid: Queries
    test: Queries


@cache
def parts(data: Path, name: str, most: int | None = None) -> tuple[Queries, ...]:
    """Read the five parts of a set; ``most`` keeps so many queries of each, those with several grades first."""
    letor_set = SETS[name]
    read = [
        read_letor(
            data / letor_set.folder / f"{letor_set.prefix}{n}.txt.xz", dtype="float64", missing=letor_set.missing
        )
        for n in FOLDS
    ]
    return tuple(read if most is None else [_varied(part, most) for part in read])


def fold(data: Path, name: str, number: int, most: int | None = None) -> Fold:
    """Return a fold of the publisher."""
    return arranged(parts(data, name, most), number)


def arranged(five: Sequence[Queries], number: int) -> Fold:
    """Arrange five parts as a fold of the publisher: three to train on, the next to choose by, the last to test on."""
    at = [five[(number - 1 + step) % len(FOLDS)] for step in range(len(FOLDS))]
    return Fold(Queries.concatenate(at[:3]), at[3], at[4])


def choose(
    ranker: Ranker,
    data: Fold,
    *,
    Cs: Iterable[float] = DEFAULT_CS,
    criterion: str = "ap",
    policy: str = "standard",
) -> Selection:
    """Choose C by the validation queries, on one thread."""
    return tune(ranker, data.train, valid=data.valid, Cs=Cs, criterion=criterion, policy=policy, n_jobs=1)


def values(
    queries: Queries, scores: FloatArray, measures: Sequence[str], policy: str = "standard"
) -> dict[str, list[float]]:
    """Return the value of every query by measure, NaN where the policy leaves it out."""
    evaluation = evaluate(queries, scores, measures, policy=policy, n_jobs=1)
    return {measure: evaluation[measure].tolist() for measure in measures}


def pooled(results: Mapping[str, Any], prefix: str, measure: str) -> FloatArray:
    """Put the values of the folds of one method end to end: results named ``PREFIX/fold N`` with ``values``."""
    folds = [
        results[f"{prefix}/fold {number}"]["values"][measure]
        for number in FOLDS
        if f"{prefix}/fold {number}" in results
    ]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in folds])


def fold_average(results: Mapping[str, Any], prefix: str, key: str) -> FloatArray:
    """Average over the folds of one method: results named ``PREFIX/fold N``."""
    folds = [results[f"{prefix}/fold {number}"][key] for number in FOLDS if f"{prefix}/fold {number}" in results]
    return np.asarray(np.mean(folds, axis=0))


def _varied(queries: Queries, most: int) -> Queries:
    starts, ends = queries.offsets[:-1], queries.offsets[1:]
    grades = queries.grades
    spread = np.array([np.ptp(grades[s:e]) if e > s else 0.0 for s, e in zip(starts, ends, strict=True)])
    return queries[np.sort(np.argsort(-(spread > 0).astype(int), kind="stable")[:most])]
