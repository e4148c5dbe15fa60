"""``python -m experiments``: reproduce the results of the papers, and write tables, plots and findings."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from experiments import all_experiments
from experiments.base import Experiment, Size
from experiments.provenance import stale
from experiments.running import Runner, check_data
from experiments.writing import RESULTS, seconds_of, write, write_costs, write_findings, write_from_record
from marginrank.errors import DataError

#: Miniatures are written here, never over the results.
MINIATURES: Final = Path("out/experiments")

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
Names = Annotated[list[str], typer.Argument(metavar="NAMES", help="Names of experiments, or `all`.")]


@app.command("list")
def list_experiments() -> None:
    """List the experiments with the paper each of them reproduces, and the minutes of computing it took."""
    experiments = all_experiments()
    width = max(map(len, experiments))
    for name, experiment in experiments.items():
        seconds = seconds_of(experiment, RESULTS)
        minutes = "  never run" if seconds is None else f"{seconds / 60:7.1f} min"
        typer.echo(f"{name:{width}} {minutes}  {experiment.title} ({experiment.source})")


@app.command()
def run(
    names: Names,
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = Path("../shared/data"),
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to write to.", show_default="experiments/results"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes.", show_default="one per core")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Recompute finished tasks.")] = False,
    miniature: Annotated[
        bool, typer.Option("--miniature", help=f"Run on a few queries only, in seconds; writes to {MINIATURES}.")
    ] = False,
) -> None:
    """Run experiments and write their pages.

    The result of every finished task is cached in the folder .cache of the output folder: after an interruption, run
    the same command again.
    """
    experiments = _chosen(names)
    size: Size = "miniature" if miniature else "full"
    folder = out or (MINIATURES if miniature else RESULTS)
    failures = []
    with _failures_as_messages():
        check_data(experiments, data)
        with Runner(data, folder / ".cache", n_jobs=jobs, fresh=fresh) as runner, _Bar() as bar:
            for experiment in experiments:
                try:
                    results = runner.run(experiment, size, bar)
                except DataError as error:  # the other experiments can still run
                    failures.append(error)
                    continue
                _say(write(experiment, results, data, folder, size)[0])
        _write_summaries(folder)
        for failure in failures:
            typer.echo(f"error: {failure}", err=True)
        if failures:
            raise typer.Exit(1)


@app.command()
def report(
    names: Names,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the results.", show_default=False)] = RESULTS,
) -> None:
    """Write the pages again from the results in the folder, without computing anything."""
    with _failures_as_messages():
        for experiment in _chosen(names):
            _say(write_from_record(experiment, out)[0])
        _write_summaries(out)


@app.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAMES", help="Names of experiments.", show_default="all")
    ] = None,
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = Path("../shared/data"),
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the results.", show_default=False)] = RESULTS,
) -> None:
    """Report which results are stale, and why; exit with status 1 if one is.

    A result is stale if the code that its tasks reach, their options or their data have changed since it was computed.
    """
    experiments = _chosen(names or ["all"])
    width = max(len(experiment.name) for experiment in experiments)
    reasons = {experiment.name: stale(experiment, out / f"{experiment.name}.json", data) for experiment in experiments}
    for name, why in reasons.items():
        typer.echo(f"{name:{width}}  {'stale: ' + '; '.join(why) if why else 'up to date'}")
    if any(reasons.values()):
        raise typer.Exit(1)


def _write_summaries(folder: Path) -> None:
    for write_summary in (write_findings, write_costs):
        _say(write_summary(list(all_experiments().values()), folder))


def _say(path: Path) -> None:
    typer.echo(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _chosen(names: list[str]) -> list[Experiment]:
    experiments = all_experiments()
    if names == ["all"]:
        return list(experiments.values())
    for name in names:
        if name not in experiments:
            near = difflib.get_close_matches(name, experiments, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`python -m experiments list` shows all names"
            raise typer.BadParameter(f"unknown experiment {name!r}; {hint}")
    return [experiments[name] for name in dict.fromkeys(names)]


@contextmanager
def _failures_as_messages() -> Iterator[None]:
    """Print a `DataError` as one line and exit with status 1."""
    try:
        yield
    except DataError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


class _Bar:
    """A progress bar on a terminal, lines in a log."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[last]}"), console=Console(stderr=True))
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, experiment: Experiment, done: int, total: int, name: str) -> None:
        """Show that a task has ended."""
        if self._bar is None:
            typer.echo(f"{experiment.name}: {done} of {total}, {name}", err=True)
            return
        if experiment.name not in self._tasks:
            self._tasks[experiment.name] = self._bar.add_task(experiment.name, total=total, last="")
        self._bar.update(self._tasks[experiment.name], completed=done, last=name)


if __name__ == "__main__":
    app()
