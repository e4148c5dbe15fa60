"""``marginrank presets``: the methods that can be trained by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.completion import preset_names
from marginrank.cli.output import Output
from marginrank.words import facts, table

if TYPE_CHECKING:
    from marginrank.methods.presets import Preset

EXAMPLES: Final = ("marginrank presets", "marginrank presets svmmap")


def command(
    output: Output,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only this one, in detail.", autocompletion=preset_names)
    ] = None,
) -> None:
    """List the methods that --preset takes, or describe one."""
    from marginrank.methods.presets import PRESETS, parse_preset  # noqa: PLC0415

    if name is None:
        rows = [["preset", "kind", "measure", "what it is", "from"]]
        rows += [[_spelling(p), p.kind, _measure(p), p.summary, p.paper] for p in PRESETS.values()]
        output.result({"presets": [_record(preset) for preset in PRESETS.values()]}, table(rows))
        return
    method = parse_preset(name)
    preset = PRESETS[name.strip().lower().partition("@")[0]]
    start = f", from a {method.start}" if method.bound == "tight" else ""
    k = "none" if preset.cut is None else f"@{preset.cut} unless given"
    own = [("bound", f"{method.bound}{start}"), ("cutoff", k)] if preset.kind == "loss" else [("rounds", k)]
    text = facts(
        [
            ("preset", _spelling(preset)),
            ("trains", preset.summary),
            ("from", preset.paper),
            ("measure", method.measure),
            *own,
            (preset.kind, str(method.trained)),
        ]
    )
    described = inspect.getdoc(type(method.trained)) or ""
    record = {**_record(preset), "measure": method.measure, preset.kind: str(method.trained), "description": described}
    output.result(record, f"{text}\n\n{described}")


def _spelling(preset: Preset) -> str:
    return preset.name + ("" if preset.cut is None else "@k")


def _measure(preset: Preset) -> str:
    return preset.measure.format(k="k")


def _record(preset: Preset) -> dict[str, Any]:
    return {
        "name": preset.name,
        "kind": preset.kind,
        "spelling": _spelling(preset),
        "summary": preset.summary,
        "paper": preset.paper,
        "measure": _measure(preset),
        "cutoff": preset.cut,
        "bound": preset.bound,
        "start": preset.start,
    }
