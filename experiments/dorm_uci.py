"""NDCG@10 on four UCI sets whose classes become grades: Le and Smola (2008), Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.base import Experiment, Finding, Report, Size, Table, Task
from experiments.dorm import PAPER, ratio_at_zero
from experiments.rankers import ranker
from experiments.uci import SETS, Definition, deal
from experiments.verdicts import Difference, against, at_zero, beats, differences, mark_untestable
from marginrank.evaluation.evaluation import evaluate
from marginrank.losses.base import Bound, Loss
from marginrank.losses.structured import StructuredLoss
from marginrank.ranker.tuning import tune
from marginrank.typing import FloatArray

CS: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
MAP: Final = "dorm(shape=power,d=1)"
OWN: Final = "DORM"
TIGHT: Final = "DORM, tight"
METHODS: Final[Mapping[str, tuple[str | Loss, Bound | None]]] = {
    "ROCArea": ("svmauc", None),
    "SVM": ("svm-multiclass", None),
    "Prec@10": ("svmprec@10", None),
    OWN: (StructuredLoss("ndcg@10", MAP), "hinge"),
    TIGHT: (StructuredLoss("ndcg@10", MAP), "tight"),
    "SVM (relevant or not)": ("svmacc", None),
    "ranking SVM": ("ranksvm", None),
}
#: Table 1, NDCG@10 in per cent.
PRINTED: Final[Mapping[str, Mapping[str, str]]] = {
    "page-blocks": {"ROCArea": "35.9 ± 7", "SVM": "46.5 ± 7", "Prec@10": "44.0 ± 7", OWN: "63.7 ± 6"},
    "pendigits": {"ROCArea": "26.2 ± 8", "SVM": "41.5 ± 4", "Prec@10": "15.6 ± 3", OWN: "85.2 ± 3"},
    "optdigits": {"ROCArea": "26.0 ± 9", "SVM": "26.1 ± 3", "Prec@10": "26.2 ± 3", OWN: "76.1 ± 6"},
    "covertype": {"ROCArea": "47.0 ± 2", "SVM": "48.5 ± 2", "Prec@10": "42.1 ± 1", OWN: "58.8 ± 2"},
}
TITLES: Final[Mapping[Definition, str]] = {
    "class": "the class is the grade",
    "one": "documents of one class are relevant",
}

#: What the paper leaves open: how classes become grades, and which SVM it has.
READINGS: Final[Sequence[tuple[Definition, str]]] = (
    ("class", "SVM"),
    ("class", "SVM (relevant or not)"),
    ("one", "SVM"),
)


def _method(
    data: Path,
    *,
    name: str,
    definition: Definition,
    method: str,
    folds: int,
    inner: int,
    Cs: Sequence[float],
    most: int | None,
) -> dict[str, list[Any]]:
    """NDCG@10 of every query, each ranked by a model that was trained and chosen without it."""
    queries = deal(data, name, definition, most)
    part = np.arange(len(queries)) % folds
    values, chosen_Cs, ratios = np.empty(len(queries)), [], []
    name_or_loss, bound = METHODS[method]
    untrained = ranker(name_or_loss, bound=bound, scaling="standard")
    for number in range(folds):
        chosen = tune(untrained, queries[part != number], folds=inner, Cs=Cs, criterion="ndcg@10", n_jobs=1)
        test = queries[part == number]
        values[part == number] = evaluate(test, chosen.ranker.predict(test), "ndcg@10", n_jobs=1)["ndcg@10"]
        chosen_Cs.append(float(chosen.best.parameters["C"]))
        ratios.append(ratio_at_zero(chosen.ranker))
    return {"values": values.round(5).tolist(), "C": chosen_Cs, "ratio": ratios}


def _random(data: Path, *, name: str, definition: Definition, most: int | None) -> float:
    """Mean NDCG@10 of all orders."""
    queries = deal(data, name, definition, most)
    return evaluate(queries, np.zeros(queries.n_documents), "ndcg@10", n_jobs=1).mean["ndcg@10"]


def _methods(definition: str) -> list[str]:
    """Methods that differ and are not too slow: the tight bound is with ten grades, and one SVM is both with two."""
    return [method for method in METHODS if method != (TIGHT if definition == "class" else "SVM (relevant or not)")]


def _plan(size: Size) -> list[Task]:
    tasks = []
    for name, uci_set in SETS.items() if size == "full" else [("page-blocks", SETS["page-blocks"])]:
        # Covertype has ten times the queries of the others, so two parts are enough to choose C.
        how = {"folds": 5, "inner": 2 if uci_set.n_queries > 50 else 3, "Cs": list(CS)}
        if size == "miniature":
            how = {"folds": 2, "inner": 2, "Cs": [1.0]}
        for definition in TITLES:
            shared = {"name": name, "definition": definition, "most": None if size == "full" else 4}
            tasks.append(Task(f"{name}/{definition}/any order", _random, shared))
            for method in _methods(definition):
                tasks.append(Task(f"{name}/{definition}/{method}", _method, {**shared, **how, "method": method}))
    return tasks


def _sets(results: Mapping[str, Any]) -> dict[str, str]:
    """Names and titles of the sets that there are results of."""
    return {name: uci_set.title for name, uci_set in SETS.items() if f"{name}/class/any order" in results}


def _values(results: Mapping[str, Any], name: str, definition: str) -> dict[str, FloatArray]:
    """Values by method, without the queries that have no relevant document."""
    columns = {
        method: np.asarray(results[f"{name}/{definition}/{method}"]["values"], float) for method in _methods(definition)
    }
    return {method: values[~np.isnan(values)] for method, values in columns.items()}


def _table(results: Mapping[str, Any], definition: Definition) -> Table:
    rows: list[tuple[Any, ...]] = []
    for name, title in _sets(results).items():
        values = _values(results, name, definition)
        others = [method for method in values if method != OWN]
        tests = dict(zip(others, against(values, OWN, others), strict=True))
        rows.append((title, "random order", f"{100 * results[f'{name}/{definition}/any order']:.1f}", *[None] * 4))
        for method, column in values.items():
            spread = column.std(ddof=1) / np.sqrt(len(column))
            row = tests.get(method)
            gain = (row.mean, f"[{row.interval[0]:+.4f}, {row.interval[1]:+.4f}]", row.p) if row else (None, None, None)
            ours = f"{100 * column.mean():.1f} ± {100 * spread:.1f}"
            rows.append((title, method, ours, PRINTED[name].get(method.removesuffix(" (relevant or not)")), *gain))
    columns = ("set", "method", "NDCG@10, %", "paper", "DORM minus it", "interval", "Wilcoxon p (Holm)")
    return Table(f"NDCG@10 where {TITLES[definition]}; ± is a standard error over queries", columns, rows)


def _differences(results: Mapping[str, Any], definition: str, pairs: Sequence[tuple[str, str]]) -> list[Difference]:
    """Compare DORM with other methods, given as sets and methods; not testable where one of the two is at w = 0."""
    values = {name: _values(results, name, definition) for name, _ in pairs}
    rows = differences(
        {f"{SETS[name].title}: {OWN} − {other}": (values[name][OWN], values[name][other]) for name, other in pairs}
    )
    untrained = [
        any(at_zero(results[f"{name}/{definition}/{method}"]["ratio"]) for method in (OWN, other))
        for name, other in pairs
    ]
    return mark_untestable(rows, untrained)


def _at_zero_note(results: Mapping[str, Any], definition: str) -> str:
    """Name the methods that stayed at w = 0 in most folds of a set."""
    named = [
        f"{method} on {title}"
        for name, title in _sets(results).items()
        for method in _methods(definition)
        if at_zero(results[f"{name}/{definition}/{method}"]["ratio"])
    ]
    return f"; at w = 0: {', '.join(named)}" if named else ""


def _claim(results: Mapping[str, Any], definition: Definition, svm: str) -> Finding:
    """Test the claim of Table 1 on all four sets, with one of the two readings of its SVM."""
    others = ("ROCArea", svm, "Prec@10")
    rows = _differences(results, definition, [(name, other) for name in _sets(results) for other in others])
    return Finding(
        f"DORM has a higher NDCG@10 than {', '.join(others)} on all four sets, where {TITLES[definition]}.",
        f"{PAPER}, Table 1",
        beats(rows),
        "; ".join(map(str, rows)) + _at_zero_note(results, definition),
        "DORM has a higher NDCG@10 than ROCArea, SVM and Prec@10 on all four sets",
    )


def _poor(results: Mapping[str, Any]) -> Finding:
    """Test whether methods for other measures are worse in NDCG if they are given the labels that it counts."""
    numbers, pairs = [], []
    for name, title in _sets(results).items():
        values = _values(results, name, "one")
        top = max((method for method in PRINTED[name] if method != OWN), key=lambda method: values[method].mean())
        pairs.append((name, top))
        numbers.append(f"{top} {100 * values[top].mean():.1f} on {title} (paper {PRINTED[name][top]})")
    rows = _differences(results, "one", pairs)
    return Finding(
        "Traditional methods perform poorly in NDCG, while direct optimization of it works very well; "
        "here with the labels that NDCG counts given to all of them (one class is relevant).",
        f"{PAPER}, §6.2",
        beats(rows),
        f"best traditional method: {', '.join(numbers)}; {'; '.join(map(str, rows))}" + _at_zero_note(results, "one"),
    )


def _level(results: Mapping[str, Any]) -> str:
    """The level of chance beside what the paper prints for methods that see two grades."""
    levels = [
        f"{100 * results[f'{name}/class/any order']:.1f} on {title}, where the paper has "
        f"{PRINTED[name]['ROCArea']} for ROCArea and {PRINTED[name]['Prec@10']} for Prec@10"
        for name, title in _sets(results).items()
    ]
    return f"A random order has {'; '.join(levels)}."


def _distance(results: Mapping[str, Any]) -> str:
    """Return how far our numbers are from those of the paper, under each reading."""
    distances = []
    for definition, svm in READINGS:
        gaps = []
        for name in _sets(results):
            values = _values(results, name, definition)
            ours = {method: values[svm if method == "SVM" else method].mean() for method in PRINTED[name]}
            gaps += [abs(100 * ours[method] - float(text.split()[0])) for method, text in PRINTED[name].items()]
        close = sum(gap < 5 for gap in gaps)
        distances.append(f"{np.mean(gaps):.1f} points ({TITLES[definition]}; {svm}; {close} of {len(gaps)} below 5)")
    return f"The mean distance to the numbers of the paper is {', '.join(distances)}."


def _report(results: Mapping[str, Any]) -> Report:
    return Report(
        [_table(results, definition) for definition in TITLES],
        findings=[*(_claim(results, *reading) for reading in READINGS), _poor(results)],
        notes=[
            "The paper does not say how classes become relevance. Shown are two definitions: the class as the grade, "
            "counted from 0 (so that 9 is the best digit, 5 the best block and 7 the best cover), and the class of the "
            "highest number as the only relevant one.",
            "ROCArea, SVM and Prec@10 distinguish only grade 0 from higher grades. Where the class is "
            "the grade, all classes but one are relevant to them, and nothing tells them which have the highest gains. "
            f"{_level(results)}",
            "The paper does not say which SVM is in its table: one class per grade, as in its §6.3 (“SVM”), or "
            "relevant or not. Its numbers do not decide, so the claim is tested with both, and what holds depends on "
            "it where the class is the grade. With two grades they are the same.",
            _distance(results),
            "Features are standardized on the training queries. C is chosen by folds of the training queries (3; 2 for "
            "Covertype; the paper has 10), each query is tested once in 5 folds, and there is one permutation.",
            "“DORM” is the hinge of the paper with c_i = 1/(i + 1), ranks from 0. “tight” is the bound of Chapelle, Le "
            "and Smola (2007), eq. (14), where one class is relevant; with ten grades it takes minutes. It "
            "and the ranking SVM are not in the table of the paper.",
            "On Covertype, DORM stays near w = 0. Where one class is relevant, two indicator columns have nearly all "
            "weight, and the order of documents that they do not tell apart is decided by weights that are smaller "
            "than the tolerance of the solver determines: fits with the same objective up to 3e-8 differ in NDCG@10 by "
            "as much as .5. Its figures there say that the loss has collapsed, and nothing else.",
        ],
    )


EXPERIMENT: Final = Experiment(
    "dorm-uci",
    "NDCG@10 on four UCI sets",
    "Le and Smola (2008), Table 1",
    "Rows of classification sets are permuted and dealt to queries of 100 documents: 50 queries of PageBlocks, "
    "PenDigits and OptDigits, 500 of Covertype. Linear methods are trained for ROC area, accuracy, precision@10 and "
    "NDCG@10 and compared in NDCG@10.",
    ("uci-page-blocks", "uci-pendigits", "uci-optdigits", "uci-covertype"),
    _plan,
    _report,
)
