"""The section on models: training, certificates, and learned weights or curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from marginrank.reporting import charts
from marginrank.reporting.html_elements import (
    Cell,
    TableColumn,
    chart,
    command,
    details,
    escape,
    facts_list,
    legend,
    listed,
    number,
    paragraph,
    table,
)
from marginrank.reporting.report_facts import ModelFacts, ReportFacts

#: Features in the chart of a linear model.
MOST_WEIGHTS: Final = 40
#: Shapes of an additive model that are in sight; the others open on request.
MOST_SHAPES: Final = 48


def model_parts(facts: ReportFacts) -> list[str]:
    """Make the parts of the section; none if no system is a model."""
    return [part for model in facts.models for part in _model(facts, model)]


def _model(facts: ReportFacts, model: ModelFacts) -> list[str]:
    return [
        f"<h3>{escape(model.name)}</h3>",
        facts_list(_entries(model.record)),
        f'<div class="grid wide">{_convergence(model)}{_path(model)}</div>',
        *_features(model),
        command(facts.commands, lambda commands: commands.model(model.name)),
    ]


def _features(model: ModelFacts) -> list[str]:
    if not model.features:
        return [paragraph("This model has no weight or curve per feature.", "note")]
    return _shapes(model) if "values" in model.features[0] else _weights(model)


def _entries(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    trained = record["trained_on"]
    sizes = f"{trained['queries']:,} queries, {trained['documents']:,} documents, {trained['features']:,} features"
    named = [f"{name} {record[name]}" for name in ("solver", "scaling", "weighting") if record[name] is not None]
    bound = [] if record["bound"] is None else [f"{record['bound']} bound"]
    work = f"{record['stopped'].replace('_', ' ')} after {record['iterations']:,} iterations"
    return [
        ("trained for", record["measure"] + (f" (preset {record['preset']})" if record["preset"] else "")),
        ("method", ", ".join([f"{record['form']} model", *bound, *named])),
        ("loss", record["trained"]),
        *([] if record["C"] is None else [("C", f"{record['C']:g}")]),
        ("objective", f"{record['objective']:.6g}, {_certificate(record)}"),
        ("work", f"{work}, {record['passes']:.0f} passes over the data"),
        ("trained on", sizes),
        ("fingerprint", str(trained["fingerprint"])),
    ]


def _certificate(record: Mapping[str, Any]) -> str:
    """Describe how far the objective can be from the optimum.

    >>> _certificate({"objective": 2.0, "gap": 0.001})
    'at most 0.05% above the optimum'
    """
    if record["gap"] is None:
        return "without a certificate" + (": the tight bound is not convex" if record["bound"] == "tight" else "")
    share = 100 * record["gap"] / abs(record["objective"]) if record["objective"] else 0.0
    return f"at most {max(share, 0.0):.2g}% above the optimum"


def _convergence(model: ModelFacts) -> str:
    if not model.trace:
        return ""
    certified = any(math.isfinite(step["gap"]) for step in model.trace)
    caption = (
        "How far the objective can be above the optimum." if certified else "There is no certificate of optimality."
    )
    if len(model.trace) < model.iterations:
        caption += f" {len(model.trace):,} of {model.iterations:,} iterations."
    return chart(charts.convergence(model.trace), caption)


def _path(model: ModelFacts) -> str:
    if model.selection is None:
        return ""
    selection = model.selection
    series = charts.path_series(selection)
    caption = (
        f"Choice of C on {selection['held_out']}, with one standard error. The ring marks the chosen value (rule "
        f"{selection['rule']}, policy {selection['policy']})."
    )
    return f"<div>{legend(series) if len(series) > 1 else ''}{chart(charts.path(selection), caption)}</div>"


def _by_size(features: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(features, key=lambda feature: -abs(feature["size"]))


def _weights(model: ModelFacts) -> list[str]:
    ordered, what = _by_size(model.features), model.sized_by
    shown = ordered[:MOST_WEIGHTS]
    caption = f"The {len(shown)} largest of {len(ordered):,}." if len(shown) < len(ordered) else ""
    rows = [
        [Cell(feature["feature"]), number(feature["size"], "+.6g"), number(abs(feature["size"]), ".6g")]
        for feature in ordered
    ]
    columns = [TableColumn("feature"), TableColumn(what, number=True), TableColumn("size", number=True)]
    return [
        f"<h4>Features by {escape(what)}</h4>",
        chart(charts.weight_bars(shown, what), caption),
        details(f"All {len(ordered):,} features", table(f"{model.name}: {what} of each feature", columns, rows)),
    ]


def _shapes(model: ModelFacts) -> list[str]:
    moving = [feature for feature in _by_size(model.features) if feature["size"] > 0 or feature["missing"]]
    flat = [feature["feature"] for feature in model.features if not (feature["size"] > 0 or feature["missing"])]
    scores = [value for feature in moving for value in (*feature["values"], feature["missing"] or 0.0)]
    low, high = (min(scores), max(scores)) if scores else (0.0, 0.0)
    pictures = [_shape(feature, low, high) for feature in moving]
    first, rest = pictures[:MOST_SHAPES], pictures[MOST_SHAPES:]
    rows = [
        [Cell(feature["feature"]), number(feature["size"], ".6g"), number(len(feature["values"]), ",d")]
        for feature in _by_size(model.features)
    ]
    columns = [TableColumn("feature"), TableColumn("spread", number=True), TableColumn("steps", number=True)]
    note = "Contribution of each feature to the score, by its value; same scale for all, largest spread first."
    note += (
        " A dotted line is the contribution of a missing value."
        if any(feature["missing"] is not None for feature in moving)
        else ""
    )
    note += f" Flat: {listed(flat)}." if flat else ""
    return [
        "<h4>Curves</h4>",
        paragraph(note, "note"),
        f'<div class="grid small">{"".join(first)}</div>',
        details(f"{len(rest):,} more curves", f'<div class="grid small">{"".join(rest)}</div>') if rest else "",
        details(f"All {len(rows):,} spreads", table(f"Features of {model.name}", columns, rows)),
    ]


def _shape(feature: Mapping[str, Any], low: float, high: float) -> str:
    return f"<div><h5>{escape(feature['feature'])}</h5>{chart(charts.shape(feature, low, high))}</div>"
