"""The command line, assembled.

A new command is one new module in ``commands/``, of the same name. It has

- ``command``, a function whose docstring is the help text. Its parameters are arguments and options as typer takes
  them, or dataclasses of options that commands share, such as `Output`, which every command has;
- ``EXAMPLES``, one or two lines at the end of the help. They have to work as they are: the tests run them in a folder
  that `tests/cli/conftest.py` fills.

A folder in ``commands/`` is a group of commands, such as ``judge``: each of its modules is a command of the group, as
above. Its ``__init__`` has ``HELP`` and, if the name of a command may be left out, its name as ``DEFAULT``.

Nothing heavy is imported at the top of these modules, so that help and completion are fast.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from marginrank.cli import commands
from marginrank.cli.exit_codes import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    TRACEBACK_VARIABLE,
    CommandError,
    OptionName,
    UsageError,
    exit_code_of,
    write_option,
)
from marginrank.cli.options.shared_options import flat
from marginrank.cli.progress import terminated_as_interrupted
from marginrank.cli.streams import logged_as_lines, note, prepare_streams
from marginrank.errors import ComposedMessage, DataError, ParameterError
from marginrank.runtime.files import rereadable_pipes
from marginrank.version import __version__

#: Commands, also those of groups, in the order they are usually needed; others follow in alphabetical order.
_FIRST: Final = (
    "inspect",
    "split",
    "propensities",
    "train",
    "tune",
    "evaluate",
    "compare",
    "report",
    "explain",
    "rank",
    "page",
    "export",
    "serve",
    "drift",
    "fuse",
    "clicks",
    "judge",
    "recommend",
    "convert",
    "verify",
    "measures",
    "presets",
)
#: Modules that log what users are told: the columns that are read and, at a terminal, that kernels are compiled.
_COLUMNS: Final = "marginrank.data.column_roles"
_KERNELS: Final = "marginrank.runtime.kernels"
_EXIT_CODES: Final = "Exit codes: 0 success, 1 bad input, 2 bad usage, 130 interrupted."


#: What the help calls the values of options, by how typer shows their types; of choices it shows the values.
_VALUES: Final = {
    "str": "TEXT",
    "list[str]": "TEXT",
    "int": "INTEGER",
    "int range": "INTEGER",
    "float": "NUMBER",
    "float range": "NUMBER",
    "path": "FILE",
}


def _ordered(names: Iterable[str]) -> list[str]:
    """Return names of commands in the order of the help."""
    return sorted(names, key=lambda name: ([*_FIRST, name].index(name), name))


class _PlainHelp:
    """Types of Python are not shown in the help: flags take no value, and others have a plain word."""

    def get_params(self, context: Any) -> Any:
        """Return the parameters, flags with nothing after their names."""
        parameters = super().get_params(context)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperArgument):
                _show_plainly(parameter)
            elif getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.metavar is None:
                shown = (parameter.display_type(context) or "").strip("<>")
                parameter.metavar = _VALUES.get(shown, shown)
            if isinstance(parameter, TyperOption):
                _show_defaults_plainly(parameter)
        return parameters


def _show_defaults_plainly(option: Any) -> None:
    """Show the default without parentheses, and no range: errors give it."""
    option._get_number_range_help_str = lambda: None
    if isinstance(option.show_default, str):
        option._get_default_string = lambda **_: option.show_default


def _show_plainly(argument: Any) -> None:
    """Show an argument as in ``marginrank train [OPTIONS] DATA...``, without braces and without a type."""
    name = argument.metavar or argument.name.upper()
    name += "..." if argument.nargs != 1 and "..." not in name else ""
    argument._usage_display_name = lambda: name if argument.required else f"[{name}]"
    argument.display_type_rich = lambda ctx: ""  # noqa: ARG005


class _Command(_PlainHelp, TyperCommand):
    """One command; errors and warnings of the library name its options."""

    def invoke(self, context: Any) -> Any:
        """Run the command."""
        options = _options_by_parameter(context)
        try:
            with _warnings_as_lines(options), logged_as_lines(_COLUMNS, quiet=context.params["quiet"]):
                return super().invoke(context)
        except DataError as error:
            raise CommandError(_in_options(error, options)) from error
        except ParameterError as error:
            raise UsageError(_in_options(error, options)) from error


def _options_by_parameter(context: Any) -> dict[str, OptionName]:
    """Return the options of a command by parameter and, if it does not train, those of commands that do."""
    option_names = _option_names(context.command)
    if "preset" in option_names:
        return option_names
    trained_by: dict[str, OptionName] = {}
    for name in ("recommend", "fuse", "train"):
        trained_by |= _option_names(context.find_root().command.commands[name], name)
    return trained_by | option_names


def _option_names(command: Any, name: str | None = None) -> dict[str, OptionName]:
    options = [option for option in command.params if isinstance(option, TyperOption)]
    return {
        option.name: OptionName(max(option.opts, key=len), name, next(iter(option.secondary_opts), None))
        for option in options
    }


def _in_options(message: BaseException | str, options: Mapping[str, OptionName]) -> str:
    """Return what an error or a warning says, with options for parameters."""
    if not isinstance(message, ComposedMessage):
        return str(message)
    return message.written(lambda parameter: write_option(parameter, options))


class _OrderedHelp(_PlainHelp, TyperGroup):
    """A group whose help lists commands and groups in the order they are usually needed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names in this order."""
        return _ordered(self.commands)


class _Commands(_OrderedHelp):
    """The group of commands; any error is printed as one line."""

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command and leave with its exit code."""
        words = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(words, standalone_mode=False, **extra)
        show_traceback = "--traceback" in words or os.environ.get(TRACEBACK_VARIABLE, "0") not in ("", "0")
        quiet = "--quiet" in words or "-q" in words or not sys.stderr.isatty()
        with logged_as_lines(_KERNELS, quiet=quiet), terminated_as_interrupted(), rereadable_pipes():
            code = exit_code_of(
                lambda: super(_Commands, self).main(words, standalone_mode=False, **extra),
                show_traceback=show_traceback,
            )
        sys.exit(code)


class _Group(_OrderedHelp):
    """A group of commands within the command line, one of which may be called without its name."""

    default: str | None = None

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Put the name of the default command before arguments that begin with no name of a command."""
        if self.default is not None and args and not self._is_name(args[0]):
            args = [self.default, *args]
        return super().parse_args(context, args)

    def _is_name(self, word: str) -> bool:
        """Tell whether a word is a command, or is meant to be one and misspelled."""
        misspelled = bool(get_close_matches(word, self.commands)) and not Path(word).exists()
        return word in ("--help", "-h") or word in self.commands or misspelled


@contextmanager
def _warnings_as_lines(options: Mapping[str, OptionName]) -> Iterator[None]:
    """Print each warning of the library as one line, once; warnings of other packages are for developers."""
    printed = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(_in_options(message, options).split())
        if line not in printed:
            printed.add(line)
            note(f"warning: {line}")

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
    _show_help_without_a_command(context)


def _show_help_without_a_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)
        raise typer.Exit(MISUSED)


def _find(package: ModuleType) -> dict[str, ModuleType]:
    """Return the modules of a folder of commands by name, in the order of the help."""
    modules = {}
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{entry.name}")
        modules[entry.name.rstrip("_").replace("_", "-")] = module
    return {name: modules[name] for name in _ordered(modules)}


def _add(group: typer.Typer, name: str, module: ModuleType) -> Iterator[str]:
    """Add a command, or a group of commands, and yield the names of what was added."""
    if hasattr(module, "__path__"):
        inner = typer.Typer(
            name=name,
            cls=type("Group", (_Group,), {"default": getattr(module, "DEFAULT", None)}),
            help=module.HELP,
            invoke_without_command=True,
        )
        inner.callback()(_show_help_without_a_command)
        for inner_name, command in _find(module).items():
            yield from (f"{name} {words}" for words in _add(inner, inner_name, command))
        group.add_typer(inner)
        return
    paragraphs = (inspect.getdoc(module.command) or "").split("\n\n")
    group.command(
        name,
        cls=_Command,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["Examples:", *(f"$ {example}" for example in module.EXAMPLES)]),
    )(flat(module.command))
    yield name


#: Names of all commands, in the order of the help; those of a group follow its name, as in ``judge page``.
COMMANDS: Final = tuple(words for name, module in _find(commands).items() for words in _add(app, name, module))


def _end_if_interrupted(unraisable: Any) -> None:
    """Exit where Python would print a traceback and continue: Ctrl-C in a callback, as imports have many."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)


def main() -> None:
    """Run the command line."""
    # Queries are spread over threads already; more threads for small matrices only cost time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare_streams()
    sys.unraisablehook = _end_if_interrupted
    try:
        app(prog_name="marginrank")
    except SystemExit as end:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        # A regular shutdown of the interpreter takes a third of a second.
        os._exit(end.code if isinstance(end.code, int) else FAILED)
