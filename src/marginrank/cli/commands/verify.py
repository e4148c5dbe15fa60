"""``marginrank verify``: check files for damage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import FAILED, UsageError, describe
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import Output, check_inputs
from marginrank.cli.summary import sizes_line
from marginrank.runtime.text import printable

EXAMPLES: Final = ("marginrank verify model.safetensors train.txt",)


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE", help="Models and data.")],
    reading: ReadingOptions,
    output: Output,
) -> None:
    """Check models and data files for damage.

    For models and binary data: sizes, types, structure and the digest of every array. For other data: that all of it
    can be read. Prints a line for each file; the exit code is 1 if one is damaged.
    """
    from marginrank.model.file_format import is_model  # noqa: PLC0415

    if reading != ReadingOptions() and all(path.exists() and is_model(path) for path in paths):
        raise UsageError("options for reading data do not apply to models; leave them out")
    checks = [_check(path, reading) for path in paths]
    lines = [printable(f"{one['path']}: {'ok, ' if one['ok'] else 'FAILED, '}{one['found']}") for one in checks]
    output.result({"files": checks}, "\n".join(lines))
    if not all(one["ok"] for one in checks):
        raise typer.Exit(FAILED)


def _check(path: Path, reading: ReadingOptions) -> dict[str, Any]:
    try:
        check_inputs([path])
        return {"path": path, "ok": True, "found": _found(path, reading)}
    except UsageError:
        raise
    except Exception as error:
        message, _ = describe(error)
        return {"path": path, "ok": False, "found": message.removeprefix(f"{path}: ")}


def _found(path: Path, reading: ReadingOptions) -> str:
    """Read all of a file, and say what it holds and what was checked."""
    from marginrank.data.formats.base import all_formats  # noqa: PLC0415
    from marginrank.data.formats.binary import verify_binary  # noqa: PLC0415
    from marginrank.data.queries import Queries, check_finite  # noqa: PLC0415
    from marginrank.data.reader import recognize  # noqa: PLC0415
    from marginrank.model.file_format import is_model, model_kind  # noqa: PLC0415

    if is_model(path):
        from marginrank.fusion.fusion import load_any  # noqa: PLC0415
        from marginrank.recommend import Recommender  # noqa: PLC0415

        kind = model_kind(path)
        Recommender.load(path) if kind == "recommender" else load_any(path)
        return f"a model ({kind}); checked header, structure and digests"
    title = all_formats()[recognize(path)].title
    if recognize(path) == "binary":
        queries = verify_binary(path)
        check_finite(queries, allow_nan=True)
        return f"{title}, {sizes_line(queries)}; checked header, structure, values and digests"
    content = reading.read([path], missing="nan", judged=False)
    what = sizes_line(content) if isinstance(content, Queries) else f"{len(content):,} topics"
    return f"{title}, {what}; checked structure and values"
