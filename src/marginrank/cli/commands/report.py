"""``marginrank report``: one page about systems on judged queries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.judgement_tables import read_raters
from marginrank.cli.options.evaluation_options import BASELINE, EvaluationOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import By, Judged, QueryText, Systems, out_option
from marginrank.cli.output import Force, Output, atomic_output, check_inputs, check_outputs
from marginrank.cli.system_files import (
    check_systems,
    columns_among,
    read_all,
    read_segments,
    system_names,
    with_baseline,
)
from marginrank.runtime.text import count, printable

EXAMPLES: Final = (
    "marginrank report test.txt model.safetensors -o model.html",
    "marginrank report test.txt model.safetensors scores.txt -m ndcg@5 -m ap --baseline scores",
)


def command(
    judged: Judged,
    systems: Systems,
    reading: ReadingOptions,
    output: Output,
    judging: EvaluationOptions,
    k: Annotated[
        int, typer.Option("--k", min=1, max=1000, help="Number of documents shown per query, and last cutoff of NDCG.")
    ] = 10,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM",
            help="The system to compare with: one of SYSTEM by its name, another file, or a column of JUDGED.",
            show_default=BASELINE,
        ),
    ] = None,
    query_text: QueryText = None,
    by: By = None,
    raters: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judgements by rater, for a section on raters.", show_default=False),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="systems and data")] = None,
    out: Annotated[Path, out_option("HTML file to write.", shown=True)] = Path("report.html"),
    force: Force = False,
) -> None:
    """Write an HTML report about systems on judged queries.

    The report is one self-contained file. It opens with a verdict: which system is best, by how much, and whether that
    is significant. Then come measures with confidence intervals, paired differences, NDCG by cutoff, the queries won
    and lost with their documents, the models, a profile of the data, and the command that recomputes each number.
    Queries are shown with their ids, and with --query-text, which may be JUDGED itself, with their texts.
    """
    systems, names, baseline = with_baseline(systems, baseline, partial(_names, judged))
    shown = shown_paths([judged, *systems])
    judging.check(names, baseline)
    if baseline is not None and len(names) == 1:
        raise UsageError("--baseline is for comparing systems, and there is one; leave it out")
    _check_files(judged, systems, query_text, out, force)
    from marginrank.data.formats.query_texts import read_query_texts  # noqa: PLC0415
    from marginrank.reporting.conclusion import conclusion  # noqa: PLC0415
    from marginrank.reporting.recompute_commands import Sources  # noqa: PLC0415
    from marginrank.reporting.report_builder import write_report  # noqa: PLC0415

    texts = None if query_text is None else read_query_texts(query_text)
    truth, opened = read_all(judged, dict(zip(names, systems, strict=True)), reading)
    judging.check_systems(opened)
    graded = None if raters is None else read_raters([raters])
    shown_raters = None if raters is None else shown_paths([judged, *systems, raters])[-1]
    sources = Sources(shown[0], dict(zip(names, shown[1:], strict=True)), _words(reading), by, shown_raters)
    segments = read_segments(judged, by, reading)
    with atomic_output(out, force=force) as place:
        facts = write_report(
            place,
            truth,
            opened,
            judging.spellings,
            policy=judging.policy,
            depth=judging.depth,
            missing_topics=judging.missing_topics,
            unjudged=judging.unjudged_rule,
            k=k,
            baseline=baseline,
            title=title or f"{', '.join(names)} on {judged.name}",
            sources=sources,
            query_text=texts,
            by=segments,
            raters=graded,
        )
        size = place.stat().st_size
    what = f"{count(len(names), 'system')} on {count(facts.queries.counted, 'query', 'queries')}"
    output.summary(
        {**facts.to_dict(), "verdict": conclusion(facts), "output": out},
        f"{printable(conclusion(facts))}\nwrote {printable(str(out))} ({size / 1e6:.1f} MB): {what}",
    )


def _names(judged: Path, systems: Sequence[Path]) -> list[str]:
    """Return the names of systems, by their paths as the page shows them."""
    return system_names([Path(path) for path in shown_paths([judged, *systems])[1:]], columns_among(systems))


def _check_files(judged: Path, systems: Sequence[Path], query_text: Path | None, out: Path, force: bool) -> None:
    inputs = [judged, *systems, *([] if query_text is None else [query_text])]
    check_inputs([] if query_text is None else [query_text])
    check_systems("report", judged, systems)
    check_outputs([out], inputs=inputs, force=force)


def shown_paths(paths: Sequence[Path]) -> list[str]:
    """Return paths as a page shows them, which does not tell where its files are on this machine.

    Paths below the working folder are relative to it. Other absolute paths are relative to the folder they share.

    >>> here = Path.cwd()
    >>> shown_paths([here / "test.txt", Path("models/a.run"), Path("/data/x/a.run"), Path("/data/y/b.run")])
    ['test.txt', 'models/a.run', 'x/a.run', 'y/b.run']
    """
    folder = Path.cwd()
    outside = [path for path in paths if path.is_absolute() and not path.is_relative_to(folder)]
    shared = Path(os.path.commonpath([path.parent for path in outside])) if outside else folder
    return [
        str(path.relative_to(shared if path in outside else folder) if path.is_absolute() else path) for path in paths
    ]


def _words(reading: ReadingOptions) -> tuple[str, ...]:
    """The options for reading as they were given.

    >>> _words(ReadingOptions(missing="zero", regroup=True, features=["a", "b"]))
    ('--missing', 'zero', '--regroup', '--feature', 'a', '--feature', 'b')
    """
    words: list[str] = []
    for name, value in vars(reading).items():
        option = "--feature" if name == "features" else f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] if value else []
        elif isinstance(value, list):
            words += [word for one in value for word in (option, one)]
        elif value is not None:
            words += [option, str(value)]
    return tuple(words)
