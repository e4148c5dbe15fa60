"""Arguments and options that several commands declare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import typer


def preset_names(incomplete: str) -> list[tuple[str, str]]:
    """Presets that begin so, each with what it is."""
    from marginrank.methods.presets import all_presets  # noqa: PLC0415

    return [(name, preset.summary) for name, preset in all_presets().items() if name.startswith(incomplete)]


def measure_names(incomplete: str) -> list[tuple[str, str]]:
    """Measures that begin so, each with what it is, and with a cutoff where it takes one."""
    from dataclasses import MISSING, fields  # noqa: PLC0415

    from marginrank.measures import all_measures  # noqa: PLC0415

    offered = []
    for name, kind in all_measures().items():
        summary = (kind.__doc__ or "").splitlines()[0]
        cuts = [field for field in fields(kind) if field.name == "k"]
        offered += [(f"{name}@10", summary) for _ in cuts]
        offered += [(name, summary)] if all(field.default is not MISSING for field in cuts) else []
    return sorted(entry for entry in offered if entry[0].startswith(incomplete))


def policy_names(incomplete: str) -> list[tuple[str, str]]:
    """Policies that begin so, each with what it is."""
    from marginrank.evaluation.policies import POLICIES  # noqa: PLC0415

    return [(name, policy.summary) for name, policy in POLICIES.items() if name.startswith(incomplete)]


def target_names(incomplete: str) -> list[tuple[str, str]]:
    """Targets that begin so, each with what it is."""
    from marginrank.cli.summary import readable  # noqa: PLC0415
    from marginrank.export.base import all_targets  # noqa: PLC0415

    targets = all_targets().items()
    return [(name, readable(kind, 1000).partition("\n")[0]) for name, kind in targets if name.startswith(incomplete)]


#: The help of ``--policy``; a test compares the names with those there are.
POLICY_HELP: Final = (
    "How to score ties, and queries without relevant documents: standard, letor3, letor4, mslr, trec or lightgbm."
)

#: What systems are judged by.
Judged: TypeAlias = Annotated[Path, typer.Argument(metavar="JUDGED", help="Judged queries, or TREC judgements.")]

#: The column that results are broken down by.
By: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Also break results down by this column of JUDGED, which has one value per query.",
    ),
]

#: Texts of queries.
QueryText: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--query-text",
        metavar="FILE",
        help="Text of each query: id and text, as TSV, CSV or JSONL.",
        show_default=False,
    ),
]

#: Whether means have confidence intervals.
IntervalsOption: TypeAlias = Annotated[
    bool, typer.Option("--intervals", help="Print bootstrap confidence intervals of the means.")
]

#: Whether means have bounds over the grades of unjudged documents.
BoundsOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--bounds", help="Print the lowest and highest possible means, over all grades of unjudged documents."
    ),
]

#: What is judged.
Systems: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="SYSTEM",
        help="Models, files with one score per line, TREC runs, rankings written by `marginrank rank`, or columns of "
        "JUDGED.",
    ),
]


def policy_option() -> Any:
    """Declare ``--policy``."""
    return typer.Option(metavar="NAME", help=POLICY_HELP, autocompletion=policy_names)


def bound_option() -> Any:
    """Declare ``--bound``."""
    return typer.Option(
        help="hinge is convex; tight is closer to the measure; auto: hinge, or tight if hinge is minimal at w = 0.",
        show_default="by preset, else auto",
    )


def unjudged_option() -> Any:
    """Declare ``--unjudged``."""
    return typer.Option(
        help="Documents without a grade: skip leaves them out, irrelevant gives them grade 0.",
        show_default="skip in training, irrelevant in evaluation",
    )


def jobs_option(panel: str | None = None) -> Any:
    """Declare ``--n-jobs``, in a panel of the help other than that of its group."""
    return typer.Option(help="Number of threads.", show_default="all cores", rich_help_panel=panel)


def out_option(help_text: str, shown: str | bool = False, metavar: str = "FILE") -> Any:
    """Declare ``-o``, with what it is for and its default."""
    return typer.Option("--out", "-o", metavar=metavar, help=help_text, show_default=shown, rich_help_panel="Output")


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters of a command that are dataclasses by the options of their fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Output:
    ...     quiet: bool = False
    >>> def show(name: str, output: Output) -> None:
    ...     print(name, output)
    >>> flat(show).__signature__
    <Signature (*, name: str, quiet: bool = False)>
    >>> flat(show)(name="a", quiet=True)
    a Output(quiet=True)
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for own in signature(command).parameters.values():
        group = groups.get(own.name)
        if group is None:
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[own.name]))
        else:
            parameters.extend(_parameters_of(group))

    def run(**values: Any) -> None:
        gathered = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **gathered)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameters_of(group: Any) -> list[Parameter]:
    """Return the options of the fields of a dataclass; the help shows them in its panel unless they name another."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        for option in getattr(hints[field.name], "__metadata__", ()):
            option.rich_help_panel = option.rich_help_panel or getattr(group, "panel", None)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name])
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default
