"""``marginrank tune``: choose C and other parameters, and show how."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from marginrank.cli.failures import Misuse
from marginrank.cli.files import Force, check_outputs, whole
from marginrank.cli.fitting import Choosing, fit
from marginrank.cli.method import Method
from marginrank.cli.output import Output
from marginrank.cli.reading import Reading
from marginrank.cli.watching import Watch
from marginrank.words import did_you_mean

EXAMPLES: Final = (
    "marginrank tune train.txt --valid valid.txt --grid scaling=none,standard",
    "marginrank tune train.txt --folds 3 --Cs 0.1,1,10 --plot choice.png",
)
_COMMA: Final = re.compile(r",(?![^(]*\))")


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Judged queries to train on.")],
    choosing: Choosing,
    method: Method,
    reading: Reading,
    output: Output,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=A,B,...",
            help="Another parameter of the ranker and its values; repeat it for more.",
            show_default=False,
            rich_help_panel="Choosing",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="MODEL", help="Write the chosen model.", show_default=False, rich_help_panel="Output"
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the criterion against C.", show_default=False, rich_help_panel="Output"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Try values of C, and of other parameters, on queries that are not trained on.

    Prints the table of all that was tried; with -o the best is trained and written as by `marginrank train`.
    """
    check_outputs([out, plot], inputs=[*data, *choosing.valid], force=force)
    values = parse_grid(grid or [])
    if plot is not None:
        check_picture(plot)
    with Watch(quiet=output.quiet) as watch:
        outcome = fit(data, None, choosing, method, reading, watch=watch, grid=values)
        if out is not None:
            outcome.ranker.save(out, overwrite=force)
    if plot is not None and outcome.selection is not None:
        with whole(plot, force=force) as place:
            outcome.selection.plot(place)
    text = str(outcome.selection or "stopped before anything was chosen") if output.quiet else outcome.text(out)
    output.result({**outcome.record(out), "plot": plot}, text)


def check_picture(path: Path) -> None:
    """Refuse a kind of picture that cannot be drawn, before any work is done."""
    from marginrank.plots import new_figure  # noqa: PLC0415

    known = new_figure(1.0, 1.0).canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise Misuse(f"--plot {path}: pictures are {', '.join(sorted(known))}; give one of these suffixes")


def parse_grid(words: Sequence[str]) -> dict[str, list[Any]]:
    """Read parameters and their values; commas in parentheses belong to a value.

    >>> parse_grid(["scaling=none,standard", "feature_map=dorm,dorm(shape=log)", "bins=8,16"])
    {'scaling': [None, 'standard'], 'feature_map': ['dorm', 'dorm(shape=log)'], 'bins': [8, 16]}
    """
    from marginrank.ranker import Ranker  # noqa: PLC0415

    known = [name for name in inspect.signature(Ranker).parameters if name not in ("loss", "C")]
    grid: dict[str, list[Any]] = {}
    for word in words:
        spelled, equals, values = word.partition("=")
        name = spelled.strip().replace("-", "_")
        if not equals or not values:
            raise Misuse(f"--grid {word}: write NAME=A,B,...")
        if name == "C":
            raise Misuse("--grid C=...: values of C are given with --Cs")
        if name not in known:
            hint = did_you_mean(name, known).strip() or f"known: {', '.join(known)}"
            raise Misuse(f"--grid {word}: a ranker has no parameter {name!r}; {hint}")
        if name in grid:
            raise Misuse(f"--grid {word}: {name} is given twice")
        grid[name] = [_value(value.strip()) for value in _COMMA.split(values)]
    return grid


def _value(word: str) -> bool | int | float | str | None:
    """Read a value.

    >>> [_value(word) for word in ("none", "true", "8", "1e-3", "hinge")]
    [None, True, 8, 0.001, 'hinge']
    """
    if word.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
