"""``marginrank explain``: why documents are ranked as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions, load_ranker
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.system_files import check_model_first
from marginrank.errors import DataError
from marginrank.runtime.text import count, listed, printable, query_named, table

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.model.model import Model
    from marginrank.reporting.explanation import Explanation, Reason

EXAMPLES: Final = (
    "marginrank explain model.safetensors test.txt --query 2000",
    "marginrank explain model.safetensors test.txt --query 2000 --documents d2-0 d2-1 --top 3",
)
#: Most ids in an error.
_MOST_IDS: Final = 10
#: Features shown as columns, and as lines.
_COLUMNS: Final = 5
_LINES: Final = 10


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model written by `marginrank train`.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Documents with features.")],
    reading: ReadingOptions,
    output: Output,
    query: Annotated[str, typer.Option(metavar="ID", help="Id of the query.")],
    document: Annotated[str | None, typer.Option(metavar="ID", help="Explain the score of this document.")] = None,
    documents: Annotated[
        tuple[str, str] | None, typer.Option(metavar="ID ID", help="Explain why two documents have different scores.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="Show this many features, largest first.", show_default=f"{_LINES}; {_COLUMNS} in a table"
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="In a table, show the first k documents.", show_default="10")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --document or --documents, draw the contributions to this file (.png, .svg, .pdf).",
            rich_help_panel="Output",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Show what each feature contributes to the scores of a query.

    Prints a table of the top documents or, with --document or --documents, the details of one or two.
    Contributions are relative to the mean score of the query or, with --documents, to the score of the second document;
    they sum to the difference. For trees they are Shapley values.
    """
    one = document is not None or documents is not None
    if document is not None and documents is not None:
        raise UsageError("give --document for one document or --documents for two, not both")
    if plot is not None and not one:
        raise UsageError("--plot requires --document or --documents")
    if k is not None and one:
        raise UsageError("--k is for the table of documents; leave it out, or --document and --documents")
    check_inputs([model, *data])
    check_model_first("explain", model, data)
    check_outputs([plot], inputs=[model, *data], force=force)
    learned = load_ranker(model).model_
    of_query = _find_query(reading.read_for(learned, data), query, data[0])
    try:
        if not one:
            output.result(*_table(learned, of_query, k or 10, top or _COLUMNS))
            return
        names = (document,) if documents is None else documents
        rows = [_find_document(of_query, str(name), data[0]) for name in names]
        output.result(*_explain(learned, of_query, rows, top or _LINES, plot, force))
    except DataError as error:
        raise error.at(data[0]) from error
    except TypeError as error:
        raise DataError(str(error), path=model) from error


def _find_query(queries: Queries, query: str, path: Path) -> Queries:
    from marginrank.data.text_arrays import as_text  # noqa: PLC0415
    from marginrank.reporting.explanation import one_query  # noqa: PLC0415

    ids = as_text(queries.query_ids).tolist()
    if query not in ids:
        raise DataError(f"there is no query {query!r}; known: {listed(ids, _MOST_IDS)}", path=path)
    return one_query(queries, ids.index(query))


def _find_document(of_query: Queries, document: str, path: Path) -> int:
    from marginrank.data.validation import distinct_names  # noqa: PLC0415

    ids = [str(name) for name in distinct_names(of_query).tolist()]
    if document not in ids:
        message = f"{query_named(of_query.query_ids[0])} has no document {document!r}; known: {listed(ids, _MOST_IDS)}"
        raise DataError(message, path=path)
    return ids.index(document)


def _table(model: Model, query: Queries, k: int, top: int) -> tuple[dict[str, Any], str]:
    """Show the first documents, and the features with the largest contributions as columns."""
    import numpy as np  # noqa: PLC0415

    from marginrank.evaluation.systems import orderings  # noqa: PLC0415

    scores, parts = model.score(query), model.explain(query)
    order = orderings(scores, query.query_offsets, query.order, k, None)[0].tolist()
    sizes = np.abs(parts[order]).mean(axis=0)
    features = np.argsort(-sizes, kind="stable")[:top]
    rest = parts.sum(axis=1) - parts[:, features].sum(axis=1)
    n_rest = int(np.count_nonzero(sizes)) - int(np.count_nonzero(sizes[features]))
    heads = ["rank", "document", "score", *(model.names[number] for number in features), "others"]
    rows = [
        [str(rank), str(query.document_names[row]), f"{scores[row]:.4g}"]
        + [f"{parts[row, number]:+.3g}" for number in features]
        + [f"{rest[row]:+.3g}"]
        for rank, row in enumerate(order, 1)
    ]
    shown = slice(None) if n_rest else slice(-1)
    text = table([heads[shown], *(row[shown] for row in rows)], right=[0, *range(2, len(heads))])
    note = (
        f"{query_named(query.query_ids[0])}: the first {len(order)} of {count(query.n_documents, 'document')}; "
        f"score = {scores.mean():.4g} (the mean of the query) + contributions of the features"
    )
    record = {
        "query": str(query.query_ids[0]),
        "mean_score": float(scores.mean()),
        "features": list(model.names),
        "documents": [
            {
                "rank": rank,
                "document": str(query.document_names[row]),
                "score": scores[row],
                "contributions": dict(zip(model.names, parts[row].tolist(), strict=True)),
            }
            for rank, row in enumerate(order, 1)
        ],
    }
    return record, f"{note}\n\n{text}"


def _explain(
    model: Model, query: Queries, rows: list[int], top: int, plot: Path | None, force: bool
) -> tuple[dict[str, Any], str]:
    from dataclasses import asdict  # noqa: PLC0415

    from marginrank.reporting.explanation import explain_document  # noqa: PLC0415

    explained = explain_document(model, query, *rows)
    text = explanation_text(explained, top)
    if plot is not None:
        from marginrank.model.plots import plot_waterfall  # noqa: PLC0415

        parts = [reason.contribution for reason in explained.reasons]
        labels = [_label(reason, explained) for reason in explained.reasons]
        named = query_named(explained.query)
        title = f"{named[:1].upper()}{named[1:]}: {_title(explained)}"
        with atomic_output(plot, force=force) as place:
            plot_waterfall(labels, parts, place, base=explained.base, start=_base(explained), title=title, most=top)
        text += f"\n\nwrote {printable(str(plot))}"
    return {**asdict(explained), "plot": plot}, text


def explanation_text(explained: Explanation, top: int) -> str:
    """Return an explanation as a table, whose last column adds up."""
    first, rest, n_rest = explained.shortened(top)
    other = "mean" if explained.other is None else explained.other
    rows = [["feature", explained.document, other, "contribution"]]
    rows += [[one.feature, f"{one.value:.4g}", f"{one.other:.4g}", f"{one.contribution:+.4g}"] for one in first]
    rows += [[count(n_rest, "other feature"), "", "", f"{rest:+.4g}"]] if n_rest else []
    ends = [["score", f"{explained.score:.4g}", f"{explained.base:.4g}", f"{explained.score - explained.base:+.4g}"]]
    return f"{query_named(explained.query)}: {_title(explained)}\n\n{table([*rows, *ends], right=[1, 2, 3])}"


def _title(explained: Explanation) -> str:
    if explained.other is None:
        return f"the score of {explained.document}"
    relation = (
        "above" if explained.score > explained.base else "below" if explained.score < explained.base else "level with"
    )
    return f"why {explained.document} is {relation} {explained.other}"


def _label(reason: Reason, explained: Explanation) -> str:
    other = "" if explained.other is None else f" vs {reason.other:.4g}"
    return f"{reason.feature}: {reason.value:.4g}{other}"


def _base(explained: Explanation) -> str:
    return "mean of the query" if explained.other is None else str(explained.other)
