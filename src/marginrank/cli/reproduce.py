"""``marginrank reproduce``: what the papers report, rebuilt on public data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from marginrank.cli.completion import experiment_names
from marginrank.cli.failures import Misuse
from marginrank.cli.output import Output
from marginrank.errors import DataError
from marginrank.words import did_you_mean, table

if TYPE_CHECKING:
    from experiments.base import Experiment, Size

EXAMPLES: Final = ("marginrank reproduce --list", "marginrank reproduce yue-toys -o results")


def command(
    output: Output,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Experiments, or all of them.", autocompletion=experiment_names),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    data: Annotated[Path, typer.Option(help="The folder of the data sets.")] = Path("../shared/data"),
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of the results.", rich_help_panel="Output")
    ] = Path("results"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one per core")] = None,
    miniature: Annotated[
        bool, typer.Option("--miniature", help="Run through everything on a few queries, in seconds.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute again what is kept.")] = False,
) -> None:
    """Rebuild what the papers report, and write tables, pictures and findings.

    Results of finished parts are kept in the folder .kept of the results: run the same command again and it goes on
    where it was stopped. Pages of an experiment are written anew each time.
    """
    from experiments import all_experiments  # noqa: PLC0415
    from experiments.running import Runner, check_data  # noqa: PLC0415
    from experiments.writing import write, write_findings  # noqa: PLC0415

    known = all_experiments()
    if list_all:
        _list(output, known)
        return
    chosen = _chosen(names or [], known)
    size: Size = "miniature" if miniature else "full"
    check_data(chosen, data)
    failed: list[DataError] = []
    written: dict[str, list[Path]] = {}
    with Runner(data, out / ".kept", n_jobs=jobs, fresh=fresh) as runner, _Bar(quiet=output.quiet) as bar:
        for experiment in chosen:
            try:
                kept = runner.run(experiment, size, bar)
            except DataError as error:  # the others can still be had
                failed.append(error)
                continue
            written[experiment.name] = write(experiment, kept, out, _spelled(experiment, size), size)
    written["findings"] = [write_findings(list(known.values()), out)]
    text = "\n".join(f"{name}: {paths[0]}" for name, paths in written.items())
    output.summary({"written": written}, text)
    if failed:
        raise failed[0]


def _spelled(experiment: Experiment, size: str) -> str:
    return f"marginrank reproduce {experiment.name}{' --miniature' if size == 'miniature' else ''}"


def _list(output: Output, known: dict[str, Experiment]) -> None:
    rows = [["experiment", "what", "source"], *([one.name, one.title, one.source] for one in known.values())]
    record = [
        {"name": one.name, "title": one.title, "source": one.source, "data": list(one.data)} for one in known.values()
    ]
    output.result({"experiments": record}, table(rows))


def _chosen(names: list[str], known: dict[str, Experiment]) -> list[Experiment]:
    if not names:
        raise Misuse("name an experiment, or all; --list shows them")
    if names == ["all"]:
        return list(known.values())
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise Misuse(f"unknown experiment {name!r}; {hint}`marginrank reproduce --list` shows them all")
    return [known[name] for name in dict.fromkeys(names)]


class _Bar:
    """A progress bar on a terminal, lines in a log."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
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
        if self._quiet:
            return
        if self._bar is None:
            print(f"{experiment.name}: {done} of {total}, {name}", file=sys.stderr, flush=True)
            return
        if experiment.name not in self._tasks:
            self._tasks[experiment.name] = self._bar.add_task(experiment.name, total=total, last="")
        self._bar.update(self._tasks[experiment.name], completed=done, last=name)
