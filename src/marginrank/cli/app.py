"""The command line, assembled.

A new command is one module of this folder and one line of `COMMANDS`. The module ``NAME.py`` has

- ``command``, a function whose docstring is the help. Its parameters are arguments and options in typer's manner, or
  dataclasses of options that commands share, such as `Output`, which every command has, and `Reading`;
- ``EXAMPLES``, one or two lines that close the help. They have to work as they are: the tests run them in a folder that
  `tests/cli/conftest.py` fills.

Nothing heavy is imported at the top of these modules, so that help and completion come at once.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from marginrank.cli.failures import FAILED, MISUSED, TRACEBACK_VARIABLE, guarded
from marginrank.cli.options import flat
from marginrank.cli.watching import terminated_as_interrupted
from marginrank.version import __version__

COMMANDS: Final = (
    "train",
    "tune",
    "rank",
    "evaluate",
    "report",
    "fuse",
    "convert",
    "inspect",
    "measures",
    "presets",
    "demo",
)
_EXIT_CODES: Final = "Exit codes: 0 done, 1 wrong input, 2 wrong usage, 130 interrupted."


class _Commands(TyperGroup):
    """The group of commands; errors of any of them are one line."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command and leave with its exit code."""
        words = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(words, standalone_mode=False, **extra)
        show_traceback = "--traceback" in words or os.environ.get(TRACEBACK_VARIABLE, "0") not in ("", "0")
        with _warnings_as_lines(), terminated_as_interrupted():
            code = guarded(
                lambda: super(_Commands, self).main(words, standalone_mode=False, **extra),
                show_traceback=show_traceback,
            )
        sys.exit(code)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print what the library warns of as a line, once, and keep what other packages say to developers."""
    printed = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in printed:
            printed.add(line)
            print(f"warning: {line}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


app = typer.Typer(
    name="marginrank",
    cls=_Commands,
    help="Train rankers for the measure they are judged by.",
    epilog=_EXIT_CODES,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"marginrank {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
        raise typer.Exit(MISUSED)


def _add(name: str) -> None:
    module = importlib.import_module(f"marginrank.cli.{name}")
    paragraphs = (inspect.getdoc(module.command) or "").split("\n\n")
    app.command(
        name,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["Examples:", *(f"$ {example}" for example in module.EXAMPLES)]),
    )(flat(module.command))


for _name in COMMANDS:
    _add(_name)


def main() -> None:
    """Run the command line."""
    # Queries are dealt out to threads already; more of them for small matrices cost more than they bring.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without ‖ or ± is no reason to fail
    try:
        app(prog_name="marginrank")
    except SystemExit as end:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Taking the interpreter apart piece by piece takes a third of a second and brings nothing.
        os._exit(end.code if isinstance(end.code, int) else FAILED)
