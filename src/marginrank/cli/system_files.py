"""Systems that `marginrank evaluate` and `report` judge: models, files of scores and TREC runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions, dense, load_ranker
from marginrank.errors import DataError
from marginrank.runtime.text import printable

if TYPE_CHECKING:
    from marginrank.data.formats.trec import Qrels, Run
    from marginrank.data.queries import Queries
    from marginrank.evaluation.evaluation import Evaluation
    from marginrank.evaluation.systems import System
    from marginrank.ranker.ranker import Ranker
    from marginrank.typing import FloatArray

_SYSTEMS: Final = "a model, one score per line, a TREC run, or a table with the columns query, document and score"


def system_names(paths: Sequence[Path]) -> list[str]:
    """Call systems by their files without suffix, or by all of the path where two would be called the same.

    >>> system_names([Path("a/one.run"), Path("b/two.run")]), system_names([Path("a/one.run"), Path("b/one.run")])
    (['one', 'two'], ['a/one.run', 'b/one.run'])
    """
    stems = [printable(path.stem) for path in paths]
    names = stems if len(set(stems)) == len(stems) else [printable(str(path)) for path in paths]
    if len(set(names)) < len(names):
        raise DataError("given twice; name each system once", path=paths[0])
    return names


def check_data_first(command: str, judged: Path, systems: Sequence[Path]) -> None:
    """Refuse a model in the place of the judged data, and show the command in the right order."""
    from marginrank.model.file_format import is_model  # noqa: PLC0415

    if is_model(judged):
        data = next((path for path in systems if not is_model(path)), None)
        others = [path for path in (judged, *systems) if path != data]
        words = ["marginrank", command, "JUDGED" if data is None else str(data), *map(str, others)]
        raise UsageError(f"{judged} is a model, and the judged data comes first: {shlex.join(words)}")


def check_model_first(command: str, model: Path, data: Sequence[Path]) -> None:
    """Refuse a model among the data, and show the command in the right order."""
    from marginrank.model.file_format import is_model  # noqa: PLC0415

    models = [path for path in data if is_model(path)]
    if models and not is_model(model):
        others = [path for path in (model, *data) if path not in models]
        words = ["marginrank", command, *map(str, (models[0], *others))]
        raise UsageError(f"{model} is not a model, and the model comes first: {shlex.join(words)}")
    if models:
        raise UsageError(f"{models[0]} is a model; {command} takes one model, then data")


def read_all(
    judged: Path, systems: Mapping[str, Path], reading: ReadingOptions
) -> tuple[Queries | Qrels, dict[str, Ranker | FloatArray | Run]]:
    """Read judged data and the systems to judge on it.

    Only models look at features: without one, tables are read without them. Missing values are refused where one of
    the models takes none.
    """
    from marginrank.data.formats.trec import Run  # noqa: PLC0415
    from marginrank.model.file_format import is_model  # noqa: PLC0415

    models = {name: load_ranker(path) for name, path in systems.items() if is_model(path)}
    missing = None if any(not model.form_.takes_nan for model in models.values()) else "nan"
    truth = reading.read([judged], missing=missing, features=_common_features(models))
    if isinstance(truth, Run):
        raise DataError("this is a run, not judgements; give the judged file first", path=judged)
    if any(not model.model_.takes_sparse for model in models.values()):
        truth = dense(truth)
    opened = {name: models.get(name) or _read_system(path, truth) for name, path in systems.items()}
    if any(isinstance(system, Run) for system in opened.values()):
        _check_names(truth, judged)
    return truth, opened


def _check_names(truth: Queries | Qrels, path: Path) -> None:
    """Refuse judged data in which a run could mean one document or another."""
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.data.validation import distinct_names  # noqa: PLC0415

    try:
        if isinstance(truth, Queries):
            distinct_names(truth)
    except DataError as error:
        raise error.at(path) from None


def _common_features(models: Mapping[str, Ranker]) -> tuple[str, ...] | None:
    """Return the names of the features of models if they all have the same; without a model, no feature is needed."""
    if not models:
        return ()
    names = {model.model_.feature_names for model in models.values()}
    return names.pop() if len(names) == 1 else None


def judge(judged: Queries | Qrels, system: System, path: Path, measures: Sequence[str], **options: Any) -> Evaluation:
    """Evaluate a system, and name its file in errors."""
    from marginrank.evaluation.evaluation import evaluate  # noqa: PLC0415
    from marginrank.evaluation.systems import score_documents  # noqa: PLC0415

    try:
        return evaluate(judged, score_documents(judged, system), measures, **options)
    except DataError as error:
        raise error.at(path) from error


def _read_system(path: Path, judged: Queries | Qrels) -> FloatArray | Run:
    """Read scores, a TREC run, or a table that `marginrank rank` wrote, whichever the file holds.

    A file of scores has one for each row of the judged file; they come in the order of the queries.
    """
    from marginrank.data.formats.base import all_formats  # noqa: PLC0415
    from marginrank.data.formats.trec import read_run  # noqa: PLC0415
    from marginrank.data.reader import recognize  # noqa: PLC0415

    try:
        kind = recognize(path)
        if "features" in all_formats()[kind].options and not (kind == "csv" and _is_number(_first_line(path))):
            return _read_ranking(path)
        if len(_first_line(path).split()) == 1:
            from marginrank.data.formats.score_file import read_scores  # noqa: PLC0415

            return _in_order(read_scores(path), judged)
        if kind != "run":
            raise DataError(f"this is not a system; give {_SYSTEMS}")
        return read_run(path)
    except DataError as error:
        raise error.at(path) from error


def _in_order(scores: FloatArray, judged: Queries | Qrels) -> FloatArray:
    from marginrank.data.queries import Queries  # noqa: PLC0415

    return judged.from_source_rows(scores, "scores") if isinstance(judged, Queries) else scores


def _read_ranking(path: Path) -> Run:
    """Read the columns query, document and score of a table as a run."""
    from marginrank.data.formats.trec import Run  # noqa: PLC0415
    from marginrank.data.reader import read_queries  # noqa: PLC0415

    try:
        ranking = read_queries(path, features="score")
    except DataError as error:
        if error.line is not None:
            raise
        raise DataError("this is not a system: ", error.message, f"; give {_SYSTEMS}", path=path) from None
    if ranking.document_ids is None:
        raise DataError(f"this is not a system: no column of document ids; give {_SYSTEMS}", path=path)
    return Run.from_scores(ranking, ranking.dense()[:, 0])


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first_line(path: Path) -> bytes:
    """Return the first line that has any words."""
    from marginrank.data.formats.text_files import line_blocks  # noqa: PLC0415

    for block in line_blocks(path, size=1 << 16):
        for line in block.splitlines():
            if line.strip():
                return line
    raise DataError(f"this file is empty; give {_SYSTEMS}")
