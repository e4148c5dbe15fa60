"""``marginrank clicks evaluate``: evaluate rankers from clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from marginrank.cli.options.click_options import (
    ClickFeatureOptions,
    ClickLogOptions,
    Log,
    PropensityOptions,
    system_scores,
)
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import Output, check_inputs
from marginrank.cli.system_files import columns_among, system_names, with_baseline
from marginrank.runtime.text import table as text_table

EXAMPLES: Final = (
    "marginrank clicks evaluate clicks.csv price stars --table products.csv --propensities harvest --baseline price",
)

#: Systems that are evaluated from clicks.
ClickSystems: TypeAlias = Annotated[
    list[Path], typer.Argument(metavar="SYSTEM", help="Models, or names of features to rank by.")
]


def names_of(systems: list[Path]) -> list[str]:
    """Return the names of models and features."""
    return system_names(systems, columns_among(systems))


def command(
    log: Log,
    systems: ClickSystems,
    clicks: ClickLogOptions,
    table: ClickFeatureOptions,
    correction: PropensityOptions,
    output: Output,
    measure: Annotated[
        str,
        typer.Option(
            "--measure", "-m", metavar="MEASURE", help="dcg, dcg@k, or rank: the mean rank of relevant documents."
        ),
    ] = "dcg@10",
    estimator: Annotated[
        Literal["ips", "snips"],
        typer.Option(help="ips: unbiased, per impression; snips: per relevant document, with less variance."),
    ] = "ips",
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM", help="The system to compare with: one of SYSTEM, or another.", show_default="every pair"
        ),
    ] = None,
    judged: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judged queries with document ids: do clicks and judges agree?")
    ] = None,
) -> None:
    """Estimate DCG, or the mean rank of relevant documents, from clicks, and compare systems.

    Each click counts 1/p. Ranks are among the documents that were shown for the query.
    """
    systems, names, baseline = with_baseline(systems, baseline, names_of)
    check_inputs([] if judged is None else [judged])
    correction.check()
    from marginrank.clicks import click_agreement, click_interval, compare_clicks, evaluate_clicks  # noqa: PLC0415

    shown = table.read(log, clicks, "nan")
    curve = correction.of(shown)
    scores = system_scores(shown, systems, names)
    options: dict[str, Any] = {"propensities": curve, "estimator": estimator}
    results = {name: evaluate_clicks(shown, of, measure, **options) for name, of in scores.items()}
    means = {name: (next(iter(found.mean.values())), click_interval(found)) for name, found in results.items()}
    head = ["system", f"{estimator} {measure}", "95% interval"]
    rows = [[name, f"{mean:.4f}", f"{low:.4f}..{high:.4f}"] for name, (mean, (low, high)) in means.items()]
    sections = [f"{shown}\n\n{text_table([head, *rows], right=[1, 2])}"]
    record: dict[str, Any] = {
        "log": str(shown),
        "measure": measure,
        "estimator": estimator,
        "systems": {name: {"mean": mean, "interval": ends} for name, (mean, ends) in means.items()},
        "propensities": None if curve is None else curve.to_dict(),
    }
    if len(names) > 1:
        compared = compare_clicks(shown, scores, measure, baseline=baseline, **options)
        sections.append(f"{compared}" + ("\na lower rank is better" if measure == "rank" else ""))
        verdicts = [row.verdict for row in compared.rows]
        record["comparisons"] = [
            one | {"verdict": said} for one, said in zip(compared.to_dicts(), verdicts, strict=True)
        ]
    if judged is not None:
        agreement = click_agreement(shown, ReadingOptions().read_queries([judged]), propensities=curve)
        sections.append(str(agreement))
        record["agreement"] = vars(agreement)
    output.result(record, "\n\n".join(sections))
