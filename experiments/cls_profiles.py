"""Three profiles A of the joint feature map: Chapelle, Le and Smola (2007), §2, §5.1 and §5.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from experiments.base import Cell, Experiment, Finding, Picture, Report, Size, Table, Task
from experiments.cls import (
    CS,
    CUTS,
    DATA_NOTE,
    FOLDERS,
    MODEL_NOTE,
    NAMES,
    PAPER,
    PROFILES,
    SCALING_NOTE,
    measured,
    regression,
    scaled_fold,
    tight,
)
from experiments.letor import FOLDS, SETS, choose, fold_average, pooled
from experiments.verdicts import Difference, beats, differences
from marginrank.losses.feature_maps import Positional
from marginrank.measures import parse_measure
from marginrank.model.plots import new_figure

OWN: Final = "truncated"
VALIDATED: Final = "by validation"
#: What is compared with the paper's own.
OTHERS: Final = ("sqrt", "discount", VALIDATED)


def _fold(data: Path, *, name: str, shape: str, number: int, most: int | None, Cs: Sequence[float]) -> dict[str, Any]:
    """NDCG on the test queries, and NDCG@10 on the validation queries, under the tight bound with a profile."""
    split = scaled_fold(data, name, number, most)
    chosen = choose(tight(regression(split, Cs=Cs), shape=shape), split, Cs=Cs, criterion="ndcg@10")
    scores = chosen.ranker.predict(split.test)
    return {**measured(dict.fromkeys(CUTS, scores), split, name), "valid": round(chosen.best.mean, 5)}


def _plan(size: Size) -> list[Task]:
    folds, most, Cs = (FOLDS, None, CS) if size == "full" else (FOLDS[:2], 6, (1.0,))
    return [
        Task(
            f"{name}/{shape}/fold {number}",
            _fold,
            {"name": name, "shape": shape, "number": number, "most": most, "Cs": Cs},
        )
        for name in NAMES
        for shape in PROFILES
        for number in folds
    ]


def _validated(results: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Results of the profile that was best on the validation queries of each fold, as those of one more profile."""
    chosen = {}
    for number in FOLDS:
        of_fold = [results[key] for shape in PROFILES if (key := f"{name}/{shape}/fold {number}") in results]
        if of_fold:
            chosen[f"{name}/{VALIDATED}/fold {number}"] = max(of_fold, key=lambda one: float(one["valid"]))
    return chosen


def _report(results: Mapping[str, Any]) -> Report:
    every = {**results, **{key: one for name in NAMES for key, one in _validated(results, name).items()}}
    worse = "With A = D, the discount itself, results are not as good as with A(r) = max(k + 1 − r, 0)."
    caption = "The profiles for k = 10, and NDCG@10 of the others against the first, with simultaneous 95% intervals."
    return Report(
        [_table(every), _tests(every)],
        [Picture("profiles", caption, _draw(every))],
        [
            _finding(every, worse, "§5.1", OWN, "discount"),
            _finding(every, "A should be chosen with the model, by validation.", "§2", VALIDATED, OWN),
        ],
        [
            DATA_NOTE,
            SCALING_NOTE,
            MODEL_NOTE,
            "All profiles are trained under the tight bound, since the hinge of each leaves the weights at 0 or near "
            "it (see cls-collapse). The paper compared A = D on a private set.",
            "1/√r is not cut at k, as in §5.2; max(k + 1 − r, 0) and D are 0 after rank k = 10.",
        ],
    )


def _compared(results: Mapping[str, Any], pairs: Sequence[tuple[str, str, str]]) -> list[Difference]:
    """Compare two profiles on one set, given as (set, profile, profile), for all of them as one claim."""
    return differences(
        {
            f"{SETS[name].title}, {_title(one)} − {_title(other)}": (
                pooled(results, f"{name}/{one}", "ndcg@10"),
                pooled(results, f"{name}/{other}", "ndcg@10"),
            )
            for name, one, other in pairs
        }
    )


def _title(shape: str) -> str:
    return PROFILES.get(shape, shape)


def _against_own(results: Mapping[str, Any]) -> dict[tuple[str, str], Difference]:
    """Compare the other profiles with that of the paper, by set and profile."""
    places = [(name, shape) for name in NAMES for shape in OTHERS]
    return dict(zip(places, _compared(results, [(*place, OWN) for place in places]), strict=True))


def _table(results: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in NAMES:
        for shape in (*PROFILES, VALIDATED):
            means = fold_average(results, f"{name}/{shape}", "plain")[[0, 4, 9]].tolist()
            valid = float(fold_average(results, f"{name}/{shape}", "valid"))
            rows.append((SETS[name].title, _title(shape), *means, valid))
    columns = ("set", "A(r)", "NDCG@1", "NDCG@5", "NDCG@10", "NDCG@10, validation")
    return Table("Means of the folds, trained for NDCG@10", columns, rows)


def _tests(results: Mapping[str, Any]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (SETS[name].title, _title(shape), row.mean, *row.interval, row.p)
        for (name, shape), row in _against_own(results).items()
    ]
    columns = ("set", "A(r)", "difference", "from", "to", "Wilcoxon p (Holm)")
    caption = f"NDCG@10 by test query against A(r) = {PROFILES[OWN]}, with simultaneous 95% intervals"
    return Table(caption, columns, rows)


def _finding(results: Mapping[str, Any], claim: str, section: str, shape: str, other: str) -> Finding:
    """Test whether one profile is better than another on both sets."""
    rows = _compared(results, [(name, shape, other) for name in NAMES])
    return Finding(claim, f"{PAPER}, {section}", beats(rows), f"NDCG@10: {'; '.join(map(str, rows))}")


def _draw(results: Mapping[str, Any]) -> Any:
    """Draw the profiles, and how far NDCG@10 is from that of the paper's own."""
    figure = new_figure(9.6, 3.6)
    left, right = figure.subplots(1, 2)
    for shape, marker in zip(PROFILES, "osv", strict=True):
        line = Positional(shape).profile(15, parse_measure("ndcg@10"))
        left.plot(range(1, 16), line / line[0], marker=marker, label=f"A(r) = {PROFILES[shape]}")
    left.set(xlabel="rank r", ylabel="A(r) / A(1)", xticks=range(1, 16, 2))
    left.legend(frameon=False)
    rows = list(_against_own(results).items())[::-1]
    for place, (_, row) in enumerate(rows):
        right.plot(row.interval, [place, place], color="gray")
        right.plot([row.mean], [place], "o", color="black")
    right.set_yticks(range(len(rows)), [f"{SETS[name].title}, {_title(shape)}" for (name, shape), _ in rows])
    right.axvline(0.0, color="black", linewidth=0.8, linestyle=":")
    right.set(xlabel=f"NDCG@10 less that of {PROFILES[OWN]}")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return figure


EXPERIMENT: Final = Experiment(
    "cls-profiles",
    "Profiles of the joint feature map",
    f"{PAPER}, §2, §5.1 and §5.2",
    "Ψ(x, y) = Σ_i A(rank of i)·x_i leaves the profile A open. Three are named in the paper: max(k + 1 − r, 0), 1/√r, "
    "and the discount D(r) = 1/log₂(1 + r) of NDCG@k itself. Each is trained for NDCG@10 under the tight bound. "
    "A fourth row takes in each fold the profile that is best on the validation queries.",
    FOLDERS,
    _plan,
    _report,
)
