"""``marginrank inspect``: what a model or a data set is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.commands.recommend import describe_model
from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import Output, check_inputs
from marginrank.cli.summary import model_facts, weights_text
from marginrank.errors import DataError
from marginrank.runtime.text import count, facts

if TYPE_CHECKING:
    from marginrank.data.formats.trec import Qrels, Run
    from marginrank.data.queries import Queries

EXAMPLES: Final = ("marginrank inspect model.safetensors --top 5", "marginrank inspect train.txt")
_MOST_NAMES: Final = 12


def command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A model, judged data, TREC judgements or a TREC run.")],
    reading: ReadingOptions,
    output: Output,
    top: Annotated[
        int | None, typer.Option(min=0, help="For a model: show this many features, largest first.", show_default="10")
    ] = None,
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="For data: show the fingerprint that models trained on it store.")
    ] = False,
) -> None:
    """Describe a model or a data set.

    For a model: the method, C, the certificate, the largest weights or curves, and how C was chosen. For data: counts,
    grades, and possible problems.
    """
    from marginrank.model.file_format import is_model, model_kind  # noqa: PLC0415

    check_inputs([path])
    if is_model(path):
        if fingerprint:
            raise UsageError("--fingerprint is for data; a model always shows that of its training data")
        if reading != ReadingOptions():
            raise UsageError(f"options for reading data do not apply: {path.name} is a model; leave them out")
        output.result(
            *(describe_model(path) if model_kind(path) == "recommender" else _model(path, 10 if top is None else top))
        )
    else:
        if top is not None:
            raise UsageError(f"--top is for models, and {path.name} is data; leave it out")
        output.result(*_data(path, reading, fingerprint))


def _model(path: Path, top: int) -> tuple[dict[str, Any], str]:
    from marginrank.fusion.fusion import load_any  # noqa: PLC0415
    from marginrank.ranker.selection import selection_table  # noqa: PLC0415
    from marginrank.reporting.explanation import feature_records, trace_records  # noqa: PLC0415

    kind, model = load_any(path)
    trained_on = model.provenance
    sizes = f"{trained_on.queries:,} queries, {trained_on.documents:,} documents, {trained_on.features} features"
    entries = [
        ("model", f"{path}" if kind == "ranker" else f"{path}, a {kind}"),
        ("measure", model.method.measure),
        *model_facts(model),
        ("data", [sizes, f"fingerprint {trained_on.fingerprint}"]),
        *([] if model.selection is None else [("choice", selection_table(model.selection).split("\n"))]),
        *([("features", weights_text(model, top).split("\n"))] if top else []),
    ]
    record = {"kind": "model", "holds": kind, "path": path, **model.describe()}
    return {**record, "features": feature_records(model), "trace": trace_records(model)}, facts(entries)


def _data(path: Path, reading: ReadingOptions, fingerprint: bool) -> tuple[dict[str, Any], str]:
    from marginrank.data.queries import Queries  # noqa: PLC0415

    data = reading.read([path], missing="nan", judged=False)
    if isinstance(data, Queries):
        return _queries(path, data, fingerprint)
    if fingerprint:
        raise DataError("only judged data with features has a fingerprint", path=path)
    return _trec(path, data)


def _queries(path: Path, queries: Queries, fingerprint: bool) -> tuple[dict[str, Any], str]:
    from marginrank.data.statistics import profile  # noqa: PLC0415

    data_profile = profile(queries)
    lengths, grades = data_profile["list_lengths"], data_profile["grades"]
    missing, of_one_grade = data_profile["missing_values"], data_profile["queries_of_one_grade"]
    single = "" if of_one_grade is None else f" ({of_one_grade:,} have a single grade)"
    entries = [
        ("data", str(path)),
        ("queries", f"{data_profile['queries']:,}{single}"),
        ("documents", f"{data_profile['documents']:,} ({data_profile['zero_documents']:,} have only zero features)"),
        ("per query", f"{lengths['min']:,} to {lengths['max']:,} documents, median {lengths['median']:g}"),
        ("features", f"{data_profile['features']:,} ({data_profile['feature_type']})"),
        ("grades", _grades(grades).split("\n")),
        *_unjudged(data_profile["unjudged"], data_profile["documents"]),
        ("constant", _listed("feature", data_profile["constant_features"])),
        ("equal features", _listed("group", [" = ".join(group) for group in data_profile["duplicated_features"]])),
        ("repeated rows", _repeated(data_profile["repeated_documents"])),
        ("missing", _listed("feature", [f"{name} ({count(n, 'value')})" for name, n in missing.items()])),
    ]
    record = {"kind": "queries", "path": path, **data_profile}
    if fingerprint:
        from marginrank.data.fingerprint import fingerprint as fingerprint_of  # noqa: PLC0415

        record["fingerprint"] = fingerprint_of(queries)
        entries.append(("fingerprint", record["fingerprint"]))
    return record, facts(entries)


def _grades(grades: dict[str, int] | None) -> str:
    """A line per grade with its count, share and a bar."""
    if not grades:
        return "too many to list" if grades is None else "none"
    total, width = sum(grades.values()), max(len(f"{n:,}") for n in grades.values())
    label = max(map(len, grades))
    return "\n".join(
        f"{grade:>{label}}  {n:>{width},}  {100 * n / total:5.1f}%  {'█' * round(30 * n / total)}".rstrip()
        for grade, n in grades.items()
    )


def _listed(what: str, names: list[str]) -> str:
    """Count and name what there is, shortened.

    >>> _listed("feature", []), _listed("feature", ["a", "b"])
    ('none', '2 features: a, b')
    """
    if not names:
        return "none"
    more = f", and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return f"{count(len(names), what)}: {', '.join(names[:_MOST_NAMES])}{more}"


def _repeated(n: int) -> str:
    return f"{count(n, 'row')} with the id of another row of the same query" if n else "none"


def _trec(path: Path, found: Qrels | Run) -> tuple[dict[str, Any], str]:
    import numpy as np  # noqa: PLC0415

    from marginrank.data.formats.trec import Run  # noqa: PLC0415
    from marginrank.data.statistics import histogram, list_lengths  # noqa: PLC0415

    lengths = list_lengths(np.diff(found.offsets))
    per_topic = f"{lengths['min']:,} to {lengths['max']:,} documents, median {lengths['median']:g}"
    record = {"path": path, "topics": len(found), "documents": len(found.document_ids), "list_lengths": lengths}
    entries = [("topics", f"{len(found):,}"), ("documents", f"{record['documents']:,}"), ("per topic", per_topic)]
    if isinstance(found, Run):
        return {"kind": "run", **record, "tag": found.tag}, facts([("run", f"{path}, tag {found.tag}"), *entries])
    grades, unjudged = histogram(found.grades), int(np.isnan(found.grades).sum())
    judged = [("judged", str(path)), *entries, ("grades", _grades(grades).split("\n"))]
    judged += _unjudged(unjudged, len(found.document_ids))
    return {"kind": "qrels", **record, "grades": grades, "unjudged": unjudged}, facts(judged)


def _unjudged(unjudged: int, documents: int) -> list[tuple[str, str]]:
    """Count the documents without a grade; nothing if there are none."""
    return [("unjudged", f"{count(unjudged, 'document')}, {100 * unjudged / documents:.1f}%")] if unjudged else []
