"""``marginrank tune``: choose C and other parameters, and show how."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.checkpoint_options import CheckpointOptions
from marginrank.cli.options.cluster_options import ClusterOptions
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Details, Force, Output, atomic_output, check_outputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.train_and_tune import TuneOptions, fit

EXAMPLES: Final = (
    "marginrank tune train.txt --valid valid.txt --grid scaling=none,standard",
    "marginrank tune train.txt --folds 3 --Cs 0.1,1,10 --plot choice.png",
)


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Judged queries to train on.")],
    tuning: TuneOptions,
    method: MethodOptions,
    checkpointing: CheckpointOptions,
    reading: ReadingOptions,
    cluster: ClusterOptions,
    output: Output,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=A,B,...",
            help="Another parameter of the ranker and its values; repeat for more parameters.",
            rich_help_panel=TuneOptions.panel,
        ),
    ] = None,
    out: Annotated[Path | None, out_option("Write the chosen model.", metavar="MODEL")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot the criterion against C.", rich_help_panel="Output")
    ] = None,
    details: Details = False,
    force: Force = False,
) -> None:
    """Choose C, and other parameters, on validation queries or by cross-validation.

    Prints the value of the criterion for every setting. With -o, the model trained with the best setting is written.
    Ctrl-C stops the search and prints the settings tried so far; the exit code is then 130. With --checkpoint, a killed
    search can be resumed: run the same command again with --resume.
    """
    check_outputs([out, plot], inputs=[*data, *tuning.valid], force=force)
    checkpointing.check([out, plot, *data, *tuning.valid])
    values = parse_grid(grid or [])
    if not method.has_C and not values and tuning.folds is None:
        raise UsageError(
            f"{method.name} has no C, so there is nothing to choose; give --grid, or use `marginrank train`"
        )
    if plot is not None:
        check_picture(plot)
    with cluster.client(quiet=output.quiet) as client, TrainingProgress(quiet=output.quiet) as progress:
        outcome = fit(
            data,
            None,
            tuning,
            method,
            reading,
            progress=progress,
            checkpointing=checkpointing,
            grid=values,
            client=client,
        )
        if out is not None:
            outcome.ranker.save(out, overwrite=force)
    checkpointing.done(stopped=outcome.cut_short)
    if plot is not None and outcome.selection is not None:
        with atomic_output(plot, force=force) as place:
            outcome.selection.plot(place)
    text = outcome.choice(details=details) if output.quiet else outcome.text(out, details=details)
    output.result({**outcome.record(out), "plot": plot}, text or "")
    outcome.end()


def check_picture(path: Path) -> None:
    """Refuse a format that plots cannot have, before any work is done."""
    from marginrank.model.plots import new_figure  # noqa: PLC0415

    known = new_figure(1.0, 1.0).canvas.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise UsageError(f"--plot {path}: unknown suffix; plots can be {', '.join(sorted(known))}")


def parse_grid(words: Sequence[str]) -> dict[str, list[Any]]:
    """Read parameters and their values; commas in parentheses belong to a value.

    >>> parse_grid(["scaling=none,standard", "feature_map=dorm,dorm(shape=log)", "bins=8,16"])
    {'scaling': [None, 'standard'], 'loss__feature_map': ['dorm', 'dorm(shape=log)'], 'scorer__bins': [8, 16]}
    """
    from marginrank.runtime.option_objects import literal, split_commas  # noqa: PLC0415
    from marginrank.runtime.text import suggest  # noqa: PLC0415

    known = _parameter_names()
    grid: dict[str, list[Any]] = {}
    for word in words:
        spelled, equals, values = word.partition("=")
        name = spelled.strip().replace("-", "_")
        if not equals or not values:
            raise UsageError(f"--grid {word}: write NAME=A,B,...")
        if name == "C":
            raise UsageError("--grid C=...: values of C are given with --Cs")
        if name not in known:
            raise UsageError(f"--grid {word}: a ranker has no parameter {name!r}; {suggest(name, known)}")
        full = known[name]
        if full in grid:
            raise UsageError(f"--grid {word}: {name} is given twice")
        grid[full] = [literal(value.strip()) for value in split_commas(values)]
    return grid


def _parameter_names() -> dict[str, str]:
    """Return what a grid may name: parameters of the ranker, and those of its scorer, bound, loss and solver."""
    from dataclasses import fields  # noqa: PLC0415

    from marginrank.losses.structured import StructuredLoss  # noqa: PLC0415
    from marginrank.ranker.ranker import Ranker  # noqa: PLC0415
    from marginrank.runtime.option_objects import registered  # noqa: PLC0415
    from marginrank.scorers.base import Scorer  # noqa: PLC0415
    from marginrank.solvers.auto import Auto  # noqa: PLC0415
    from marginrank.training.tight_bound import Tight  # noqa: PLC0415

    # Of two parts with a parameter of the same name the last has the short one.
    scorers = [("scorer", kind) for kind in registered(Scorer).values()]
    parts: list[tuple[str, type[Any]]] = [*scorers, ("solver", Auto), ("loss", StructuredLoss), ("bound", Tight)]
    names = [(part, f.name) for part, kind in parts for f in fields(kind) if f.repr]
    inner = {f"{part}__{name}": f"{part}__{name}" for part, name in names}
    inner |= {name: f"{part}__{name}" for part, name in names}
    return inner | {name: name for name in inspect.signature(Ranker).parameters if name not in ("loss", "C")}
