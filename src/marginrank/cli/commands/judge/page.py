"""``marginrank judge``: the page to judge documents in."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.output import Output, check_inputs, check_outputs
from marginrank.runtime.text import count, facts

EXAMPLES: Final = (
    "marginrank judge documents.csv --no-browser",
    "marginrank judge documents.csv --pairs bm25.run --depth 10 --scale 0=No,1=Maybe,2=Yes --no-browser",
)


def command(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A table of documents with their text: .csv, .jsonl or .parquet."),
    ],
    output: Output,
    db: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Database of grades.", show_default="DATA with .judged.db")
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Query–document pairs to judge: TREC runs or tables; repeat for more."),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Judge only this many documents of each query in --pairs.")
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table of queries: id, text, and notes for raters."),
    ] = None,
    unjudged: Annotated[
        bool, typer.Option("--only-unjudged", help="Leave out documents that have a grade in DATA.")
    ] = False,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--field", metavar="COLUMN,...", help="Columns to show, the title first.", show_default="all that hold text"
        ),
    ] = None,
    qid: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of query ids in a table.")] = None,
    document_id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of document ids in a table.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Grades to choose from.")
    ] = "0=Irrelevant,1=Marginal,2=Fair,3=Good,4=Perfect",
    random_state: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    in_order: Annotated[bool, typer.Option("--in-order", help="Judge in the order of the file.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on.", show_default="the one used last")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Open a page to judge documents in, on this machine only: marginrank judge DATA.

    The page shows a query and a document: press a digit to grade, S to skip, U to undo, N to add a note. It hides
    ranks, scores and the grades of others, and each rater sees the documents in a different order. Each grade is saved
    before the next document appears. Stop with Ctrl-C; to continue, run the same command and open the same address.

    marginrank judge export writes the grades as CSV, TREC judgements or for Quepid.
    """
    check_inputs([data, *(pairs or ()), *((queries,) if queries else ())])
    from marginrank.judging import JudgementStore, JudgingServer, JudgingSession, parse_scale, read_documents  # noqa: PLC0415  # noqa: PLC0415

    grades = parse_scale(scale)
    documents = read_documents(
        data,
        pairs=pairs or (),
        depth=depth,
        queries=queries,
        qid=qid,
        document_id=document_id,
        fields=fields or (),
        unjudged=unjudged,
    )
    place = data.with_name(f"{data.name.partition('.')[0]}.judged.db") if db is None else db
    check_outputs([place], inputs=[data], force=True)
    with JudgementStore(place) as store:
        server = JudgingServer(JudgingSession(store, documents, grades, None if in_order else random_state), port)

        def ready(address: str) -> None:
            n_queries = len({one.query_id for one in documents})
            record = {"address": address, "documents": len(documents), "queries": n_queries, "db": place}
            entries = [
                ("data", f"{count(len(documents), 'document')} of {count(n_queries, 'query', 'queries')}"),
                ("grades", str(place)),
                ("address", address),
                ("stop", "Ctrl-C"),
            ]
            output.summary(record, facts(entries))
            if browser:
                # A browser in the terminal would wait for the page, and the page for it.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        server.serve(ready)
