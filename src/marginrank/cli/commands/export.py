"""``marginrank export``: models for search engines, databases and other languages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.shared_options import target_names
from marginrank.cli.output import Force, Output, check_inputs, check_outputs
from marginrank.errors import DataError
from marginrank.runtime.text import facts

if TYPE_CHECKING:
    from marginrank.export.base import Export, Target

EXAMPLES: Final = ("marginrank export model.safetensors --to python -o ranker.py --check", "marginrank export --list")


def command(
    output: Output,
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A model written by `marginrank train`, `tune` or `fuse`.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="The target, such as onnx, solr or sql(dialect=postgresql).",
            autocompletion=target_names,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write.",
            show_default="name of the model, with the suffix of the target",
            rich_help_panel="Output",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run the export on the check file and compare the scores.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the targets.")] = False,
    force: Force = False,
) -> None:
    """Write a model for a search engine, a database or another language.

    A check file, FILE.check.json, is written next to the export: documents with their expected scores. --check runs the
    export on them, if the target can run on this machine.
    """
    if listed:
        if model is not None or to is not None:
            raise UsageError("--list takes no model and no target; leave them out")
        output.result(*_targets())
        return
    if model is None or to is None:
        raise UsageError("give a model and a target: marginrank export MODEL --to TARGET; --list shows the targets")
    target = _target(to)
    place = out or Path(f"{model.name.partition('.')[0]}{target.suffix}")
    check_inputs([model])
    check_outputs([place], inputs=[model], force=force)
    written = _export(model, target, place, force)
    checked = _verified(target, place) if check else None
    entries = [
        ("wrote", [str(file) for file in written.files]),
        ("next", written.next_steps.split("\n")),
        *([] if checked is None else [("check", checked)]),
    ]
    record = {"target": str(target), "files": written.files, "next": written.next_steps, "check": checked}
    output.summary(record, facts(entries))


def _target(spec: str) -> Target:
    from marginrank.export.base import parse_target  # noqa: PLC0415

    try:
        return parse_target(spec)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _export(model: Path, target: Target, place: Path, force: bool) -> Export:
    from marginrank.fusion.fusion import Fusion  # noqa: PLC0415
    from marginrank.model.file_format import read_model  # noqa: PLC0415
    from marginrank.model.model import Model  # noqa: PLC0415

    holds = Fusion.load(model) if read_model(model)[0] == "fusion" else Model.load(model)
    try:
        return holds.export(target, place, overwrite=force)
    except FileExistsError as error:
        raise DataError("already exists; choose another name, or give --force", path=error.filename) from None
    except DataError as error:
        raise error.at(model) from None


def _verified(target: Target, place: Path) -> str:
    from marginrank.export.base import CannotRunError  # noqa: PLC0415
    from marginrank.export.export_files import verify  # noqa: PLC0415

    try:
        check = verify(target, place)
    except CannotRunError as error:
        return f"not run: {error}"
    return f"ok, {len(check.scores)} documents of {len(check.group)} queries agree"


def _targets() -> tuple[dict[str, Any], str]:
    from marginrank.cli.summary import readable  # noqa: PLC0415
    from marginrank.export.base import all_targets  # noqa: PLC0415

    kinds = all_targets()
    rows = [[name, kind.takes, readable(kind, 1000).partition("\n")[0]] for name, kind in kinds.items()]
    record = {"targets": [dict(zip(("name", "takes", "summary"), row, strict=True)) for row in rows]}
    return record, facts([(name, [summary, f"Takes {takes}."]) for name, takes, summary in rows])
