"""Systems that `marginrank evaluate`, `compare` and `report` judge: models, files of scores, TREC runs, and columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions, dense, load_ranker
from marginrank.cli.output import check_inputs
from marginrank.errors import DataError
from marginrank.runtime.files import no_such_file
from marginrank.runtime.text import did_you_mean, printable

if TYPE_CHECKING:
    from marginrank.cli.options.evaluation_options import EvaluationOptions
    from marginrank.data.formats.trec import Qrels, Run
    from marginrank.data.queries import Queries
    from marginrank.evaluation.evaluation import Evaluation, Unjudged
    from marginrank.evaluation.grade_bounds import GradeBounds
    from marginrank.evaluation.systems import System
    from marginrank.ranker.ranker import Ranker
    from marginrank.typing import AnyArray, FloatArray

_SYSTEMS: Final = "a model, one score per line, a TREC run, or a table with the columns query, document and score"


class EvaluatedSystems(NamedTuple):
    """Systems on judged queries."""

    results: dict[str, Evaluation]
    #: The unjudged documents among the first of runs, and of all systems if the data has unjudged documents.
    unjudged: dict[str, Unjudged]
    #: The systems that were trained on these queries.
    trained_on_these: list[str]
    #: By additive measure, what means and differences could be whatever the unjudged documents are, if asked for.
    bounds: dict[str, GradeBounds]
    #: The default baseline.
    baseline: str


def evaluate_systems(
    judged: Path,
    systems: Mapping[str, Path],
    judging: EvaluationOptions,
    reading: ReadingOptions,
    by: str | None,
    *,
    baseline: str | None = None,
    bounds: bool = False,
) -> EvaluatedSystems:
    """Evaluate systems, and warn of those that were trained on these queries."""
    from marginrank.data.formats.trec import Run  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.evaluation.evaluation import count_unjudged  # noqa: PLC0415
    from marginrank.evaluation.systems import (  # noqa: PLC0415
        default_baseline,
        score_documents,
        warn_if_trained_on,
    )

    truth, opened = read_all(judged, systems, reading)
    judging.check_systems(opened)
    options: dict[str, Any] = {
        "policy": judging.policy,
        "depth": judging.depth,
        "missing_topics": judging.missing_topics,
        "unjudged": judging.unjudged_rule,
        "by": read_segments(judged, by, reading),
    }
    results = {name: judge(truth, one, systems[name], judging.spellings, **options) for name, one in opened.items()}
    some = isinstance(truth, Queries) and truth.n_unjudged > 0
    unjudged = {
        name: count_unjudged(truth, score_documents(truth, one))
        for name, one in opened.items()
        if some or isinstance(one, Run)
    }
    named = baseline or default_baseline(opened)
    bounds_by_system = _bounds(truth, opened, judging, named) if bounds else {}
    return EvaluatedSystems(results, unjudged, warn_if_trained_on(truth, opened), bounds_by_system, named)


def _bounds(
    truth: Queries | Qrels, systems: Mapping[str, System], judging: EvaluationOptions, baseline: str
) -> dict[str, GradeBounds]:
    """Return what means and differences could be whatever the unjudged documents are, for additive measures."""
    from marginrank.evaluation.grade_bounds import grade_bounds  # noqa: PLC0415

    options: dict[str, Any] = {
        "policy": judging.policy,
        "depth": judging.depth,
        "missing_topics": judging.missing_topics,
        "baseline": baseline,
    }
    return {name: grade_bounds(truth, systems, name, **options) for name in judging.additive}


def columns_among(systems: Sequence[Path]) -> list[Path]:
    """Return the systems that are no files, which are names of columns."""
    return [path for path in systems if not path.exists()]


def system_names(paths: Sequence[Path], columns: Collection[Path] = ()) -> list[str]:
    """Call systems by their files without suffix, or by the whole path if two would have the same name.

    >>> system_names([Path("a/one.run"), Path("b/two.run")]), system_names([Path("a/one.run"), Path("b/one.run")])
    (['one', 'two'], ['a/one.run', 'b/one.run'])
    """
    stems = [printable(str(path) if path in columns else path.stem) for path in paths]
    names = stems if len(set(stems)) == len(stems) else [printable(str(path)) for path in paths]
    if len(set(names)) < len(names):
        raise DataError("given twice; name each system once", path=paths[0])
    return names


def with_baseline(
    systems: list[Path], baseline: str | None, named: Callable[[list[Path]], list[str]]
) -> tuple[list[Path], list[str], str | None]:
    """Return the systems, with the baseline first if it is another file or a column; their names; that of the baseline.

    >>> with_baseline([Path("model")], "bm25", system_names)
    ([...('bm25'), ...('model')], ['bm25', 'model'], 'bm25')
    """
    names = named(systems)
    if baseline is None or baseline in names:
        return systems, names, baseline
    systems = [Path(baseline), *systems]
    names = named(systems)
    return systems, names, names[0]


def check_systems(command: str, judged: Path, systems: Sequence[Path]) -> None:
    """Refuse files that cannot be read, and a model in the place of the judged data; columns are found later."""
    check_inputs([judged, *(path for path in systems if path.exists())])
    check_data_first(command, judged, systems)


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

    Only models look at all features: without one, tables are read without them. Missing values are refused if one of
    the models takes none. A system that is not a file is a column of the judged data.
    """
    from marginrank.data.formats.trec import Qrels, Run  # noqa: PLC0415
    from marginrank.model.file_format import is_model  # noqa: PLC0415

    files = {name: path for name, path in systems.items() if path.exists()}
    columns = [path for name, path in systems.items() if name not in files]
    models = {name: load_ranker(path) for name, path in files.items() if is_model(path)}
    missing = None if any(not model.form_.takes_nan for model in models.values()) else "nan"
    truth = reading.read([judged], missing=missing, features=_common_features(models))
    if isinstance(truth, Run):
        raise DataError("this is a run, not judgements; give the judged file first", path=judged)
    if any(not model.model_.takes_sparse for model in models.values()):
        truth = dense(truth)
    if columns and isinstance(truth, Qrels):
        raise _absent(columns[0], DataError(f"{printable(judged.name)} has no columns to rank by"))
    scores = _read_columns(judged, columns, reading) if columns else {}
    opened = {
        name: models.get(name) or (_read_system(path, truth) if name in files else scores[path])
        for name, path in systems.items()
    }
    if any(isinstance(system, Run) for system in opened.values()):
        _check_names(truth, judged)
    return truth, opened


def read_segments(judged: Path, column: str | None, reading: ReadingOptions) -> dict[Any, Any] | None:
    """Read the segment of each query from a column of judged data; None if no column is named."""
    from marginrank.data.formats.base import all_formats  # noqa: PLC0415
    from marginrank.data.reader import recognize  # noqa: PLC0415
    from marginrank.evaluation.segments import segments_of  # noqa: PLC0415

    if column is None:
        return None
    kind = all_formats()[recognize(judged)]
    if "document_group" not in kind.options:
        raise UsageError(f"--by needs a table with that column, and {judged.name} is {kind.title}; leave it out")
    queries = replace(reading, features=[]).read_labeled([judged], column, features=())
    try:
        segments = segments_of(cast("AnyArray", queries.document_groups), queries.query_ids, queries)
    except DataError as error:
        raise error.at(judged) from None
    return dict(zip(queries.query_ids.tolist(), segments.tolist(), strict=True))


def _read_columns(judged: Path, columns: Sequence[Path], reading: ReadingOptions) -> dict[Path, FloatArray]:
    """Read columns of the judged data, by their names or, if they have none, by their numbers.

    Without a value, which ``--missing nan`` allows, a document is ranked last.
    """
    import numpy as np  # noqa: PLC0415

    named = replace(reading, features=[])
    try:
        queries = named.read_queries([judged], features=[str(path) for path in columns], judged=False)
    except DataError as error:
        absent = next((path for path in columns if error.problem.startswith(f"no column {str(path)!r}")), None)
        raise error if absent is None else _absent(absent, error) from None
    labels, X = queries.feature_labels, queries.dense()
    for path in columns:
        if str(path) not in labels:
            near = did_you_mean(str(path), labels)
            known = ", ".join(map(repr, labels[:8]))
            raise _absent(path, DataError(f"no column {str(path)!r}; {near}the columns are {known}"))
    scores = np.where(np.isnan(X), -np.inf, X).astype(np.float64)
    return {path: scores[:, labels.index(str(path))] for path in columns}


def _absent(path: Path, no_column: DataError) -> DataError:
    """Return the error for a system that is neither a file nor a column."""
    missing = no_such_file(path)
    if "did you mean" in missing:
        return DataError(missing, path=path)
    return DataError("no such file, and ", no_column.message, path=path)


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


def _read_system(path: Path, judged: Queries | Qrels | None) -> FloatArray | Run:
    """Read scores, a TREC run, or a table that `marginrank rank` wrote, whichever the file holds.

    A file of scores has one for each row of the judged file.
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

            return _check_length(read_scores(path), judged)
        if kind != "run":
            raise DataError(f"this is not a system; give {_SYSTEMS}")
        return read_run(path)
    except DataError as error:
        raise error.at(path) from error


def read_rankings(a: Path, b: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Read two rankings of the same queries: documents of each query, best first."""
    from marginrank.data.formats.trec import Run, trec_order  # noqa: PLC0415

    lists: list[dict[str, list[str]]] = []
    for path in (a, b):
        run = _read_system(path, None)
        if not isinstance(run, Run):
            raise DataError("these are scores; give a TREC run, or a table written by `marginrank rank`", path=path)
        order = trec_order(run.offsets, run.scores, run.document_ids)
        names, topics = run.document_ids[order].tolist(), run.topics.tolist()
        bounds = run.offsets.tolist()
        lists.append({str(t): names[bounds[at] : bounds[at + 1]] for at, t in enumerate(topics)})
    shared = [query for query in lists[0] if query in lists[1]]
    if not shared:
        raise DataError(f"no query of {a.name} is in this ranking; do the files belong together?", path=b)
    return {query: (lists[0][query], lists[1][query]) for query in shared}


def _check_length(scores: FloatArray, judged: Queries | Qrels | None) -> FloatArray:
    from marginrank.data.arrays import expect_length  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415

    if isinstance(judged, Queries):
        expect_length("scores", scores, judged.n_documents, "document", "documents")
    return scores


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
