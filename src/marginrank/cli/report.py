"""``marginrank report``: one page about systems on judged queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.files import Force, check_inputs, check_outputs, whole
from marginrank.cli.judging import Judging
from marginrank.cli.output import Output
from marginrank.cli.reading import Reading
from marginrank.cli.systems import check_order, read_system, system_names
from marginrank.errors import DataError
from marginrank.words import count, printable

EXAMPLES: Final = (
    "marginrank report test.txt model.safetensors -o model.html",
    "marginrank report test.txt model.safetensors scores.txt -m ndcg@5 -m ap --baseline scores",
)


def command(
    judged: Annotated[Path, typer.Argument(metavar="JUDGED", help="Judged queries, or TREC judgements.")],
    systems: Annotated[
        list[Path], typer.Argument(metavar="SYSTEM", help="Models, files with one score per line, or TREC runs.")
    ],
    reading: Reading,
    output: Output,
    judging: Judging,
    k: Annotated[
        int, typer.Option("--k", min=1, max=1000, help="Number of documents shown per query, and last cutoff of NDCG.")
    ] = 10,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The baseline system.", show_default="the first"),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="systems and data")] = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="HTML file to write.", rich_help_panel="Output"),
    ] = Path("report.html"),
    force: Force = False,
) -> None:
    """Write an HTML report about systems on judged queries.

    The report is one self-contained file: measures with confidence intervals, paired differences, NDCG by cutoff, the
    queries won and lost with their documents, weights, gap and choice of C of models, a profile of the data, and the
    command that recomputes each number.
    """
    names = system_names(systems)
    judging.check(names, baseline)
    check_inputs([judged, *systems])
    check_order("report", judged, systems)
    check_outputs([out], inputs=[judged, *systems], force=force)
    from marginrank.data.trec import Run  # noqa: PLC0415
    from marginrank.reporting.commands import Sources  # noqa: PLC0415
    from marginrank.reporting.report import write_report  # noqa: PLC0415

    truth = reading.read([judged])
    if isinstance(truth, Run):
        raise DataError("this is a run, not judgements; give the judged file first", path=judged)
    paths = dict(zip(names, systems, strict=True))
    sources = Sources(str(judged), {name: str(path) for name, path in paths.items()}, _words(reading))
    with whole(out, force=force) as place:
        facts = write_report(
            place,
            truth,
            {name: read_system(path, truth) for name, path in paths.items()},
            judging.spellings,
            policy=judging.policy,
            depth=judging.depth,
            missing_topics=judging.missing_topics,
            k=k,
            baseline=baseline,
            title=title or f"{', '.join(names)} on {judged.name}",
            sources=sources,
        )
        size = place.stat().st_size
    what = f"{count(len(names), 'system')} on {count(facts.queries.counted, 'query', 'queries')}"
    output.summary({**facts.to_dict(), "output": out}, f"wrote {printable(str(out))} ({size / 1e6:.1f} MB): {what}")


def _words(reading: Reading) -> tuple[str, ...]:
    """The options for reading as they were given.

    >>> _words(Reading(missing="zero", regroup=True, features=["a", "b"]))
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
