"""The page "Which loss should I train?": a table, a picture and a paragraph for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from experiments.base import Cell, Finding, Picture, Report, Section, Table
from experiments.chk import differences, unpack
from experiments.verdicts import AT_ZERO, Difference, at_zero, beats, mark_untestable, within
from marginrank.model.plots import new_figure
from marginrank.typing import FloatArray

COLLECTIONS: Final = {
    "mq2008": "MQ2008",
    "ohsumed": "OHSUMED",
    "pydocs": "pydocs",
    "scifact": "SciFact",
    "cranfield": "Cranfield",
}
#: Methods as preset or loss, and bound; the bound is that of the preset if there is none.
METHODS: Final[Mapping[str, tuple[str, str | None]]] = {
    "softmax": ("softmax", None),
    "listnet": ("listnet", None),
    "svmmap": ("svmmap", None),
    "svmndcg": ("svmndcg", None),
    "ranksvm": ("ranksvm", None),
    "ranksvm-squared": ("ranksvm-squared", None),
    "svmauc": ("svmauc", None),
    "regression": ("regression", None),
    "svmmap, hinge": ("svmmap", "hinge"),
    "svmmap, tight": ("svmmap", "tight"),
    "svmndcg, hinge": ("svmndcg", "hinge"),
    "svmndcg, tight": ("svmndcg", "tight"),
    "dorm-ndcg": ("dorm-ndcg", None),
    "dorm-ndcg, hinge": ("dorm-ndcg", "hinge"),
    "dorm-ndcg, tight": ("dorm-ndcg", "tight"),
    "svmmrr": ("svmmrr", None),
    "rr@10, φpo": ("rr@10 po", None),
    "rr@10, φdorm": ("rr@10 dorm", None),
}
#: Trained on all queries.
ALL: Final = "all"
#: The methods of the first question; the pairwise hinge is what they are compared with.
LOSSES: Final = ("softmax", "listnet", "svmmap", "svmndcg", "ranksvm", "ranksvm-squared", "svmauc", "regression")
OF_MEASURE: Final = ("softmax", "listnet", "svmmap", "svmndcg")
PAIRS: Final = "ranksvm"
BOUNDS: Final = {"svmmap": "average precision", "svmndcg": "NDCG@10, φpo", "dorm-ndcg": "NDCG@10, φdorm"}
#: By the measure of the loss: the method with φpo, and those with other maps.
MAPS: Final = {"ndcg@10": ("svmndcg", ("dorm-ndcg",)), "rr@10": ("rr@10, φpo", ("svmmrr", "rr@10, φdorm"))}
MAP_TITLES: Final = {
    "svmndcg": "φpo",
    "dorm-ndcg": "φdorm",
    "rr@10, φpo": "φpo",
    "svmmrr": "φmrr",
    "rr@10, φdorm": "φdorm",
}
FEW: Final = ("softmax", "svmmap", "svmndcg", "ranksvm")
SIZES: Final[Mapping[str, tuple[int, ...]]] = {
    "mq2008": (10, 20, 50, 200),
    "ohsumed": (10, 20, 50),
    "pydocs": (10, 20, 50, 200),
    "scifact": (10, 20, 50, 200),
    "cranfield": (10, 20, 50),
}
#: The collection with the fewest validation queries, and the ways to choose C that are compared on it.
SMALL: Final = "ohsumed"
RULES: Final = {
    "best": "best on the validation queries",
    "one-se": "smallest C within a standard error of the best",
    "folds": "five-fold cross-validation on training and validation queries",
}
#: A method is safe if it is nowhere further behind the best of the others than this, in NDCG@10.
SAFE: Final = 0.01
_INTERVALS: Final = "with simultaneous 95% intervals"


def report(results: Mapping[str, Any]) -> Report:
    """Answer the questions, and test what the answers rest on."""
    return Report(
        [],
        sections=[
            _losses(results),
            _bounds(results),
            _maps(results),
            _curves(results),
            _choices(results),
            _costs(results),
        ],
        findings=_findings(results),
        notes=[
            _first_impression(results),
            "Rankers are linear. Trees and networks have other strengths; see boosting and neural.",
            f"A collection of queries is one draw: what differs by less than {SAFE} here may well be the other way "
            "round on yours. Compare two or three losses on validation queries.",
            "The questions about the Python documentation are built from the docstrings of the installed NumPy, SciPy "
            "and scikit-learn, so that their numbers change with these versions.",
        ],
    )


def _first_impression(results: Mapping[str, Any]) -> str:
    """Describe the first run on the two LETOR collections alone."""
    safe = safe_losses(results)
    said = [f"{loss} {'is' if loss in safe else 'is not'}" for loss in ("softmax", "svmmap")]
    return (
        "A first run on MQ2008 and OHSUMED alone suggested that softmax and svmmap are the safe choices, and "
        f"structured NDCG only with the bound auto. On five collections, {' and '.join(said)} among the losses that "
        f"are nowhere significantly behind, and svmndcg with auto {'is' if 'svmndcg' in safe else 'is not'}; with the "
        f"hinge alone, svmndcg learned nothing in {_zeros(results, 'svmndcg, hinge')} folds."
    )


def shortfalls(results: Mapping[str, Any]) -> dict[str, float]:
    """Return how far each loss is behind the best one in mean NDCG@10, on the collection where that is most."""
    means = {loss: [_values(results, name, loss).mean() for name in COLLECTIONS] for loss in LOSSES}
    best = np.max(list(means.values()), axis=0)
    return {loss: float(np.max(best - np.array(by_set))) for loss, by_set in means.items()}


def _values(
    results: Mapping[str, Any], name: str, title: str, size: int | str = ALL, measure: str = "ndcg@10"
) -> FloatArray:
    return unpack(results[f"{name}/{title}/{size}"]["values"][measure])


def _mean(results: Mapping[str, Any], name: str, title: str, size: int | str = ALL, measure: str = "ndcg@10") -> float:
    return float(_values(results, name, title, size, measure).mean())


def _against(
    results: Mapping[str, Any], titles: Sequence[str], base: str, measure: str = "ndcg@10"
) -> dict[tuple[str, str], Difference]:
    """Compare methods with one, on every collection, as one claim; by method and collection."""
    keys = [(title, name) for title in titles for name in COLLECTIONS]
    pairs = {
        f"{COLLECTIONS[name]}, {title} − {base}": (
            _values(results, name, title, measure=measure),
            _values(results, name, base, measure=measure),
        )
        for title, name in keys
    }
    untrained = [_untrained(results, name, title) or _untrained(results, name, base) for title, name in keys]
    return dict(zip(keys, mark_untestable(differences(pairs), untrained), strict=True))


def _untrained(results: Mapping[str, Any], name: str, title: str) -> bool:
    """Return whether a method stayed at w = 0 in most folds of a collection."""
    return at_zero(results[f"{name}/{title}/{ALL}"]["objective_ratio"])


def _zeros(results: Mapping[str, Any], title: str) -> str:
    """Return in how many of the folds a method learned nothing, or nearly so."""
    ratios = [ratio for name in COLLECTIONS for ratio in results[f"{name}/{title}/{ALL}"]["objective_ratio"]]
    zeros = sum(ratio is not None and ratio > AT_ZERO for ratio in ratios)
    return f"{zeros} of {len(ratios)}"


def safe_losses(results: Mapping[str, Any]) -> list[str]:
    """Return the losses that are nowhere significantly behind the best one, the closest to the best first."""
    behind = shortfalls(results)
    return [loss for loss in sorted(LOSSES, key=behind.__getitem__) if not collections_behind(results, loss)]


def collections_behind(results: Mapping[str, Any], loss: str) -> list[str]:
    """Return the collections on which a loss is significantly behind the best of the others, or learned nothing."""
    rows = zip(COLLECTIONS.items(), _against_best(results, loss), strict=True)
    return [title for (name, title), row in rows if row.direction < 0 or _untrained(results, name, loss)]


def _against_best(results: Mapping[str, Any], loss: str) -> list[Difference]:
    """Compare a loss with the best of the others, on every collection."""
    others = [other for other in LOSSES if other != loss]
    best = {name: max(others, key=partial(_mean, results, name)) for name in COLLECTIONS}
    rows = differences(
        {
            f"{COLLECTIONS[name]}, {loss} − {other}": (_values(results, name, loss), _values(results, name, other))
            for name, other in best.items()
        }
    )
    return mark_untestable(rows, [any(_untrained(results, name, one) for one in (loss, best[name])) for name in best])


def _losses(results: Mapping[str, Any]) -> Section:
    behind = shortfalls(results)
    rows: list[tuple[Cell, ...]] = [
        (loss, *(_mean(results, name, loss) for name in COLLECTIONS), behind[loss])
        for loss in sorted(LOSSES, key=behind.__getitem__)
    ]
    rows = [(*row, ", ".join(collections_behind(results, str(row[0]))) or "nowhere") for row in rows]
    significant = [row for row in _against(results, OF_MEASURE, PAIRS).values() if row.direction]
    listed = "; ".join(map(str, significant)) or "none"
    text = (
        f"Nowhere significantly behind the best of the others: **{', '.join(safe_losses(results)) or 'none'}** (the "
        f"closest to the best first). Against the hinge of pairs, `{PAIRS}`, the losses of a measure or a list differ "
        f"significantly in these cases: {listed}. Most collections cannot tell good losses apart."
    )
    others = [loss for loss in LOSSES if loss != PAIRS]
    return Section(
        "Measure or pairs?",
        text,
        [
            Table(
                "NDCG@10, and the largest distance from the best",
                ("loss", *COLLECTIONS.values(), "furthest behind", "significantly behind on"),
                rows,
            )
        ],
        [
            Picture(
                "losses",
                f"NDCG@10 less that of `{PAIRS}`, {_INTERVALS}.",
                _panels(_against(results, others, PAIRS), others, f"NDCG@10 less that of {PAIRS}"),
            )
        ],
    )


def _bounds(results: Mapping[str, Any]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for preset, loss in BOUNDS.items():
        for bound in ("hinge", "tight", "auto"):
            title = preset if bound == "auto" else f"{preset}, {bound}"
            rows.append((loss, bound, *(_mean(results, name, title) for name in COLLECTIONS), _zeros(results, title)))
    titles = [f"{preset}, {bound}" for preset in BOUNDS for bound in ("hinge", "tight")]
    by_key = {
        key: row
        for preset in BOUNDS
        for key, row in _against(results, [f"{preset}, hinge", f"{preset}, tight"], preset).items()
    }
    collapsed = [f"`{preset}` {_zeros(results, f'{preset}, hinge')}" for preset in BOUNDS]
    text = (
        f"Folds in which the convex hinge is minimal at w = 0, or nearly so, and the ranker ranks at random: "
        f"{', '.join(collapsed)}. The bound `auto`, the default, trains the tight bound in these folds only; it is "
        f"never more than {_most_behind(by_key, 'tight'):.4f} NDCG@10 behind the tight bound, as a mean over a "
        "collection. "
        "A measure with a cutoff should be trained with `auto` or `tight`, never with `hinge` alone."
    )
    return Section(
        "Which bound?",
        text,
        [Table("NDCG@10 by bound", ("loss", "bound", *COLLECTIONS.values(), "folds at w = 0"), rows)],
        [
            Picture(
                "bounds",
                f"NDCG@10 less that of the same loss with the bound `auto`, {_INTERVALS} for each loss.",
                _panels(by_key, titles, "NDCG@10 less that of auto"),
            )
        ],
    )


def _most_behind(by_key: Mapping[tuple[str, str], Difference], bound: str) -> float:
    return max(0.0, *(row.mean for (title, _), row in by_key.items() if title.endswith(bound)))


def _maps(results: Mapping[str, Any]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    by_key: dict[tuple[str, str], Difference] = {}
    for measure, (base, others) in MAPS.items():
        for title in (base, *others):
            means = [_mean(results, name, title, measure=measure) for name in COLLECTIONS]
            rows.append((measure, MAP_TITLES[title], *means))
        by_key |= _against(results, others, base, measure)
    titles = [title for _, others in MAPS.values() for title in others]
    labels = {title: f"{measure}, {MAP_TITLES[title]}" for measure, (_, others) in MAPS.items() for title in others}
    significant = [row for row in by_key.values() if row.direction]
    listed = "; ".join(map(str, significant)) or "no difference is significant"
    by_map = max(abs(row.mean) for row in by_key.values())
    by_bound = max(abs(row.mean) for row in _against(results, ["svmndcg, hinge"], "svmndcg").values())
    text = (
        "All maps are trained with the bound `auto`. The map of pairs φpo is the default; the maps φdorm (weights of "
        f"ranks) and φmrr (the first relevant document) are compared with it: {listed}. The largest "
        f"mean difference between maps is {by_map:.4f}; that between the bounds hinge and auto, for NDCG@10 under φpo, "
        f"is {by_bound:.4f}."
    )
    return Section(
        "Which feature map?",
        text,
        [Table("The measure of the loss by feature map", ("loss and measure", "map", *COLLECTIONS.values()), rows)],
        [
            Picture(
                "maps",
                f"The measure less that of the same loss with φpo, {_INTERVALS} for each loss.",
                _panels(by_key, titles, "less that of φpo", labels),
            )
        ],
    )


def _sizes(results: Mapping[str, Any], name: str) -> list[int | str]:
    known = {int(end) for key in results if key.startswith(f"{name}/") and (end := key.split("/")[2]).isdigit()}
    return [*sorted(known), ALL]


def _enough(results: Mapping[str, Any], name: str) -> int | str:
    """Return the fewest training queries that are nearly as good as all, as a mean of the losses."""
    means = {size: np.mean([_mean(results, name, loss, size) for loss in FEW]) for size in _sizes(results, name)}
    return next(size for size, mean in means.items() if mean >= means[ALL] - SAFE)


def _curves(results: Mapping[str, Any]) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (COLLECTIONS[name], str(size), *(_mean(results, name, loss, size) for loss in FEW))
        for name in COLLECTIONS
        for size in _sizes(results, name)
    ]
    gains = {
        name: np.diff([np.mean([_mean(results, name, loss, n) for loss in FEW]) for n in _sizes(results, name)])
        for name in COLLECTIONS
    }
    last = ", ".join(f"{COLLECTIONS[name]} {gain[-1]:+.4f}" for name, gain in gains.items())
    enough = ", ".join(f"{COLLECTIONS[name]} {_enough(results, name)}" for name in COLLECTIONS)
    first = ", ".join(f"{COLLECTIONS[name]} {gain.sum():+.4f}" for name, gain in gains.items())
    text = (
        "Training queries are drawn among those with several grades, and a third as many choose C. From the fewest "
        f"queries to all, NDCG@10 grows by (mean of the losses) {first}; the last step alone brings {last}. Fewest "
        f"queries within {SAFE} of all of them: {enough}."
    )
    return Section(
        "How many queries?",
        text,
        [Table("NDCG@10 by number of training queries", ("collection", "queries", *FEW), rows)],
        [Picture("queries", "NDCG@10 against the number of training queries.", _draw_curves(results))],
    )


def _choices(results: Mapping[str, Any]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for loss in LOSSES:
        by_rule = [results[f"{SMALL}/{loss}/{ALL if rule == 'best' else rule}"] for rule in RULES]
        means = [float(unpack(one["values"]["ndcg@10"]).mean()) for one in by_rule]
        Cs = [f"{min(one['C']):g} to {max(one['C']):g}" for one in by_rule]
        rows.append((loss, *means, float(np.ptp(means)), *Cs))
    moved = [float(row[4] or 0) for row in rows]
    spread = float(np.ptp([float(row[1] or 0) for row in rows]))
    text = (
        f"{COLLECTIONS[SMALL]} has some 21 validation queries in a fold, which decide much. Choosing C in another way "
        f"moves NDCG@10 of a loss by {min(moved):.4f} to {max(moved):.4f}, while the losses differ by {spread:.4f} "
        f"with the first way. Mean of the losses: {'; '.join(map(str, _rule_differences(results)))}. `tune(ranker, "
        'queries, folds=5)` is cross-validation, and `tune(..., rule="one-se")` takes the smallest C within a '
        "standard error."
    )
    columns = ("loss", *RULES.values(), "largest change", *(f"C, {rule}" for rule in RULES))
    return Section(
        "How much does the choice of C matter?",
        text,
        [
            Table(
                f"NDCG@10 on {COLLECTIONS[SMALL]} by the way C is chosen, and the range of C over the folds",
                columns,
                rows,
            )
        ],
        [Picture("choices", f"NDCG@10 on {COLLECTIONS[SMALL]} by the way C is chosen.", _draw_choices(rows))],
    )


def _rule_differences(results: Mapping[str, Any]) -> list[Difference]:
    """Compare the other ways to choose C with the first one, by the mean of the losses for each query."""
    means = {
        rule: np.mean(
            [
                unpack(results[f"{SMALL}/{loss}/{ALL if rule == 'best' else rule}"]["values"]["ndcg@10"])
                for loss in LOSSES
            ],
            axis=0,
        )
        for rule in RULES
    }
    return differences({f"{RULES[rule]} − {RULES['best']}": (means[rule], means["best"]) for rule in list(RULES)[1:]})


def _draw_choices(rows: Sequence[Sequence[Any]]) -> Any:
    figure = new_figure(7.0, 1.6 + 0.3 * len(rows))
    axes = figure.subplots()
    for at, (label, marker) in enumerate(zip(RULES.values(), "osv", strict=True), 1):
        axes.plot([float(row[at]) for row in rows], range(len(rows)), marker, label=label, fillstyle="none")
    axes.set_yticks(range(len(rows)), [str(row[0]) for row in rows])
    axes.invert_yaxis()
    axes.set(xlabel="NDCG@10")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", frameon=False, fontsize="small")
    return figure


def _costs(results: Mapping[str, Any]) -> Section:
    seconds = {
        title: [float(results[f"{name}/{title}/{ALL}"]["seconds"]) for name in COLLECTIONS]
        for title in (*LOSSES, *(title for title in METHODS if title not in LOSSES))
    }
    rows: list[tuple[Cell, ...]] = [
        (title, *by_set) for title, by_set in sorted(seconds.items(), key=lambda one: sum(one[1]))
    ]
    cheapest, dearest = str(rows[0][0]), str(rows[-1][0])
    ratio = sum(seconds[dearest]) / sum(seconds[cheapest])
    text = (
        "CPU seconds on one thread to train with all values of C and choose one, mean of the folds. "
        f"Over all collections `{cheapest}` takes least and `{dearest}` most, {ratio:.0f} times as long."
    )
    return Section(
        "What does it cost?",
        text,
        [Table("CPU seconds of choosing C", ("method", *COLLECTIONS.values()), rows)],
        [Picture("costs", "CPU seconds of choosing C by method and collection.", _draw_costs(rows))],
    )


def _findings(results: Mapping[str, Any]) -> list[Finding]:
    findings = []
    source = "this page"
    for loss in ("softmax", "svmmap", "svmndcg"):
        rows = _against_best(results, loss)
        claim = f"{loss} is nowhere more than {SAFE} NDCG@10 behind the best of the other losses."
        findings.append(
            Finding(claim, source, within([row.interval for row in rows], least=-SAFE), "; ".join(map(str, rows)))
        )
    for loss in ("svmmap", "svmndcg", "softmax"):
        rows = list(_against(results, [loss], PAIRS).values())
        claim = f"Training {loss} is better than training pairs ({PAIRS}) on every collection."
        findings.append(Finding(claim, source, beats(rows), "; ".join(map(str, rows))))
    bounds = list(_against(results, ["svmndcg"], "svmndcg, hinge").values())
    learned = [row for row in bounds if row.testable]
    findings.append(
        Finding(
            f"Where the hinge learns something, the bound auto is at most {SAFE} NDCG@10 behind it.",
            source,
            within([row.interval for row in learned], least=-SAFE) if learned else "not testable",
            "; ".join(f"{row}{'' if row.testable else ' (the hinge stayed at w = 0)'}" for row in bounds),
        )
    )
    return findings


def _panels(
    by_key: Mapping[tuple[str, str], Difference],
    titles: Sequence[str],
    label: str,
    labels: Mapping[str, str] | None = None,
) -> Any:
    """Draw differences with their intervals, a panel for each collection and a line for each method."""
    figure = new_figure(11.0, 1.2 + 0.32 * len(titles))
    for axes, (name, shown) in zip(figure.subplots(1, len(COLLECTIONS), sharey=True), COLLECTIONS.items(), strict=True):
        for height, title in enumerate(titles):
            row = by_key[title, name]
            color = "tab:green" if row.direction > 0 else "tab:red" if row.direction < 0 else "gray"
            axes.plot(row.interval, [height, height], color=color)
            axes.plot([row.mean], [height], "o" if row.testable else "x", color=color)
        axes.axvline(0.0, color="black", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(titles)), [(labels or {}).get(title, title) for title in titles])
        axes.set_title(shown, fontsize="medium")
        axes.tick_params(axis="x", labelsize="small")
        axes.locator_params(axis="x", nbins=4)
        axes.grid(alpha=0.3)
    figure.axes[0].invert_yaxis()
    figure.supxlabel(f"{label} (green: significantly better, red: significantly worse, ×: w = 0)", fontsize="medium")
    return figure


def _draw_curves(results: Mapping[str, Any]) -> Any:
    figure = new_figure(11.0, 3.0)
    for axes, (name, shown) in zip(figure.subplots(1, len(COLLECTIONS)), COLLECTIONS.items(), strict=True):
        sizes = _sizes(results, name)
        for loss, marker in zip(FEW, "osv^", strict=True):
            axes.plot(range(len(sizes)), [_mean(results, name, loss, n) for n in sizes], marker=marker, label=loss)
        axes.set_xticks(range(len(sizes)), [str(n) for n in sizes])
        axes.set_title(shown, fontsize="medium")
        axes.tick_params(labelsize="small")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("NDCG@10")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    figure.supxlabel("training queries", fontsize="medium")
    return figure


def _draw_costs(rows: Sequence[Sequence[Any]]) -> Any:
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    figure = new_figure(8.0, 1.0 + 0.28 * len(rows))
    axes = figure.subplots()
    for at, (shown, marker) in enumerate(zip(COLLECTIONS.values(), "osv^D", strict=True), 1):
        axes.plot([max(float(row[at]), 1e-3) for row in rows], range(len(rows)), marker, label=shown, fillstyle="none")
    axes.set_yticks(range(len(rows)), [str(row[0]) for row in rows])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="CPU seconds")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.legend(frameon=False, fontsize="small")
    axes.grid(alpha=0.3)
    return figure
