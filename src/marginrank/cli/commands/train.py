"""``marginrank train``: fit a ranker and write it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from marginrank.cli.exit_codes import UsageError
from marginrank.cli.options.checkpoint_options import CheckpointOptions
from marginrank.cli.options.cluster_options import ClusterOptions
from marginrank.cli.options.method_options import MethodOptions
from marginrank.cli.options.reading_options import ReadingOptions, load_ranker
from marginrank.cli.options.shared_options import out_option
from marginrank.cli.output import Details, Force, Output, check_inputs, check_outputs
from marginrank.cli.progress import TrainingProgress
from marginrank.cli.summary import data_line
from marginrank.cli.train_and_tune import FitOutcome, TuneOptions, fit

if TYPE_CHECKING:
    from marginrank.ranker.ranker import Ranker

#: Options of a method that may differ from those of the model.
_OWN: Final = ("solver", "tol", "max_iter", "time_limit", "patience", "n_jobs")


@dataclass(frozen=True)
class ContinueOptions:
    """The model that training continues from."""

    panel: ClassVar = "Warm start"

    start_from: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="Start from this model, with its method, scorer, scaling and C."),
    ] = None
    keep_near: Annotated[
        bool,
        typer.Option(
            "--keep-near", help="With --start-from, regularize towards the weights of that model instead of 0."
        ),
    ] = False
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Update this model with DATA, the next batch of queries; earlier batches are not needed.",
        ),
    ] = None

    @property
    def model(self) -> Path | None:
        """The model, if any."""
        return self.start_from or self.update

    def check(self, method: MethodOptions, tuning: TuneOptions, checkpointing: CheckpointOptions) -> None:
        """Refuse options that mean nothing beside the others."""
        if self.start_from is not None and self.update is not None:
            raise UsageError("give --start-from or --update, not both")
        if self.keep_near and self.start_from is None:
            raise UsageError("--keep-near requires --start-from")
        if self.model is None:
            return
        option = "--update" if self.start_from is None else "--start-from"
        fixed = [one for one in fields(method) if one.name not in _OWN]
        kept = [*fixed, *(one for one in fields(tuning) if one.name != "valid")]
        for one in kept:
            options = method if one in fixed else tuning
            if _given(options, one):
                name = "Cs" if one.name == "Cs" else one.name.replace("_", "-")
                raise UsageError(f"--{name}: {option} takes it from the model; leave it out")
        if checkpointing.checkpoint is not None and self.update is not None:
            raise UsageError("--checkpoint is for --start-from; --update takes one step")
        if tuning.valid and self.update is not None:
            raise UsageError("--valid is for --start-from; --update sees its data once")
        if method.patience is not None and not tuning.valid:
            raise UsageError("--patience is for validation queries: give --valid, or leave it out")

    def train(
        self,
        data: Sequence[Path],
        C: float | None,
        tuning: TuneOptions,
        method: MethodOptions,
        reading: ReadingOptions,
        progress: TrainingProgress,
        checkpointing: CheckpointOptions,
    ) -> FitOutcome:
        """Train the model further, with the C given instead of its own."""
        model = self.model
        if model is None:
            raise ValueError("there is no model to continue from")
        check_inputs([model, *data, *tuning.valid])
        ranker = load_ranker(model)
        ranker.set_params(**self._parameters(ranker, C, method))
        progress.say("reading data")
        queries = reading.read_for(ranker.model_, data, judged=True)
        valid = reading.read_for(ranker.model_, tuning.valid, judged=True) if tuning.valid else None
        progress.say("training")
        progress.expect(1, method.gap)
        if self.update is not None:
            if not hasattr(ranker, "partial_fit"):
                raise UsageError(f"--update: a {type(ranker).__name__} cannot be updated; retrain it")
            before = ranker.model_
            if ranker.partial_fit(queries, callback=progress).model_ is before:
                warnings.warn("no query has documents of different grades, so the model stays as it was", stacklevel=2)
        else:
            start, center = (None, ranker.model_) if self.keep_near else (ranker.model_, None)
            ranker.fit(
                queries, validation=valid, callback=progress, start=start, center=center, **checkpointing.arguments()
            )
        described = data_line(queries, data), None if valid is None else data_line(valid, tuning.valid)
        return FitOutcome.of(ranker, None, *described, len(queries), progress)

    def _parameters(self, ranker: Ranker, C: float | None, method: MethodOptions) -> dict[str, Any]:
        given = {"C": C, "time_limit": method.time_limit, "patience": method.patience, "n_jobs": method.n_jobs}
        parameters = {name: value for name, value in given.items() if value is not None}
        known = ranker.get_params(deep=False)
        if "solver" in known and (method.solver or method.tol is not None or method.max_iter is not None):
            parameters["solver"] = method._solver()
        for name in parameters:
            if name not in known:
                option = "-C" if name == "C" else f"--{name.replace('_', '-')}"
                raise UsageError(f"{option}: a {type(ranker).__name__} has no {name}; leave it out")
        return parameters


def _given(options: Any, one: Any) -> bool:
    """Whether an option is not what it is by default."""
    default = one.default_factory() if callable(one.default_factory) else one.default
    return bool(getattr(options, one.name) != default)


EXAMPLES: Final = (
    "marginrank train train.txt --valid valid.txt -o model.safetensors",
    "marginrank train train.txt --preset svmndcg@5 -C 10 -o ndcg.safetensors",
)


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Judged queries to train on.")],
    tuning: TuneOptions,
    method: MethodOptions,
    continuing: ContinueOptions,
    checkpointing: CheckpointOptions,
    reading: ReadingOptions,
    cluster: ClusterOptions,
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
    details: Details = False,
    force: Force = False,
) -> None:
    """Train a ranker for a measure and write the model.

    Without -C, ten values of C are tried, and the best is chosen on the validation queries, or by 5-fold
    cross-validation. Ctrl-C stops training and writes the best model so far; the exit code is then 130.

    With --checkpoint, a killed run can be resumed: run the same command again with --resume.

    With --start-from or --update, training continues from a model; its C is used unless -C is given.

    With --workers or --scheduler, the files are read and trained on by the workers of a cluster. The model depends on
    the files, one partition each, and not on the number of workers.
    """
    check_outputs([out], inputs=[*data, *tuning.valid], force=force)
    checkpointing.check([out, *data, *tuning.valid, *([] if continuing.model is None else [continuing.model])])
    continuing.check(method, tuning, checkpointing)
    if continuing.model is not None and cluster.chosen:
        raise UsageError("--start-from and --update train in this process; leave out --workers and --scheduler")
    with cluster.client(quiet=output.quiet) as client, TrainingProgress(quiet=output.quiet) as progress:
        if continuing.model is not None:
            outcome = continuing.train(data, C, tuning, method, reading, progress, checkpointing)
        else:
            outcome = fit(
                data, C, tuning, method, reading, progress=progress, checkpointing=checkpointing, client=client
            )
        outcome.ranker.save(out, overwrite=force)
    checkpointing.done(stopped=outcome.cut_short)
    output.summary(outcome.record(out), outcome.text(out, details=details))
    outcome.end()
