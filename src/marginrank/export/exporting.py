"""Writing exports with their check files, and running the checks."""

from __future__ import annotations

import errno
from pathlib import Path

from marginrank.atomic import atomic_path
from marginrank.errors import DataError
from marginrank.export.base import Export, Target, check_taken, parse_target
from marginrank.export.checks import Check, make_check
from marginrank.scoring import Function, FusedFunction


def export(
    function: Function, target: str | Target, path: str | Path, check: Check | None = None, *, overwrite: bool = True
) -> Export:
    """Write a scoring function for a target, and a check file beside it.

    Args:
        function: What to write.
        target: Where it goes: a `Target` or its spelling, such as ``python`` or ``sql(dialect=duckdb)``.
        path: The file to write.
        check: Documents and the scores to expect; drawn from the function by default.
        overwrite: Replace files of that name instead of refusing them.
    """
    place, chosen = Path(path), parse_target(target)
    check_taken(chosen, function)
    files: dict[Path, str | bytes] = {}
    for ending, content in chosen.write(function).items():
        files[_beside(place, ending) if ending else place] = content
    if check is None and not isinstance(function, FusedFunction):
        check = make_check(function, missing=chosen.knows_missing)
    if check is not None:
        files[check_path(place)] = check.to_json()
    taken = [] if overwrite else [name for name in files if name.exists()]
    if taken:
        raise FileExistsError(errno.EEXIST, "exists; choose another name or pass overwrite=True", str(taken[0]))
    for name, content in files.items():
        with atomic_path(name, overwrite=overwrite) as waiting:
            waiting.write_bytes(content.encode() if isinstance(content, str) else content)
    return Export(tuple(files), chosen.next_steps(place))


def verify(target: str | Target, path: str | Path) -> Check:
    """Score the documents of the check file beside an export with the export itself.

    Raises:
        CannotRunError: What the target needs is not here.
        DataError: The scores are not those expected.
    """
    place, chosen = Path(path), parse_target(target)
    check = Check.read(check_path(place))
    difference = check.compare(chosen.run(place, check))
    if difference is not None:
        raise DataError(f"{chosen.name} does not agree with the model: {difference}", path=place)
    return check


def check_path(path: Path) -> Path:
    """Return the name of the check file of an export.

    >>> check_path(Path("out/model.onnx")).name
    'model.check.json'
    """
    return _beside(path, ".check.json")


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name.partition(".")[0] + ending)
