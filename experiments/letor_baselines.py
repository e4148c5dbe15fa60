"""Known methods on LETOR and the published results: a check of training and evaluation as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from experiments.base import Experiment, Size, Task
from experiments.letor import FOLDS, SETS, Fold, fold, values
from experiments.letor_baselines_report import MEASURES, METHODS, VARIANTS, report
from experiments.letor_published import published
from experiments.rankers import ranker
from marginrank.typing import FloatArray

CS: Final = tuple(10.0**power for power in range(-3, 5))
#: What the publisher does to the features, where the files have them as they are.
SCALING: Final[Mapping[str, str]] = {"ohsumed2": "query-minmax"}
#: Rounds of what is boosted.
ROUNDS: Final = {"rankboost": 300, "lambdarank": 100}


class Tried(NamedTuple):
    """A trained ranker, and what it reached."""

    C: float | None
    valid: float
    test: dict[str, list[float]]


def _folds(
    data: Path,
    *,
    name: str,
    preset: str,
    options: Mapping[str, Any],
    Cs: Sequence[float],
    rounds: int | None,
    most: int | None,
) -> dict[str, Any]:
    """Train a method on the five folds, with C or the number of rounds chosen by the validation queries.

    ``options`` are those of the ranker; ``validation`` off takes the last round.
    """
    by_fold = [_one(fold(data, name, number, most), name, preset, dict(options), Cs, rounds) for number in FOLDS]
    best = [max(tried, key=lambda one: one.valid) for tried in by_fold]
    by_query = {measure: np.concatenate([one.test[measure] for one in best]) for measure in MEASURES}
    return {
        "ap": np.round(by_query["ap"], 5).tolist(),
        "means": {measure: [round(float(np.mean(one.test[measure])), 6) for one in best] for measure in MEASURES},
        "errors": {measure: round(_standard_error(column), 6) for measure, column in by_query.items()},
        "chosen": [one.C for one in best],
        "tested": [[round(float(np.mean(one.test["ap"])), 6) for one in tried] for tried in by_fold],
    }


def _one(
    split: Fold, name: str, preset: str, options: dict[str, Any], Cs: Sequence[float], rounds: int | None
) -> list[Tried]:
    """Train on one fold, for every C or once."""
    validated = options.pop("validation", True)
    options.setdefault("scaling", SCALING.get(name))
    policy = SETS[name].policy
    if rounds is None:
        rankers = ranker(preset, **options).fit_path(split.train, Cs=Cs)
    else:
        boosted = ranker(f"{preset}@{rounds}", patience=rounds, **options)
        rankers = [boosted.fit(split.train, validation=split.valid if validated else None)]
    return [
        Tried(
            None if rounds else one.C,
            float(np.mean(values(split.valid, one.predict(split.valid), ["ap"], policy)["ap"])),
            values(split.test, one.predict(split.test), MEASURES, policy),
        )
        for one in rankers
    ]


def _standard_error(column: FloatArray) -> float:
    return float(np.std(column, ddof=1) / np.sqrt(len(column)))


def _published(data: Path) -> dict[str, Any]:
    """Return the published tables."""
    return published(data)


def _plan(size: Size) -> list[Task]:
    full = size == "full"
    methods = [method for method in METHODS if method != "lambdarank" or find_spec("lightgbm")]
    if not full:
        methods = ["ranksvm", "rankboost"]
    tasks = [Task("published", _published)]
    for name in ("ohsumed", "ohsumed2", "mq2008") if full else ("ohsumed",):
        tasks += [_task(name, method, method, {}, full) for method in methods]
        tasks += [
            _task(name, variant, one.preset, one.options, full)
            for variant, one in VARIANTS.items()
            if name in one.sets and (full or variant == "rankboost-last")
        ]
    return tasks


def _task(name: str, label: str, preset: str, options: Mapping[str, Any], full: bool) -> Task:
    rounds = ROUNDS.get(preset)
    return Task(
        f"{name}/{label}",
        _folds,
        {
            "name": name,
            "preset": preset,
            "options": dict(options),
            "Cs": list(CS if full else CS[:2]),
            "rounds": rounds if full or rounds is None else 5,
            "most": None if full else 4,
        },
    )


EXPERIMENT: Final = Experiment(
    "letor-baselines",
    "Known methods and their published results",
    "the baselines published with LETOR 2.0, 3.0 and 4.0",
    "RankSVM, RankBoost and others are trained on the five folds of OHSUMED and MQ2008 and judged by the rules of the "
    "official scripts. C, or the number of rounds, is the one with the best MAP on the validation queries. Beside them "
    "are the results of the publisher of the data. The last table shows the effect of choices that the publisher does "
    "not report.",
    ("letor2-ohsumed", "letor3-ohsumed", "letor4-mq2008"),
    _plan,
    report,
)
