"""``marginrank presets``: the methods that can be trained by name."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.options.shared_options import preset_names
from marginrank.cli.output import Output
from marginrank.cli.summary import readable, screen_width, terminal_width
from marginrank.runtime.text import facts, table

if TYPE_CHECKING:
    from marginrank.methods.presets import Preset

EXAMPLES: Final = ("marginrank presets", "marginrank presets svmmap")
#: A width that no paragraph has.
_UNWRAPPED: Final = 1 << 20


def command(
    output: Output,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The preset to describe.", autocompletion=preset_names)
    ] = None,
) -> None:
    """List the methods for --preset, or describe one."""
    from marginrank.cli.preset_advice import advice  # noqa: PLC0415
    from marginrank.methods.presets import all_presets, parse_preset  # noqa: PLC0415

    known = all_presets()
    if name is None:
        output.result({"presets": [_record(preset) for preset in known.values()]}, _listed(known.values()))
        return
    method = parse_preset(name)
    preset = known[name.strip().lower().partition("@")[0]]
    k = "none" if preset.cut is None else f"@{preset.cut} unless given"
    options = [("bound", str(method.bound)), ("cutoff", k)] if preset.kind == "loss" else [("rounds", k)]
    text = facts(
        [
            ("preset", _spelling(preset)),
            ("group", preset.group),
            ("what it is", preset.summary),
            *([("advice", wrap(advice(preset.name), terminal_width() - 12))] if advice(preset.name) else []),
            ("from", preset.paper),
            ("measure", method.criterion),
            *options,
            (preset.kind, wrap(str(method.trained), terminal_width() - 12)),
        ]
    )
    kind = type(method.trained)
    record = {**_record(preset), "measure": method.criterion, preset.kind: str(method.trained)}
    use = f"For example: marginrank train DATA --preset {name} -o model.safetensors"
    output.result({**record, "description": readable(kind, _UNWRAPPED)}, f"{text}\n\n{readable(kind)}\n\n{use}")


def _listed(presets: Iterable[Preset]) -> str:
    """Return a table of each group, with its title; all have columns of the same width."""
    from marginrank.methods.presets import GROUPS  # noqa: PLC0415

    rows = {preset: (_spelling(preset), _measure(preset), preset.summary) for preset in presets}
    name, measure = (max(len(row[column]) for row in rows.values()) for column in (0, 1))
    head = ["preset".ljust(name), "measure".ljust(measure), "what it is"]
    return "\n\n".join(
        f"{group.capitalize()}: {title}\n\n"
        + table([head, *(row for preset, row in rows.items() if preset.group == group)], width=screen_width())
        for group, title in GROUPS.items()
    )


def _spelling(preset: Preset) -> str:
    return preset.name + ("" if preset.cut is None else "@k")


def _measure(preset: Preset) -> str:
    """The measure of a preset, with @k for its cutoff."""
    spelled = preset.make(preset.cut or 0).criterion
    return spelled if preset.cut is None else spelled.replace(f"@{preset.cut}", "@k")


def _record(preset: Preset) -> dict[str, Any]:
    from marginrank.cli.preset_advice import advice  # noqa: PLC0415

    return {
        "name": preset.name,
        "group": preset.group,
        "kind": preset.kind,
        "spelling": _spelling(preset),
        "summary": preset.summary,
        "advice": advice(preset.name),
        "paper": preset.paper,
        "measure": _measure(preset),
        "cutoff": preset.cut,
        "bound": str(preset.bound),
    }
