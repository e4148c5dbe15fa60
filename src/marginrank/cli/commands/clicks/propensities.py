"""``marginrank clicks propensities``: estimate how likely each position is examined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from marginrank.cli.commands.tune import check_picture
from marginrank.cli.options.click_options import ClickLogOptions, Log
from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.runtime.text import plain, printable

EXAMPLES: Final = ("marginrank clicks propensities clicks.csv --clip 0.1 -o curve.json",)


def command(
    log: Log,
    reading: ClickLogOptions,
    output: Output,
    method: Annotated[
        Literal["harvest", "swap", "random", "em"],
        typer.Option(
            help="harvest: several rankers; swap: positions moved at random; random: positions drawn at random; em: "
            "maximum likelihood of the position-based model."
        ),
    ] = "harvest",
    clip: Annotated[float, typer.Option(min=0.0, max=1.0, help="Raise smaller propensities to this.")] = 0.0,
    confidence: Annotated[float, typer.Option(help="Confidence level of intervals.")] = 0.95,
    resamples: Annotated[
        int, typer.Option(min=0, help="Number of bootstrap samples of queries; 0 for no intervals.")
    ] = 200,
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    out: Annotated[Path | None, out_option("Write the propensities as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot the propensities.", rich_help_panel="Output")
    ] = None,
    force: Force = False,
) -> None:
    """Estimate the probability that each position is examined, relative to position 1.

    Prints intervals, the bias due to clipping, and the assumptions of the method. A log that cannot identify the curve,
    such as one of a single ranker, is refused. The file of -o goes to --propensities of the other commands.
    """
    check_outputs([out, plot], inputs=[log], force=force)
    if plot is not None:
        check_picture(plot)
    from marginrank.clicks import estimate_propensities  # noqa: PLC0415

    clicks = reading.read(log)
    curve = estimate_propensities(
        clicks, method, clip=clip, confidence=confidence, resamples=resamples, random_state=random_state
    )
    if out is not None:
        with atomic_output(out, force=force) as place:
            place.write_text(json.dumps(plain(curve.to_dict())) + "\n", encoding="utf-8")
    if plot is not None:
        with atomic_output(plot, force=force) as place:
            curve.plot(place)
    wrote = "".join(f"\nwrote {printable(str(path))}" for path in (out, plot) if path is not None)
    record = {**curve.to_dict(), "method": method, "log": str(clicks), "output": out, "plot": plot}
    output.result(record, f"{clicks}\n\n{curve}\n\nassumes: {curve.assumes}{wrote}")
