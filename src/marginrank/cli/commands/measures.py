"""``marginrank measures``: what rankings can be measured by."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.options.shared_options import measure_names
from marginrank.cli.output import Output
from marginrank.cli.summary import readable, screen_width
from marginrank.runtime.text import table

if TYPE_CHECKING:
    from marginrank.measures import Measure

EXAMPLES: Final = ("marginrank measures", "marginrank measures ndcg")
#: A width that no paragraph has.
_UNWRAPPED: Final = 1 << 20


def command(
    output: Output,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The measure to describe.", autocompletion=measure_names)
    ] = None,
) -> None:
    """List the measures, or describe one."""
    from marginrank.measures import all_measures, parse_measure  # noqa: PLC0415

    if name is None:
        kinds = list(all_measures().values())
        rows = [["measure", "parameters", "what it is"]]
        rows += [[spelling(kind), _brief(kind), _summary(kind)] for kind in kinds]
        output.result({"measures": [_record(kind) for kind in kinds]}, table(rows, width=screen_width()))
        return
    known = all_measures()
    kind = known[name] if name in known else type(parse_measure(name))
    use = f"marginrank evaluate DATA MODEL -m {_example(kind)}"
    text = f"{spelling(kind)}\n\n{readable(kind)}\n\n{_parameters(kind)}\n\nFor example: {use}"
    output.result({**_record(kind), "description": readable(kind, _UNWRAPPED)}, text)


def spelling(kind: type[Measure]) -> str:
    """Spell a measure, with ``@k`` where it takes a cutoff."""
    return kind.name + ("@k" if any(field.name == "k" for field in fields(kind)) else "")


def _example(kind: type[Measure]) -> str:
    return spelling(kind).replace("@k", "@10")


def _summary(kind: type[Measure]) -> str:
    return readable(kind, _UNWRAPPED).partition("\n")[0]


def _defaults(kind: type[Measure]) -> dict[str, Any]:
    return {field.name: "required" if field.default is MISSING else field.default for field in fields(kind)}


def _brief(kind: type[Measure]) -> str:
    return ", ".join(f"{name}={value}" for name, value in _defaults(kind).items() if name != "k") or "-"


def _record(kind: type[Measure]) -> dict[str, Any]:
    return {"name": kind.name, "spelling": spelling(kind), "summary": _summary(kind), "parameters": _defaults(kind)}


def _parameters(kind: type[Measure]) -> str:
    rows = [
        ["@k" if name == "k" else name, "all ranks" if value is None else str(value)]
        for name, value in _defaults(kind).items()
    ]
    return table([["parameter", "default"], *rows]) if rows else "no parameters"
