"""What `marginrank evaluate` judges: models, files of scores and TREC runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginrank.cli.reading import is_model
from marginrank.errors import DataError

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.data.trec import Qrels
    from marginrank.evaluation.evaluate import Evaluation
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
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.evaluation.evaluate import evaluate  # noqa: PLC0415

    try:
        if not is_model(path) and _columns(path) > 1:
            return _judge_run(judged, path, measures, options)
        if not isinstance(judged, Queries):
            raise DataError("TREC judgements have no features and no rows; they go with TREC runs")
        scores = _model_scores(judged, path) if is_model(path) else read_scores(path)
        return evaluate(judged, scores, measures, **_for_queries(options))
    except DataError as error:
        raise DataError(error.problem, path=error.path or path, line=error.line, column=error.column) from error


def _for_queries(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "missing_topics"}


def _model_scores(queries: Queries, path: Path) -> FloatArray:
    from marginrank.estimators import load  # noqa: PLC0415

    return load(path).predict(queries)


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


def _judge_run(judged: Queries | Qrels, path: Path, measures: Sequence[str], options: dict[str, Any]) -> Evaluation:
    from marginrank.data.formats import recognize  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.data.trec import read_run  # noqa: PLC0415
    from marginrank.evaluation.evaluate import evaluate  # noqa: PLC0415

    if recognize(path) != "run":
        raise DataError("this is no system; give a model, one score per line, or a TREC run")
    run = read_run(path)
    if not isinstance(judged, Queries):
        return evaluate(judged, run, measures, **options)
    found = evaluate(_as_qrels(judged), run, measures, **options)
    return _as_of_queries(found, judged)


def _as_qrels(queries: Queries) -> Qrels:
    """Judged queries as TREC judgements; documents without a name are called by their rows, as runs call them."""
    import numpy as np  # noqa: PLC0415

    from marginrank.data.trec import Qrels  # noqa: PLC0415

    names = queries.document_ids
    if names is None:
        names = np.arange(queries.n_documents) if queries.rows is None else queries.rows
    return Qrels(queries.query_ids.astype(str), queries.offsets, names.astype(str), queries.grades)


def _as_of_queries(found: Evaluation, queries: Queries) -> Evaluation:
    """Give the values the ids and weights of the queries, so that they compare with those of scores."""
    place = {name: at for at, name in enumerate(queries.query_ids.astype(str).tolist())}
    chosen = [place[name] for name in found.query_ids.tolist()]
    weights = None if queries.query_weights is None else queries.query_weights[chosen]
    return replace(found, query_ids=queries.query_ids[chosen], weights=weights)
