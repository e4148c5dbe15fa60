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
from marginrank.cli.output import Details, Force, Output, check_inputs, check_outputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.train_and_tune import TuneOptions, advising_on_missing_values, fit
from marginrank.runtime.text import printable

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
            help="Train with this C instead of choosing one; --valid is then used for early stopping.",
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
    with_judged: Annotated[
        Path | None,
        typer.Option(
            "--with-judged",
            metavar="FILE",
            help="Judged queries to train on too; their share and C are chosen on held-out judged queries.",
        ),
    ] = None,
    details: Details = False,
    force: Force = False,
) -> None:
    """Train a ranker from clicks, weighted by inverse propensity, and write the model.

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
    if with_judged is not None:
        check_inputs([log, with_judged])
        _check_mix(C, tuning, checkpointing)

    def read(paths: Sequence[Path]) -> Queries:
        with advising_on_missing_values(method):
            log = table.read(paths[0], clicks, "nan" if method.takes_nan else None)
        return log.to_queries(correction.of(log), negative=negative)

    if with_judged is not None:
        method.check()
        tuning.check()
        _train_with_judgements(read([log]), with_judged, tuning, method, out, output, force=force)
        return
    with TrainingProgress(quiet=output.quiet) as progress:
        outcome = fit(
            [log], C, tuning, method, ReadingOptions(), progress=progress, checkpointing=checkpointing, read=read
        )
        outcome.ranker.save(out, overwrite=force)
    checkpointing.done(stopped=outcome.cut_short)
    output.summary(outcome.record(out), outcome.text(out, details=details))
    outcome.end()


def _check_mix(C: float | None, tuning: TuneOptions, checkpointing: CheckpointOptions) -> None:
    """Refuse options that mean nothing if clicks and judgements are mixed."""
    given = {
        "-C": C is not None,
        "--valid": bool(tuning.valid),
        "--rule": tuning.rule != "best",
        "--policy": tuning.policy != "standard",
        "--checkpoint": checkpointing.checkpoint is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise UsageError(
                f"{option} cannot be combined with --with-judged, which chooses by cross-validation; leave it out"
            )


def _train_with_judgements(
    clicks: Queries,
    path: Path,
    tuning: TuneOptions,
    method: MethodOptions,
    out: Path,
    output: Output,
    *,
    force: bool,
) -> None:
    from marginrank.clicks import tune_with_judgements  # noqa: PLC0415
    from marginrank.ranker.grid_search import DEFAULT_CS  # noqa: PLC0415
    from marginrank.ranker.ranker import Ranker  # noqa: PLC0415

    judged = ReadingOptions(features=list(clicks.feature_names or ())).read_queries([path])
    ranker: Ranker = Ranker(**method.parameters())
    selection = tune_with_judgements(
        ranker,
        clicks,
        judged,
        Cs=tuning.values_of_C() or DEFAULT_CS,
        folds=tuning.folds or 5,
        criterion=tuning.criterion,
        random_state=ranker.random_state,
    )
    selection.ranker.save(out, overwrite=force)
    means = [{"share": share, "C": C, "mean": mean} for (share, C), mean in selection.means.items()]
    record = {
        "share": selection.share,
        "C": selection.C,
        "criterion": selection.criterion,
        "means": means,
        "output": out,
    }
    output.summary(
        {**record, "model": selection.ranker.model_.describe()},
        f"{selection}\n\n"
        f"chose share {selection.share:g} of judgements and C = {selection.C:g}; wrote {printable(str(out))}",
    )
