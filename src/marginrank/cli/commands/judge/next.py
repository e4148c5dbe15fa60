"""``marginrank judge next``: the documents whose judgement tells most."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.judgement_tables import Confidence
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import Judged, Systems, measure_names, out_option
from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.cli.system_files import check_systems, columns_among, read_all, system_names
from marginrank.runtime.text import count, printable

EXAMPLES: Final = ("marginrank judge next judged.qrels bm25.run dense.run --budget 40",)

if TYPE_CHECKING:
    from marginrank.data.formats.trec import Qrels, Run
    from marginrank.data.queries import Queries
    from marginrank.judging import LearnNext
    from marginrank.ranker.ranker import Ranker
    from marginrank.typing import FloatArray

_GRADES: Final = "The grades that a document may have, separated by commas."


def command(
    judged: Judged,
    systems: Systems,
    reading: ReadingOptions,
    output: Output,
    budget: Annotated[int, typer.Option(min=1, help="Number of documents to choose.")] = 40,
    measure: Annotated[
        str,
        typer.Option("--measure", "-m", metavar="MEASURE", help="dcg@k, p@k or rbp.", autocompletion=measure_names),
    ] = "dcg@10",
    grades: Annotated[
        str | None, typer.Option(metavar="LIST", help=_GRADES, show_default="0, 1 and those given so far")
    ] = None,
    confidence: Confidence = 0.95,
    committee: Annotated[int, typer.Option(help="For a single model, number of rankers to train on samples.")] = 8,
    out: Annotated[Path | None, out_option("Write the documents to this CSV file.", "none")] = None,
    force: Force = False,
) -> None:
    """Choose the unjudged documents that say most about which system is better, and tell when to stop.

    Prints the expected difference of each pair of systems, its worst case over the grades of unjudged documents, and
    the probability that the better system stays better; then the documents to judge next. With a single model, these
    are the documents that retraining would learn most from: rankers trained on samples of the judged queries disagree
    about them.
    """
    names = system_names(systems, columns_among(systems))
    check_systems("judge next", judged, systems)
    check_outputs([out], inputs=[judged, *systems], force=force)
    from marginrank.judging import judge_next  # noqa: PLC0415

    truth, opened = read_all(judged, dict(zip(names, systems, strict=True)), reading)
    result = (
        _to_learn(truth, next(iter(opened.values())), budget, committee)
        if len(opened) == 1
        else judge_next(truth, opened, measure, budget=budget, grades=_numbers(grades), confidence=confidence)
    )
    written = ""
    if out is not None:
        with atomic_output(out, force=force) as place:
            result.write(place)
        written = f"\n\nwrote {printable(str(out))}: {count(len(result.documents), 'document')}"
    output.result({**result.to_dict(), "output": out}, f"{result}{written}")


def _to_learn(judged: Queries | Qrels, system: Ranker | FloatArray | Run, budget: int, committee: int) -> LearnNext:
    from marginrank.data.queries import Queries  # noqa: PLC0415
    from marginrank.judging import learn_next  # noqa: PLC0415
    from marginrank.ranker.ranker import Ranker  # noqa: PLC0415

    if not isinstance(system, Ranker) or not isinstance(judged, Queries):
        raise UsageError("a comparison needs two systems; give another one, or a model to train again")
    return learn_next(system, judged, budget=budget, committee=committee)


def _numbers(grades: str | None) -> list[float] | None:
    if grades is None:
        return None
    try:
        return [float(word) for word in grades.split(",")]
    except ValueError:
        raise UsageError(f"--grades is {grades!r}; give numbers separated by commas, such as 0,1,2,3") from None
