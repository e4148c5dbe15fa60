"""``marginrank clicks train``: train a ranker from clicks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.checkpoint_options import CheckpointOptions
from marginrank.cli.options.click_options import ClickFeatureOptions, ClickLogOptions, Log, PropensityOptions
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions
from marginrank.cli.options.shared_options import out_option, preset_names
from marginrank.cli.output import Details, Force, Output, check_outputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.train_and_tune import TuneOptions, fit

if TYPE_CHECKING:
    from marginrank.data.queries import Queries

EXAMPLES: Final = (
    "marginrank clicks train clicks.csv --table products.csv --propensities harvest -o clicks.safetensors",
)
_PRESET: Final = "ranksvm"


@dataclass(frozen=True)
class ClickMethodOptions(MethodOptions):
    """The parameters of a ranker, with a default that clicks can train."""

    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The method to train: ranksvm, softmax, or another sum over relevant documents.",
            show_default=_PRESET,
            autocompletion=preset_names,
        ),
    ] = None


def command(
    log: Log,
    clicks: ClickLogOptions,
    table: ClickFeatureOptions,
    correction: PropensityOptions,
    tuning: TuneOptions,
    method: ClickMethodOptions,
    checkpointing: CheckpointOptions,
    out: Annotated[Path, out_option("The model to write.", metavar="MODEL")],
    output: Output,
    C: Annotated[
        float | None,
        typer.Option(
            "-C",
            help="Train with this C instead of choosing one; --valid then decides when to stop.",
            rich_help_panel=TuneOptions.panel,
        ),
    ] = None,
    negative: Annotated[
        Literal["error", "zero"],
        typer.Option(
            "--negative-clicks",
            help="With a correction of trust bias, documents with negative corrected clicks: an error, or not clicked.",
            rich_help_panel=PropensityOptions.panel,
        ),
    ] = "error",
    details: Details = False,
    force: Force = False,
) -> None:
    """Train a ranker from clicks, each counted 1/p, and write the model.

    Each clicked document is an example against the others shown for its query. Without -C, ten values of C are tried,
    and the best is chosen by DCG, estimated from clicks, on the validation log or by 5-fold cross-validation. NDCG, AP
    and RR cannot be estimated from clicks without bias, and are refused.
    """
    if len(tuning.valid) > 1:
        raise UsageError("--valid: give one log")
    check_outputs([out], inputs=[log, *tuning.valid], force=force)
    checkpointing.check([out, log, *tuning.valid])
    correction.check()
    if method.preset is None and method.measure is None:
        method = replace(method, preset=_PRESET)

    def read(paths: Sequence[Path]) -> Queries:
        found = table.read(paths[0], clicks, "nan" if method.takes_nan else None)
        return found.to_queries(correction.of(found), negative=negative)

    with TrainingProgress(quiet=output.quiet) as progress:
        outcome = fit(
            [log], C, tuning, method, ReadingOptions(), progress=progress, checkpointing=checkpointing, read=read
        )
        outcome.ranker.save(out, overwrite=force)
    checkpointing.done(stopped=outcome.cut_short)
    output.summary(outcome.record(out), outcome.text(out, details=details))
    outcome.end()
