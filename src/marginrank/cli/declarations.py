"""Arguments and options that several commands declare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from marginrank.cli.completion import policy_names

#: The help of ``--policy``; a test compares the names with those there are.
POLICY_HELP: Final = (
    "How to score ties, and queries without relevant documents: standard, letor3, letor4, mslr, trec or lightgbm."
)

#: What systems are judged by.
Judged: TypeAlias = Annotated[Path, typer.Argument(metavar="JUDGED", help="Judged queries, or TREC judgements.")]
#: What is judged.
Systems: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="SYSTEM",
        help="Models, files with one score per line, TREC runs, or rankings written by `marginrank rank`.",
    ),
]


def policy_option(panel: str | None = None) -> Any:
    """Declare ``--policy``, in a panel of the help."""
    return typer.Option(metavar="NAME", help=POLICY_HELP, autocompletion=policy_names, rich_help_panel=panel)


def jobs_option(panel: str) -> Any:
    """Declare ``--n-jobs``, in a panel of the help."""
    return typer.Option(help="Number of threads.", show_default="all cores", rich_help_panel=panel)


def out_option(help_text: str, shown: str | bool = False, metavar: str = "FILE") -> Any:
    """Declare ``-o``, with what it is for and its default."""
    return typer.Option("--out", "-o", metavar=metavar, help=help_text, show_default=shown, rich_help_panel="Output")
