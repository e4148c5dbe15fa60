"""``marginrank presets``: the methods that can be trained by name."""

from __future__ import annotations

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
        rows = [["preset", "kind", "measure", "what it is"]]
        rows += [[_spelling(preset), preset.kind, _measure(preset), preset.summary] for preset in known.values()]
        output.result({"presets": [_record(preset) for preset in known.values()]}, table(rows, width=screen_width()))
        return
    method = parse_preset(name)
    preset = known[name.strip().lower().partition("@")[0]]
    k = "none" if preset.cut is None else f"@{preset.cut} unless given"
    own = [("bound", str(method.bound)), ("cutoff", k)] if preset.kind == "loss" else [("rounds", k)]
    text = facts(
        [
            ("preset", _spelling(preset)),
            ("what it is", preset.summary),
            *([("advice", wrap(advice(preset.name), terminal_width() - 12))] if advice(preset.name) else []),
            ("from", preset.paper),
            ("measure", method.criterion),
            *own,
            (preset.kind, wrap(str(method.trained), terminal_width() - 12)),
        ]
    )
    kind = type(method.trained)
    record = {**_record(preset), "measure": method.criterion, preset.kind: str(method.trained)}
    use = f"For example: marginrank train DATA --preset {name} -o model.safetensors"
    output.result({**record, "description": readable(kind, _UNWRAPPED)}, f"{text}\n\n{readable(kind)}\n\n{use}")


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
        "kind": preset.kind,
        "spelling": _spelling(preset),
        "summary": preset.summary,
        "advice": advice(preset.name),
        "paper": preset.paper,
        "measure": _measure(preset),
        "cutoff": preset.cut,
        "bound": str(preset.bound),
    }
