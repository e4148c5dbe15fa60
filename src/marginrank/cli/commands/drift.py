"""``marginrank drift``: features that have moved since a model was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.output import Output, check_inputs
from marginrank.cli.summary import sizes_line
from marginrank.errors import DataError
from marginrank.runtime.text import facts, table

EXAMPLES: Final = (
    "marginrank drift model.safetensors test.txt",
    "marginrank drift model.safetensors test.txt --threshold 0.2 --fail --quiet",
)
#: Exit code of ``--fail``, apart from those of errors.
MOVED: Final = 3


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model written by `marginrank train` or `tune`.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="New data, judged or not.")],
    reading: ReadingOptions,
    output: Output,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Smallest distance that counts as moved, from 0 to 1.")
    ] = 0.1,
    top: Annotated[
        int, typer.Option(min=0, help="Number of features to show; those that have moved are always shown.")
    ] = 10,
    fail: Annotated[bool, typer.Option("--fail", help=f"Exit with code {MOVED} if a feature has moved.")] = False,
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """Compare the features of new data with those that a model was trained on, and report which have moved.

    The distance is the Kolmogorov–Smirnov distance, from 0 to 1; noise is estimated by resampling whole queries. For
    features that have moved, "scores" is the resulting change of the scores, relative to their spread within a query,
    and "first" is the share of queries whose first document changes.
    """
    check_inputs([model, *data])
    from marginrank.model.file_format import model_kind  # noqa: PLC0415
    from marginrank.model.model import Model  # noqa: PLC0415

    if model_kind(model) == "fusion":
        raise DataError("this model combines runs, and only features are compared; give a ranker", path=model)
    trained = Model.load(model)
    queries = reading.read_queries(data, "nan", trained.feature_names, judged=False)
    try:
        drifted = trained.drift(queries, threshold=threshold, random_state=random_state)
    except DataError as error:
        raise error.at(model if trained.quantiles is None else data[0]) from None
    entries: list[tuple[str, str | list[str]]] = [
        ("model", f"{model}, trained on {trained.provenance.queries:,} queries"),
        ("data", f"{', '.join(map(str, data))}: {sizes_line(queries)}"),
        ("features", table(drifted.table(top), right=range(1, 7)).split("\n")),
        ("drift", drifted.verdict),
    ]
    if drifted.score_change is not None and drifted.first_changed is not None:
        change, first = 100 * drifted.score_change, 100 * drifted.first_changed
        text = f"scores change by {change:.1f}% of their spread, and {first:.1f}% of the first documents"
        entries.append(("together", text))
    output.summary({"model": model, "data": data, **drifted.to_dict()}, facts(entries))
    if fail and drifted.moved:
        raise typer.Exit(MOVED)
