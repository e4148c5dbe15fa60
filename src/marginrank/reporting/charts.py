"""Charts as Vega-Lite specifications: plain dictionaries, drawn by the browser.

Colors are variables of the page's style sheet, and text has the color of the text around it, so that one chart does
for light and dark. Names that come from files are only ever values of the data, never part of an expression.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from marginrank.reporting.report_facts import Bar, CurvePoint, Mean
from marginrank.runtime.text import plain

Spec: TypeAlias = dict[str, Any]

#: Colors of systems; the page's style sheet has as many.
N_COLORS: Final = 8
_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_MUTED: Final = 0.7
_LEAST_SHARE: Final = 1e-16
#: What all charts look like.
CONFIG: Final[Spec] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "padding": {"left": 2, "top": 6, "right": 18, "bottom": 4},
    "title": {
        "color": "currentColor",
        "fontSize": 12,
        "fontWeight": "normal",
        "anchor": "start",
        "frame": "group",
        "offset": 8,
    },
    "axis": {
        "labelColor": "currentColor",
        "labelOpacity": 0.85,
        "labelFontSize": 11.5,
        "titleColor": "currentColor",
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "domainColor": "currentColor",
        "domainOpacity": 0.3,
        "tickColor": "currentColor",
        "tickOpacity": 0.3,
        "gridColor": "currentColor",
        "gridOpacity": 0.1,
        "labelLimit": 150,
        "labelFlush": False,
    },
}


def color(number: int) -> str:
    """Return the color of a system by its number.

    >>> color(0), color(9)
    ('var(--s0)', 'var(--s1)')
    """
    return f"var(--s{number % N_COLORS})"


def _spec(description: str, values: Sequence[Mapping[str, Any]], height: int, **more: Any) -> Spec:
    return {
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": plain(values)},
        **more,
    }


def _quantitative(field: str, title: str | None, **scale: Any) -> Spec:
    zero = {} if scale.get("type") == "log" else {"zero": False}
    return {"field": field, "type": "quantitative", "title": title, "scale": zero | scale}


def _tip(field: str, title: str, form: str | None = None) -> Spec:
    # Vega-Lite makes the title a text of an expression, in which a backslash begins an escape.
    title = title.replace("\\", "\\\\")
    if form is None:
        return {"field": field, "type": "nominal", "title": title}
    return {"field": field, "type": "quantitative", "title": title, "format": form}


def _series(names: Sequence[str]) -> Spec:
    """Encode systems by color, without a legend: the page has one that wraps on a phone."""
    colors = [color(number) for number in range(len(names))]
    return {"field": "system", "type": "nominal", "scale": {"domain": list(names), "range": colors}, "legend": None}


def intervals(
    means: Sequence[Mean], names: Sequence[str], title: str, *, form: str = ".4f", zero_line: bool = False
) -> Spec:
    """Chart a point and its interval for each system."""
    rows = [{"system": mean.system, "mean": mean.mean, "low": mean.low, "high": mean.high} for mean in means]
    y = {
        "field": "system",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"domain": False, "ticks": False, "grid": False, "labelPadding": 8},
    }
    tips = [
        _tip("system", "system"),
        _tip("mean", title, form),
        _tip("low", "interval from", form),
        _tip("high", "to", form),
    ]
    across = _quantitative("low", title, nice=False, padding=10) | {"axis": {"tickCount": 5}}
    shared = {"y": y, "color": _series(names), "tooltip": tips}
    point = {"type": "point", "filled": True, "size": 90, "opacity": 1}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": across, "x2": {"field": "high"}, **shared}},
        {"mark": point, "encoding": {"x": _quantitative("mean", title), **shared}},
    ]
    if zero_line:
        rule = {"type": "rule", "color": "currentColor", "opacity": 0.5, "strokeDash": [3, 3]}
        at_zero = {"x": _quantitative("zero", title)}
        layers.insert(0, {"data": {"values": [{"zero": 0}]}, "mark": rule, "encoding": at_zero})
    return _spec(f"{title} with its interval, by system", rows, 30 * len(rows), layer=layers)


def curves(points: Sequence[CurvePoint], names: Sequence[str]) -> Spec:
    """Chart NDCG@k against k, a line for each system."""
    rows = [{"system": point.system, "k": point.k, "ndcg": point.ndcg} for point in points]
    most = max(point.k for point in points)
    ticks = [k for k in range(1, most + 1) if most <= 20 or k == 1 or k % math.ceil(most / 10) == 0]
    shapes = [_SHAPES[number % len(_SHAPES)] for number in range(len(names))]
    return _spec(
        f"NDCG at cutoffs 1 to {most}, a line for each system",
        rows,
        260,
        title="NDCG@k",
        mark={"type": "line", "strokeWidth": 2, "point": {"filled": True, "size": 45, "opacity": 1}},
        encoding={
            "x": _quantitative("k", "k", nice=False) | {"axis": {"values": ticks, "format": "d", "grid": False}},
            "y": _quantitative("ndcg", None) | {"axis": {"format": ".2f", "tickCount": 6}},
            "color": _series(names),
            "shape": {
                "field": "system",
                "type": "nominal",
                "scale": {"domain": list(names), "range": shapes},
                "legend": None,
            },
            "tooltip": [_tip("system", "system"), _tip("k", "k", "d"), _tip("ndcg", "NDCG@k", ".4f")],
        },
    )


def positions(
    propensities: Sequence[float], rates: Sequence[float], low: Sequence[float] | None, high: Sequence[float] | None
) -> Spec:
    """Chart propensities by position with their intervals, and click rates relative to the first position."""
    names = ["propensity", "click rate, relative to position 1"]
    rows = [
        {"system": names[0], "k": k, "value": value, "low": value if low is None else low[k - 1]}
        | {"high": value if high is None else min(high[k - 1], 2.0)}
        for k, value in enumerate(propensities, 1)
    ]
    first = next((rate for rate in rates if rate > 0), 1.0)
    rows += [{"system": names[1], "k": k, "value": rate / first} for k, rate in enumerate(rates, 1)]
    ticks = [k for k in range(1, len(rates) + 1) if len(rates) <= 20 or k == 1 or k % math.ceil(len(rates) / 10) == 0]
    x = _quantitative("k", "position", nice=False) | {"axis": {"values": ticks, "format": "d", "grid": False}}
    tips = [_tip("system", "value"), _tip("k", "position", "d"), _tip("value", "value", ".4f")]
    y = _quantitative("value", None, zero=True) | {"axis": {"format": ".1f", "tickCount": 6}}
    line = {"type": "line", "strokeWidth": 2, "point": {"filled": True, "size": 45, "opacity": 1}}
    ends = {"y": _quantitative("low", None, zero=True), "y2": {"field": "high"}}
    return _spec(
        "Propensity of each position with its interval, and click rates",
        rows,
        240,
        title="relative to position 1",
        encoding={"x": x, "color": _series(names), "tooltip": tips},
        layer=[
            {"mark": {"type": "rule", "opacity": _MUTED}, "encoding": ends},
            {"mark": line, "encoding": {"y": y}},
        ],
    )


def differences(bars: Sequence[Bar], system: str, other: str, measure: str) -> Spec:
    """Chart differences per query, sorted; the tooltip covers the whole column of a bar."""
    alone = all(bar.query is not None for bar in bars)
    rows = [
        {
            "start": bar.first - 0.5,
            "stop": bar.last + 0.5,
            "zero": 0,
            "difference": bar.difference,
            **(
                {"query": bar.query, "text": bar.text, "value": bar.value, "other": bar.other}
                if alone
                else {"queries": f"{bar.first:,} to {bar.last:,}"}
            ),
        }
        for bar in bars
    ]
    texts = [_tip("text", "text")] if any(bar.text for bar in bars) else []
    tips = [_tip("query", "query"), *texts, _tip("value", system, ".4f"), _tip("other", other, ".4f")]
    tips = [*(tips if alone else [_tip("queries", "queries")]), _tip("difference", "difference", "+.4f")]
    axis = {"format": ",d", "tickMinStep": 1, "tickCount": 8, "grid": False}
    across = {
        "x": _quantitative("start", "queries, largest gain first", nice=False) | {"axis": axis},
        "x2": {"field": "stop"},
    }
    sign = {"condition": {"test": "datum.difference < 0", "value": "var(--loss)"}, "value": "var(--win)"}
    return _spec(
        f"Difference in {measure} of {len(bars)} bars, sorted: {system} minus {other}",
        rows,
        220,
        title=f"difference in {measure}",
        layer=[
            {
                "mark": {"type": "rect", "opacity": 1},
                "encoding": {
                    **across,
                    "y": _quantitative("zero", None)
                    | {"axis": {"format": "+.2~f", "tickCount": 6, "labelExpr": "datum.value ? datum.label : '0'"}},
                    "y2": {"field": "difference"},
                    "color": sign,
                },
            },
            {"mark": {"type": "rect", "opacity": 0}, "encoding": {**across, "tooltip": tips}},
        ],
    )


def weight_bars(features: Sequence[Mapping[str, Any]], what: str) -> Spec:
    """Chart the weights of features, or another size, in the given order."""
    names = _distinct([feature["feature"] for feature in features])
    rows = [{"feature": name, "weight": feature["size"]} for name, feature in zip(names, features, strict=True)]
    return _spec(
        f"The {len(rows)} features of largest {what}",
        rows,
        17 * len(rows),
        mark={"type": "bar", "height": {"band": 0.7}},
        encoding={
            "y": {
                "field": "feature",
                "type": "nominal",
                "sort": names,
                "title": None,
                "axis": {"domain": False, "ticks": False, "labelPadding": 6, "labelOverlap": False},
            },
            "x": _quantitative("weight", what, zero=True) | {"axis": {"tickCount": 6}},
            "color": {"condition": {"test": "datum.weight < 0", "value": "var(--loss)"}, "value": "var(--win)"},
            "tooltip": [_tip("feature", "feature"), _tip("weight", what, "+.6~g")],
        },
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Number names that occur more than once, which would share a bar.

    >>> _distinct(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    often, seen = Counter(names), Counter[str]()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(f"{name} ({seen[name]})" if often[name] > 1 else name)
    return distinct


def shape(feature: Mapping[str, Any], low: float, high: float) -> Spec:
    """Chart the curve of a feature, on a scale from ``low`` to ``high``; missing values are a dotted line."""
    rows = [{"value": value, "score": score} for value, score in _corners(feature)]
    joined = "step-after" if feature["start"] is None else "linear"
    y = _quantitative("score", None, domain=[low, high], nice=True) | {"axis": {"tickCount": 3}}
    x = _quantitative("value", None, nice=False) | {"axis": {"tickCount": 3, "grid": False}}
    tips = [_tip("value", "from", "~g"), _tip("score", "score", "+.4~g")]
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "interpolate": joined, "strokeWidth": 2, "color": "var(--s0)"},
            "encoding": {"x": x, "y": y},
        },
        {"mark": {"type": "point", "size": 60, "opacity": 0}, "encoding": {"x": x, "y": y, "tooltip": tips}},
    ]
    if feature["missing"] is not None:
        layers.append(
            {
                "data": {"values": [{"score": feature["missing"]}]},
                "mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5, "color": "var(--s1)"},
                "encoding": {"y": y, "tooltip": [_tip("score", "missing", "+.4~g")]},
            }
        )
    return _spec(f"Score of feature {feature['feature']} by its value", rows, 110, layer=layers)


def _corners(feature: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the points of a curve: the starts of steps, with a margin, or the joints of lines."""
    values = feature["values"]
    if feature["start"] is not None:
        return list(zip([feature["start"], *feature["thresholds"]], values, strict=True))
    left, *inner, right = _edges(feature["thresholds"])
    return [(left, values[0]), *zip(inner, values[1:], strict=True), (right, values[-1])]


def _edges(thresholds: Sequence[float]) -> list[float]:
    """Add a margin before the first threshold and after the last.

    >>> _edges([0.0, 10.0]), _edges([])
    ([-1.0, 0.0, 10.0, 11.0], [-0.1, 0.1])
    """
    least, most = (thresholds[0], thresholds[-1]) if thresholds else (0.0, 0.0)
    room = 0.1 * ((most - least) or 1.0)
    return [least - room, *thresholds, most + room]


def convergence(steps: Sequence[Mapping[str, float]]) -> Spec:
    """Chart the gap as a share of the objective against passes over the data; without a gap, the objective."""
    shares = [max(step["gap"] / max(abs(step["objective"]), 1e-300), _LEAST_SHARE) for step in steps]
    certified = [{**step, "share": share} for step, share in zip(steps, shares, strict=True) if math.isfinite(share)]
    y = _quantitative("objective", None) | {"axis": {"tickCount": 5}}
    if certified:
        decades = _decades([share for share in shares if math.isfinite(share)])
        y = _quantitative("share", None, type="log") | {"axis": {"values": decades, "format": "~e"}}
    return _spec(
        "How far the objective can be above the optimum, against passes over the data"
        if certified
        else "The objective against passes over the data",
        certified or steps,
        200,
        title="gap / objective" if certified else "objective",
        mark={"type": "line", "strokeWidth": 2, "color": "var(--s0)", "point": {"size": 36, "color": "var(--s0)"}},
        encoding={
            "x": _quantitative("passes", "passes over the data") | {"axis": {"tickCount": 6, "grid": False}},
            "y": y,
            "tooltip": [
                _tip("passes", "passes", ".4~g"),
                _tip("seconds", "seconds", ".3~g"),
                _tip("objective", "objective", ".6~g"),
                *([_tip("share", "gap / objective", ".3~e")] if certified else []),
            ],
        },
    )


def _decades(values: Sequence[float]) -> list[float]:
    """Return the powers of ten around values.

    >>> _decades([0.02, 3e-4])
    [0.0001, 0.001, 0.01, 0.1]
    """
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [float(f"1e{power}") for power in range(first, last + 1)]


#: Fields of a candidate that are not parameters.
_FIGURES: Final = ("C", "mean", "standard_error", "objective", "average_slack", "norm", "passes")


def path_series(selection: Mapping[str, Any]) -> list[str]:
    """Return the settings of the parameters other than C; each has its own path.

    >>> path_series({"candidates": [{"C": 1.0, "mean": 0.5, "scaling": "standard"}, {"C": 1.0, "mean": 0.5}]})
    ['scaling=standard', '']
    """
    return list(dict.fromkeys(_setting(candidate) for candidate in selection["candidates"]))


def _setting(candidate: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in candidate.items() if name not in _FIGURES)


def path(selection: Mapping[str, Any]) -> Spec:
    """Chart the criterion against C with one standard error, a line for each setting of the other parameters."""
    series = path_series(selection)
    rows = [
        {
            "system": _setting(candidate),
            "C": candidate["C"],
            "mean": candidate["mean"],
            "low": candidate["mean"] - candidate["standard_error"],
            "high": candidate["mean"] + candidate["standard_error"],
            "chosen": number == selection["chosen"],
        }
        for number, candidate in enumerate(selection["candidates"])
    ]
    x = {
        **_quantitative("C", "C", type="log", nice=False, padding=12),
        "axis": {"tickCount": 6, "format": "~g", "grid": False},
    }
    y = _quantitative("mean", None) | {"axis": {"format": ".3f", "tickCount": 5}}
    tips = [_tip("C", "C", "~g"), _tip("mean", selection["criterion"], ".4f"), _tip("low", "one s.e. from", ".4f")]
    tips += [_tip("high", "to", ".4f"), *([_tip("system", "setting")] if len(series) > 1 else [])]
    ring = {"type": "point", "filled": False, "size": 220, "strokeWidth": 2, "color": "currentColor", "opacity": 1}
    return _spec(
        f"{selection['criterion']} on held-out queries against C, with one standard error",
        rows,
        200,
        title=f"{selection['criterion']} on held-out queries",
        encoding={"x": x, "color": _series(series), "tooltip": tips},
        layer=[
            {
                "mark": {"type": "rule", "opacity": _MUTED},
                "encoding": {"y": _quantitative("low", None), "y2": {"field": "high"}},
            },
            {"mark": {"type": "line", "strokeWidth": 2, "point": {"size": 50, "opacity": 1}}, "encoding": {"y": y}},
            {
                "transform": [{"filter": "datum.chosen"}],
                "mark": ring,
                "encoding": {"y": y, "color": {"value": "currentColor"}},
            },
        ],
    )


def grade_bars(grades: Mapping[str, int]) -> Spec:
    """Chart the number of documents of each grade."""
    total = sum(grades.values())
    rows = [{"grade": grade, "documents": n, "share": n / total} for grade, n in grades.items()]
    return _spec(
        "Documents of each grade",
        rows,
        24 * len(rows),
        mark={"type": "bar", "color": "var(--s0)", "height": {"band": 0.7}},
        encoding={
            "y": {
                "field": "grade",
                "type": "nominal",
                "sort": None,
                "title": "grade",
                "axis": {"domain": False, "ticks": False, "labelPadding": 6},
            },
            "x": _quantitative("documents", "documents", zero=True) | {"axis": {"format": ",", "tickCount": 4}},
            "tooltip": [_tip("grade", "grade"), _tip("documents", "documents", ","), _tip("share", "share", ".1%")],
        },
    )
