"""``marginrank clicks simulate``: a log of simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import Judged, Systems, out_option
from marginrank.cli.output import Force, Output, atomic_output, check_outputs
from marginrank.cli.system_files import check_systems, columns_among, read_all, system_names
from marginrank.errors import DataError
from marginrank.runtime.text import printable

EXAMPLES: Final = ("marginrank clicks simulate test.txt 1 2 --sessions 1000 -o simulated.csv",)


def command(
    judged: Judged,
    systems: Systems,
    reading: ReadingOptions,
    out: Annotated[Path, out_option("The log to write: .csv, .tsv or .parquet.")],
    output: Output,
    sessions: Annotated[int, typer.Option(min=1, help="Number of impressions.")] = 10_000,
    shares: Annotated[
        str | None,
        typer.Option(metavar="S,S,...", help="Share of the sessions of each system.", show_default="equal shares"),
    ] = None,
    users: Annotated[
        Literal["position", "cascade"],
        typer.Option(help="position: examine position k with probability 1/k^eta; cascade: read until satisfied."),
    ] = "position",
    eta: Annotated[float, typer.Option(min=0.0, help="With --users position, how fast attention decays.")] = 1.0,
    relevant: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Probability of a click on an examined document of the highest grade."),
    ] = 1.0,
    irrelevant: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability of a click on an examined document of grade 0.")
    ] = 0.1,
    depth: Annotated[int, typer.Option(min=1, help="Number of documents shown.")] = 10,
    random_state: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    force: Force = False,
) -> None:
    """Simulate users who click on the rankings of systems; better grades get more clicks.

    Simulate logs of several sizes to see how many clicks you need.
    """
    check_outputs([out], inputs=[judged, *systems], force=force)
    check_systems("clicks simulate", judged, systems)
    names = system_names(systems, columns_among(systems))
    from marginrank.clicks import CascadeUser, PositionUser, simulate_clicks, write_clicks  # noqa: PLC0415
    from marginrank.data.queries import Queries  # noqa: PLC0415

    truth, opened = read_all(judged, dict(zip(names, systems, strict=True)), reading)
    if not isinstance(truth, Queries):
        raise DataError("TREC judgements have no documents to rank; give judged queries with features", path=judged)
    chosen = (
        PositionUser(eta, relevant=relevant, irrelevant=irrelevant)
        if users == "position"
        else CascadeUser(relevant, irrelevant)
    )
    log = simulate_clicks(
        truth, opened, sessions, user=chosen, depth=depth, shares=_numbers(shares), random_state=random_state
    )
    with atomic_output(out, force=force) as place:
        write_clicks(place, log)
    output.summary({"log": str(log), "output": out}, f"wrote {printable(str(out))}: {log}")


def _numbers(words: str | None) -> list[float] | None:
    """Read numbers with commas between them.

    >>> _numbers("0.9,0.1")
    [0.9, 0.1]
    """
    try:
        return None if words is None else [float(word) for word in words.split(",")]
    except ValueError:
        raise UsageError(f"--shares {words}: write numbers separated by commas, for example 0.9,0.1") from None
