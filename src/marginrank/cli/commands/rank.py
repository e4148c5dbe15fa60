"""``marginrank rank``: scores and rankings of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions, load_ranker
from marginrank.cli.options.shared_options import out_option
from marginrank.cli.options.topic_options import TopicOptions
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs, standard_input
from marginrank.cli.ranking_files import Format, RankingWriter, format_of
from marginrank.cli.streams import standard_output
from marginrank.cli.summary import data_line
from marginrank.cli.system_files import check_model_first
from marginrank.errors import DataError
from marginrank.runtime.text import printable

if TYPE_CHECKING:
    from marginrank.data.queries import Queries
    from marginrank.typing import FloatArray

EXAMPLES: Final = (
    "marginrank rank model.safetensors test.txt -o scores.txt",
    "marginrank rank model.safetensors test.txt --k 3",
)


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model written by `marginrank train`.")],
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="Documents with features; grades are not needed. - is standard input."),
    ],
    reading: ReadingOptions,
    topics: TopicOptions,
    output: Output,
    out: Annotated[Path | None, out_option("Where to write.", "stdout")] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format", help="Format of the output.", show_default="by suffix of -o", rich_help_panel="Output"
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Rank only the best k documents of each query.", show_default="all")
    ] = None,
    group: Annotated[bool, typer.Option("--group", help="Rank only the best document of each document group.")] = False,
    tag: Annotated[str | None, typer.Option(help="Tag of a TREC run.", show_default="marginrank")] = None,
    force: Force = False,
) -> None:
    """Score or rank documents with a model.

    Writes one score per line, in the order of the file. With --k, --group or --topics, or to a .csv, .tsv, .jsonl,
    .parquet or .run file, documents are ranked: query, rank, document, score. Standard input is CSV with a column of
    query ids, JSON Lines or LETOR text.
    """
    limit, ranked = topics.limit, k is not None or group or topics.topics is not None
    if group and topics.topics is not None:
        raise UsageError("--group and --topics both limit rankings; give one of them")
    kind = form or format_of(out, ranked=ranked)
    data = [standard_input() if path == Path("-") else path for path in data]
    _check_format(kind, out, ranked=ranked, tag=tag)
    check_inputs([model, *data, *([] if topics.topics is None else [topics.topics])])
    check_model_first("rank", model, data)
    check_outputs([out], inputs=[model, *data], force=force)
    weights = topics.read()
    queries, scores = _score(model, data, reading, named=kind != "scores")
    if group and queries.document_groups is None:
        raise DataError("no document groups in this data; a table names them with --document-group", path=data[0])
    documents = queries if group else replace(queries, document_groups=None)
    writer = RankingWriter(documents, scores, k, tag, weights, limit)
    record = {"model": model, "queries": len(queries), "documents": queries.n_documents, "format": kind, "output": out}
    if out is not None:
        with atomic_output(out, force=force) as place:
            writer.write(kind, place)
        output.summary(record, f"wrote {printable(str(out))} for {data_line(queries, data)}")
    elif output.json:
        content = {"scores": writer.scores_by_row()} if kind == "scores" else {"ranking": writer.records()}
        output.result({**record, **content}, "")
    else:
        with standard_output() as file:
            writer.print(kind, file)


def _check_format(kind: Format, out: Path | None, *, ranked: bool, tag: str | None) -> None:
    if kind == "scores" and ranked:
        raise UsageError("scores are one per document; use --k, --group and --topics with another --format")
    if kind == "parquet" and out is None:
        raise UsageError("a Parquet table cannot be printed; give a file with -o")
    if tag is not None and kind != "trec":
        raise UsageError("--tag requires --format trec")


def _score(model: Path, data: list[Path], reading: ReadingOptions, *, named: bool) -> tuple[Queries, FloatArray]:
    """Read and score documents; where their names are written, they have to tell documents apart."""
    from marginrank.data.validation import distinct_names  # noqa: PLC0415

    ranker = load_ranker(model)
    queries = reading.read_for(ranker.model_, data)
    try:
        if named:
            distinct_names(queries)
        return queries, ranker.predict(queries)
    except DataError as error:
        raise error.at(data[0]) from error
