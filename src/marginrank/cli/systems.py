"""What `marginrank evaluate` and `report` judge: models, files of scores and TREC runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginrank.cli.reading import load_ranker
from marginrank.errors import DataError

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.data.trec import Qrels, Run
    from marginrank.evaluation.evaluating import Evaluation
    from marginrank.estimator import BaseRanker
    from marginrank.typing import FloatArray


def system_names(paths: Sequence[Path]) -> list[str]:
    """Call systems by their files without suffix, or by all of the path where two would be called the same.

    >>> system_names([Path("a/one.run"), Path("b/two.run")]), system_names([Path("a/one.run"), Path("b/one.run")])
    (['one', 'two'], ['a/one.run', 'b/one.run'])
    """
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise DataError("given twice; name each system once", path=paths[0])
    return names


def judge(judged: Queries | Qrels, path: Path, measures: Sequence[str], **options: Any) -> Evaluation:
    """Evaluate what a file holds: a model scores the judged documents itself."""
    from marginrank.evaluation.systems import judge_system  # noqa: PLC0415

    system = read_system(path)
    try:
        return judge_system(judged, system, measures, **options)
    except DataError as error:
        raise DataError(error.problem, path=error.path or path, line=error.line, column=error.column) from error


def read_system(path: Path) -> BaseRanker | FloatArray | Run:
    """Read a model, scores or a TREC run, whichever the file holds."""
    from marginrank.data.formats import recognize  # noqa: PLC0415
    from marginrank.data.trec import read_run  # noqa: PLC0415

    try:
        from marginrank.model_file import is_model  # noqa: PLC0415

        if is_model(path):
            return load_ranker(path)
        if _columns(path) == 1:
            return read_scores(path)
        if recognize(path) != "run":
            raise DataError("this is no system; give a model, one score per line, or a TREC run")
        return read_run(path)
    except DataError as error:
        raise DataError(error.problem, path=error.path or path, line=error.line, column=error.column) from error


def _columns(path: Path) -> int:
    """Count the words of the first line that has any."""
    from marginrank.data.files import line_blocks  # noqa: PLC0415

    for block in line_blocks(path, size=1 << 16):
        for line in block.splitlines():
            if line.strip():
                return len(line.split())
    raise DataError("an empty file; give a model, one score per line, or a TREC run")


def read_scores(path: Path) -> FloatArray:
    """Read one number per line."""
    import numpy as np  # noqa: PLC0415

    from marginrank.data.files import line_blocks  # noqa: PLC0415

    lines = b"".join(line_blocks(path)).rstrip().split(b"\n")
    try:
        return np.array(lines, dtype=np.float64)
    except ValueError:
        number = next(at for at, line in enumerate(lines, 1) if not _is_number(line))
        found = lines[number - 1].decode(errors="replace").strip()
        raise DataError(f"{found[:40]!r} is no score; give one number per line", line=number) from None


def _is_number(line: bytes) -> bool:
    try:
        float(line)
    except ValueError:
        return False
    return True
